// SPDX-License-Identifier: Apache-2.0
/*
 * Ledger: which seeds a simulator has run, so that many of them can be run in pieces
 *
 * A text file with a line for each piece, "digest first..last worlds simulated-ms cpu-us small
 * cpu-us", where the last two tell of the small worlds; only good ones are in it. The digest is of
 * the program and of the store functions: what another one has run does not count.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ledger_entry {
    uint64_t first, last; /* seeds */
    uint64_t worlds;
    uint64_t simulated_ms;
    uint64_t cpu_us;
    uint64_t small; /* worlds, as plan_small() has it, and their share of cpu_us */
    uint64_t small_us;
};

struct ledger;

/* Reads the file, if there is one. Ends the program with a message where a file cannot be read. */
struct ledger *ledger_open(const char *path, const char *functions);

/* Accepts NULL; returns NULL. */
struct ledger *ledger_close(struct ledger *l);

/* Whether this very piece has been run; then *entry tells of it. */
bool ledger_has(const struct ledger *l, uint64_t first, uint64_t last, struct ledger_entry *entry);

void ledger_add(struct ledger *l, const struct ledger_entry *entry);
