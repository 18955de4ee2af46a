// SPDX-License-Identifier: Apache-2.0
/*
 * Direct: messages to addresses of direct reply-to, part of the publisher
 *
 * An address names a node of the broker and a process there, and a client may invent both. Some
 * versions of RabbitMQ close the connection over an address of which the node is not there. When
 * the broker has closed it twice over a message, the publisher refuses that message, and for ten
 * minutes every message to an address that the same client has given. Unless the node has taken a
 * message before, the publisher also refuses every message to that node. So a client costs the
 * publisher two connections in ten minutes, however many addresses it invents; and a client that
 * invents a process of a node which is there does not keep other clients from that node.
 *
 * Called by publisher.c.
 */
#include "io/bus/direct.h"

#include <stdlib.h>
#include <string.h>

#include "model/reply_to.h"
#include "model/wire.h"

#define KNOWN_MAX 64 /* nodes; a cluster has a few */
#define SHUNNED_MAX 512
#define SHUNNED_MS 600000

/* A node that has taken a message; or a node or sender that is shunned until then. */
struct noted {
    struct list node;
    int64_t until; /* CLOCK_MONOTONIC ms */
    char kind;     /* of what: NODE or SENDER */
    size_t len;
    uint8_t name[];
};

enum {
    NODE = 'n',
    SENDER = 's'
};

static struct bytes node_of(const struct outgoing *m, uint8_t *buf)
{
    struct bytes node = bytes_of(buf, reply_to_node(m->message.key, buf));

    return node.len > 0 ? node : bytes_str(m->message.key);
}

/* Where the sender is not known, each address counts as a sender. */
static struct bytes sender_of(const struct outgoing *m)
{
    const char *sender = m->message.sender;

    return bytes_str(sender && *sender ? sender : m->message.key);
}

/* ---- lists of nodes and senders, oldest first ---- */

static void forget(struct noted *n)
{
    list_remove(&n->node);
    free(n);
}

static struct noted *find(const struct list *list, char kind, struct bytes name)
{
    list_foreach(it, list) {
        struct noted *n = list_entry(it, struct noted, node);

        if (n->kind == kind && bytes_equal(bytes_of(n->name, n->len), name))
            return n;
    }
    return NULL;
}

static size_t length(const struct list *list)
{
    size_t n = 0;

    list_foreach(it, list)
        n++;
    return n;
}

/* Without memory the next message costs what this one did. */
static void add(struct list *list, size_t most, char kind, struct bytes name, int64_t until)
{
    struct noted *n = find(list, kind, name);

    if (n)
        forget(n);
    else if (length(list) == most)
        forget(list_entry(list->next, struct noted, node));
    n = malloc(sizeof(*n) + name.len);
    if (!n)
        return;
    *n = (struct noted){.until = until, .kind = kind, .len = name.len};
    if (name.len > 0)
        memcpy(n->name, name.data, name.len);
    list_append(list, &n->node);
}

static void drop_past(struct list *list, int64_t now)
{
    list_foreach_safe(it, list) {
        struct noted *n = list_entry(it, struct noted, node);

        if (now >= n->until)
            forget(n);
    }
}

/* ---- messages ---- */

bool direct_is(const struct outgoing *m)
{
    return m->message.exchange[0] == '\0' && reply_to_is_direct(m->message.key);
}

bool direct_shuns(struct direct *d, const struct outgoing *m, int64_t now)
{
    uint8_t buf[WIRE_REPLY_TO_MAX];

    if (list_empty(&d->shunned))
        return false;
    drop_past(&d->shunned, now);
    return find(&d->shunned, SENDER, sender_of(m)) || find(&d->shunned, NODE, node_of(m, buf));
}

void direct_taken(struct direct *d, const struct outgoing *m)
{
    uint8_t buf[WIRE_REPLY_TO_MAX];
    struct bytes node = node_of(m, buf);

    if (!find(&d->known, NODE, node))
        add(&d->known, KNOWN_MAX, NODE, node, INT64_MAX);
}

void direct_closed(struct direct *d, const struct outgoing *m, int64_t now)
{
    uint8_t buf[WIRE_REPLY_TO_MAX];
    struct bytes node = node_of(m, buf);
    struct noted *known = find(&d->known, NODE, node);

    if (known) /* the node may be gone, or the process was invented: the next one to it tells */
        forget(known);
    else
        add(&d->shunned, SHUNNED_MAX, NODE, node, now + SHUNNED_MS);
    add(&d->shunned, SHUNNED_MAX, SENDER, sender_of(m), now + SHUNNED_MS);
}

void direct_init(struct direct *d)
{
    list_init(&d->known);
    list_init(&d->shunned);
}

void direct_deinit(struct direct *d)
{
    list_foreach_safe(it, &d->known)
        forget(list_entry(it, struct noted, node));
    list_foreach_safe(it, &d->shunned)
        forget(list_entry(it, struct noted, node));
}
