// SPDX-License-Identifier: Apache-2.0
/*
 * The section of the man page drover.cfg(5) about agent.actors
 *
 * Called by io/config.
 */
#pragma once

#include <stdio.h>

/* Writes the section in the language of scdoc. */
void config_actors_manual(FILE *out);
