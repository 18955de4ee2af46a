// SPDX-License-Identifier: Apache-2.0
/*
 * Reader: questions to the store itself, for when schedulers or the broker are away
 *
 * Reads by the library's own functions, as a Redis user who may do nothing else; settings are those
 * of the daemons (redis.*).
 */
#pragma once

#include "base/cleanup.h"
#include "io/config.h"
#include "model/wire.h"

struct reader;

/* Starts connecting to the store that @config names; it is the reader's from now on, in any case.
 * Return: 0 or -errno. */
int reader_new(struct reader **out, struct config *config);

/* Accepts NULL; returns NULL. */
struct reader *reader_free(struct reader *r);
CLEANUP_DEFINE(struct reader *, reader_free)

/**
 * reader_ask() - answer a Query, a History or a ListJobs as a scheduler would
 * @deadline: monotonic ms
 * @answer:   to be given to wire_free() where 0 is returned
 *
 * Return: as session_ask(); reader_why() then says more.
 */
int reader_ask(struct reader *r, const Drover__V1__Control *m, int64_t deadline,
               struct wire_message *answer);

/* What went wrong last, one line for people. */
const char *reader_why(const struct reader *r);
