// SPDX-License-Identifier: Apache-2.0
/*
 * Log: formats events as text or JSON and writes each with one write()
 *
 * See base/log.h.
 */
#include <assert.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

/* A write to a pipe is atomic up to PIPE_BUF: processes that share one do not mix their lines. */
#define LINE_LIMIT 4096
/* Bytes for what log_write() puts after the last field: the mark of a cut line, and the end. */
#define LINE_END 32

static_assert(LINE_LIMIT <= PIPE_BUF, "a line goes through a pipe in one piece");
static_assert(LOG_VALUE_MAX < LINE_LIMIT / 2, "a value leaves room for what else there is to say");

struct level_name {
    const char *text;
    const char *json;
};

static const struct level_name level_names[] = {
    [LOG_DEBUG] = {"debug", "DEBUG"},
    [LOG_INFO] = {"info", "INFO"},
    [LOG_WARN] = {"warn", "WARN"},
    [LOG_ERROR] = {"error", "ERROR"},
};

static struct log_config log_config = {
    .service = "drover",
    .level = LOG_INFO,
    .format = LOG_TEXT,
    .fd = STDERR_FILENO,
};

_Atomic enum log_level log_level_ = LOG_INFO;

void log_init(const struct log_config *config)
{
    log_config = *config;
    if (!log_config.service)
        log_config.service = "";
    log_level_ = config->level;
}

void log_set_level(enum log_level level)
{
    log_level_ = level;
}

int log_level_parse(const char *word, enum log_level *out)
{
    for (enum log_level l = LOG_DEBUG; l <= LOG_ERROR; l++) {
        if (strcmp(word, level_names[l].text) == 0) {
            *out = l;
            return 0;
        }
    }
    return 1;
}

/* Return: false if it has cut the value. */
static bool put_json(struct buf *line, const struct log_field *field)
{
    const char *name = field->name;
    bool id = strcmp(name, "job") == 0 || strcmp(name, "step") == 0;
    size_t len;

    if (field->type == LOG_FIELD_STR && !field->s)
        return true;
    buf_printf(line, ",\"drover.%s%s\":", name, id ? ".id" : "");
    if (field->type == LOG_FIELD_INT) {
        buf_put_int(line, field->i);
        return true;
    }
    len = strnlen(field->s, LOG_VALUE_MAX);
    buf_json_shown(line, field->s, len);
    return field->s[len] == '\0';
}

/* Return: false if it has cut the value, or left out a field that does not fit into the line. */
static bool put_field(struct buf *line, const struct log_field *field)
{
    size_t before = line->len;
    bool whole =
        log_config.format == LOG_JSON ? put_json(line, field) : log_field_print(line, field);

    if (line->len > LINE_LIMIT - LINE_END) {
        line->len = before;
        return false;
    }
    return whole;
}

static void put_head_text(struct buf *line, enum log_level level, const char *event)
{
    char now[CLOCK_ISO_LEN + 1];

    clock_iso(clock_unix_ms(), now);
    buf_puts(line, now);
    buf_putc(line, ' ');
    buf_puts(line, level_names[level].text);
    buf_putc(line, ' ');
    buf_puts(line, log_config.service);
    buf_putc(line, ' ');
    buf_puts(line, event);
}

static void put_head_json(struct buf *line, enum log_level level, const char *event)
{
    char now[CLOCK_ISO_LEN + 1];

    clock_iso(clock_unix_ms(), now);
    buf_printf(line, "{\"timestamp\":\"%s\",\"severity_text\":\"%s\"", now,
               level_names[level].json);
    buf_printf(line, ",\"service.name\":\"drover-%s\"", log_config.service);
    if (log_config.instance) {
        buf_puts(line, ",\"service.instance.id\":");
        buf_json_shown(line, log_config.instance, strnlen(log_config.instance, LOG_VALUE_MAX / 6));
    }
    buf_printf(line, ",\"event.name\":\"%s\"", event);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, int n)
{
    bool json = log_config.format == LOG_JSON;
    CLEANUP(buf_deinit) struct buf line = {0};
    bool whole = true;

    if (json)
        put_head_json(&line, level, event);
    else
        put_head_text(&line, level, event);
    for (int i = 0; i < n; i++)
        whole &= put_field(&line, &fields[i]);
    if (!whole)
        buf_puts(&line, json ? ",\"drover.truncated\":true" : " truncated=true");
    buf_puts(&line, json ? "}\n" : "\n");
    if (!line.failed && write(log_config.fd, line.data, line.len) < 0)
        return; /* a log that cannot be written cannot report that */
}

bool log_may_write(struct log_bound *bound, const char *event)
{
    int64_t second = clock_monotonic_ms() / 1000;

    if (bound->second != second) {
        if (bound->lines > LOG_OFTEN_MAX)
            log_warn("log_left_out", LOG_S("event", event),
                     LOG_I("lines", (int64_t)(bound->lines - LOG_OFTEN_MAX)));
        *bound = (struct log_bound){.second = second};
    }
    return ++bound->lines <= LOG_OFTEN_MAX;
}
