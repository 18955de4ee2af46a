// SPDX-License-Identifier: Apache-2.0
/*
 * Tables: rows of cells of one line each
 */
#pragma once

#include "cli/view.h"

#define TABLE_COLUMNS_MAX 8

/* An empty table is all zero except `columns`. */
struct table {
    size_t columns;
    struct buf text;  /* the texts of all cells */
    struct buf cells; /* struct table_cell, row after row */
};

void table_deinit(struct table *t);
static inline void table_deinit_p(struct table *t)
{
    table_deinit(t);
}

/* Adds a cell; its text is made harmless. */
void table_add(struct table *t, enum view_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends the table: pads columns to their widest cell and cuts lines to @width columns (0 for no
 * limit). Return: the number of lines. */
size_t table_print(const struct table *t, bool color, size_t width, struct buf *out);
