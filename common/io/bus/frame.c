// SPDX-License-Identifier: Apache-2.0
/*
 * Frames: see io/bus/frame.h
 *
 * Called by login.c, message.c, the files of the link, and the fuzz target frames.
 */
#include "io/bus/frame.h"

#include <errno.h>

#include "io/bus/headers.h"

#define FRAME_HEAD 7     /* type, channel, length of the payload ... */
#define FRAME_FOOT 1     /* ... which ends with AMQP_FRAME_END */
#define METHOD_ID 4      /* class and method */
#define CONTENT_HEAD 12  /* class, weight, size of the body */
#define METHOD_MAX 16384 /* bytes of a method that is sent: that of the login has a password */

_Static_assert(FRAME_OVERHEAD == FRAME_HEAD + FRAME_FOOT, "all of a frame but its payload");

/* ---- reading ---- */

/* The bytes that are not read yet. A read beyond their end fails, and leaves none. */
struct reader {
    struct bytes left;
    bool failed;
};

static struct bytes read_bytes(struct reader *r, uint64_t len)
{
    struct bytes taken = r->left;

    if (len > r->left.len) {
        r->failed = true;
        r->left.len = 0;
        return BYTES_EMPTY;
    }
    taken.len = (size_t)len;
    r->left = bytes_of(r->left.data + len, r->left.len - (size_t)len);
    return taken;
}

/* An unsigned number of up to 8 bytes; 0 if it is not there. */
static uint64_t read_number(struct reader *r, int bytes)
{
    struct bytes b = read_bytes(r, (uint64_t)bytes);
    uint64_t value = 0;

    for (size_t i = 0; i < b.len; i++)
        value = value << 8 | b.data[i];
    return value;
}

static struct bytes read_short(struct reader *r)
{
    return read_bytes(r, read_number(r, 1));
}

static struct bytes read_long(struct reader *r)
{
    return read_bytes(r, read_number(r, 4));
}

int frame_cut(struct bytes *in, size_t max, struct frame *out)
{
    struct reader r = {.left = *in};
    size_t len;

    out->type = (uint8_t)read_number(&r, 1);
    out->channel = (uint16_t)read_number(&r, 2);
    len = (size_t)read_number(&r, 4);
    if (r.failed)
        return 0;
    if (len > max - FRAME_OVERHEAD)
        return -EBADMSG;
    if (r.left.len < len + FRAME_FOOT)
        return 0;
    out->payload = read_bytes(&r, len);
    if (read_number(&r, FRAME_FOOT) != AMQP_FRAME_END)
        return -EBADMSG;
    *in = r.left;
    return 1;
}

amqp_method_number_t frame_method(const struct frame *frame)
{
    struct reader r = {.left = frame->payload};

    return (amqp_method_number_t)read_number(&r, METHOD_ID);
}

int frame_decode(const struct frame *frame, amqp_pool_t *pool, void **out)
{
    struct reader r = {.left = frame->payload};
    amqp_method_number_t method = (amqp_method_number_t)read_number(&r, METHOD_ID);
    amqp_bytes_t arguments = {r.left.len, (void *)r.left.data};

    return amqp_decode_method(method, pool, arguments, out) < 0 ? -EBADMSG : 0;
}

int frame_decode_start(const struct frame *frame, struct frame_start *out)
{
    struct reader r = {.left = frame->payload};

    read_number(&r, METHOD_ID);
    read_number(&r, 2); /* the version of the protocol */
    read_long(&r);      /* what the server says of itself */
    out->mechanisms = read_long(&r);
    return r.failed ? -EBADMSG : 0;
}

/* Reads the value of a field. *text becomes the value of a text, *number that of a 64-bit number. A
 * table or an array begins with its length, so the reader skips it whole, however deep it is. */
static void read_value(struct reader *r, struct bytes *text, int64_t *number)
{
    char type = (char)read_number(r, 1);

    *text = BYTES_EMPTY;
    *number = 0;
    switch (type) {
    case 'V':
        break;
    case 't':
    case 'b':
    case 'B':
        read_number(r, 1);
        break;
    case 's':
    case 'u':
        read_number(r, 2);
        break;
    case 'I':
    case 'i':
    case 'f':
        read_number(r, 4);
        break;
    case 'D':
        read_number(r, 5);
        break;
    case 'l':
        *number = (int64_t)read_number(r, 8);
        break;
    case 'L':
    case 'd':
    case 'T':
        read_number(r, 8);
        break;
    case 'S':
    case 'x':
        *text = read_long(r);
        break;
    case 'A':
    case 'F':
        read_long(r);
        break;
    default:
        r->failed = true;
    }
}

/* Of several headers of one name the first one counts. */
static void set_text(struct bytes *to, struct bytes text)
{
    if (to->len == 0)
        *to = text;
}

static void take_header(struct content *out, struct bytes name, struct bytes text, int64_t number)
{
    if (bytes_is(name, BUS_TRACE_HEADER))
        set_text(&out->traceparent, text);
    else if (bytes_is(name, BUS_JOB_HEADER))
        set_text(&out->job, text);
    else if (bytes_is(name, BUS_STEP_HEADER))
        set_text(&out->step, text);
    else if (bytes_is(name, BUS_DEATH_HEADER))
        set_text(&out->died_of, text);
    else if (bytes_is(name, BUS_RESENT_HEADER))
        out->resent = true;
    else if (bytes_is(name, BUS_SERIAL_HEADER) && out->serial == 0)
        out->serial = number;
}

static void read_headers(struct bytes table, struct content *out)
{
    struct reader r = {.left = table};

    while (r.left.len > 0) {
        struct bytes name = read_short(&r);
        struct bytes text;
        int64_t number;

        read_value(&r, &text, &number);
        if (!r.failed)
            take_header(out, name, text, number);
    }
}

/* The flags say which properties follow. Bit 0 says that another word of flags does. */
static uint16_t read_flags(struct reader *r)
{
    uint16_t flags = (uint16_t)read_number(r, 2);

    for (uint16_t more = flags; more & 1;)
        more = (uint16_t)read_number(r, 2);
    return flags;
}

static struct bytes read_if(struct reader *r, uint16_t flags, uint32_t flag)
{
    return flags & flag ? read_short(r) : BYTES_EMPTY;
}

int frame_decode_content(struct bytes payload, struct content *out)
{
    struct reader r = {.left = payload};
    uint16_t class_id = (uint16_t)read_number(&r, 2);
    uint16_t flags;

    *out = (struct content){0};
    read_number(&r, 2);
    out->body_size = read_number(&r, 8);
    if (r.failed || class_id != AMQP_BASIC_CLASS)
        return -EBADMSG;
    flags = read_flags(&r);
    out->content_type = read_if(&r, flags, AMQP_BASIC_CONTENT_TYPE_FLAG);
    read_if(&r, flags, AMQP_BASIC_CONTENT_ENCODING_FLAG);
    if (flags & AMQP_BASIC_HEADERS_FLAG)
        read_headers(read_long(&r), out);
    if (flags & AMQP_BASIC_DELIVERY_MODE_FLAG)
        out->persistent = read_number(&r, 1) == AMQP_DELIVERY_PERSISTENT;
    if (flags & AMQP_BASIC_PRIORITY_FLAG)
        read_number(&r, 1);
    out->correlation_id = read_if(&r, flags, AMQP_BASIC_CORRELATION_ID_FLAG);
    out->reply_to = read_if(&r, flags, AMQP_BASIC_REPLY_TO_FLAG);
    read_if(&r, flags, AMQP_BASIC_EXPIRATION_FLAG);
    out->message_id = read_if(&r, flags, AMQP_BASIC_MESSAGE_ID_FLAG);
    if (flags & AMQP_BASIC_TIMESTAMP_FLAG)
        read_number(&r, 8);
    out->type = read_if(&r, flags, AMQP_BASIC_TYPE_FLAG);
    out->user_id = read_if(&r, flags, AMQP_BASIC_USER_ID_FLAG);
    return 0;
}

/* ---- writing ---- */

static uint8_t *put_number(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

/* Room for a frame whose payload has up to @room bytes. Return: where the payload begins. */
static uint8_t *frame_begin(struct buf *out, size_t room)
{
    uint8_t *at = buf_reserve(out, FRAME_HEAD + room + FRAME_FOOT);

    return at ? at + FRAME_HEAD : NULL;
}

static int frame_end(struct buf *out, uint8_t *payload, uint8_t type, uint16_t channel, size_t len)
{
    uint8_t *at = put_number(payload - FRAME_HEAD, type, 1);

    at = put_number(at, channel, 2);
    at = put_number(at, len, 4) + len;
    put_number(at, AMQP_FRAME_END, FRAME_FOOT);
    out->len += FRAME_HEAD + len + FRAME_FOOT;
    return 0;
}

int frame_put_method(struct buf *out, uint16_t channel, amqp_method_number_t method,
                     void *arguments)
{
    uint8_t *payload = frame_begin(out, METHOD_MAX);
    amqp_bytes_t room = {METHOD_MAX - METHOD_ID, payload ? payload + METHOD_ID : NULL};
    int len;

    if (!payload)
        return -ENOMEM;
    put_number(payload, method, METHOD_ID);
    len = amqp_encode_method(method, arguments, room);
    if (len < 0)
        return -EMSGSIZE;
    return frame_end(out, payload, AMQP_FRAME_METHOD, channel, METHOD_ID + (size_t)len);
}

int frame_put_heartbeat(struct buf *out)
{
    uint8_t *payload = frame_begin(out, 0);

    return payload ? frame_end(out, payload, AMQP_FRAME_HEARTBEAT, 0, 0) : -ENOMEM;
}

static int put_header(struct buf *out, uint16_t channel, size_t max,
                      amqp_basic_properties_t *properties, size_t body)
{
    const size_t room = max - FRAME_OVERHEAD;
    uint8_t *payload = frame_begin(out, room);
    uint8_t *at;
    int len;

    if (!payload)
        return -ENOMEM;
    at = put_number(payload, AMQP_BASIC_CLASS, 2);
    at = put_number(at, 0, 2);
    at = put_number(at, body, 8);
    len = amqp_encode_properties(AMQP_BASIC_CLASS, properties,
                                 (amqp_bytes_t){room - CONTENT_HEAD, at});
    if (len < 0)
        return -EMSGSIZE;
    return frame_end(out, payload, AMQP_FRAME_HEADER, channel, CONTENT_HEAD + (size_t)len);
}

static int put_body(struct buf *out, uint16_t channel, size_t max, struct bytes body)
{
    const size_t room = max - FRAME_OVERHEAD;

    for (size_t len; body.len > 0; body = bytes_of(body.data + len, body.len - len)) {
        uint8_t *payload;

        len = body.len < room ? body.len : room;
        payload = frame_begin(out, len);
        if (!payload)
            return -ENOMEM;
        memcpy(payload, body.data, len);
        frame_end(out, payload, AMQP_FRAME_BODY, channel, len);
    }
    return 0;
}

int frame_put_message(struct buf *out, uint16_t channel, size_t max, amqp_basic_publish_t *publish,
                      amqp_basic_properties_t *properties, struct bytes body)
{
    const size_t before = out->len;
    int r = frame_put_method(out, channel, AMQP_BASIC_PUBLISH_METHOD, publish);

    if (!r)
        r = put_header(out, channel, max, properties, body.len);
    if (!r)
        r = put_body(out, channel, max, body);
    if (r)
        out->len = before;
    return r;
}
