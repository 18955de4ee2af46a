// SPDX-License-Identifier: Apache-2.0
/*
 * Tables: entries of a field table of AMQP; texts and tables are referred to, not copied
 *
 * Used by the bus alone.
 */
#pragma once

#include "io/bus/rabbitmq.h"

static inline amqp_table_entry_t table_text(const char *key, const char *value)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)},
    };
}

static inline amqp_table_entry_t table_number(const char *key, int64_t value)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = value},
    };
}

static inline amqp_table_entry_t table_yes(const char *key)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
    };
}

static inline amqp_table_entry_t table_table(const char *key, amqp_table_t value)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_TABLE, .value.table = value},
    };
}
