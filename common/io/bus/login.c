// SPDX-License-Identifier: Apache-2.0
/*
 * Login: see io/bus/login.h
 *
 * Called by link.c and link_input.c.
 */
#include "io/bus/login.h"

#include <errno.h>

#include "io/bus/table.h"

#define CHANNELS 2 /* link.h */

void login_greet(struct buf *out)
{
    static const uint8_t greeting[] = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};

    buf_append(out, greeting, sizeof(greeting));
}

const char *login_mechanism(const struct bus_config *config)
{
    return config->external ? "EXTERNAL" : "PLAIN";
}

/* The response of PLAIN (RFC 4616): NUL, user, NUL, password. */
static void put_plain(struct buf *out, const struct bus_config *config)
{
    buf_putc(out, '\0');
    buf_puts(out, config->user);
    buf_putc(out, '\0');
    buf_puts(out, config->password);
}

/* The response of EXTERNAL is empty: the broker takes the user from the certificate. */
int login_start_ok(struct buf *out, const struct bus_config *config, const char *role,
                   const struct frame_start *start)
{
    amqp_table_entry_t capabilities[] = {
        table_yes("authentication_failure_close"), table_yes("basic.nack"),
        table_yes("connection.blocked"),           table_yes("consumer_cancel_notify"),
        table_yes("exchange_exchange_bindings"),   table_yes("publisher_confirms"),
    };
    CLEANUP(buf_deinit) struct buf offered = {0}, name = {0}, plain = {0};
    amqp_table_entry_t entries[] = {
        table_text("product", "drover"),
        table_text("version", DROVER_VERSION),
        {0}, /* the name */
        table_table("capabilities", (amqp_table_t){array_size(capabilities), capabilities}),
    };
    amqp_connection_start_ok_t ok = {
        .client_properties = {array_size(entries), entries},
        .mechanism = amqp_cstring_bytes(login_mechanism(config)),
        .locale = amqp_cstring_bytes("en_US"),
    };

    buf_append(&offered, start->mechanisms.data, start->mechanisms.len);
    if (!words_have(buf_str(&offered), login_mechanism(config)))
        return -ENOTSUP;
    buf_printf(&name, "%s %s", config->name, role);
    entries[2] = table_text("connection_name", buf_str(&name));
    if (!config->external)
        put_plain(&plain, config);
    if (name.failed || plain.failed)
        return -ENOMEM;
    ok.response = (amqp_bytes_t){plain.len, plain.data};
    return frame_put_method(out, 0, AMQP_CONNECTION_START_OK_METHOD, &ok);
}

/* Of two limits, of which 0 is none, the lower one. */
static uint32_t lower(uint32_t a, uint32_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

int login_open(struct buf *out, const struct bus_config *config, const amqp_connection_tune_t *tune,
               struct login_limits *agreed)
{
    amqp_connection_tune_ok_t ok = {
        .channel_max = (uint16_t)lower(CHANNELS, tune->channel_max),
        .frame_max = lower(FRAME_MAX, tune->frame_max),
        .heartbeat = (uint16_t)lower((uint32_t)config->heartbeat_s, tune->heartbeat),
    };
    amqp_connection_open_t open = {.virtual_host = amqp_cstring_bytes(config->vhost)};
    int r = frame_put_method(out, 0, AMQP_CONNECTION_TUNE_OK_METHOD, &ok);

    agreed->frame_max = ok.frame_max;
    agreed->heartbeat_s = ok.heartbeat;
    return r ? r : frame_put_method(out, 0, AMQP_CONNECTION_OPEN_METHOD, &open);
}

const char *login_fault(struct bytes first)
{
    if (first.len == 0 || first.data[0] == AMQP_FRAME_METHOD)
        return NULL;
    if (first.data[0] == 'A')
        return "the broker does not speak AMQP 0-9-1";
    return "what answers there is no broker";
}
