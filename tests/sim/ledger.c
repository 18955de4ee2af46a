// SPDX-License-Identifier: Apache-2.0
/*
 * Ledger: reads and writes the file of seeds that have run
 *
 * See ledger.h. Called by main.c.
 */
#include "ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define FNV_OFFSET UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

struct ledger {
    const char *path;
    uint64_t digest;
    struct ledger_entry *entries;
    size_t n;
};

static _Noreturn void die(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
}

static uint64_t digest_file(uint64_t digest, const char *path)
{
    uint8_t piece[65536];
    FILE *file = fopen(path, "r");
    size_t n;

    if (!file)
        die(path);
    while ((n = fread(piece, 1, sizeof(piece), file)) > 0)
        for (size_t i = 0; i < n; i++)
            digest = (digest ^ piece[i]) * FNV_PRIME;
    fclose(file);
    return digest;
}

static void keep(struct ledger *l, const struct ledger_entry *entry)
{
    l->entries = or_abort(realloc(l->entries, (l->n + 1) * sizeof(*l->entries)));
    l->entries[l->n++] = *entry;
}

static void read_entries(struct ledger *l, FILE *file)
{
    struct ledger_entry e;
    char line[256];
    uint64_t digest;

    while (fgets(line, sizeof(line), file))
        if (sscanf(line,
                   "%" SCNx64 " %" SCNu64 "..%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64,
                   &digest, &e.first, &e.last, &e.worlds, &e.simulated_ms, &e.cpu_us, &e.small,
                   &e.small_us) == 8 &&
            digest == l->digest)
            keep(l, &e);
}

struct ledger *ledger_open(const char *path, const char *functions)
{
    struct ledger *l = or_abort(calloc(1, sizeof(*l)));
    FILE *file = fopen(path, "r");

    l->path = path;
    l->digest = digest_file(digest_file(FNV_OFFSET, "/proc/self/exe"), functions);
    if (!file && errno != ENOENT)
        die(path);
    if (file) {
        read_entries(l, file);
        fclose(file);
    }
    return l;
}

struct ledger *ledger_close(struct ledger *l)
{
    if (!l)
        return NULL;
    free(l->entries);
    free(l);
    return NULL;
}

bool ledger_has(const struct ledger *l, uint64_t first, uint64_t last, struct ledger_entry *entry)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->entries[i].first != first || l->entries[i].last != last)
            continue;
        *entry = l->entries[i];
        return true;
    }
    return false;
}

void ledger_add(struct ledger *l, const struct ledger_entry *e)
{
    FILE *file = fopen(l->path, "a");

    if (!file)
        die(l->path);
    fprintf(file,
            "%016" PRIx64 " %" PRIu64 "..%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
            " %" PRIu64 "\n",
            l->digest, e->first, e->last, e->worlds, e->simulated_ms, e->cpu_us, e->small,
            e->small_us);
    if (fclose(file))
        die(l->path);
    keep(l, e);
}
