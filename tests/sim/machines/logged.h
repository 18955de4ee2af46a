// SPDX-License-Identifier: Apache-2.0
/*
 * Logged: the lines that the machine under test logs
 */
#pragma once

/* From now on warnings and errors are logged into memory. */
void logged_begin(void);

/* How often the lines since then have this text, such as " torn partition=3 job=j". */
unsigned logged_count(const char *text);

/* From now on nothing is logged. */
void logged_end(void);
