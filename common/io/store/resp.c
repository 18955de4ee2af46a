// SPDX-License-Identifier: Apache-2.0
/*
 * RESP: writes commands, and reads replies with the parser of hiredis
 *
 * See io/store/resp.h.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "io/store/resp.h"

/* Bytes of its buffer that the parser keeps between replies. */
#define PARSER_KEEPS ((size_t)1024 * 1024)

#if HIREDIS_MAJOR >= 1
typedef size_t array_length;
#else
typedef int array_length;
#endif

/* Writes a length, such as "$17\r\n" or "*3\r\n". */
static void put_length(struct buf *out, char type, size_t n)
{
    char text[DIGITS_MAX + 3], *p = text + sizeof(text);

    *--p = '\n';
    *--p = '\r';
    p = digits_before(p, n);
    *--p = type;
    buf_append(out, p, (size_t)(text + sizeof(text) - p));
}

void resp_command(struct buf *out, size_t n)
{
    put_length(out, '*', n);
}

void resp_put(struct buf *out, const void *data, size_t len)
{
    put_length(out, '$', len);
    buf_append(out, data, len);
    buf_append(out, "\r\n", 2);
}

/* The parser wants an object for each element. Elements are appended to the reader, which is passed
 * as the object of each of them. */

static void *add_item(struct resp_reader *r, const char *data, size_t len)
{
    size_t end = r->text.len + len;

    buf_append(&r->text, data, len);
    buf_putc(&r->text, '\0');
    buf_append(&r->ends, &end, sizeof(end));
    return r;
}

static void *on_string(const redisReadTask *task, char *data, size_t len)
{
    struct resp_reader *r = task->privdata;

    if (task->type == REDIS_REPLY_ERROR && !task->parent)
        r->reply.error = true;
    return add_item(r, data, len);
}

static void *on_array(const redisReadTask *task, array_length n)
{
    return task->privdata;
}

static void *on_integer(const redisReadTask *task, long long value)
{
    char text[24];

    return add_item(task->privdata, text, (size_t)snprintf(text, sizeof(text), "%lld", value));
}

static void *on_nil(const redisReadTask *task)
{
    return add_item(task->privdata, "", 0);
}

static void on_free(void *object)
{
}

static redisReplyObjectFunctions functions = {
    .createString = on_string,
    .createArray = on_array,
    .createInteger = on_integer,
    .createNil = on_nil,
    .freeObject = on_free,
};

int resp_init(struct resp_reader *r)
{
    *r = (struct resp_reader){.parser = redisReaderCreateWithFunctions(&functions)};
    if (!r->parser)
        return -ENOMEM;
    r->parser->privdata = r;
    r->parser->maxbuf = PARSER_KEEPS;
    return 0;
}

void resp_deinit(struct resp_reader *r)
{
    if (r->parser)
        redisReaderFree(r->parser);
    buf_deinit(&r->text);
    buf_deinit(&r->ends);
    buf_deinit(&r->views);
    *r = (struct resp_reader){0};
}

static int parser_error(const struct resp_reader *r)
{
    return r->parser->err == REDIS_ERR_OOM ? -ENOMEM : -EPROTO;
}

int resp_feed(struct resp_reader *r, const void *data, size_t len)
{
    return redisReaderFeed(r->parser, data, len) == REDIS_OK ? 0 : parser_error(r);
}

/* Makes the views when the reply is complete, because the text moves while it grows. */
static int make_views(struct resp_reader *r)
{
    size_t n = r->ends.len / sizeof(size_t), from = 0;
    const size_t *ends = (const size_t *)(const void *)r->ends.data;
    struct bytes *views = (struct bytes *)(void *)buf_reserve(&r->views, n * sizeof(*views));

    if (r->text.failed || r->ends.failed || !views)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        views[i] = bytes_of(r->text.data + from, ends[i] - from);
        from = ends[i] + 1;
    }
    r->reply.items = views;
    r->reply.n = (uint32_t)n;
    return 0;
}

/* Clears the last reply after it was handed over, not before: a reply may come in several feeds. */
static void begin_reply(struct resp_reader *r)
{
    r->reply = (struct resp_reply){0};
    buf_clear(&r->text);
    buf_clear(&r->ends);
    buf_clear(&r->views);
}

int resp_next(struct resp_reader *r, const struct resp_reply **reply)
{
    void *whole = NULL;
    int ret;

    *reply = NULL;
    if (r->reply.items)
        begin_reply(r);
    if (redisReaderGetReply(r->parser, &whole) != REDIS_OK)
        return parser_error(r);
    if (!whole)
        return 0;
    ret = make_views(r);
    if (ret < 0)
        return ret;
    *reply = &r->reply;
    return 0;
}

const char *resp_text(const struct resp_reply *reply)
{
    const char *text = reply->n > 0 ? (const char *)reply->items[0].data : "";

    return *text ? text : "an empty answer";
}

bool resp_is_error(const struct resp_reply *reply, const char *prefix)
{
    return reply->error && strncmp((const char *)reply->items[0].data, prefix, strlen(prefix)) == 0;
}
