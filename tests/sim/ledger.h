// SPDX-License-Identifier: Apache-2.0
/*
 * Ledger: which seeds the simulator has run, so that many of them can be run in pieces
 *
 * A text file with a line for each piece: "digest first..last worlds simulated-ms cpu-us small
 * cpu-us". The last two are the number and the time of the small worlds. Only pieces without a
 * violation are in it. The digest is that of the program and of the store functions: the seeds of
 * another build do not count.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ledger_entry {
    uint64_t first, last; /* seeds */
    uint64_t worlds;
    uint64_t simulated_ms;
    uint64_t cpu_us;
    uint64_t small; /* worlds, as plan_small() defines them, and their share of cpu_us */
    uint64_t small_us;
};

struct ledger;

/* Reads the file if it exists. Ends the program with a message if it cannot be read. */
struct ledger *ledger_open(const char *path, const char *functions);

/* Accepts NULL; returns NULL. */
struct ledger *ledger_close(struct ledger *l);

/* Whether exactly this piece was run; *entry has its line. */
bool ledger_has(const struct ledger *l, uint64_t first, uint64_t last, struct ledger_entry *entry);

void ledger_add(struct ledger *l, const struct ledger_entry *entry);
