// SPDX-License-Identifier: Apache-2.0
/*
 * Orphans: processes that a subreaper has been left
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Sends SIGKILL to each child of this process of which @spares does not say that it stays; NULL: to
 * all. Their children are ours then. Return: how many there were. */
int orphans_kill(bool (*spares)(pid_t pid));

/* Takes in what has ended of them. Return: 0 where some have not yet, else 1. */
int orphans_reap(bool (*spares)(pid_t pid));
