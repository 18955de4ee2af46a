// SPDX-License-Identifier: Apache-2.0
/*
 * The base layer, unit by unit
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "base/nonce.h"
#include "base/pace.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/str.h"

#define BAD "\xef\xbf\xbd" /* U+FFFD */

/* list */

struct item {
    int value;
    struct list link;
};

static void expect_values(const struct list *head, const int *values, size_t n)
{
    size_t i = 0;

    list_foreach(it, head) {
        assert_true(i < n);
        assert_int_equal(list_entry(it, struct item, link)->value, values[i++]);
    }
    assert_int_equal(i, n);
}

static void test_list_keeps_order(void **state)
{
    struct list head = LIST_INIT(head);
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}};

    assert_true(list_empty(&head));
    assert_null(list_pop(&head));
    for (size_t i = 0; i < array_size(items); i++)
        list_append(&head, &items[i].link);
    expect_values(&head, (int[]){1, 2, 3}, 3);

    list_remove(&items[1].link);
    expect_values(&head, (int[]){1, 3}, 2);
    list_remove(&items[1].link);
    assert_true(list_empty(&items[1].link));
    list_append(&items[0].link, &items[1].link);
    expect_values(&head, (int[]){2, 1, 3}, 3);

    assert_ptr_equal(list_pop(&head), &items[1].link);
    assert_ptr_equal(list_pop(&head), &items[0].link);
    assert_ptr_equal(list_pop(&head), &items[2].link);
    assert_null(list_pop(&head));
}

static void test_list_unlinks_while_walking(void **state)
{
    struct list head;
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};

    list_init(&head);
    for (size_t i = 0; i < array_size(items); i++)
        list_append(&head, &items[i].link);
    list_foreach_safe(it, &head) {
        if (list_entry(it, struct item, link)->value % 2)
            list_remove(it);
    }
    expect_values(&head, (int[]){2, 4}, 2);
}

/* pace */

/* Sends as soon as the pace allows. Return: how long it waited. */
static int64_t waits(struct pace *p, int64_t now)
{
    int64_t when;

    pace_add(p, now);
    when = pace_when(p, now);
    pace_sent(p, when);
    return when - now;
}

static void test_pace_of_high_load(void **state)
{
    struct pace p = {0};

    assert_int_equal(waits(&p, 1000), 0);
    assert_int_equal(waits(&p, 1000), PACE_MS);
    assert_int_equal(waits(&p, 1001), PACE_MS);
    assert_int_equal(waits(&p, 1003), 0);
}

/* A chain of steps that take no time: waiting would collect nothing. */
static void test_pace_of_low_load(void **state)
{
    struct pace p = {.few = 3 * PACE_WINDOW_MS};

    for (int64_t now = 1000; now < 1100; now++)
        for (int i = 0; i < 3; i++)
            assert_int_equal(waits(&p, now), 0);
}

/* A high load counts for as long as it lasted in the window before. */
static void test_pace_from_high_to_low_load(void **state)
{
    struct pace p = {.few = 3};

    for (int i = 0; i < 3; i++)
        assert_int_equal(waits(&p, 1000), 0);
    assert_int_equal(waits(&p, 1000), PACE_MS);
    assert_int_equal(waits(&p, 1000 + PACE_WINDOW_MS), 0);
    assert_int_equal(waits(&p, 1000 + PACE_WINDOW_MS), PACE_MS);
    assert_int_equal(waits(&p, 1000 + 2 * PACE_WINDOW_MS), 0);
    assert_int_equal(waits(&p, 1000 + 2 * PACE_WINDOW_MS), 0);
}

/* heap */

#define NODES 200

static void test_heap_equal_times_leave_in_order(void **state)
{
    struct heap h = {0};
    struct heap_node nodes[NODES] = {0};

    assert_null(heap_first(&h));
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(heap_set(&h, &nodes[i], 7), 0);
    assert_int_equal(heap_set(&h, &nodes[0], 7), 0); /* inserted again */
    for (size_t i = 1; i <= NODES; i++) {
        assert_ptr_equal(heap_first(&h), &nodes[i % NODES]);
        heap_remove(&h, heap_first(&h));
    }
    heap_deinit(&h);
}

static void test_heap_remove_is_harmless_outside(void **state)
{
    struct heap h = {0};
    struct heap_node a = {0};
    struct heap_node b = {0};

    heap_remove(&h, &a);
    assert_int_equal(heap_set(&h, &b, INT64_MIN), 0);
    heap_remove(&h, &a);
    assert_false(heap_holds(&a));
    assert_true(heap_holds(&b));
    heap_remove(&h, &b);
    heap_remove(&h, &b);
    assert_false(heap_holds(&b));
    heap_deinit(&h);
    assert_null(h.nodes);
}

/* The reference: every node with its time and the number of the call that inserted it. */
struct shadow {
    bool in;
    int64_t when;
    int call;
};

static size_t shadow_first(const struct shadow *s)
{
    size_t first = NODES;

    for (size_t i = 0; i < NODES; i++) {
        if (!s[i].in)
            continue;
        if (first == NODES || s[i].when < s[first].when ||
            (s[i].when == s[first].when && s[i].call < s[first].call))
            first = i;
    }
    return first;
}

static void test_heap_agrees_with_reference(void **state)
{
    struct heap h = {0};
    struct heap_node nodes[NODES] = {0};
    struct shadow shadow[NODES] = {0};
    struct rng r;

    rng_seed(&r, 17);
    for (int call = 0; call < 20000; call++) {
        size_t i = rng_below(&r, NODES);
        /* Phases of growth and of shrinking; few different times, so that many are equal. */
        bool fill = rng_below(&r, 10) < (call / 2000 % 2 ? 3 : 7);
        int64_t when = (int64_t)rng_below(&r, 40) - 20;
        size_t first;

        if (fill)
            assert_int_equal(heap_set(&h, &nodes[i], when), 0);
        else
            heap_remove(&h, &nodes[i]);
        shadow[i] = (struct shadow){.in = fill, .when = when, .call = call};

        first = shadow_first(shadow);
        assert_ptr_equal(heap_first(&h), first == NODES ? NULL : &nodes[first]);
        assert_int_equal(heap_holds(&nodes[i]), fill);
    }
    for (size_t first; (first = shadow_first(shadow)) < NODES; shadow[first].in = false) {
        assert_ptr_equal(heap_first(&h), &nodes[first]);
        heap_remove(&h, &nodes[first]);
    }
    heap_deinit(&h);
}

/* bytes and text */

static void test_bytes_compare_and_copy(void **state)
{
    char *copy = bytes_dup(bytes_of("a\0b", 3));

    assert_memory_equal(copy, "a\0b", 4);
    free(copy);
    copy = bytes_dup(BYTES_EMPTY);
    assert_string_equal(copy, "");
    free(copy);

    assert_true(bytes_equal(BYTES_EMPTY, bytes_str("")));
    assert_true(bytes_equal(bytes_str(NULL), BYTES_EMPTY));
    assert_true(bytes_is(bytes_str("RECORDED"), "RECORDED"));
    assert_false(bytes_is(bytes_str("RECORDED"), "RECORD"));
    assert_false(bytes_is(bytes_of("STALE\0", 6), "STALE"));
    assert_false(bytes_is(BYTES_EMPTY, "STALE"));
}

static void test_bytes_to_i64(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"007", 7},
        {"-1", -1},
        {"9007199254740993", 9007199254740993},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1.0",
        "1e3",
        "0x10",
        "--1",
        "1-1",
        "12a",
        "inf",
        "/",
        ":",
        "9223372036854775808",
        "-9223372036854775809",
        "92233720368547758070",
        "-99999999999999999999999",
    };
    int64_t value;

    for (size_t i = 0; i < array_size(good); i++) {
        assert_true(bytes_to_i64(bytes_str(good[i].text), &value));
        assert_true(value == good[i].value);
    }
    value = 42;
    for (size_t i = 0; i < array_size(bad); i++) {
        assert_false(bytes_to_i64(bytes_str(bad[i]), &value));
        assert_int_equal(value, 42);
    }
    assert_false(bytes_to_i64(BYTES_EMPTY, &value));
    assert_false(bytes_to_i64(bytes_of("1\0", 2), &value));
    assert_true(bytes_to_i64(bytes_of("123", 2), &value));
    assert_int_equal(value, 12);
}

static void test_buf_grows(void **state)
{
    CLEANUP(buf_deinit) struct buf b = {0};

    assert_string_equal(buf_str(&b), "");
    buf_puts(&b, "");
    buf_append(&b, NULL, 0);
    assert_int_equal(b.len, 0);
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    buf_putc(&b, '!');
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4 + 1);
    assert_int_equal(strlen(buf_str(&b)), b.len);
    assert_memory_equal(b.data, "0,1,2,", 6);
    assert_string_equal(buf_str(&b) + b.len - 5, "999,!");

    buf_clear(&b);
    buf_append(&b, "a\0b", 3);
    assert_true(bytes_equal(buf_bytes(&b), bytes_of("a\0b", 3)));
    assert_int_equal(buf_str(&b)[3], '\0');
}

static void test_buf_fits_exactly(void **state)
{
    for (size_t len = 0; len < 300; len++) {
        CLEANUP(buf_deinit) struct buf b = {0};
        uint8_t *to = buf_reserve(&b, len);

        assert_non_null(to);
        memset(to, 'x', len);
        b.len += len;
        assert_int_equal(strlen(buf_str(&b)), len);
        buf_printf(&b, "%s", "tail");
        assert_string_equal(buf_str(&b) + len, "tail");
    }
}

/* A format that cannot be carried out. */
static void test_buf_fails_to_format(void **state)
{
    CLEANUP(buf_deinit) struct buf b = {0};

    buf_printf(&b, "%lc", (wint_t)0x7fffffff);
    assert_true(b.failed);
    assert_int_equal(b.len, 0);
}

static void test_buf_stays_failed(void **state)
{
    CLEANUP(buf_deinit) struct buf b = {0};

    buf_puts(&b, "before");
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    buf_puts(&b, "after");
    buf_printf(&b, "%d", 1);
    buf_json(&b, "x", 1);
    assert_string_equal(buf_str(&b), "");
    assert_int_equal(b.len, 6);
    buf_clear(&b);
    buf_puts(&b, "again");
    assert_string_equal(buf_str(&b), "again");
}

static void test_buf_hands_over(void **state)
{
    CLEANUP(free) char *mine = bytes_dup(bytes_str("mine"));
    char *theirs = take(mine);

    assert_null(mine);
    assert_string_equal(theirs, "mine");
    free(theirs);
}

static void expect_json(const char *s, size_t len, const char *json)
{
    CLEANUP(buf_deinit) struct buf b = {0};

    buf_json(&b, s, len);
    assert_string_equal(buf_str(&b), json);
}

static void expect_shown(const char *s, const char *json)
{
    CLEANUP(buf_deinit) struct buf plain = {0};
    CLEANUP(buf_deinit) struct buf b = {0};

    buf_json_shown(&b, s, strlen(s));
    assert_string_equal(buf_str(&b), json);
    buf_puts(&plain, "\"");
    buf_puts(&plain, s);
    buf_puts(&plain, "\"");
    expect_json(s, strlen(s), buf_str(&plain)); /* digests are made of it, so it must not change */
}

/* Characters that change the direction of a line, or that are invisible, are escaped. */
static void test_json_for_people(void **state)
{
    expect_shown("\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf", "\"\\u202e\\u2066\\ufeff\"");
    expect_shown("\xf3\xa0\x81\x81\xe3\x85\xa4", "\"\\udb40\\udc41\\u3164\"");
    expect_shown("\xe2\x80\x8a\xe2\x80\xaf\xe2\x81\xb0",
                 "\"\xe2\x80\x8a\xe2\x80\xaf\xe2\x81\xb0\""); /* their neighbours stay */
}

static void test_json_escapes(void **state)
{
    expect_json(NULL, 0, "\"\"");
    expect_json("plain", 5, "\"plain\"");
    expect_json("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
    expect_json("\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"");
    expect_json("a\0\x01\x1f\x7f", 5, "\"a\\u0000\\u0001\\u001f\\u007f\"");
    expect_json("\xc2\x80\xc2\x9f\xc2\xa0", 6, "\"\\u0080\\u009f\xc2\xa0\"");
    /* The first and last character of each length of UTF-8, and around the gap of the surrogates.
     * */
    expect_json("\xc2\xa0\xdf\xbf", 4, "\"\xc2\xa0\xdf\xbf\"");
    expect_json("\xe0\xa0\x80\xed\x9f\xbf", 6, "\"\xe0\xa0\x80\xed\x9f\xbf\"");
    expect_json("\xee\x80\x80\xef\xbf\xbf", 6, "\"\xee\x80\x80\xef\xbf\xbf\"");
    expect_json("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8, "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"");
}

static void test_json_replaces_what_is_not_utf8(void **state)
{
    expect_json("a\x80z", 3, "\"a" BAD "z\"");                     /* a stray continuation byte */
    expect_json("\xc0\xaf", 2, "\"" BAD BAD "\"");                 /* overlong */
    expect_json("\xe0\x9f\xbf", 3, "\"" BAD BAD BAD "\"");         /* overlong */
    expect_json("\xf0\x8f\xbf\xbf", 4, "\"" BAD BAD BAD BAD "\""); /* overlong */
    expect_json("\xed\xa0\x80", 3, "\"" BAD BAD BAD "\"");         /* a surrogate */
    expect_json("\xf4\x90\x80\x80", 4, "\"" BAD BAD BAD BAD "\""); /* beyond U+10FFFF */
    expect_json("\xfe\xff", 2, "\"" BAD BAD "\"");                 /* never in UTF-8 */
    expect_json("\xe2\x82", 2, "\"" BAD BAD "\"");                 /* cut off at the end */
    expect_json("\xc3(\xe2\x82(", 5, "\"" BAD "(" BAD BAD "(\"");  /* cut off within */
    expect_json("\xf0\x9f\x98\x80\xf0", 5, "\"\xf0\x9f\x98\x80" BAD "\""); /* whole, then cut off */
}

/* Whatever goes in, a strict UTF-8 parser accepts the output. */
static void test_json_is_always_readable(void **state)
{
    struct rng r;

    rng_seed(&r, 1);
    for (int round = 0; round < 5000; round++) {
        CLEANUP(buf_deinit) struct buf b = {0};
        char s[16];
        size_t len = rng_below(&r, sizeof(s) + 1);
        json_t *parsed;

        for (size_t i = 0; i < len; i++)
            s[i] = (char)(rng_below(&r, 2) ? rng_next(&r) : 0xe0 + rng_below(&r, 0x20));
        buf_json(&b, s, len);
        assert_false(b.failed);
        parsed = json_loadb((char *)b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(parsed);
        json_decref(parsed);
    }
}

/* problems */

static void test_problem_is_cut_and_clean(void **state)
{
    struct problem p;
    char lengthy[1000];

    problem_set(NULL, "field", "nobody listens");
    problem_set(&p, "steps[3].name", "must have 1 to %d bytes", 128);
    assert_string_equal(p.field, "steps[3].name");
    assert_string_equal(p.reason, "must have 1 to 128 bytes");

    problem_set(&p, "", "unknown step '%s'", "a\nb\xff\xc3\xa9");
    assert_string_equal(p.field, "");
    assert_string_equal(p.reason, "unknown step 'a?b?\xc3\xa9'");
    problem_set(&p, "", "%s", "a\x7f\xc2\x9b\xc2\xa0");
    assert_string_equal(p.reason, "a???\xc2\xa0"); /* control characters of a terminal */

    for (size_t i = 0; i + 1 < sizeof(lengthy); i++)
        lengthy[i] = i % 2 ? '\xa9' : '\xc3';
    lengthy[sizeof(lengthy) - 1] = '\0';
    problem_set(&p, lengthy, "%s", lengthy);
    assert_int_equal(strlen(p.field), sizeof(p.field) - 1);
    assert_string_equal(p.field + sizeof(p.field) - 4, "\xc3\xa9?"); /* the incomplete character */
    assert_string_equal(p.reason + sizeof(p.reason) - 4, "\xc3\xa9?");
}

/* ids */

static void test_names(void **state)
{
    char name[ID_NAME_MAX + 1];

    memset(name, 'n', sizeof(name));
    assert_true(id_name_valid(name, ID_NAME_MAX));
    assert_false(id_name_valid(name, ID_NAME_MAX + 1));
    assert_false(id_name_valid(name, 0));
    assert_false(id_name_valid(NULL, 0));
    for (int c = 0; c < 256; c++) {
        bool good = c && strchr("abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789._-",
                                c);

        name[1] = (char)c;
        assert_int_equal(id_name_valid(name, 3), good);
    }
}

static void expect_digest(struct bytes data, const char *digest)
{
    char out[ID_DIGEST_LEN + 1];

    memset(out, 'x', sizeof(out));
    id_digest(data, out);
    assert_string_equal(out, digest);
}

/* FIPS 180-2, appendix B, cut to 128 bits. */
static void test_digest_vectors(void **state)
{
    static uint8_t million[1000000];

    memset(million, 'a', sizeof(million));
    expect_digest(BYTES_EMPTY, "e3b0c44298fc1c149afbf4c8996fb924");
    expect_digest(bytes_str("abc"), "ba7816bf8f01cfea414140de5dae2223");
    expect_digest(bytes_str("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "248d6a61d20638b8e5c026930c3e6039");
    expect_digest(bytes_of(million, sizeof(million)), "cdc76e5c9914fb9281a1c7e284d73e67");
}

static void test_token(void **state)
{
    char out[ID_TOKEN_LEN + 1];

    id_token(0x0123456789abcdef, out);
    assert_string_equal(out, "0123456789abcdef");
    id_token(0, out);
    assert_string_equal(out, "0000000000000000");
    id_token(UINT64_MAX, out);
    assert_string_equal(out, "ffffffffffffffff");
}

static void test_short(void **state)
{
    char out[ID_SHORT_LEN + 1];

    id_short(bytes_str("abc"), out); /* FIPS 180-2 */
    assert_string_equal(out, "a9993e36");
    id_short(BYTES_EMPTY, out);
    assert_string_equal(out, "da39a3ee");
}

static void test_nonces(void **state)
{
    /* SHA-256 of the key and the number, computed by another program */
    static const char *const first[] = {"1adcddb07618ec0c807361203a44b4a4",
                                        "0b04f920e3c3f4a0033d15b9a7d7a9bf"};
    struct nonces n, other;
    char out[NONCE_LEN + 1], theirs[NONCE_LEN + 1];

    nonces_seed(&n, 17);
    for (size_t i = 0; i < array_size(first); i++) {
        nonces_next(&n, out);
        assert_string_equal(out, first[i]);
    }
    assert_int_equal(nonces_seed_system(&n), 0);
    assert_int_equal(nonces_seed_system(&other), 0);
    nonces_next(&n, out);
    nonces_next(&other, theirs);
    assert_string_not_equal(out, theirs);
}

/* Stored jobs are found by these numbers: if this test fails, correct the code, not the test. */
static void test_partitions_never_change(void **state)
{
    assert_int_equal(id_partition("", UINT32_MAX), 0x811c9dc5);
    assert_int_equal(id_partition("a", UINT32_MAX), 0xe40c292c);
    assert_int_equal(id_partition("foobar", UINT32_MAX), 0xbf9cf968);
    assert_int_equal(id_partition("order-17", 1), 0);
    assert_int_equal(id_partition("order-17", 16), 14);
    assert_int_equal(id_partition("order-17", 64), 46);
    assert_int_equal(id_partition("order-17", 1000), 102);
    assert_int_equal(id_partition("job.1", 16), 5);
}

static void test_partitions_are_even(void **state)
{
    int jobs[16] = {0};
    char id[32];

    for (int i = 0; i < 16000; i++) {
        snprintf(id, sizeof(id), "order-%d", i);
        jobs[id_partition(id, 16)]++;
    }
    for (size_t i = 0; i < array_size(jobs); i++)
        assert_in_range(jobs[i], 900, 1100);
}

/* random numbers */

static void test_rng_vectors(void **state)
{
    /* From the authors' C code: SplitMix64 of 0; xoshiro256** from the state 1, 2, 3, 4. */
    static const uint64_t seeded[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f,
                                      0xf88bb8a8724c81ec};
    static const uint64_t drawn[] = {
        11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600,
    };
    struct rng r;

    rng_seed(&r, 0);
    assert_memory_equal(r.s, seeded, sizeof(seeded));
    r = (struct rng){.s = {1, 2, 3, 4}};
    for (size_t i = 0; i < array_size(drawn); i++)
        assert_true(rng_next(&r) == drawn[i]);
}

static void test_rng_repeats_by_seed(void **state)
{
    struct rng a;
    struct rng b;
    struct rng c;

    rng_seed(&a, 99);
    rng_seed(&b, 99);
    rng_seed(&c, 100);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_next(&a);

        assert_true(x == rng_next(&b));
        assert_true(x != rng_next(&c));
    }
    assert_int_equal(rng_seed_system(&a), 0);
    assert_int_equal(rng_seed_system(&b), 0);
    assert_memory_not_equal(a.s, b.s, sizeof(a.s));
}

static void test_rng_below_is_even(void **state)
{
    struct rng r;
    int seen[6] = {0};
    int high = 0;

    rng_seed(&r, 5);
    for (int i = 0; i < 60000; i++)
        seen[rng_below(&r, array_size(seen))]++;
    for (size_t i = 0; i < array_size(seen); i++)
        assert_in_range(seen[i], 9600, 10400);
    for (int i = 0; i < 100; i++)
        assert_true(rng_below(&r, 1) == 0);
    /* Without the rejection the lower third of this range would come up twice as often. */
    for (int i = 0; i < 30000; i++)
        high += rng_below(&r, 3ull << 62) >= 1ull << 62;
    assert_in_range(high, 19600, 20400);
}

/* clocks */

static void test_clock_iso_vectors(void **state)
{
    static const struct {
        int64_t ms;
        const char *iso;
    } vectors[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000, "1969-12-31T23:59:59.000Z"},
        {-1001, "1969-12-31T23:59:58.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1709251199999, "2024-02-29T23:59:59.999Z"},
        {1709251200000, "2024-03-01T00:00:00.000Z"},
        {4107542399999, "2100-02-28T23:59:59.999Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {1769860990123, "2026-01-31T12:03:10.123Z"},
        {-62167219200000, "0000-01-01T00:00:00.000Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
    };
    char out[CLOCK_ISO_LEN + 1];

    for (size_t i = 0; i < array_size(vectors); i++) {
        clock_iso(vectors[i].ms, out);
        assert_string_equal(out, vectors[i].iso);
    }
}

static void test_clock_iso_ignores_the_zone(void **state)
{
    char out[CLOCK_ISO_LEN + 1];

    setenv("TZ", "Asia/Kathmandu", 1);
    tzset();
    clock_iso(0, out);
    unsetenv("TZ");
    tzset();
    assert_string_equal(out, "1970-01-01T00:00:00.000Z");
}

static void test_clocks_advance(void **state)
{
    int64_t monotonic = clock_monotonic_ms();
    int64_t before = (int64_t)time(NULL) * 1000;
    int64_t unix_ms = clock_unix_ms();

    assert_true(clock_monotonic_ms() >= monotonic);
    /* time() reads a coarser clock, up to a tick behind. */
    assert_true(unix_ms >= before);
    assert_true(unix_ms < ((int64_t)time(NULL) + 2) * 1000);
}

/* log */

struct log_pipe {
    int fds[2];
    char text[65536];
};

static int log_open(void **state)
{
    struct log_pipe *p = malloc(sizeof(*p));

    if (!p || pipe2(p->fds, O_NONBLOCK | O_CLOEXEC) < 0)
        return -1;
    *state = p;
    return 0;
}

static int log_close(void **state)
{
    struct log_pipe *p = *state;

    log_init(&(struct log_config){.service = "test", .level = LOG_INFO, .fd = STDERR_FILENO});
    close(p->fds[0]);
    close(p->fds[1]);
    free(p);
    return 0;
}

static void log_to(struct log_pipe *p, enum log_format format)
{
    log_init(&(struct log_config){
        .service = "scheduler",
        .instance = "node \"1\"",
        .level = LOG_INFO,
        .format = format,
        .fd = p->fds[1],
    });
}

/* Everything that was logged since the last call. */
static const char *log_read(struct log_pipe *p)
{
    ssize_t n = read(p->fds[0], p->text, sizeof(p->text) - 1);

    if (n < 0)
        assert_int_equal(errno, EAGAIN);
    p->text[n < 0 ? 0 : n] = '\0';
    return p->text;
}

/* The one line that was logged, parsed; the caller owns the reference. */
static json_t *log_read_json(struct log_pipe *p)
{
    const char *line = log_read(p);
    json_t *parsed = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(parsed);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    return parsed;
}

static void expect_text(const json_t *object, const char *key, const char *value)
{
    const char *s = json_string_value(json_object_get(object, key));

    assert_non_null(s);
    assert_string_equal(s, value);
}

static void test_log_text(void **state)
{
    struct log_pipe *p = *state;
    const char *line;

    log_to(p, LOG_TEXT);
    log_info("step_dispatched", LOG_S("job", "order-17"), LOG_I("attempt", 3), LOG_S("step", NULL),
             LOG_I("least", INT64_MIN));
    line = log_read(p);
    assert_int_equal(line[10], 'T');
    assert_int_equal(line[CLOCK_ISO_LEN - 1], 'Z');
    assert_string_equal(line + CLOCK_ISO_LEN, " info scheduler step_dispatched job=order-17"
                                              " attempt=3 least=-9223372036854775808\n");
    log_error("plain");
    assert_string_equal(log_read(p) + CLOCK_ISO_LEN, " error scheduler plain\n");
}

static void test_log_text_quotes(void **state)
{
    struct log_pipe *p = *state;

    log_to(p, LOG_TEXT);
    log_warn("quoted", LOG_S("a", ""), LOG_S("b", "two words"), LOG_S("c", "x=\"y\"\n"),
             LOG_S("d", "caf\xc3\xa9\xff"), LOG_S("e", "a\\b"), LOG_S("f", "/tmp/x:1,[2]"));
    assert_string_equal(log_read(p) + CLOCK_ISO_LEN,
                        " warn scheduler quoted a=\"\" b=\"two words\" c=\"x=\\\"y\\\"\\n\""
                        " d=\"caf\xc3\xa9" BAD "\" e=\"a\\\\b\" f=/tmp/x:1,[2]\n");
}

static void test_log_json(void **state)
{
    struct log_pipe *p = *state;
    json_t *line;

    log_to(p, LOG_JSON);
    log_warn("step_dispatched", LOG_S("job", "order-17"), LOG_S("step", "charge \"it\"\n\xff"),
             LOG_I("attempt", 3), LOG_S("error", NULL), LOG_I("most", INT64_MAX));
    line = log_read_json(p);
    assert_int_equal(json_object_size(line), 9);
    assert_int_equal(strlen(json_string_value(json_object_get(line, "timestamp"))), CLOCK_ISO_LEN);
    expect_text(line, "severity_text", "WARN");
    expect_text(line, "service.name", "drover-scheduler");
    expect_text(line, "service.instance.id", "node \"1\"");
    expect_text(line, "event.name", "step_dispatched");
    expect_text(line, "drover.job.id", "order-17");
    expect_text(line, "drover.step.id", "charge \"it\"\n" BAD);
    assert_int_equal(json_integer_value(json_object_get(line, "drover.attempt")), 3);
    assert_true(json_integer_value(json_object_get(line, "drover.most")) == INT64_MAX);
    json_decref(line);
}

static void test_log_level(void **state)
{
    struct log_pipe *p = *state;
    enum log_level level = LOG_WARN;
    int asked = 0;

    log_to(p, LOG_TEXT);
    log_debug("below", LOG_I("asked", ++asked));
    assert_string_equal(log_read(p), "");
    assert_int_equal(asked, 0);
    log_set_level(LOG_DEBUG);
    log_debug("level", LOG_I("asked", ++asked));
    assert_string_equal(log_read(p) + CLOCK_ISO_LEN, " debug scheduler level asked=1\n");
    log_set_level(LOG_ERROR);
    log_warn("below");
    assert_string_equal(log_read(p), "");

    assert_int_equal(log_level_parse("verbose", &level), 1);
    assert_int_equal(log_level_parse("", &level), 1);
    assert_int_equal(level, LOG_WARN);
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("error", &level), 0);
    assert_int_equal(level, LOG_ERROR);
}

/* Each second lets a number of lines through; the next one says how many were left out. */
static void test_log_often(void **state)
{
    struct log_pipe *p = *state;
    struct log_bound bound = {.second = -1, .lines = LOG_OFTEN_MAX + 50};
    int64_t seconds = clock_monotonic_ms() / 1000;
    int64_t admitted = 0;

    log_to(p, LOG_TEXT);
    assert_true(log_may_write(&bound, "knock"));
    assert_string_equal(log_read(p) + CLOCK_ISO_LEN,
                        " warn scheduler log_left_out event=knock lines=50\n");
    while (log_may_write(&bound, "knock"))
        admitted++;
    seconds = clock_monotonic_ms() / 1000 - seconds + 1;
    assert_in_range(admitted, LOG_OFTEN_MAX - 1, seconds * LOG_OFTEN_MAX);
    assert_false(log_may_write(&(struct log_bound){.second = bound.second, .lines = LOG_OFTEN_MAX},
                               "knock") &&
                 clock_monotonic_ms() / 1000 == bound.second);
}

static void test_log_cuts_long_lines(void **state)
{
    struct log_pipe *p = *state;
    char words[5000];
    char control[5000];
    const char *text;
    json_t *line;

    memset(words, 'w', sizeof(words));
    memset(control, '\x01', sizeof(control));
    words[sizeof(words) - 1] = control[sizeof(control) - 1] = '\0';

    log_to(p, LOG_TEXT);
    log_info("long", LOG_S("a", words), LOG_S("b", "after"));
    text = log_read(p);
    assert_int_equal(strlen(text), CLOCK_ISO_LEN + strlen(" info scheduler long a=") + 1024 +
                                       strlen(" b=after truncated=true\n"));
    assert_non_null(strstr(text, "w b=after truncated=true\n"));

    log_to(p, LOG_JSON);
    log_info("long", LOG_S("a", words), LOG_S("b", words), LOG_S("c", words), LOG_S("d", control),
             LOG_I("e", 5));
    assert_true(strlen(log_read(p)) <= 4096);
    line = json_loads(p->text, 0, NULL);
    assert_int_equal(strlen(json_string_value(json_object_get(line, "drover.c"))), 1024);
    assert_null(json_object_get(line, "drover.d"));
    assert_int_equal(json_integer_value(json_object_get(line, "drover.e")), 5);
    assert_true(json_is_true(json_object_get(line, "drover.truncated")));
    json_decref(line);

    words[1024] = '\0';
    log_info("fits", LOG_S("a", words));
    line = log_read_json(p);
    assert_null(json_object_get(line, "drover.truncated"));
    json_decref(line);
}

static void test_log_drops_what_cannot_be_written(void **state)
{
    struct log_pipe *p = *state;
    char full[65536] = {0};

    log_to(p, LOG_TEXT);
    assert_int_equal(write(p->fds[1], full, sizeof(full)), sizeof(full));
    log_info("dropped");
    assert_int_equal(read(p->fds[0], full, sizeof(full)), sizeof(full));
    assert_string_equal(log_read(p), "");
    log_info("heard");
    assert_non_null(strstr(log_read(p), "heard"));
}

static void *log_many(void *name)
{
    for (int i = 0; i < 50; i++)
        log_info("line", LOG_S("thread", name), LOG_I("i", i));
    return NULL;
}

static void test_log_lines_of_threads_stay_whole(void **state)
{
    struct log_pipe *p = *state;
    char names[4][2] = {"a", "b", "c", "d"};
    int next[4] = {0};
    pthread_t threads[4];

    log_to(p, LOG_JSON);
    for (size_t i = 0; i < array_size(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
    for (size_t i = 0; i < array_size(threads); i++)
        pthread_join(threads[i], NULL);

    log_read(p);
    for (char *line = strtok(p->text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *parsed = json_loads(line, 0, NULL);
        const char *thread = json_string_value(json_object_get(parsed, "drover.thread"));

        assert_non_null(thread);
        assert_int_equal(json_integer_value(json_object_get(parsed, "drover.i")),
                         next[thread[0] - 'a']++);
        json_decref(parsed);
    }
    for (size_t i = 0; i < array_size(next); i++)
        assert_int_equal(next[i], 50);
}

#define log_unit_test(f) cmocka_unit_test_setup_teardown(f, log_open, log_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_keeps_order),
        cmocka_unit_test(test_list_unlinks_while_walking),
        cmocka_unit_test(test_pace_of_high_load),
        cmocka_unit_test(test_pace_of_low_load),
        cmocka_unit_test(test_pace_from_high_to_low_load),
        cmocka_unit_test(test_heap_equal_times_leave_in_order),
        cmocka_unit_test(test_heap_remove_is_harmless_outside),
        cmocka_unit_test(test_heap_agrees_with_reference),
        cmocka_unit_test(test_bytes_compare_and_copy),
        cmocka_unit_test(test_bytes_to_i64),
        cmocka_unit_test(test_buf_grows),
        cmocka_unit_test(test_buf_fits_exactly),
        cmocka_unit_test(test_buf_stays_failed),
        cmocka_unit_test(test_buf_fails_to_format),
        cmocka_unit_test(test_buf_hands_over),
        cmocka_unit_test(test_json_for_people),
        cmocka_unit_test(test_json_escapes),
        cmocka_unit_test(test_json_replaces_what_is_not_utf8),
        cmocka_unit_test(test_json_is_always_readable),
        cmocka_unit_test(test_problem_is_cut_and_clean),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_digest_vectors),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_partitions_never_change),
        cmocka_unit_test(test_partitions_are_even),
        cmocka_unit_test(test_rng_vectors),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_nonces),
        cmocka_unit_test(test_rng_repeats_by_seed),
        cmocka_unit_test(test_rng_below_is_even),
        cmocka_unit_test(test_clock_iso_vectors),
        cmocka_unit_test(test_clock_iso_ignores_the_zone),
        cmocka_unit_test(test_clocks_advance),
        log_unit_test(test_log_text),
        log_unit_test(test_log_text_quotes),
        log_unit_test(test_log_json),
        log_unit_test(test_log_level),
        log_unit_test(test_log_often),
        log_unit_test(test_log_cuts_long_lines),
        log_unit_test(test_log_drops_what_cannot_be_written),
        log_unit_test(test_log_lines_of_threads_stay_whole),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
