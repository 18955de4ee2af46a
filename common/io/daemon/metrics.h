// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics: the figures of a process, in the log and for Prometheus
 *
 * A table has the name, the kind and the place in a struct of each figure; both forms are printed
 * by it. All figures are uint64_t. In the log a figure has its plain name; Prometheus gets
 *
 *     drover_<prefix><name>          a gauge
 *     drover_<prefix><name>_total    a counter
 *
 * and a figure whose name ends with _us or _ms in _seconds. Called by io/daemon/driver; each role
 * and io/daemon/vitals has a table.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define METRICS_MAX 40 /* in one table */

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

/* The table of one part of a process. */
struct metric_set {
    const char *name; /* the event in the log */
    const struct metric *metrics;
    size_t n; /* at most METRICS_MAX */
};

/* Logs one line at level info. @figures: the struct that has the values. */
void metrics_log(const struct metric_set *set, const void *figures);

/**
 * metrics_print() - append the text format of Prometheus, version 0.0.4
 * @prefix:  such as "scheduler_", or ""
 * @role:    value of the label role; a plain word
 * @figures: the struct that has the values
 */
void metrics_print(struct buf *out, const struct metric_set *set, const char *prefix,
                   const char *role, const void *figures);

/* Appends drover_build_info, and the figures that Prometheus expects of any process. @started_ms:
 * Unix ms. */
void metrics_print_process(struct buf *out, const char *role, int64_t started_ms);
