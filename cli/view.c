// SPDX-License-Identifier: Apache-2.0
/*
 * Views: formats single values and receipts as text
 *
 * See cli/view.h. Called by all files that print.
 */
#include "cli/view.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"

bool view_color_wanted(bool tty, bool no_color_flag, const char *no_color, const char *term)
{
    return tty && !no_color_flag && !(no_color && *no_color) && term && *term &&
           strcmp(term, "dumb") != 0;
}

size_t view_columns(struct bytes text)
{
    size_t columns = 0;

    for (size_t i = 0; i < text.len; columns++) {
        size_t n = utf8_length((const char *)text.data + i, text.len - i);

        i += n ? n : 1;
    }
    return columns;
}

void view_bytes(struct buf *out, struct bytes text, size_t max)
{
    size_t columns = view_columns(text);
    size_t room = max && columns > max ? (max > 3 ? max - 3 : 0) : columns;

    for (size_t i = 0; room > 0; room--) {
        const char *character = (const char *)text.data + i;
        size_t n = utf8_length(character, text.len - i);

        if (utf8_is_harmful(character, n))
            buf_putc(out, '?');
        else
            buf_append(out, character, n);
        i += n ? n : 1;
    }
    if (max && columns > max)
        buf_append(out, "...", max < 3 ? max : 3);
}

void view_text(struct buf *out, const char *text, size_t max)
{
    view_bytes(out, bytes_str(text), max);
}

void view_duration(struct buf *out, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *unit;
        int64_t part_ms;
        const char *part;
    } units[] = {
        {86400000, "d", 3600000, "h"},
        {3600000, "h", 60000, "m"},
        {60000, "m", 1000, "s"},
    };

    if (ms < 0)
        ms = 0;
    for (size_t i = 0; i < array_size(units); i++) {
        if (ms < units[i].ms)
            continue;
        buf_printf(out, "%" PRId64 "%s%02" PRId64 "%s", ms / units[i].ms, units[i].unit,
                   ms % units[i].ms / units[i].part_ms, units[i].part);
        return;
    }
    if (ms >= 1000)
        buf_printf(out, "%" PRId64 ".%" PRId64 "s", ms / 1000, ms % 1000 / 100);
    else
        buf_printf(out, "%" PRId64 "ms", ms);
}

int64_t view_span(int64_t from, int64_t to)
{
    int64_t ms;

    if (__builtin_sub_overflow(to, from, &ms))
        return to > from ? INT64_MAX : INT64_MIN;
    return ms;
}

void view_moment(struct buf *out, int64_t unix_ms)
{
    char iso[CLOCK_ISO_LEN + 1];

    clock_iso(unix_ms, iso);
    buf_puts(out, iso);
}

const char *view_word(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, value);
    const char *suffix = strstr(type->values[0].name, "UNSPECIFIED");

    if (!v || value == 0 || !suffix)
        return "";
    return v->name + (suffix - type->values[0].name);
}

void view_bar(struct buf *out, double fraction, size_t width)
{
    size_t inner = width > 2 ? width - 2 : 0;
    size_t full = !(fraction > 0) ? 0 : fraction >= 1 ? inner : (size_t)(fraction * (double)inner);

    buf_putc(out, '[');
    for (size_t i = 0; i < inner; i++)
        buf_putc(out, i < full ? '#' : '-');
    buf_putc(out, ']');
}

void view_receipt(const Drover__V1__Receipt *receipt, struct buf *out)
{
    view_text(out, receipt->job_id, 0);
    buf_printf(out, " %s", view_word(&drover__v1__receipt_code__descriptor, (int)receipt->code));
    if (receipt->steps > 0)
        buf_printf(out, ", %" PRIu32 " step%s", receipt->steps, receipt->steps == 1 ? "" : "s");
    if (*receipt->workflow) {
        buf_puts(out, " of ");
        view_text(out, receipt->workflow, 0);
    }
    if (*receipt->field || *receipt->reason) {
        buf_puts(out, ": ");
        view_text(out, receipt->field, 0);
        buf_puts(out, *receipt->field && *receipt->reason ? ": " : "");
        view_text(out, receipt->reason, 0);
    }
    buf_putc(out, '\n');
}
