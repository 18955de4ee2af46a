// SPDX-License-Identifier: Apache-2.0
/*
 * Frames: cut from bytes, and the properties of messages that strangers have sent
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/bus/frame.h"
#include "io/bus/table.h"

#define DEEP 26000 /* levels of a header: as many as a frame has room for, at 5 bytes each */

/* ---- frames ---- */

static void test_cut_anywhere(void **state)
{
    static const uint8_t two[] = {1,    0, 2, 0, 0, 0, 3, 'a', 'b', 'c',
                                  0xce, 8, 0, 0, 0, 0, 0, 0,   0xce};
    struct frame frame;

    for (size_t len = 0; len < 11; len++) {
        struct bytes in = bytes_of(two, len);

        assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), 0);
        assert_ptr_equal(in.data, two);
        assert_int_equal(in.len, len);
    }
    for (size_t len = 11; len <= sizeof(two); len++) {
        struct bytes in = bytes_of(two, len);

        assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), 1);
        assert_int_equal(frame.type, 1);
        assert_int_equal(frame.channel, 2);
        assert_true(bytes_is(frame.payload, "abc"));
        assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), len == sizeof(two));
        if (len == sizeof(two))
            assert_int_equal(frame.type, AMQP_FRAME_HEARTBEAT);
    }
}

static void test_no_frames(void **state)
{
    static const uint8_t no_end[] = {1, 0, 0, 0, 0, 0, 1, 'a', 0xcd};
    static const uint8_t too_long[] = {1, 0, 0, 0, 1, 0xff, 0xf9};
    static const uint8_t longest[] = {1, 0, 0, 0, 1, 0xff, 0xf8};
    struct bytes in = bytes_of(no_end, sizeof(no_end));
    struct frame frame;

    assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), -EBADMSG);
    in = bytes_of(too_long, sizeof(too_long));
    assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), -EBADMSG);
    in = bytes_of(longest, sizeof(longest));
    assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), 0);
}

/* ---- methods ---- */

static void test_method(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    amqp_basic_ack_t sent = {.delivery_tag = UINT64_C(0x123456789a), .multiple = 1};
    struct frame frame;
    struct bytes in;
    amqp_basic_ack_t *read;
    amqp_pool_t pool;
    void *arguments;

    assert_int_equal(frame_put_method(&out, 7, AMQP_BASIC_ACK_METHOD, &sent), 0);
    in = buf_bytes(&out);
    assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), 1);
    assert_int_equal(in.len, 0);
    assert_int_equal(frame.channel, 7);
    assert_int_equal(frame_method(&frame), AMQP_BASIC_ACK_METHOD);
    init_amqp_pool(&pool, 1024);
    assert_int_equal(frame_decode(&frame, &pool, &arguments), 0);
    read = arguments;
    assert_true(read->delivery_tag == sent.delivery_tag && read->multiple);
    frame.payload.len--;
    assert_int_equal(frame_decode(&frame, &pool, &arguments), -EBADMSG);
    frame.payload.len = 3;
    assert_int_equal(frame_method(&frame), 0);
    empty_amqp_pool(&pool);
}

static void test_method_too_long(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    static char response[20000];
    amqp_connection_start_ok_t ok = {.response = {sizeof(response), response}};

    assert_int_equal(frame_put_heartbeat(&out), 0);
    assert_int_equal(frame_put_method(&out, 0, AMQP_CONNECTION_START_OK_METHOD, &ok), -EMSGSIZE);
    assert_int_equal(out.len, FRAME_OVERHEAD);
}

static void put_number(struct buf *out, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        buf_putc(out, (char)(value >> 8 * i));
}

static void put_short(struct buf *out, const char *text)
{
    put_number(out, strlen(text), 1);
    buf_puts(out, text);
}

static void put_long(struct buf *out, struct bytes value)
{
    put_number(out, value.len, 4);
    buf_append(out, value.data, value.len);
}

/* The table of connection.start may be as deep as it likes: it is passed over. */
static void test_start(void **state)
{
    CLEANUP(buf_deinit) struct buf payload = {0};
    struct frame frame = {.type = AMQP_FRAME_METHOD};
    struct frame_start start;

    put_number(&payload, AMQP_CONNECTION_START_METHOD, 4);
    put_number(&payload, 9, 2);
    put_long(&payload, bytes_str("\1nF and so on, which is never read"));
    put_long(&payload, bytes_str("AMQPLAIN PLAIN"));
    put_long(&payload, bytes_str("en_US"));
    frame.payload = buf_bytes(&payload);
    assert_int_equal(frame_decode_start(&frame, &start), 0);
    assert_true(bytes_is(start.mechanisms, "AMQPLAIN PLAIN"));
    frame.payload.len = payload.len - 10;
    assert_int_equal(frame_decode_start(&frame, &start), -EBADMSG);
}

/* ---- messages ---- */

static void begin_header(struct buf *out, uint64_t body, uint16_t flags)
{
    buf_clear(out);
    put_number(out, AMQP_BASIC_CLASS, 2);
    put_number(out, 0, 2);
    put_number(out, body, 8);
    put_number(out, flags, 2);
}

/* A message as the library encodes it, with all properties that there are. */
static void test_properties(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    amqp_table_entry_t inner[] = {table_text("drover-job", "of another table")};
    amqp_table_entry_t headers[] = {
        table_yes("t"),
        table_table("f", (amqp_table_t){array_size(inner), inner}),
        table_text("traceparent", "00-1-2-3"),
        table_text("drover-job", "job"),
        table_number("drover-publish", INT64_C(1) << 40),
        table_text("drover-step", "3"),
        table_yes("drover-resent"),
        table_text("x-first-death-reason", "expired"),
    };
    amqp_basic_publish_t publish = {.routing_key = amqp_cstring_bytes("key")};
    amqp_basic_properties_t p = {
        ._flags = 0xfffc, /* all fourteen */
        .content_type = amqp_cstring_bytes("application/x-protobuf"),
        .content_encoding = amqp_cstring_bytes("none"),
        .headers = {array_size(headers), headers},
        .delivery_mode = 2,
        .priority = 3,
        .correlation_id = amqp_cstring_bytes("correlation"),
        .reply_to = amqp_cstring_bytes("reply"),
        .expiration = amqp_cstring_bytes("1000"),
        .message_id = amqp_cstring_bytes("message"),
        .timestamp = 5,
        .type = amqp_cstring_bytes("type"),
        .user_id = amqp_cstring_bytes("user"),
        .app_id = amqp_cstring_bytes("app"),
        .cluster_id = amqp_cstring_bytes("cluster"),
    };
    struct content c;
    struct frame frame;
    struct bytes in;

    assert_int_equal(frame_put_message(&out, 1, FRAME_MAX, &publish, &p, bytes_str("the body")), 0);
    in = buf_bytes(&out);
    assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), 1);
    assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), 1);
    assert_int_equal(frame.type, AMQP_FRAME_HEADER);
    assert_int_equal(frame_decode_content(frame.payload, &c), 0);
    assert_int_equal(c.body_size, 8);
    assert_true(bytes_is(c.content_type, "application/x-protobuf"));
    assert_true(bytes_is(c.correlation_id, "correlation"));
    assert_true(bytes_is(c.reply_to, "reply"));
    assert_true(bytes_is(c.message_id, "message"));
    assert_true(bytes_is(c.user_id, "user"));
    assert_true(c.persistent);
    assert_true(bytes_is(c.traceparent, "00-1-2-3"));
    assert_true(bytes_is(c.job, "job"));
    assert_true(bytes_is(c.step, "3"));
    assert_true(bytes_is(c.died_of, "expired"));
    assert_true(c.resent);
    assert_true(c.serial == INT64_C(1) << 40);
    assert_int_equal(frame_cut(&in, FRAME_MAX, &frame), 1);
    assert_true(bytes_is(frame.payload, "the body"));
    assert_int_equal(in.len, 0);
}

/* Values of all types, each before a header that is read: so each has its right length. */
static void test_types_of_values(void **state)
{
    static const struct {
        char type;
        int bytes;
    } types[] = {{'V', 0}, {'t', 1}, {'b', 1}, {'B', 1}, {'s', 2}, {'u', 2}, {'I', 4},
                 {'i', 4}, {'f', 4}, {'D', 5}, {'l', 8}, {'L', 8}, {'d', 8}, {'T', 8}};
    static const char with_length[] = "SxAF";

    for (size_t i = 0; i < array_size(types) + strlen(with_length); i++) {
        CLEANUP(buf_deinit) struct buf table = {0}, payload = {0};
        struct content c;

        put_short(&table, "other");
        if (i < array_size(types)) {
            buf_putc(&table, types[i].type);
            put_number(&table, UINT64_MAX, types[i].bytes);
        } else {
            buf_putc(&table, with_length[i - array_size(types)]);
            put_long(&table, bytes_str("never looked at"));
        }
        put_short(&table, "drover-job");
        buf_putc(&table, i % 2 ? 'S' : 'x');
        put_long(&table, bytes_str("job"));
        begin_header(&payload, 0, AMQP_BASIC_HEADERS_FLAG);
        put_long(&payload, buf_bytes(&table));
        assert_int_equal(frame_decode_content(buf_bytes(&payload), &c), 0);
        if (!bytes_is(c.job, "job"))
            fail_msg("a value of type %zu has another length", i);
    }
}

static void test_deep_header(void **state)
{
    CLEANUP(buf_deinit) struct buf table = {0}, payload = {0};
    struct content c;

    put_short(&table, "deep");
    for (int level = 0; level < DEEP; level++) {
        buf_putc(&table, 'A');
        put_number(&table, (uint64_t)(DEEP - level - 1) * 5, 4);
    }
    put_short(&table, "drover-job");
    buf_putc(&table, 'S');
    put_long(&table, bytes_str("job"));
    begin_header(&payload, 0, AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG);
    put_long(&payload, buf_bytes(&table));
    put_short(&payload, "id");
    assert_int_equal(frame_decode_content(buf_bytes(&payload), &c), 0);
    assert_true(bytes_is(c.job, "job"));
    assert_true(bytes_is(c.message_id, "id"));
}

/* What cannot be read counts as missing, with all that follows it in the same table; properties
 * behind the table are read. */
static void test_unknown_type(void **state)
{
    CLEANUP(buf_deinit) struct buf table = {0}, payload = {0};
    struct content c;

    put_short(&table, "drover-job");
    buf_putc(&table, 'S');
    put_long(&table, bytes_str("job"));
    put_short(&table, "other");
    buf_puts(&table, "?????");
    put_short(&table, "drover-step");
    buf_putc(&table, 'S');
    put_long(&table, bytes_str("3"));
    begin_header(&payload, 9, AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_REPLY_TO_FLAG);
    put_long(&payload, buf_bytes(&table));
    put_short(&payload, "reply");
    assert_int_equal(frame_decode_content(buf_bytes(&payload), &c), 0);
    assert_true(bytes_is(c.job, "job"));
    assert_int_equal(c.step.len, 0);
    assert_true(bytes_is(c.reply_to, "reply"));
    assert_int_equal(c.body_size, 9);
}

/* Headers that are no texts, or no numbers, where Drover reads such. */
static void test_headers_of_another_type(void **state)
{
    CLEANUP(buf_deinit) struct buf table = {0}, payload = {0};
    struct content c;

    put_short(&table, "drover-job");
    buf_putc(&table, 'l');
    put_number(&table, 7, 8);
    put_short(&table, "drover-publish");
    buf_putc(&table, 'S');
    put_long(&table, bytes_str("7"));
    begin_header(&payload, 0, AMQP_BASIC_HEADERS_FLAG);
    put_long(&payload, buf_bytes(&table));
    assert_int_equal(frame_decode_content(buf_bytes(&payload), &c), 0);
    assert_int_equal(c.job.len, 0);
    assert_true(c.serial == 0);
}

/* Every prefix of a header is read without a fault, and is a header once its size is there. */
static void test_cut_header(void **state)
{
    CLEANUP(buf_deinit) struct buf table = {0}, payload = {0};
    struct content c;

    put_short(&table, "drover-job");
    buf_putc(&table, 'S');
    put_long(&table, bytes_str("job"));
    begin_header(&payload, 3, AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG | 1);
    put_number(&payload, 1, 2);
    put_number(&payload, 0, 2); /* three words of flags */
    put_short(&payload, "type");
    put_long(&payload, buf_bytes(&table));
    for (size_t len = 0; len <= payload.len; len++) {
        struct bytes part = bytes_of(memcpy(malloc(len + 1), payload.data, len), len);

        assert_int_equal(frame_decode_content(part, &c), len < 12 ? -EBADMSG : 0);
        if (len == payload.len)
            assert_true(bytes_is(c.job, "job") && bytes_is(c.content_type, "type"));
        free((void *)part.data);
    }
    payload.data[1] = 61; /* another class */
    assert_int_equal(frame_decode_content(buf_bytes(&payload), &c), -EBADMSG);
}

static void test_body_in_frames(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    amqp_basic_publish_t publish = {0};
    amqp_basic_properties_t p = {0};
    static char body[1000];
    struct bytes in;
    struct frame frame;
    size_t n = 0;

    assert_int_equal(frame_put_message(&out, 1, 300, &publish, &p, bytes_of(body, sizeof(body))),
                     0);
    in = buf_bytes(&out);
    for (int i = 0; frame_cut(&in, 300, &frame) == 1; i++) {
        static const uint8_t types[] = {AMQP_FRAME_METHOD, AMQP_FRAME_HEADER, AMQP_FRAME_BODY,
                                        AMQP_FRAME_BODY,   AMQP_FRAME_BODY,   AMQP_FRAME_BODY};

        assert_true(i < (int)array_size(types));
        assert_int_equal(frame.type, types[i]);
        n += frame.type == AMQP_FRAME_BODY ? frame.payload.len : 0;
    }
    assert_int_equal(in.len, 0);
    assert_int_equal(n, sizeof(body));
}

/* Properties that no frame has room for: nothing of the message is sent. */
static void test_properties_too_long(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    static char text[5000];
    amqp_table_entry_t headers[] = {table_text("long", memset(text, 'x', sizeof(text) - 1))};
    amqp_basic_publish_t publish = {0};
    amqp_basic_properties_t p = {
        ._flags = AMQP_BASIC_HEADERS_FLAG,
        .headers = {array_size(headers), headers},
    };

    assert_int_equal(frame_put_message(&out, 1, 4096, &publish, &p, BYTES_EMPTY), -EMSGSIZE);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_no_frames),
        cmocka_unit_test(test_method),
        cmocka_unit_test(test_method_too_long),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_types_of_values),
        cmocka_unit_test(test_deep_header),
        cmocka_unit_test(test_unknown_type),
        cmocka_unit_test(test_headers_of_another_type),
        cmocka_unit_test(test_cut_header),
        cmocka_unit_test(test_body_in_frames),
        cmocka_unit_test(test_properties_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
