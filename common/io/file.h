// SPDX-License-Identifier: Apache-2.0
/*
 * Files: reads a file as a whole, with a bound
 *
 * Called by io/config, io/config/config_tree and the command line.
 */
#pragma once

#include "base/status.h"
#include "base/str.h"

/* Bytes of a file. A file of many recorded workflows can be large; each of them is bounded far
 * lower.
 */
#define FILE_MAX ((size_t)1 << 30)

/**
 * file_read() - append a file to @out
 * @max: bytes
 *
 * Return: 0, or -errno with @problem set to the path and the reason: -EFBIG if it has more than
 * @max.
 */
int file_read(const char *path, size_t max, struct buf *out, struct problem *problem);

/* The same for an operand of a command line: "-" is standard input. */
int file_read_operand(const char *path, size_t max, struct buf *out, struct problem *problem);
