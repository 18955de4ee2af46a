// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics: prints figures by their table, for the log and for Prometheus
 *
 * See io/daemon/metrics.h.
 */
#include "io/daemon/metrics.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

static uint64_t figure(const struct metric *m, const void *figures)
{
    return *(const uint64_t *)(const void *)((const char *)figures + m->offset);
}

void metrics_log(const struct metric_set *set, const void *figures)
{
    struct log_field fields[METRICS_MAX];

    assert(set->n <= METRICS_MAX);
    for (size_t i = 0; i < set->n; i++)
        fields[i] = LOG_I(set->metrics[i].name, figure(&set->metrics[i], figures));
    if (log_level_ <= LOG_INFO)
        log_write(LOG_INFO, set->name, fields, (int)set->n);
}

/* ---- the format of Prometheus ---- */

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A suffix of a unit, which Prometheus does not want in a name. */
struct unit {
    const char *suffix;
    unsigned per_second;
    int digits;
};

static const struct unit *unit_of(const char *name)
{
    static const struct unit units[] = {{"_us", 1000000, 6}, {"_ms", 1000, 3}};
    size_t len = strlen(name);

    for (size_t i = 0; i < array_size(units); i++) {
        size_t suffix = strlen(units[i].suffix);

        if (len > suffix && strcmp(name + len - suffix, units[i].suffix) == 0)
            return &units[i];
    }
    return NULL;
}

static void put_metric(struct buf *out, const struct metric *m, const char *prefix,
                       const char *role, uint64_t value)
{
    const struct unit *unit = unit_of(m->name);
    size_t plain = strlen(m->name) - (unit ? strlen(unit->suffix) : 0);
    bool counter = m->kind == METRIC_COUNTER;
    char name[128];

    snprintf(name, sizeof(name), "drover_%s%.*s%s%s", prefix, (int)plain, m->name,
             unit ? "_seconds" : "", counter ? "_total" : "");
    put_head(out, name, counter ? "counter" : "gauge", m->help);
    buf_printf(out, "%s{role=\"%s\"} ", name, role);
    if (unit)
        buf_printf(out, "%.*f\n", unit->digits, (double)value / unit->per_second);
    else
        buf_printf(out, "%" PRIu64 "\n", value);
}

void metrics_print(struct buf *out, const struct metric_set *set, const char *prefix,
                   const char *role, const void *figures)
{
    for (size_t i = 0; i < set->n; i++)
        put_metric(out, &set->metrics[i], prefix, role, figure(&set->metrics[i], figures));
}

/* ---- the process ---- */

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static double resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    char line[128] = "";
    char *end = line;
    long pages;

    if (!f)
        return 0;
    if (!fgets(line, sizeof(line), f))
        line[0] = '\0';
    fclose(f);
    strtol(line, &end, 10); /* first the address space, then what is resident */
    pages = strtol(end, NULL, 10);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* ".", "..", and the descriptor of this directory */

    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static double max_fds(void)
{
    struct rlimit limit = {0};

    getrlimit(RLIMIT_NOFILE, &limit);
    return (double)limit.rlim_cur;
}

static void put_process(struct buf *out, const char *name, const char *type, const char *help,
                        double value)
{
    put_head(out, name, type, help);
    buf_printf(out, "%s %.15g\n", name, value);
}

void metrics_print_process(struct buf *out, const char *role, int64_t started_ms)
{
    put_head(out, "drover_build_info", "gauge", "what runs; always 1");
    buf_printf(out, "drover_build_info{version=\"%s\",role=\"%s\"} 1\n", DROVER_VERSION, role);
    put_process(out, "process_start_time_seconds", "gauge", "start, in seconds since 1970",
                (double)started_ms / 1e3);
    put_process(out, "process_cpu_seconds_total", "counter", "CPU time of all threads",
                cpu_seconds());
    put_process(out, "process_resident_memory_bytes", "gauge", "resident memory", resident_bytes());
    put_process(out, "process_open_fds", "gauge", "open file descriptors", open_fds());
    put_process(out, "process_max_fds", "gauge", "the most file descriptors that may be open",
                max_fds());
}
