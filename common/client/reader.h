// SPDX-License-Identifier: Apache-2.0
/*
 * Reader: answers questions from the store, for when no scheduler or no broker is up
 *
 * It calls the store functions that change nothing; a Redis user that may do nothing else is
 * enough. The settings are those of the daemons (redis.*).
 */
#pragma once

#include "base/cleanup.h"
#include "io/config/config.h"
#include "model/wire.h"

struct reader;

/* Begins to connect to the store of @config, which the reader then owns, also if it fails.
 * Return: 0 or -errno. */
int reader_new(struct reader **out, struct config *config);

/* Accepts NULL. Return: NULL. */
struct reader *reader_free(struct reader *r);
CLEANUP_DEFINE(struct reader *, reader_free)

/**
 * reader_ask() - answer a Query, a History or a ListJobs as a scheduler would
 * @deadline: monotonic ms
 * @answer:   on 0 the caller gives it to wire_free()
 *
 * Return: as session_ask(); reader_why() has the cause.
 */
int reader_ask(struct reader *r, const Drover__V1__Control *m, int64_t deadline,
               struct wire_message *answer);

/* Return: the last error, one line for a person. */
const char *reader_why(const struct reader *r);
