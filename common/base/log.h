// SPDX-License-Identifier: Apache-2.0
/*
 * Log: one event a line, with fields, never a payload
 *
 *     log_info("step_dispatched", LOG_S("job", id), LOG_I("attempt", 3));
 *
 * An event is a constant word; all values are in fields. As text:
 *     2026-01-31T12:03:10.123Z info scheduler step_dispatched job=order-17 attempt=3
 * As JSON: {"timestamp":…,"severity_text":"INFO","service.name":"drover-scheduler",
 * "service.instance.id":…,"event.name":"step_dispatched","drover.job.id":"order-17",
 * "drover.attempt":3}: the fields job and step become drover.job.id and drover.step.id, any other
 * drover.<name> (OpenTelemetry's log model).
 * In a line of text a value that is not one plain word is quoted as in JSON. A line has at most
 * 4096 bytes, a text value 1024: a longer value is cut, a field that does not fit is left out, and
 * the line then has truncated=true. Each line is one write(2); a line that cannot be written is
 * dropped. Thread-safe. A line below the level costs one comparison. Called everywhere except in
 * common/model.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log_field.h"

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
};

enum log_format {
    LOG_TEXT,
    LOG_JSON,
};

struct log_config {
    const char *service;  /* "scheduler"; kept, not copied; NULL for none */
    const char *instance; /* setting `name` of this process; kept, not copied; may be NULL */
    enum log_level level;
    enum log_format format;
    int fd; /* to write to, usually 2 */
};

/* Must run before any thread starts. Without it: text, LOG_INFO, service "drover", fd 2. */
void log_init(const struct log_config *config);
void log_set_level(enum log_level level);

/* Return: 0, or 1 if @word is not the name of a level. */
int log_level_parse(const char *word, enum log_level *out);

extern _Atomic enum log_level log_level_; /* for log_enabled() */

/* Writes an event whatever the level is set to; usually called by log_info() and the like, which
 * check it. @n: fields. */
void log_write(enum log_level level, const char *event, const struct log_field *fields, int n);

/* Whether events of @level are logged: for values that are costly to make. */
static inline bool log_enabled(enum log_level level)
{
    return level >= log_level_;
}

#define log_event(level, event, ...)                                                               \
    do {                                                                                           \
        if (log_enabled(level)) {                                                                  \
            const struct log_field log_fields_[] = {{.name = NULL}, __VA_ARGS__};                  \
            log_write(level, event, log_fields_ + 1,                                               \
                      (int)(sizeof(log_fields_) / sizeof(log_fields_[0])) - 1);                    \
        }                                                                                          \
    } while (0)

#define LOG_OFTEN_MAX 100 /* lines a second of one log_often() */

struct log_bound {
    int64_t second;
    uint64_t lines;
};

/* Whether one more line may be logged in this second. Logs the number of lines that were left out
 * in the last second that had any (event log_left_out). @bound: used by one thread only. */
bool log_may_write(struct log_bound *bound, const char *event);

/* For events that a client or an agent can cause as often as it wants. */
#define log_often(level, event, ...)                                                               \
    do {                                                                                           \
        static struct log_bound log_bound_;                                                        \
        if (log_enabled(level) && log_may_write(&log_bound_, event))                               \
            log_event(level, event, __VA_ARGS__);                                                  \
    } while (0)

#define log_debug(...) log_event(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_event(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_event(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_event(LOG_ERROR, __VA_ARGS__)
