// SPDX-License-Identifier: Apache-2.0
/*
 * URLs of servers
 *
 * See io/config/url.h.
 */
#include "io/config/url.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "io/hosts.h"

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
            problem_set(problem, name,
                        low < 0 ? "'%%' must be followed by two hexadecimal digits"
                                : "must not have the character %%00");
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

static int hosts_problem(struct bytes text, struct problem *problem)
{
    CLEANUP(free) char *copy = bytes_dup(text);
    const char *fault = text.len == 0 ? "is missing" : copy ? hosts_fault(copy) : NULL;

    if (!copy)
        return -ENOMEM;
    if (fault)
        problem_set(problem, "host", "%s", fault);
    return fault ? URL_E_INVALID : 0;
}

/* Takes "host", "host:port", "[::1]:port", or a list of these. */
static int host_parse(struct bytes text, struct url *out, struct problem *problem)
{
    CLEANUP(hosts_deinit) struct hosts hosts = {0};
    int r = hosts_problem(text, problem);

    if (r)
        return r;
    out->host = bytes_dup(text);
    if (!out->host)
        return -ENOMEM;
    r = hosts_parse(&hosts, out->host, 0);
    if (r || hosts.n > 1)
        return r;
    free(out->host);
    out->host = strdup(hosts.list[0].name);
    out->port = hosts.list[0].port;
    return out->host ? 0 : -ENOMEM;
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

static bool take_text(const char **text, const char *expected, size_t len)
{
    if (strncmp(*text, expected, len) != 0)
        return false;
    *text += len;
    return true;
}

/* Takes "scheme://" or, for TLS, "schemes://" off the front. The s follows the protocol:
 * "rediss+sentinel". */
static bool take_scheme(const char **text, const char *scheme, bool *tls)
{
    size_t protocol = strcspn(scheme, "+");

    if (!take_text(text, scheme, protocol))
        return false;
    *tls = **text == 's';
    *text += *tls;
    return take_text(text, scheme + protocol, strlen(scheme + protocol)) &&
           take_text(text, "://", 3);
}

int url_parse(const char *text, const char *scheme, struct url *out, struct problem *problem)
{
    int r;

    *out = (struct url){0};
    if (!take_scheme(&text, scheme, &out->tls)) {
        problem_set(problem, "", "must begin with %s:// or %.*ss%s://", scheme,
                    (int)strcspn(scheme, "+"), scheme, scheme + strcspn(scheme, "+"));
        return URL_E_SCHEME;
    }
    r = url_split(bytes_str(text), out, problem);
    if (r)
        url_deinit(out);
    return r;
}
