// SPDX-License-Identifier: Apache-2.0
/*
 * Texts of messages that protobuf-c has allocated, or that are freed like these
 */
#pragma once

/* Replaces a text of a message by a copy of @text. Return: 0 or -ENOMEM. */
int text_set(char **field, const char *text);
