// SPDX-License-Identifier: Apache-2.0
/*
 * Orphans: the processes whose parent has ended, and that a subreaper has got as its children
 *
 * drover-keep (keep.c) calls it, and handler_exec.c for the agent.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Sends SIGKILL to each child of this process, except where @spares returns true; NULL: to all of
 * them. When they end, their children become children of this process. Return: how many got it. */
int orphans_kill(bool (*spares)(pid_t pid));

/* Reaps those of the same children that have ended. Return: 0 if others still run, else 1. */
int orphans_reap(bool (*spares)(pid_t pid));
