// SPDX-License-Identifier: Apache-2.0
/*
 * Hash tables: includes uthash so that it aborts if memory is out, as or_abort() does
 *
 * By default uthash calls exit() then, which would run the exit handlers in the middle of a step.
 * Included by roles and the command line instead of uthash.h.
 */
#pragma once

#include <stdlib.h>

#define uthash_fatal(message) abort()
#include <uthash.h>
