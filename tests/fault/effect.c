// SPDX-License-Identifier: Apache-2.0
/*
 * effect DIRECTORY: a handler that leaves evidence, for the handler exec with stdin = "request"
 *
 * DIRECTORY/effects.log, where every line is one write with O_APPEND, says what it did and when. A
 * line is "<unix ms> WORD <key> <attempt> do|undo <pid> <detail>":
 *
 *     BEGIN    the run begins; detail: the ms that it has
 *     EFFECT   the key's work is done for the first time; detail: the key
 *     UNDO     the work was done, and is taken back; detail: the forward key
 *     NOTHING  there was nothing to take back, and never will be; detail: the forward key
 *     AGAIN    the work was done, or taken back, before; detail: the key
 *     REFUSED  the work was taken back, and is never done again; detail: the key
 *     END      the run ends; detail: the exit code
 *
 * DIRECTORY/state/<key> has the state of a key, "D"one or "U"ndone, and the number of its runs. The
 * handler does what PROTOCOL.md asks of agents: a key is done once, and not at all after it was
 * taken back.
 *
 * The arguments of the step, JSON, control the run. All are optional:
 *
 *     {"ms": 20,        how long a run takes
 *      "fail": 2,       runs of a key that fail before one does it
 *      "hang": 1,       runs after those that do not end
 *      "deaf": true,    not even by SIGTERM
 *      "half": 1,       runs after those that do it, and fail
 *      "deny": true}    it fails for good, and has done nothing
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define EXIT_DATA_ERROR 65
#define EXIT_TRANSIENT 75
#define EXIT_BROKEN 70 /* this program is wrong, or its arguments are */
#define HANG_S 900     /* longer than any lease */

static const char *directory, *key, *attempt, *direction;
static pid_t agent;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

static void give_up(const char *what)
{
    perror(what);
    exit(EXIT_BROKEN);
}

static void say(const char *what, const char *detail)
{
    char path[4096], line[1024];
    int fd, n;

    snprintf(path, sizeof(path), "%s/effects.log", directory);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    n = snprintf(line, sizeof(line), "%" PRId64 " %s %s %s %s %ld %s\n", now_ms(), what, key,
                 attempt, direction, (long)getpid(), detail);
    if (fd < 0 || n >= (int)sizeof(line) || write(fd, line, (size_t)n) != n)
        give_up(path);
    close(fd);
}

/* ---- the state of a key ---- */

struct state {
    int fd; /* locked: only one run at a time reads and writes it */
    char fate;
    int64_t runs;
};

static struct state state_open(const char *of)
{
    struct state s = {.fate = '-'};
    char path[4096], text[64] = "";
    int n = snprintf(path, sizeof(path), "%s/state/", directory);

    for (const char *c = of; *c && n < (int)sizeof(path) - 1; c++)
        path[n++] = *c == '/' ? '@' : *c;
    path[n] = 0;
    s.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (s.fd < 0 || flock(s.fd, LOCK_EX) < 0 || pread(s.fd, text, sizeof(text) - 1, 0) < 0)
        give_up(path);
    if (*text)
        sscanf(text, "%c %" SCNd64, &s.fate, &s.runs);
    return s;
}

static void state_write(const struct state *s)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%c %20" PRId64 "\n", s->fate, s->runs);

    if (pwrite(s->fd, text, (size_t)n, 0) != n)
        give_up("state");
}

/* The number of this run of the key, counted from 1. */
static int64_t count_run(void)
{
    struct state s = state_open(key);

    s.runs++;
    state_write(&s);
    close(s.fd);
    return s.runs;
}

/* ---- the work ---- */

static int finish(int code)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", code);
    say("END", text);
    return code;
}

/* The state is written first: a run that is killed in between leaves an AGAIN without its EFFECT.
 * */

static int do_it(void)
{
    struct state s = state_open(key);
    bool refused = s.fate == 'U', first = s.fate == '-';

    if (first)
        s.fate = 'D';
    state_write(&s);
    say(first ? "EFFECT" : refused ? "REFUSED" : "AGAIN", key);
    close(s.fd);
    return refused ? EXIT_DATA_ERROR : 0;
}

static int undo_it(const char *forward_key)
{
    struct state s = state_open(forward_key);
    const char *what = s.fate == 'D' ? "UNDO" : s.fate == 'U' ? "AGAIN" : "NOTHING";

    s.fate = 'U';
    state_write(&s);
    say(what, forward_key);
    close(s.fd);
    return 0;
}

static int64_t integer(const json_t *arguments, const char *name)
{
    return json_integer_value(json_object_get(arguments, name));
}

/* Hangs until it is killed, or for HANG_S if its agent was killed. It writes no END then. */
static _Noreturn void hang_on(void)
{
    for (int i = 0; i < HANG_S && getppid() == agent; i++)
        sleep_ms(1000);
    _exit(EXIT_BROKEN);
}

static int run(const json_t *arguments, const char *forward_key)
{
    int64_t n = count_run();
    int64_t fail = integer(arguments, "fail"), hang = fail + integer(arguments, "hang");
    int64_t half = hang + integer(arguments, "half");
    int code;

    if (json_is_true(json_object_get(arguments, "deaf")))
        signal(SIGTERM, SIG_IGN);
    sleep_ms(integer(arguments, "ms"));
    if (json_is_true(json_object_get(arguments, "deny")))
        return EXIT_DATA_ERROR;
    if (n <= fail)
        return EXIT_TRANSIENT;
    if (n <= hang)
        hang_on();
    code = strcmp(direction, "undo") == 0 ? undo_it(forward_key) : do_it();
    return code == 0 && n <= half ? EXIT_TRANSIENT : code;
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

int main(int argc, char **argv)
{
    agent = getppid();
    json_t *request = json_loadf(stdin, 0, NULL);
    const json_t *arguments = json_object_get(json_object_get(request, "arguments"), "json");
    const char *forward_key = json_string_value(json_object_get(request, "forwardKey"));
    int code;

    if (argc != 2 || !request)
        return EXIT_BROKEN;
    directory = argv[1];
    key = environment("DROVER_IDEMPOTENCY_KEY");
    attempt = environment("DROVER_ATTEMPT");
    direction = environment("DROVER_DIRECTION");
    say("BEGIN", environment("DROVER_DEADLINE_MS"));
    code = finish(run(arguments, forward_key ? forward_key : ""));
    if (code == 0)
        puts(key);
    json_decref(request);
    return code;
}
