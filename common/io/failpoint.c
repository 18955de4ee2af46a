// SPDX-License-Identifier: Apache-2.0
/*
 * Failpoints: the tables of points and tasks, their grammar, and performing a task
 *
 * See io/failpoint.h.
 */
#include "io/failpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "model/wire.h"

#define TERMS_MAX 8
#define POINTS_MAX 128 /* points that are set at a time; there are fewer */
#define TEXT_MAX 128   /* bytes of an argument, and of what a payload must contain */
#define FILE_MAX ((size_t)16 * 1024)
#define PAUSE_LOOK_MS 5

/* ---- the points ---- */

/* The store functions that roles call; tests/lint/failpoints.py compares them with those that
 * common/store/registration.lua registers. */
static const char *const FUNCTIONS[] = {
    "defer_owed",  "define", "drive",   "expire", "forget", "inspect",     "lead",
    "look",        "lost",   "mark",    "record", "renew",  "settle_owed", "steer",
    "step_events", "submit", "suspect", "sweep",  "taken",  "told",        "unsent",
};

/* The kinds of messages that roles publish: see kind_of(). */
static const struct {
    const char *kind;
    const char *what;
} MESSAGES[] = {
    {"request", "a request to an agent"},
    {"reply", "an agent's replies"},
    {"progress", "an agent's progress"},
    {"progress_answer", "the answer to progress"},
    {"control", "a command of the supervisor: Recover or Notify"},
    {"receipt", "the Receipt of a Submit"},
    {"answer", "the answer to a command"},
    {"notice", "an event to a client's queue: of the end of a turn, or of a step"},
    {"event", "an event or alert, to drover.events"},
    {"dead", "a dead letter"},
    {"pulse", "the message by which a process proves that it consumes"},
    {"marker", "the message that a restarted broker has lost, from the supervisor"},
};

static const char *const QUEUES[] = {
    "submit", "replies", "control", "expired", "task", "answers",
};

static const struct {
    const char *name;
    const char *what;
    bool can_return;
} OTHERS[] = {
    {"ack.before", "a delivery is about to be acknowledged; return: it is not", true},
    {"ack.after", "acknowledgements have been written to the broker", false},
    {"run.before", "an agent is about to start a handler", false},
    {"run.after", "a handler has ended, and the agent does not know it yet", false},
    {"exec", "a program is about to be started; return: it cannot be", true},
    {"config.load", "the configuration is about to be read; return: it cannot be", true},
};

static void put_info(struct failpoint_info *out, const char *group, const char *name,
                     const char *when, const char *what)
{
    *out = (struct failpoint_info){0};
    snprintf(out->name, sizeof(out->name), "%s%s%s", group, name, when);
    snprintf(out->what, sizeof(out->what), "%s", what);
}

static void store_info(size_t n, struct failpoint_info *out)
{
    bool after = n % 2;

    put_info(out, "store.", FUNCTIONS[n / 2], after ? ".after" : ".before",
             after ? "the store has answered; return: the answer is lost"
                   : "the store is about to be called; return: it is not, and does not answer");
    out->can_return = true;
}

static void message_info(size_t n, struct failpoint_info *out)
{
    bool after = n % 2;
    char what[sizeof(out->what)];

    snprintf(what, sizeof(what), "%s %s; return: as if the broker had refused it",
             MESSAGES[n / 2].what, after ? "was confirmed or refused" : "is about to be published");
    put_info(out, "publish.", MESSAGES[n / 2].kind, after ? ".after" : ".before", what);
    out->can_return = true;
    out->can_drop = out->can_double = !after;
}

static void queue_info(size_t n, struct failpoint_info *out)
{
    char what[sizeof(out->what)];

    snprintf(what, sizeof(what), "a delivery of %s%s has come; drop: it is never read",
             strcmp(QUEUES[n], "answers") == 0 ? "" : "drover.", QUEUES[n]);
    put_info(out, "delivery.", QUEUES[n], "", what);
    out->can_drop = true;
}

bool failpoint_at(size_t n, struct failpoint_info *out)
{
    if (n < 2 * array_size(FUNCTIONS)) {
        store_info(n, out);
        return true;
    }
    n -= 2 * array_size(FUNCTIONS);
    if (n < 2 * array_size(MESSAGES)) {
        message_info(n, out);
        return true;
    }
    n -= 2 * array_size(MESSAGES);
    if (n < array_size(QUEUES)) {
        queue_info(n, out);
        return true;
    }
    n -= array_size(QUEUES);
    if (n >= array_size(OTHERS))
        return false;
    put_info(out, "", OTHERS[n].name, "", OTHERS[n].what);
    out->can_return = OTHERS[n].can_return;
    return true;
}

static bool find(const char *name, struct failpoint_info *out)
{
    for (size_t n = 0; failpoint_at(n, out); n++) {
        if (strcmp(out->name, name) == 0)
            return true;
    }
    return false;
}

/* ---- the tasks ---- */

enum task {
    TASK_OFF,
    TASK_RETURN,
    TASK_DROP,
    TASK_DOUBLE,
    TASK_SLEEP,
    TASK_DELAY,
    TASK_PAUSE,
    TASK_YIELD,
    TASK_PRINT,
    TASK_CLOCK,
    TASK_PANIC,
    TASK_CRASH,
    TASKS,
};

static const struct {
    const char *word;
    enum argument {
        NONE,
        TIME,
        TEXT
    } argument;
} TASK[TASKS] = {
    [TASK_OFF] = {"off", NONE},     [TASK_RETURN] = {"return", NONE},
    [TASK_DROP] = {"drop", NONE},   [TASK_DOUBLE] = {"double", NONE},
    [TASK_SLEEP] = {"sleep", TIME}, [TASK_DELAY] = {"delay", TIME},
    [TASK_PAUSE] = {"pause", NONE}, [TASK_YIELD] = {"yield", NONE},
    [TASK_PRINT] = {"print", TEXT}, [TASK_CLOCK] = {"clock", TIME},
    [TASK_PANIC] = {"panic", NONE}, [TASK_CRASH] = {"crash", NONE},
};

struct term {
    enum task task;
    double percent;
    uint64_t left; /* how often it is still performed; UINT64_MAX for no limit */
    int64_t ms;
    char text[TEXT_MAX];    /* the argument, as text */
    char payload[TEXT_MAX]; /* the payload must contain this; "" for any */
};

struct point {
    struct failpoint_info info;
    struct term terms[TERMS_MAX];
    size_t n_terms;
};

struct points {
    struct point items[POINTS_MAX];
    size_t n;
};

/* The points that are set in this process. */
static struct {
    const char *file;  /* NULL for none */
    unsigned settings; /* how often the points were set */
    struct points *points;
    struct stat seen; /* the file, as it was when it was read */
    struct rng rng;
} self;

bool failpoint_armed_;

/* ---- the grammar ---- */

/* The position in a specification. */
struct reader {
    const char *at;
    const char *end; /* of the text of one point */
    struct problem *problem;
};

static int complain(struct reader *r, const char *why)
{
    size_t len = (size_t)(r->end - r->at);

    problem_set(r->problem, "failpoints", "%s at \"%.*s\"", why, (int)(len < 60 ? len : 60), r->at);
    return 1;
}

static bool take_text(struct reader *r, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

/* Reads a number and the character @follow after it; reads nothing if they are not there. */
static bool take_number(struct reader *r, char follow, double *out)
{
    char *end;
    double value;

    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return false;
    value = strtod(r->at, &end);
    if (end >= r->end || *end != follow)
        return false;
    *out = value;
    r->at = end + 1;
    return true;
}

/* Reads up to one of the characters of @stop, an arrow, or the end. Return: false if too long. */
static bool take_until(struct reader *r, const char *stop, char out[TEXT_MAX])
{
    size_t n = 0;

    while (r->at + n < r->end && !strchr(stop, r->at[n]) &&
           !(r->at[n] == '-' && r->at + n + 1 < r->end && r->at[n + 1] == '>'))
        n++;
    if (n >= TEXT_MAX)
        return false;
    memcpy(out, r->at, n);
    out[n] = '\0';
    r->at += n;
    return true;
}

static bool read_time(const char *text, int64_t *ms)
{
    static const struct {
        const char *word;
        int64_t ms;
    } units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end;
    long long value = strtoll(text, &end, 10);

    if (end == text || value > INT32_MAX || value < INT32_MIN)
        return false;
    for (size_t i = 0; i < array_size(units); i++) {
        if (strcmp(end, units[i].word) == 0) {
            *ms = value * units[i].ms;
            return true;
        }
    }
    return false;
}

static int read_argument(struct reader *r, struct term *t)
{
    enum argument wanted = TASK[t->task].argument;
    bool given = take_text(r, "(");

    if (given && wanted == NONE)
        return complain(r, "this task has no argument");
    if (!given)
        return wanted == TIME ? complain(r, "a time in parentheses is missing") : 0;
    if (!take_until(r, ")", t->text) || !take_text(r, ")"))
        return complain(r, "no end of the argument");
    if (wanted == TIME && (!read_time(t->text, &t->ms) || (t->ms < 0 && t->task != TASK_CLOCK)))
        return complain(r, "not a time: such as 500, 2s or 10m");
    return 0;
}

static int read_task(struct reader *r, struct term *t)
{
    char word[TEXT_MAX];
    const char *at = r->at;

    if (!take_until(r, "(@ \t", word))
        return complain(r, "no task");
    for (size_t i = 0; i < TASKS; i++) {
        if (strcmp(word, TASK[i].word) == 0) {
            t->task = (enum task)i;
            return read_argument(r, t);
        }
    }
    r->at = at;
    return complain(r, "no such task");
}

static int read_term(struct reader *r, struct term *t)
{
    double times;

    *t = (struct term){.percent = 100, .left = UINT64_MAX};
    take_number(r, '%', &t->percent);
    if (take_number(r, '*', &times))
        t->left = times < (double)UINT64_MAX ? (uint64_t)times : UINT64_MAX;
    if (read_task(r, t))
        return 1;
    if (take_text(r, "@") && (!take_until(r, "", t->payload) || !t->payload[0]))
        return complain(r, "no text");
    return 0;
}

/* Whether a point can do a task. Others are refused, because a test would wait for them in vain. */
static bool can(const struct failpoint_info *info, enum task task)
{
    switch (task) {
    case TASK_RETURN:
        return info->can_return;
    case TASK_DROP:
        return info->can_drop;
    case TASK_DOUBLE:
        return info->can_double;
    default:
        return true;
    }
}

static int read_point(struct reader *r, struct point *p)
{
    char name[TEXT_MAX];

    *p = (struct point){0};
    if (!take_until(r, "= \t", name) || !find(name, &p->info)) {
        problem_set(r->problem, "failpoints", "no failpoint is called \"%.60s\"", name);
        return 1;
    }
    if (!take_text(r, "="))
        return complain(r, "no =");
    do {
        struct term *t = &p->terms[p->n_terms];

        if (p->n_terms++ == TERMS_MAX)
            return complain(r, "too many terms");
        if (read_term(r, t))
            return 1;
        if (!can(&p->info, t->task)) {
            problem_set(r->problem, "failpoints", "%s cannot %s", name, TASK[t->task].word);
            return 1;
        }
    } while (take_text(r, "->"));
    return r->at == r->end ? 0 : complain(r, "not understood");
}

/* Takes the text up to the next semicolon or line end; without space around it, empty if it is a
 * comment. */
static struct reader piece(const char **spec, struct problem *problem)
{
    const char *end = *spec + strcspn(*spec, ";\n");
    struct reader r = {.at = *spec, .end = end, .problem = problem};

    *spec = *end ? end + 1 : end;
    while (r.at < r.end && strchr(" \t\r", *r.at))
        r.at++;
    while (r.end > r.at && strchr(" \t\r", r.end[-1]))
        r.end--;
    if (r.at < r.end && *r.at == '#')
        r.at = r.end;
    return r;
}

static int read_points(const char *spec, struct points *points, struct problem *problem)
{
    while (*spec) {
        struct reader r = piece(&spec, problem);

        if (r.at == r.end)
            continue;
        if (points->n == POINTS_MAX)
            return complain(&r, "too many points");
        if (read_point(&r, &points->items[points->n++]))
            return 1;
    }
    return 0;
}

int failpoint_set(const char *spec, struct problem *problem)
{
    CLEANUP(free) struct points *points = calloc(1, sizeof(*points));

    if (!points)
        abort();
    if (read_points(spec, points, problem))
        return 1;
    if (rng_seed_system(&self.rng) < 0)
        abort();
    free(self.points);
    self.points = take(points);
    self.settings++;
    failpoint_armed_ = true;
    return 0;
}

/* ---- the file ---- */

/* Return: false if there is no file, or it is empty. */
static bool read_file(const char *path, char text[FILE_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, FILE_MAX - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static bool file_changed(void)
{
    struct stat now = {0};
    bool changed;

    if (!self.file)
        return false;
    stat(self.file, &now);
    changed = now.st_ino != self.seen.st_ino || now.st_size != self.seen.st_size ||
              now.st_mtim.tv_sec != self.seen.st_mtim.tv_sec ||
              now.st_mtim.tv_nsec != self.seen.st_mtim.tv_nsec;
    self.seen = now;
    return changed;
}

static int take_file(struct problem *problem)
{
    char text[FILE_MAX];

    read_file(self.file, text);
    return failpoint_set(text, problem);
}

static void look_at_file(void)
{
    struct problem problem = {0};

    if (file_changed() && take_file(&problem))
        log_error("failpoints_wrong", LOG_S("file", self.file), LOG_S("why", problem.reason));
}

int failpoint_init(struct problem *problem)
{
    const char *allow = getenv("DROVER_FAILPOINTS_ALLOW");
    const char *spec = getenv("DROVER_FAILPOINTS");

    self.file = getenv("DROVER_FAILPOINTS_FILE");
    if (!spec && !self.file)
        return 0;
    if (!allow || strcmp(allow, "1") != 0) {
        log_warn("failpoints_ignored", LOG_S("why", "DROVER_FAILPOINTS_ALLOW is not 1"));
        return 0;
    }
    if (!self.file)
        return failpoint_set(spec, problem);
    file_changed();
    return take_file(problem);
}

/* ---- performing a task ---- */

static bool contains(const struct bytes *payload, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        if (payload[i].len > 0 && memmem(payload[i].data, payload[i].len, text, strlen(text)))
            return true;
    }
    return false;
}

static bool applies(struct term *t, const struct bytes *payload, size_t n)
{
    if (t->left == 0 || (t->payload[0] && !contains(payload, n, t->payload)))
        return false;
    if (t->percent < 100 && (double)rng_below(&self.rng, 1000000) >= t->percent * 10000)
        return false;
    if (t->left != UINT64_MAX)
        t->left--;
    return true;
}

/* Return: the term to perform; TASK_OFF for none. */
static struct term choose(const char *name, const struct bytes *payload, size_t n)
{
    struct term chosen = {.task = TASK_OFF};

    for (size_t i = 0; self.points && i < self.points->n; i++) {
        struct point *p = &self.points->items[i];

        if (strcmp(p->info.name, name) != 0)
            continue;
        for (size_t k = 0; k < p->n_terms; k++) {
            if (applies(&p->terms[k], payload, n)) {
                chosen = p->terms[k];
                break;
            }
        }
        break;
    }
    return chosen;
}

static void nap(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static void be_busy(int64_t ms)
{
    int64_t end = clock_monotonic_ms() + ms;

    while (clock_monotonic_ms() < end)
        ;
}

static void pause_here(void)
{
    unsigned began = self.settings;

    while (self.settings == began) {
        nap(PAUSE_LOOK_MS);
        look_at_file();
    }
}

static enum failpoint_act perform(const struct term *t)
{
    switch (t->task) {
    case TASK_RETURN:
        return FAILPOINT_RETURN;
    case TASK_DROP:
        return FAILPOINT_DROP;
    case TASK_DOUBLE:
        return FAILPOINT_DOUBLE;
    case TASK_SLEEP:
        nap(t->ms);
        break;
    case TASK_DELAY:
        be_busy(t->ms);
        break;
    case TASK_PAUSE:
        pause_here();
        break;
    case TASK_YIELD:
        sched_yield();
        break;
    case TASK_CLOCK:
        clock_shift(t->ms);
        break;
    case TASK_PANIC:
        abort();
    case TASK_CRASH:
        _exit(FAILPOINT_CRASHED);
    case TASK_OFF:
    case TASK_PRINT:
    case TASKS:
        break;
    }
    return FAILPOINT_GO;
}

enum failpoint_act failpoint_hit(const char *group, const char *name, const char *when,
                                 const struct bytes *payload, size_t n)
{
    struct failpoint_info info;
    struct term t;
    char full[sizeof(info.name)];

    snprintf(full, sizeof(full), "%s%s%s%s%s", group, *name ? "." : "", name, *when ? "." : "",
             when);
    if (!find(full, &info)) {
        log_error("failpoint_unknown", LOG_S("point", full),
                  LOG_S("why", "a new boundary: add it to the tables in common/io/failpoint.c"));
        abort();
    }
    look_at_file();
    t = choose(full, payload, n);
    if (t.task == TASK_OFF)
        return FAILPOINT_GO;
    log_warn("failpoint", LOG_S("point", full), LOG_S("task", TASK[t.task].word),
             LOG_S("text", t.text[0] ? t.text : NULL));
    return perform(&t);
}

/* ---- messages ---- */

static bool has_type(const struct bus_message *m, const char *type)
{
    return m->type && strcmp(m->type, type) == 0;
}

/* The kind of a message to the default exchange, that is, to a queue that a client or agent named.
 */
static const char *kind_of_answer(const struct bus_message *m)
{
    if (has_type(m, "drover.v1.JobEvent"))
        return "notice";
    if (has_type(m, "drover.v1.Receipt"))
        return "receipt";
    if (has_type(m, "drover.v1.ProgressAnswers"))
        return "progress_answer";
    return "answer";
}

static const char *kind_of(const struct bus_message *m)
{
    static const struct {
        const char *exchange;
        const char *kind;
    } kinds[] = {
        {"drover.tasks", "request"}, {"drover.control", "control"}, {"drover.events", "event"},
        {"drover.dead", "dead"},     {"drover.pulse", "pulse"},     {"drover.marker", "marker"},
    };

    if (!*m->exchange)
        return kind_of_answer(m);
    if (wire_reply_actor(m->exchange))
        return m->expires ? "progress" : "reply"; /* no reply expires */
    for (size_t i = 0; i < array_size(kinds); i++) {
        if (strcmp(m->exchange, kinds[i].exchange) == 0)
            return kinds[i].kind;
    }
    return m->exchange; /* failpoint_hit() reports that there is no such point */
}

enum failpoint_act failpoint_hit_message(const struct bus_message *m, const char *when)
{
    const struct bytes payload[] = {m->body, bytes_str(m->job), bytes_str(m->step)};

    return failpoint_hit("publish", kind_of(m), when, payload, array_size(payload));
}
