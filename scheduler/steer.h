// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with a command: carries out what a person or a service asks of one job
 */
#pragma once

struct item;
struct scheduler;

/* Carries out the command in item->message. The operation takes a reference to @item; the caller
 * keeps its own. */
void steer(struct scheduler *s, struct item *item);
