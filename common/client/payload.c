// SPDX-License-Identifier: Apache-2.0
/*
 * Payloads: finds out the type of their content
 *
 * See client/payload.h. Called by clients.
 */
#include "client/payload.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "client/text.h"
#include "io/file.h"

CLEANUP_DEFINE(json_t *, json_decref)

static const char *content_type_of(struct bytes data)
{
    CLEANUP(json_decref)
    json_t *json = json_loadb((const char *)data.data, data.len, JSON_DECODE_ANY, NULL);

    if (json)
        return "application/json";
    if (utf8_valid(data) && (data.len == 0 || !memchr(data.data, '\0', data.len)))
        return "text/plain; charset=utf-8";
    return "application/octet-stream";
}

Drover__V1__Payload *payload_new(struct bytes data)
{
    Drover__V1__Payload *p = malloc(sizeof(*p));

    if (!p)
        return NULL;
    drover__v1__payload__init(p);
    p->data.data = malloc(data.len + 1);
    if (!p->data.data || text_set(&p->content_type, content_type_of(data))) {
        drover__v1__payload__free_unpacked(p, NULL);
        return NULL;
    }
    if (data.len > 0)
        memcpy(p->data.data, data.data, data.len);
    p->data.len = data.len;
    return p;
}

int payload_read(const char *input, Drover__V1__Payload **out, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf data = {0};

    if (input[0] == '@') {
        int r = file_read_operand(input + 1, FILE_MAX, &data, problem);

        if (r)
            return r;
    } else {
        buf_puts(&data, input);
    }
    *out = data.failed ? NULL : payload_new(buf_bytes(&data));
    return *out ? 0 : -ENOMEM;
}
