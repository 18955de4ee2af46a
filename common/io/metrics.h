// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics: what a process counts, told to people (log) and to Prometheus
 *
 * A table says of each figure what it is called, what it is and where it stands in a struct; it
 * drives both forms. All figures are uint64_t. In the log a figure has its plain name; Prometheus
 * gets
 *
 *     drover_<prefix><name>          a gauge
 *     drover_<prefix><name>_total    a counter
 *
 * and a name that ends in _us or _ms is told there in _seconds.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define METRICS_MAX 32 /* in one table */

enum metric_kind {
    METRIC_COUNTER, /* only grows, until the process ends */
    METRIC_GAUGE,
};

struct metric {
    const char *name;
    enum metric_kind kind;
    size_t offset; /* of an uint64_t in the struct of figures */
    const char *help;
};

/* The figures of one part. */
struct metric_set {
    const char *name; /* the event in the log */
    const struct metric *metrics;
    size_t n; /* at most METRICS_MAX */
};

/* One line in the log, level info. @figures: the struct that the offsets are in. */
void metrics_log(const struct metric_set *set, const void *figures);

/**
 * metrics_print() - text format of Prometheus, version 0.0.4
 * @prefix: such as "scheduler_", or ""
 * @role:   value of the label role; plain word
 */
void metrics_print(struct buf *out, const struct metric_set *set, const char *prefix,
                   const char *role, const void *figures);

/* drover_build_info, and what Prometheus expects of any process. @started_ms: since 1970. */
void metrics_print_process(struct buf *out, const char *role, int64_t started_ms);
