// SPDX-License-Identifier: Apache-2.0
#include "cli/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "io/tree.h"

/* -- Time -------------------------------------------------------------------------------------- */

bool parse_duration(const char *text, int64_t *out_ms)
{
    return text[strspn(text, "0123456789")] != '\0' && duration_parse(text, out_ms);
}

/* ".5", ".123456": to whole milliseconds, the rest cut. */
static const char *parse_fraction(const char *text, int *ms)
{
    int scale = 100;

    *ms = 0;
    if (*text != '.')
        return text;
    for (text++; isdigit((unsigned char)*text); text++, scale /= 10)
        *ms += (*text - '0') * scale;
    return text;
}

/* "Z" or "+01:30", the whole rest. */
static bool parse_zone(const char *text, int64_t *offset_s)
{
    int hours, minutes, used = 0;
    char sign;

    *offset_s = 0;
    if (strcmp(text, "Z") == 0)
        return true;
    if (sscanf(text, "%c%2d:%2d%n", &sign, &hours, &minutes, &used) != 3 || text[used] != '\0' ||
        used != 6 || (sign != '+' && sign != '-') || hours > 23 || minutes > 59)
        return false;
    *offset_s = (hours * 60L + minutes) * (sign == '+' ? 60 : -60);
    return true;
}

bool parse_moment(const char *text, int64_t now, int64_t *out_unix_ms)
{
    struct tm tm = {0};
    int64_t offset_s;
    const char *rest;
    int ms;

    if (text[0] == '+') {
        int64_t after;

        return parse_duration(text + 1, &after) && !__builtin_add_overflow(now, after, out_unix_ms);
    }
    rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        return false;
    rest = parse_fraction(rest, &ms);
    if (!parse_zone(rest, &offset_s))
        return false;
    *out_unix_ms = ((int64_t)timegm(&tm) - offset_s) * 1000 + ms;
    return true;
}

/* -- Addresses --------------------------------------------------------------------------------- */

void address_deinit(struct address *a)
{
    free(a->host);
    free(a->vhost);
    free(a->user);
    if (a->password)
        explicit_bzero(a->password, strlen(a->password));
    free(a->password);
    *a = (struct address){0};
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent decodes into a string of its own. */
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
            return PARSE_E_INVALID;
        }
        text[n] = (char)(high * 16 + low);
        i += 2;
    }
    text[n] = '\0';
    *out = text;
    return 0;
}

/* What stands before the first @separator, which is skipped; all of it where there is none. */
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
        return PARSE_E_INVALID;
    }
    *out = (int)port;
    return 0;
}

/* "host", "host:port", "[::1]:port" */
static int host_parse(struct bytes text, struct address *out, struct problem *problem)
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
        return PARSE_E_INVALID;
    }
    out->host = bytes_dup(host);
    if (!out->host)
        return -ENOMEM;
    out->port = 5672;
    return text.len > 0 ? port_parse(text, &out->port, problem) : 0;
}

static int credentials_parse(struct bytes text, struct address *out, struct problem *problem)
{
    struct bytes user = cut(&text, ':');
    int r = part_decode(user, &out->user, "user", problem);

    return r ? r : part_decode(text, &out->password, "password", problem);
}

static int url_split(struct bytes rest, struct address *out, struct problem *problem)
{
    struct bytes authority = cut(&rest, '/');
    const uint8_t *at = authority.len > 0 ? memrchr(authority.data, '@', authority.len) : NULL;
    struct bytes credentials = bytes_str("guest:guest");
    int r;

    if (at) {
        credentials = bytes_of(authority.data, (size_t)(at - authority.data));
        authority = bytes_of(at + 1, authority.len - credentials.len - 1);
    }
    r = credentials_parse(credentials, out, problem);
    if (r == 0)
        r = host_parse(authority, out, problem);
    if (r == 0)
        r = part_decode(rest.len > 0 ? rest : bytes_str("/"), &out->vhost, "vhost", problem);
    return r;
}

int parse_url(const char *url, struct address *out, struct problem *problem)
{
    static const char SCHEME[] = "amqp://";
    int r;

    *out = (struct address){0};
    if (strncmp(url, SCHEME, sizeof(SCHEME) - 1) != 0) {
        problem_set(problem, "", "must begin with amqp://");
        return PARSE_E_INVALID;
    }
    r = url_split(bytes_str(url + sizeof(SCHEME) - 1), out, problem);
    if (r)
        address_deinit(out);
    return r;
}
