// SPDX-License-Identifier: Apache-2.0
/*
 * The part of drover.cfg(5) about agent.actors
 */
#pragma once

#include <stdio.h>

/* Writes the section, in scdoc's language. */
void config_actors_manual(FILE *out);
