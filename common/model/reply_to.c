// SPDX-License-Identifier: Apache-2.0
/*
 * Reply addresses: accepts queues of clients and well-formed addresses of direct reply-to
 *
 * See model/reply_to.h.
 */
#include <stdint.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "model/check.h"
#include "model/reply_to.h"
#include "model/wire_limits.h"

/* Tags of Erlang's external term format (its manual page erl_ext_dist). */
enum {
    TERM_VERSION = 131,
    TERM_PID = 103,             /* followed by an atom and 9 bytes */
    TERM_NEW_PID = 88,          /* followed by an atom and 12 bytes */
    TERM_ATOM = 100,            /* with two bytes of length */
    TERM_ATOM_UTF8 = 118,       /* with two bytes of length */
    TERM_SMALL_ATOM = 115,      /* with one byte of length */
    TERM_SMALL_ATOM_UTF8 = 119, /* with one byte of length */
};

/* Return: the size in bytes of an atom with its head; 0 if there is none, or it has no '@' as the
 * name of a node must have. */
static size_t atom_size(const uint8_t *at, size_t len)
{
    size_t head, size;

    if (len < 3)
        return 0;
    switch (at[0]) {
    case TERM_ATOM:
    case TERM_ATOM_UTF8:
        head = 3;
        size = (size_t)at[1] << 8 | at[2];
        break;
    case TERM_SMALL_ATOM:
    case TERM_SMALL_ATOM_UTF8:
        head = 2;
        size = at[1];
        break;
    default:
        return 0;
    }
    return size > 0 && head + size <= len && memchr(at + head, '@', size) ? head + size : 0;
}

/* A decoded Erlang process, and the atom in it that names its node. */
struct process {
    uint8_t term[WIRE_REPLY_TO_MAX];
    struct bytes node;
};

static bool process_read(struct process *p, const char *text, size_t text_len)
{
    size_t len, rest, atom;

    if (!base64_decode(text, text_len, p->term, &len) || len < 2 || p->term[0] != TERM_VERSION ||
        (p->term[1] != TERM_PID && p->term[1] != TERM_NEW_PID))
        return false;
    rest = p->term[1] == TERM_PID ? 9 : 12;
    atom = atom_size(p->term + 2, len - 2);
    p->node = bytes_of(p->term + 2, atom);
    return atom > 0 && 2 + atom + rest == len;
}

static bool direct_read(struct process *p, const char *address)
{
    const size_t direct = sizeof(REPLY_TO_DIRECT ".") - 1;
    uint8_t decoded[WIRE_REPLY_TO_MAX];
    const char *key;
    size_t len;

    if (strlen(address) > WIRE_REPLY_TO_MAX || !reply_to_is_direct(address))
        return false;
    address += direct;
    key = strchr(address, '.');
    return key && process_read(p, address, (size_t)(key - address)) && key[1] &&
           base64_decode(key + 1, strlen(key + 1), decoded, &len);
}

bool reply_to_is_direct(const char *reply_to)
{
    return strncmp(reply_to, REPLY_TO_DIRECT ".", sizeof(REPLY_TO_DIRECT ".") - 1) == 0;
}

size_t reply_to_node(const char *address, uint8_t *out)
{
    struct process p;

    if (!direct_read(&p, address))
        return 0;
    memcpy(out, p.node.data, p.node.len);
    return p.node.len;
}

bool reply_to_field_valid(const char *reply_to)
{
    return check_text_given(reply_to, WIRE_REPLY_TO_MAX, NULL, NULL) &&
           utf8_valid(bytes_str(reply_to)) && strncmp(reply_to, "drover.", 7) != 0 &&
           strncmp(reply_to, "amq.rabbitmq.", 13) != 0;
}

bool reply_to_property_valid(const char *reply_to)
{
    struct process p;

    return reply_to_is_direct(reply_to) ? direct_read(&p, reply_to)
                                        : reply_to_field_valid(reply_to);
}
