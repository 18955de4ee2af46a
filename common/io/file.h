// SPDX-License-Identifier: Apache-2.0
/*
 * File: read whole, with a bound
 */
#pragma once

#include "base/status.h"
#include "base/str.h"

/* For an array of many recorded workflows; every single message is bounded far lower. */
#define FILE_MAX ((size_t)1 << 30)

/**
 * file_read() - append a file to @out
 * @max: bytes
 *
 * Return: 0, or -errno with @problem naming the file and why: -EFBIG where it has more than @max.
 */
int file_read(const char *path, size_t max, struct buf *out, struct problem *problem);

/* The same of what a command line names: "-" is standard input. */
int file_read_operand(const char *path, size_t max, struct buf *out, struct problem *problem);
