// SPDX-License-Identifier: Apache-2.0
/*
 * URLs of servers
 *
 * See io/config/url.h.
 */
#include "io/config/url.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void url_deinit(struct url *url)
{
    free(url->host);
    free(url->path);
    free(url->user);
    if (url->password)
        explicit_bzero(url->password, strlen(url->password));
    free(url->password);
    *url = (struct url){0};
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes @part into a new string. */
static int part_decode(struct bytes part, char **out, const char *name, struct problem *problem)
{
    char *text = bytes_dup(part);
    size_t n = 0;

    if (!text)
        return -ENOMEM;
    for (size_t i = 0; i < part.len; i++, n++) {
        int high, low;

        text[n] = (char)part.data[i];
        if (text[n] != '%')
            continue;
        high = i + 2 < part.len ? hex_value((char)part.data[i + 1]) : -1;
        low = high >= 0 ? hex_value((char)part.data[i + 2]) : -1;
        if (low < 0 || high + low == 0) {
            free(text);
            problem_set(problem, name, "'%%' must be followed by two hexadecimal digits");
            return URL_E_INVALID;
        }
        text[n] = (char)(high * 16 + low);
        i += 2;
    }
    text[n] = '\0';
    *out = text;
    return 0;
}

/* Takes the text before the first @separator, which is skipped; all of it if there is none. */
static struct bytes cut(struct bytes *rest, char separator)
{
    const uint8_t *at = rest->len > 0 ? memchr(rest->data, separator, rest->len) : NULL;
    struct bytes head = bytes_of(rest->data, at ? (size_t)(at - rest->data) : rest->len);
    size_t skipped = head.len + (at != NULL);

    *rest = bytes_of(rest->data + skipped, rest->len - skipped);
    return head;
}

static int port_parse(struct bytes text, int *out, struct problem *problem)
{
    int64_t port;

    if (!bytes_to_i64(text, &port) || port < 1 || port > 65535) {
        problem_set(problem, "port", "must be a number from 1 to 65535");
        return URL_E_INVALID;
    }
    *out = (int)port;
    return 0;
}

/* Parses "host", "host:port" or "[::1]:port". */
static int host_parse(struct bytes text, struct url *out, struct problem *problem)
{
    struct bytes host;

    if (text.len > 0 && text.data[0] == '[') {
        text = bytes_of(text.data + 1, text.len - 1);
        host = cut(&text, ']');
        if (text.len > 0 && text.data[0] == ':')
            text = bytes_of(text.data + 1, text.len - 1);
    } else {
        host = cut(&text, ':');
    }
    if (host.len == 0) {
        problem_set(problem, "host", "is missing");
        return URL_E_INVALID;
    }
    out->host = bytes_dup(host);
    if (!out->host)
        return -ENOMEM;
    return text.len > 0 ? port_parse(text, &out->port, problem) : 0;
}

static int credentials_parse(struct bytes text, struct url *out, struct problem *problem)
{
    struct bytes user = cut(&text, ':');
    bool password = text.data > user.data + user.len; /* there is a ':' */
    int r = part_decode(user, &out->user, "user", problem);

    return r || !password ? r : part_decode(text, &out->password, "password", problem);
}

static int url_split(struct bytes rest, struct url *out, struct problem *problem)
{
    const uint8_t *end = rest.data + rest.len;
    struct bytes authority = cut(&rest, '/');
    bool path = authority.data + authority.len < end;
    const uint8_t *at = authority.len > 0 ? memrchr(authority.data, '@', authority.len) : NULL;
    int r = 0;

    if (at) {
        struct bytes credentials = bytes_of(authority.data, (size_t)(at - authority.data));

        authority = bytes_of(at + 1, authority.len - credentials.len - 1);
        r = credentials_parse(credentials, out, problem);
    }
    if (r == 0)
        r = host_parse(authority, out, problem);
    return r || !path ? r : part_decode(rest, &out->path, "path", problem);
}

int url_parse(const char *text, const char *scheme, struct url *out, struct problem *problem)
{
    int r;

    *out = (struct url){0};
    if (strncmp(text, scheme, strlen(scheme)) != 0) {
        problem_set(problem, "", "must begin with %s", scheme);
        return URL_E_INVALID;
    }
    r = url_split(bytes_str(text + strlen(scheme)), out, problem);
    if (r)
        url_deinit(out);
    return r;
}
