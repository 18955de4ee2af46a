// SPDX-License-Identifier: Apache-2.0
/*
 * Hash tables: those of uthash, whose memory has to be there as with or_abort()
 *
 * Left to itself uthash would call exit(): what is meant for an orderly end would run in the middle
 * of a step.
 */
#pragma once

#include <stdlib.h>

#define uthash_fatal(message) abort()
#include <uthash.h>
