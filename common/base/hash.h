// SPDX-License-Identifier: Apache-2.0
/*
 * Hash tables: those of uthash, whose memory has to be there as with or_abort()
 *
 * Left to itself uthash calls exit(), and that what is to run at the end of a process that is
 * whole.
 */
#pragma once

#include <stdlib.h>

#define uthash_fatal(message) abort()
#include <uthash.h>
