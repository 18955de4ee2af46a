// SPDX-License-Identifier: Apache-2.0
/*
 * simulated-redis: the simulator's store, for a test that needs a Redis
 *
 * Standard input is a listening socket; one client is served until it disconnects. There are the
 * commands of redis.c, FCALL by the clock of this machine, FLUSHALL, TIME and FUNCTION LOAD, which
 * has to come first.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/store.h"

#define WORDS_MAX 4096

struct request {
    const char *words[WORDS_MAX]; /* a NUL follows each */
    struct bytes args[WORDS_MAX];
    int n;
};

static bool is(const struct request *r, const char *command)
{
    return strcasecmp(r->words[0], command) == 0;
}

static struct simstore *load(struct simstore *old, struct bytes text)
{
    char path[32];
    int fd = memfd_create("functions", 0);
    struct simstore *store;

    if (fd < 0 || write(fd, text.data, text.len) != (ssize_t)text.len)
        abort();
    simstore_free(old);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    store = simstore_new(path);
    close(fd);
    return store;
}

/* FCALL drover1_NAME 1 drover:{pPARTITION}: ARGUMENT... */
static void call(struct simstore *store, const struct request *r, struct buf *out)
{
    struct store_answer answer;
    uint32_t partition;
    char name[32];

    if (r->n < 4 || sscanf(r->words[1], "drover1_%31s", name) != 1 ||
        sscanf(r->words[3], "drover:{p%" SCNu32 "}:", &partition) != 1) {
        buf_puts(out, "-ERR no call of a store function\r\n");
        return;
    }
    simstore_call(store, clock_unix_ms(), false, partition, name, r->args + 4, r->n - 4, &answer);
    simstore_reply(&answer, out);
}

static struct simstore *serve(struct simstore *store, const struct request *r, struct buf *out)
{
    int64_t now = clock_unix_ms();

    if (is(r, "FUNCTION")) {
        store = load(store, r->args[r->n - 1]);
        buf_puts(out, "+OK\r\n");
    } else if (is(r, "FLUSHALL")) {
        simstore_reset(store, 0);
        buf_puts(out, "+OK\r\n");
    } else if (is(r, "TIME")) {
        buf_printf(out, "*2\r\n:%" PRId64 "\r\n:%" PRId64 "\r\n", now / 1000, now % 1000 * 1000);
    } else if (is(r, "FCALL")) {
        call(store, r, out);
    } else if (!store || is(r, "CLIENT")) { /* sent by newer clients to describe themselves */
        buf_puts(out, "-ERR unknown command\r\n");
    } else {
        simstore_command(store, r->words, r->n, out);
    }
    return store;
}

static void read_request(const redisReply *reply, struct request *out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 || reply->elements > WORDS_MAX)
        abort();
    out->n = (int)reply->elements;
    for (int i = 0; i < out->n; i++) {
        out->words[i] = reply->element[i]->str;
        out->args[i] = bytes_of(reply->element[i]->str, reply->element[i]->len);
    }
}

static void send_all(int fd, struct buf *out)
{
    if (send(fd, out->data, out->len, MSG_NOSIGNAL) != (ssize_t)out->len)
        exit(1);
    buf_clear(out);
}

int main(void)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    static struct request request;
    struct simstore *store = NULL;
    redisReader *reader = redisReaderCreate();
    char bytes[65536];
    int fd = accept(STDIN_FILENO, NULL, NULL);

    for (ssize_t n; (n = read(fd, bytes, sizeof(bytes))) > 0;) {
        redisReply *reply;

        redisReaderFeed(reader, bytes, (size_t)n);
        while (redisReaderGetReply(reader, (void **)&reply) == REDIS_OK && reply) {
            read_request(reply, &request);
            store = serve(store, &request, &out);
            freeReplyObject(reply);
            send_all(fd, &out);
        }
    }
    redisReaderFree(reader);
    simstore_free(store);
    close(fd);
    return 0;
}
