// SPDX-License-Identifier: Apache-2.0
/*
 * Tables: aligns cells in columns
 *
 * See cli/table.h. Called by all files that print tables.
 */
#include "cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP "  " /* between columns */

struct table_cell {
    size_t begin; /* in table.text */
    size_t len;
    enum view_color color;
};

static const char *const COLORS[] = {
    [VIEW_PLAIN] = "",        [VIEW_BOLD] = "\033[1m",   [VIEW_DIM] = "\033[2m",
    [VIEW_RED] = "\033[31m",  [VIEW_GREEN] = "\033[32m", [VIEW_YELLOW] = "\033[33m",
    [VIEW_BLUE] = "\033[34m",
};

void table_deinit(struct table *t)
{
    buf_deinit(&t->text);
    buf_deinit(&t->cells);
}

void table_add(struct table *t, enum view_color color, const char *format, ...)
{
    struct table_cell cell = {.begin = t->text.len, .color = color};
    char *text;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0) {
        t->text.failed = true;
        return;
    }
    view_bytes(&t->text, bytes_of(text, (size_t)n), 0);
    free(text);
    cell.len = t->text.len - cell.begin;
    buf_append(&t->cells, &cell, sizeof(cell));
}

static const struct table_cell *cells_of(const struct table *t, size_t *rows)
{
    *rows = t->cells.len / sizeof(struct table_cell) / t->columns;
    return (const void *)t->cells.data;
}

static struct bytes text_of(const struct table *t, const struct table_cell *cell)
{
    return bytes_of(t->text.data + cell->begin, cell->len);
}

static size_t cell_columns(const struct table *t, const struct table_cell *cell)
{
    return view_columns(text_of(t, cell));
}

static void print_cell(const struct table *t, const struct table_cell *cell, bool color,
                       size_t room, struct buf *out)
{
    color = color && cell->color != VIEW_PLAIN && cell->len > 0;
    if (color)
        buf_puts(out, COLORS[cell->color]);
    view_bytes(out, text_of(t, cell), room);
    if (color)
        buf_puts(out, "\033[0m");
}

/* Pads before a cell that is not empty, not after one, so that no line ends with spaces. */
static void print_row(const struct table *t, const struct table_cell *row, const size_t *widths,
                      bool color, size_t width, struct buf *out)
{
    size_t at = 0, column = 0; /* columns written so far; where the cell begins */

    for (size_t i = 0; i<t->columns; column += widths[i]> 0 ? widths[i] + strlen(GAP) : 0, i++) {
        size_t len = cell_columns(t, &row[i]);

        if (len == 0 || (width && column >= width))
            continue;
        buf_printf(out, "%*s", (int)(column - at), "");
        print_cell(t, &row[i], color, width ? width - column : 0, out);
        at = column + (width && len > width - column ? width - column : len);
    }
    buf_putc(out, '\n');
}

size_t table_print(const struct table *t, bool color, size_t width, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};
    size_t rows;
    const struct table_cell *cells = cells_of(t, &rows);

    if (t->text.failed || t->cells.failed) {
        out->failed = true;
        return 0;
    }
    for (size_t i = 0; i < rows * t->columns; i++) {
        size_t columns = cell_columns(t, &cells[i]);

        if (columns > widths[i % t->columns])
            widths[i % t->columns] = columns;
    }
    for (size_t i = 0; i < rows; i++)
        print_row(t, cells + i * t->columns, widths, color, width, out);
    return rows;
}
