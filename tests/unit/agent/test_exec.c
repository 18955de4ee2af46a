// SPDX-License-Identifier: Apache-2.0
/*
 * The handlers exec and builtin, with a real loop and real processes
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/handler.h"
#include "agent/progress_lines.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "model/wire.h"

#define LEASE_MS 60000 /* never reached, except in tests of the lease */
#define PATIENCE_MS 10000

struct world {
    uv_loop_t loop;
    char folder[32];
    char script[64];
    char *command[4];
    char *env[4];
    struct agent_action action;
    unsigned under_way;
};

/* One run and its result. */
struct trial {
    struct world *world;
    struct handler_run *handler_run;
    struct agent_run run;
    Drover__V1__StepRequest request;
    Drover__V1__Payload input;
    Drover__V1__Payload arguments;
    bool ok;
    Drover__V1__Verdict verdict;
    int64_t retry_after;
    char class[64];
    char message[256];
    char type[64];
    struct buf result;
    struct buf details;
    int64_t ended;
    struct buf progress; /* all Progress reported so far */
};

/* ---- runs ---- */

static void on_done(struct handler_run *run, const struct agent_result *result)
{
    struct trial *t = run->context;

    assert_true(run == t->handler_run);
    t->ok = result->ok;
    t->verdict = result->verdict;
    t->retry_after = result->retry_after_ms;
    snprintf(t->class, sizeof(t->class), "%s", result->class ? result->class : "");
    snprintf(t->message, sizeof(t->message), "%s", result->message ? result->message : "");
    snprintf(t->type, sizeof(t->type), "%s", result->content_type ? result->content_type : "");
    buf_append(&t->result, result->result.data, result->result.len);
    buf_append(&t->details, result->details.data, result->details.len);
    t->ended = clock_monotonic_ms();
    t->handler_run = NULL;
    t->world->under_way--;
}

static void on_progress(struct handler_run *run, double fraction, const char *note)
{
    struct trial *t = run->context;

    assert_true(run == t->handler_run);
    buf_printf(&t->progress, "%.2f %s\n", fraction, note);
}

static void trial_init(struct world *w, struct trial *t)
{
    *t = (struct trial){.world = w};
    drover__v1__step_request__init(&t->request);
    drover__v1__payload__init(&t->input);
    drover__v1__payload__init(&t->arguments);
    t->request.job_id = (char *)"order-17";
    t->request.step = (char *)"charge";
    t->request.action = (char *)"do";
    t->request.attempt = 2;
    t->request.token = (char *)"0.secret";
    t->request.desired = DROVER__V1__STATE__STATE_ACTIVE;
    t->request.idempotency_key = (char *)"order-17/charge/1";
    t->request.input = &t->input;
    t->request.arguments = &t->arguments;
    t->run.request = &t->request;
    t->run.deadline = clock_monotonic_ms() + LEASE_MS;
}

static void trial_deinit(struct trial *t)
{
    buf_deinit(&t->result);
    buf_deinit(&t->details);
    buf_deinit(&t->progress);
}

static void set_payload(Drover__V1__Payload *payload, const char *type, const char *text)
{
    payload->content_type = (char *)type;
    payload->data.data = (uint8_t *)text;
    payload->data.len = strlen(text);
}

static void trial_start(const struct handler *handler, struct trial *t)
{
    struct handler_run head = {
        .handler = handler, .run = &t->run, .done = on_done, .progress = on_progress, .context = t};

    t->world->under_way++;
    t->handler_run = handler->start(&t->world->loop, &t->world->action, &head);
    assert_non_null(t->handler_run);
}

static void on_patience(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Runs the loop until every run has ended and its handles are closed. */
static void finish(struct world *w)
{
    uv_timer_t patience;

    uv_timer_init(&w->loop, &patience);
    uv_timer_start(&patience, on_patience, PATIENCE_MS, 0);
    uv_unref((uv_handle_t *)&patience);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&patience, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(w->under_way, 0);
}

static void write_script(struct world *w, const char *text)
{
    FILE *f = fopen(w->script, "w");

    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", text);
    fclose(f);
    assert_int_equal(chmod(w->script, 0700), 0);
}

/* Runs a script with default settings. */
static void run_script(struct world *w, struct trial *t, const char *text)
{
    write_script(w, text);
    trial_init(w, t);
    trial_start(&handler_exec, t);
    finish(w);
}

/* ---- what is left of processes ---- */

/* The process has ended, or is a zombie that its parent has not yet waited for. */
static bool process_gone(int pid)
{
    char path[64], state = 'Z';
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    f = fopen(path, "r");
    if (!f)
        return true;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(f);
    return state == 'Z' || state == 'X';
}

static void expect_gone(int pid)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    assert_true(pid > 1);
    for (int64_t end = clock_monotonic_ms() + 5000; !process_gone(pid);) {
        assert_true(clock_monotonic_ms() < end);
        nanosleep(&pause, NULL);
    }
}

static unsigned open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* ---- setup ---- */

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    uv_pipe_t pipe;

    handler_exec_keeper = DROVER_KEEP;
    strcpy(w->folder, "/tmp/drover-exec-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->script, sizeof(w->script), "%s/run", w->folder);
    w->command[0] = w->script;
    w->action = (struct agent_action){
        .name = (char *)"*",
        .command = w->command,
        .env = w->env,
        .kill_grace_ms = 1000,
        .result_type = (char *)"text/plain",
    };
    uv_loop_init(&w->loop);
    uv_pipe_init(&w->loop, &pipe, 0); /* a loop opens a file with its first stream, and keeps it */
    uv_close((uv_handle_t *)&pipe, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    handler_exec.close();
    handler_exec.close(); /* may be repeated: several actors may have this handler */
    assert_int_equal(uv_loop_close(&w->loop), 0);
    unlink(w->script);
    rmdir(w->folder);
    free(w);
    return 0;
}

/* ---- pipes that fail ---- */

/* A read is never short: it takes everything, and libuv relies on that if the other end is closed.
 * */
enum pipe_failure {
    PIPE_INTERRUPTED,
    PIPE_WOULD_WAIT,
    PIPE_SHORT, /* a write takes one byte, and no more for now */
    PIPE_BROKEN,
};

#define PIPED ((size_t)4096) /* bytes; libuv's internal messages are shorter */

static struct {
    enum pipe_failure failure;
    unsigned left; /* reads or writes until one fails; 0: none does */
} reading, writing;

static bool fails_now(unsigned *left, size_t len)
{
    return len >= PIPED && *left > 0 && --*left == 0;
}

static ssize_t fail_as(enum pipe_failure failure)
{
    errno = failure == PIPE_INTERRUPTED ? EINTR : failure == PIPE_BROKEN ? EPIPE : EAGAIN;
    return -1;
}

/* Replaces libc's function, also for libuv. */
#pragma GCC visibility push(default)
ssize_t read(int fd, void *data, size_t len)
{
    return fails_now(&reading.left, len) ? fail_as(reading.failure)
                                         : syscall(SYS_read, fd, data, len);
}

ssize_t write(int fd, const void *data, size_t len)
{
    if (!fails_now(&writing.left, len))
        return syscall(SYS_write, fd, data, len);
    return writing.failure == PIPE_SHORT ? syscall(SYS_write, fd, data, 1)
                                         : fail_as(writing.failure);
}
#pragma GCC visibility pop

/* ---- exec ---- */

static void test_exit_rules(void **state)
{
    static const struct {
        const char *script;
        const char *class; /* "": it succeeds */
        bool permanent;
    } rules[] = {
        {"exit 0", "", false},
        {"exit 1", "EXIT_1", false},
        {"exit 2", "EXIT_2", true}, /* configured as permanent */
        {"exit 3", "EXIT_3", false},
        {"exit 65", "EXIT_65", true},
        {"exit 75", "EXIT_75", false},
        {"exit 255", "EXIT_255", false},
        {"kill -KILL $$", "SIGNAL_9", false},
        {"kill -TERM $$", "SIGNAL_15", false},
        {"kill -PIPE $$", "SIGNAL_13", false}, /* the agent ignores it, the program does not */
        {"no-such-program", "EXIT_127", false},
    };
    struct world *w = *state;

    w->action.permanent[2] = true;
    for (size_t i = 0; i < array_size(rules); i++) {
        struct trial t;

        run_script(w, &t, rules[i].script);
        assert_string_equal(t.class, rules[i].class);
        assert_int_equal(t.ok, rules[i].class[0] == '\0');
        if (!t.ok)
            assert_int_equal(t.verdict, rules[i].permanent
                                            ? DROVER__V1__VERDICT__VERDICT_PERMANENT
                                            : DROVER__V1__VERDICT__VERDICT_TRANSIENT);
        trial_deinit(&t);
    }
}

static void test_not_started(void **state)
{
    struct world *w = *state;
    unsigned files = open_files();
    struct trial t;

    trial_init(w, &t);
    trial_start(&handler_exec, &t);
    finish(w);
    assert_string_equal(t.class, "NOT_STARTED");
    assert_int_equal(t.verdict, DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    assert_non_null(strstr(t.message, "no such file"));
    assert_int_equal(open_files(), files);
    trial_deinit(&t);

    handler_exec_keeper = "/nowhere/drover-keep";
    trial_init(w, &t);
    trial_start(&handler_exec, &t);
    handler_exec.stop(t.handler_run, true);
    assert_int_equal(w->under_way, 1); /* done() is never called from within start() or stop() */
    finish(w);
    assert_string_equal(t.class, "NOT_STARTED");
    assert_int_equal(open_files(), files);
    trial_deinit(&t);
}

static void test_input_and_result(void **state)
{
    struct world *w = *state;
    struct trial t;

    write_script(w, "cat");
    trial_init(w, &t);
    set_payload(&t.input, "text/plain", "forty-two");
    trial_start(&handler_exec, &t);
    finish(w);
    assert_true(t.ok);
    assert_string_equal(t.type, "text/plain");
    assert_string_equal(buf_str(&t.result), "forty-two");
    trial_deinit(&t);

    w->action.whole_request = true;
    trial_init(w, &t);
    set_payload(&t.input, "text/plain", "forty-two");
    trial_start(&handler_exec, &t);
    finish(w);
    assert_non_null(strstr(buf_str(&t.result), "\"jobId\":\"order-17\""));
    assert_non_null(strstr(buf_str(&t.result), "\"text\":\"forty-two\""));
    assert_null(strstr(buf_str(&t.result), "secret")); /* it could reply for the agent */
    trial_deinit(&t);
}

/* No shell is involved: an argument stays one argument. */
static void test_arguments(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->command[1] = (char *)"$HOME; `id`";
    w->command[2] = (char *)"a  b";
    run_script(w, &t, "printf '%s|%s|%s' \"$#\" \"$1\" \"$2\"");
    assert_string_equal(buf_str(&t.result), "2|$HOME; `id`|a  b");
    trial_deinit(&t);
}

static void test_input_that_is_not_read(void **state)
{
    struct world *w = *state;
    char *text = malloc(WIRE_INPUT_MAX);
    struct trial t;

    memset(text, 'x', WIRE_INPUT_MAX);
    write_script(w, "echo done");
    trial_init(w, &t);
    t.input.data.data = (uint8_t *)text;
    t.input.data.len = WIRE_INPUT_MAX;
    trial_start(&handler_exec, &t);
    finish(w);
    assert_string_equal(buf_str(&t.result), "done\n");
    trial_deinit(&t);
    free(text);
}

#define THROUGH 200000 /* bytes: more than a pipe holds */

/* The whole input comes out again, unless the process has read enough. Return: whether the n-th
 * read or write took place. */
static bool goes_through(struct world *w, const char *text, unsigned *left, unsigned n, bool whole)
{
    struct trial t;
    bool failed;

    trial_init(w, &t);
    t.input.data.data = (uint8_t *)text;
    t.input.data.len = THROUGH;
    *left = n;
    trial_start(&handler_exec, &t);
    finish(w);
    failed = *left == 0;
    *left = 0;
    assert_true(t.ok && t.result.len <= THROUGH && (!whole || t.result.len == THROUGH));
    assert_memory_equal(t.result.data, text, t.result.len);
    trial_deinit(&t);
    return failed;
}

static void test_pipes_that_fail(void **state)
{
    static char text[THROUGH];
    struct world *w = *state;
    unsigned files = open_files();

    for (size_t i = 0; i < THROUGH; i++)
        text[i] = (char)('a' + i * i % 26);
    write_script(w, "cat");
    for (reading.failure = 0; reading.failure < PIPE_SHORT; reading.failure++)
        for (unsigned n = 1; goes_through(w, text, &reading.left, n, true); n++)
            assert_true(n < THROUGH);
    for (writing.failure = 0; writing.failure <= PIPE_BROKEN; writing.failure++)
        for (unsigned n = 1;
             goes_through(w, text, &writing.left, n, writing.failure != PIPE_BROKEN); n++)
            assert_true(n < THROUGH);
    assert_int_equal(open_files(), files);
}

static void test_clean_environment(void **state)
{
    struct world *w = *state;
    struct trial t;

    setenv("SECRET", "of the agent", 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    w->env[0] = (char *)"MODE=live";
    w->command[0] = (char *)"/usr/bin/env";
    trial_init(w, &t);
    t.request.desired = DROVER__V1__STATE__STATE_DISABLED;
    trial_start(&handler_exec, &t);
    finish(w);
    *strstr(buf_str(&t.result), "DROVER_DEADLINE_MS=") = '\0';
    assert_string_equal((const char *)t.result.data, "MODE=live\n"
                                                     "PATH=/usr/bin:/bin\n"
                                                     "DROVER_JOB=order-17\n"
                                                     "DROVER_STEP=charge\n"
                                                     "DROVER_ATTEMPT=2\n"
                                                     "DROVER_IDEMPOTENCY_KEY=order-17/charge/1\n"
                                                     "DROVER_DIRECTION=undo\n");
    trial_deinit(&t);

    w->env[0] = (char *)"PATH=/nowhere";
    w->command[0] = w->script;
    run_script(w, &t, "echo \"$PATH $DROVER_DIRECTION $DROVER_DEADLINE_MS\"");
    assert_in_range(atoi(buf_str(&t.result) + strlen("/nowhere do ")), 50000, LEASE_MS);
    trial_deinit(&t);
}

static void test_no_file_is_inherited(void **state)
{
    struct world *w = *state;
    unsigned files = open_files();
    struct trial t;

    w->command[0] = (char *)"/bin/ls";
    w->command[1] = (char *)"/proc/self/fd";
    trial_init(w, &t);
    trial_start(&handler_exec, &t);
    finish(w);
    assert_string_equal(buf_str(&t.result), "0\n1\n2\n3\n4\n"); /* 4 is the folder that ls reads */
    assert_int_equal(open_files(), files);
    trial_deinit(&t);
}

static void test_result_limit(void **state)
{
    size_t max = WIRE_RESULT_MAX - strlen("text/plain");
    struct world *w = *state;
    char text[64];
    struct trial t;

    snprintf(text, sizeof(text), "head -c %zu /dev/zero", max);
    run_script(w, &t, text);
    assert_true(t.ok);
    assert_int_equal(t.result.len, max);
    trial_deinit(&t);

    snprintf(text, sizeof(text), "head -c %zu /dev/zero", max + 1);
    run_script(w, &t, text);
    assert_string_equal(t.class, "RESULT_TOO_LARGE");
    assert_int_equal(t.verdict, DROVER__V1__VERDICT__VERDICT_PERMANENT);
    trial_deinit(&t);

    run_script(w, &t, "trap '' TERM; yes; sleep 1000"); /* prints without end: killed */
    assert_string_equal(t.class, "RESULT_TOO_LARGE");
    trial_deinit(&t);
}

static void test_stderr_tail(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_script(w, &t, "echo why >&2; exit 1");
    assert_string_equal(buf_str(&t.details), "why\n");
    assert_string_equal(t.message, "exit status 1");
    trial_deinit(&t);

    run_script(
        w, &t,
        "head -c 200000 /dev/zero | tr '\\0' x >&2; head -c 4000 /dev/zero | tr '\\0' y >&2\n"
        "echo the end >/dev/stderr; exit 1");
    assert_int_equal(t.details.len, 4096);
    assert_string_equal(buf_str(&t.details) + 4096 - 9, "ythe end\n");
    assert_int_equal(t.details.data[0], 'x');
    assert_int_equal(t.details.data[4096 - 8 - 4001], 'x');
    assert_int_equal(t.details.data[4096 - 8 - 4000], 'y');
    trial_deinit(&t);
}

static void test_progress_lines(void **state)
{
    static const struct {
        const char *text;
        bool ended;
        double fraction;
        const char *note;
    } pieces[] = {
        {"0.2", false, -1, ""},
        {"5\n", true, 0.25, ""},
        {"0.5 half way\n0.75 ", true, 0.5, "half way"},
        {"on\n1\n", true, 1, ""},
        {"copying\n", true, 1, "copying"},
        {"2 of 4\n", true, 1, "2 of 4"},
        {"0x1\n", true, 1, "0x1"},
        {"1st\n", true, 1, "1st"},
        {"-1\n", true, 1, "-1"},
        {"- 1 of 4\n", true, -1, "1 of 4"},
        {"nan\n", true, -1, "nan"},
        {"\n", true, -1, ""},
    };
    struct progress_lines p;
    char *text = calloc(1, (size_t)2 * PROGRESS_LINE_MAX);

    progress_lines_init(&p);
    for (size_t i = 0; i < array_size(pieces); i++) {
        assert_int_equal(progress_lines_add(&p, bytes_str(pieces[i].text)), pieces[i].ended);
        assert_true(p.fraction == pieces[i].fraction);
        assert_string_equal(p.note, pieces[i].note);
    }
    memset(text, 'x', (size_t)2 * PROGRESS_LINE_MAX);
    assert_false(progress_lines_add(&p, bytes_of(text, (size_t)2 * PROGRESS_LINE_MAX)));
    assert_true(progress_lines_add(&p, bytes_str("\n")));
    assert_int_equal(strlen(p.note), PROGRESS_LINE_MAX);
    free(text);
}

/* A run need not report Progress; the last report counts, whether it was read at once or not. */
static void test_progress(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_script(w, &t, "echo 0.5 half way >&3; echo done");
    assert_true(t.ok);
    assert_string_equal(buf_str(&t.result), "done\n");
    assert_string_equal(buf_str(&t.progress), "0.50 half way\n");
    trial_deinit(&t);
    run_script(w, &t, "exec 3>&-; echo done");
    assert_true(t.ok);
    trial_deinit(&t);
}

/* The whole process group ends in time, also processes that ignore SIGTERM. */
static void test_deadline(void **state)
{
    struct world *w = *state;
    int64_t begun = clock_monotonic_ms();
    struct trial t;
    int child, grandchild;

    write_script(w, "trap '' TERM\n"
                    "sh -c 'sleep 1000 & echo $!; wait' &\n"
                    "echo $! >&2\n"
                    "wait; sleep 1000");
    w->action.kill_grace_ms = 100;
    trial_init(w, &t);
    t.run.deadline = begun + 500;
    trial_start(&handler_exec, &t);
    finish(w);
    assert_string_equal(t.class, "TIMEOUT");
    assert_non_null(strstr(t.message, "signal 9"));
    assert_in_range(t.ended - begun, 500, 2500);
    child = atoi(buf_str(&t.details));
    expect_gone(child);
    assert_int_equal(t.result.len, 0);
    trial_deinit(&t);

    write_script(w, "trap 'exit 0' TERM\n"
                    "(trap '' TERM; sleep 1000) & echo $!\n"
                    "wait");
    begun = clock_monotonic_ms();
    trial_init(w, &t);
    t.run.deadline = begun + 500;
    trial_start(&handler_exec, &t);
    finish(w);
    assert_true(t.ok); /* it ends just in time and reports success */
    assert_true(t.ended - begun < 500);
    grandchild = atoi(buf_str(&t.result));
    expect_gone(grandchild);
    trial_deinit(&t);
}

/* If the process stood still since it took the request, it begins no run after the lease. */
static void test_deadline_passed(void **state)
{
    struct world *w = *state;
    struct trial t;

    write_script(w, "echo begun");
    trial_init(w, &t);
    t.run.deadline = clock_monotonic_ms();
    trial_start(&handler_exec, &t);
    finish(w);
    assert_string_equal(t.class, "NOT_STARTED");
    trial_deinit(&t);
}

static void test_program_that_ends_on_sigterm(void **state)
{
    struct world *w = *state;
    struct trial t;

    write_script(w, "trap 'echo bye >&2; exit 7' TERM; sleep 1000 & wait");
    w->action.kill_grace_ms = 400;
    trial_init(w, &t);
    t.run.deadline = clock_monotonic_ms() + 800;
    trial_start(&handler_exec, &t);
    finish(w);
    assert_string_equal(t.class, "TIMEOUT");
    assert_string_equal(t.message, "exit status 7");
    assert_string_equal(buf_str(&t.details), "bye\n");
    assert_true(t.ended < t.run.deadline);
    trial_deinit(&t);
}

static void on_ready(uv_fs_event_t *watch, const char *name, int events, int status)
{
    struct trial *t = watch->data;

    if (name && strcmp(name, "ready") == 0 && t->handler_run) {
        handler_exec.stop(t->handler_run, t->request.attempt == 9);
        uv_close((uv_handle_t *)watch, NULL);
    }
}

/* Stops the run once it has set its traps; the run shows that by creating a file. */
static void stop_when_ready(struct world *w, struct trial *t, bool at_once)
{
    uv_fs_event_t watch = {.data = t};
    char path[64];

    snprintf(path, sizeof(path), "%s/ready", w->folder);
    w->command[1] = path;
    trial_init(w, t);
    t->request.attempt = at_once ? 9 : 1;
    uv_fs_event_init(&w->loop, &watch);
    assert_int_equal(uv_fs_event_start(&watch, on_ready, w->folder, 0), 0);
    trial_start(&handler_exec, t);
    finish(w);
    unlink(path);
}

static void test_stop(void **state)
{
    struct world *w = *state;
    struct trial t;

    write_script(w, "trap 'exit 7' TERM; : >\"$1\"; sleep 1000 & wait");
    stop_when_ready(w, &t, false);
    assert_string_equal(t.message, "exit status 7");
    trial_deinit(&t);
    stop_when_ready(w, &t, true);
    assert_non_null(strstr(t.message, "signal 9"));
    trial_deinit(&t);
}

/* Starts a process in a session of its own and prints its id. */
#define ESCAPES                                                                                    \
    "mkfifo $0.in; setsid sh -c 'echo $$; : >$0; exec sleep 1000' $0.in &\n"                       \
    "read x <$0.in; rm $0.in"

/* A run is over when its main process is: the agent does not wait for children, and kills them. */
static void test_children_left_behind(void **state)
{
    struct world *w = *state;
    struct trial t;
    int escaped;

    run_script(w, &t, "sleep 1000 & echo $!");
    assert_true(t.ok);
    expect_gone(atoi(buf_str(&t.result)));
    trial_deinit(&t);

    run_script(w, &t, ESCAPES); /* it holds the pipes open and is outside the process group */
    assert_true(t.ok);
    escaped = atoi(buf_str(&t.result));
    assert_true(escaped > 1);
    expect_gone(escaped);
    trial_deinit(&t);
}

/* Another user could not do this: only the agent can end what is left. */
#define RABBIT "drover-test-rabbit"

/* The number of processes that have the word among their arguments. */
static int count_of(const char *word)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    int n = 0;

    assert_non_null(proc);
    while ((entry = readdir(proc))) {
        char path[300], text[500];
        ssize_t len;
        int fd;

        snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        if (fd >= 0)
            close(fd);
        n += len > 0 && memmem(text, (size_t)len, word, strlen(word)) != NULL;
    }
    closedir(proc);
    return n;
}

/* The process keeps forking and ending itself, each time in a new session. */
static void test_process_that_keeps_forking(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_script(w, &t,
               "here=$(mktemp -d)\n"
               "perl -MPOSIX -e '# " RABBIT
               "' -e 'while ($n++ < 9) { exit if fork; POSIX::setsid() }'"
               " -e 'mkdir $ARGV[0]; while (1) { exit if fork; POSIX::setsid() }' $here/begun &\n"
               "until [ -e $here/begun ]; do sleep 0.01; done\n"
               "rm -r $here");
    assert_true(t.ok);
    for (int i = 0; i < 20; i++) /* one scan might miss it */
        assert_int_equal(count_of(RABBIT), 0);
    trial_deinit(&t);
}

static void test_keeper_killed(void **state)
{
    struct world *w = *state;
    struct trial t;
    int escaped;

    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    run_script(w, &t, "exec 1>&2\n" ESCAPES "\nkill -9 $PPID; sleep 1000");
    assert_string_equal(t.class, "SIGNAL_9");
    escaped = atoi(buf_str(&t.details));
    assert_true(escaped > 1);
    expect_gone(escaped);
    trial_deinit(&t);

    run_script(w, &t, "for s in INT HUP QUIT USR2 ALRM PIPE; do kill -$s $PPID; done; echo here");
    assert_true(t.ok);
    assert_string_equal(buf_str(&t.result), "here\n");
    trial_deinit(&t);

    write_script(w, "exec 1>&2\n" ESCAPES "\nkill -STOP $PPID; sleep 1000");
    trial_init(w, &t);
    t.run.deadline = clock_monotonic_ms() + 300;
    trial_start(&handler_exec, &t);
    finish(w);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
    assert_string_equal(t.class, "TIMEOUT");
    escaped = atoi(buf_str(&t.details));
    assert_true(escaped > 1);
    expect_gone(escaped);
    trial_deinit(&t);
}

/* There is no core file, and the limits of the action apply. */
static void test_limits(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->action.files = 100;
    w->action.processes = 5000;
    w->action.memory = INT64_C(1) << 30;
    run_script(w, &t, "ulimit -c; ulimit -n; ulimit -v");
    assert_true(t.ok);
    assert_string_equal(buf_str(&t.result), "0\n100\n1048576\n");
    trial_deinit(&t);
}

static void test_other_user(void **state)
{
    static const gid_t own[] = {1, 2};
    struct world *w = *state;
    struct trial t;

    if (geteuid() != 0)
        skip();
    assert_int_equal(setgroups(array_size(own), own), 0);
    w->action.other_user = true;
    w->action.uid = w->action.gid = 65534;
    assert_int_equal(chmod(w->folder, 0755), 0);
    write_script(w, "id -u; id -g; id -G; kill -9 $PPID 2>/dev/null || echo not mine");
    assert_int_equal(chmod(w->script, 0755), 0);
    trial_init(w, &t);
    trial_start(&handler_exec, &t);
    finish(w);
    assert_true(t.ok);
    assert_string_equal(buf_str(&t.result), "65534\n65534\n65534\nnot mine\n");
    assert_int_equal(setgroups(0, NULL), 0);
    trial_deinit(&t);
}

#define MANY 200

static void test_many_runs(void **state)
{
    struct world *w = *state;
    struct trial *trials = calloc(MANY, sizeof(*trials));
    char names[MANY][16];
    unsigned files = open_files();

    write_script(w, "read x; cat >/dev/null; echo \"got $x\"; exit 0");
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "%zu\n", i);
        trial_init(w, &trials[i]);
        set_payload(&trials[i].input, "text/plain", names[i]);
        trial_start(&handler_exec, &trials[i]);
    }
    finish(w);
    for (size_t i = 0; i < MANY; i++) {
        char expected[32];

        snprintf(expected, sizeof(expected), "got %.15s", names[i]);
        assert_string_equal(buf_str(&trials[i].result), expected);
        trial_deinit(&trials[i]);
    }
    assert_int_equal(open_files(), files);
    free(trials);
}

/* ---- the breaker ---- */

static const struct breaker_config OPENS_AT_ONCE = {1, 60000, 60000};

static void expect_deferred(const struct trial *t)
{
    assert_false(t->ok);
    assert_string_equal(t->class, "BREAKER_OPEN");
    assert_int_equal(t->verdict, DROVER__V1__VERDICT__VERDICT_DEFER);
    assert_true(t->retry_after >= 1);
}

/* One line for each run; removes the file. */
static unsigned runs_of(const struct world *w)
{
    char path[80];
    unsigned n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s.runs", w->script);
    f = fopen(path, "r");
    if (!f)
        return 0;
    for (int c; (c = fgetc(f)) != EOF;)
        n += c == '\n';
    fclose(f);
    unlink(path);
    return n;
}

static void test_breaker_opens(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->action.breaker = (struct breaker_config){3, 60000, 60000};
    for (int i = 0; i < 5; i++) {
        run_script(w, &t, "echo >>$0.runs; exit 69");
        if (i < 3)
            assert_string_equal(t.class, "EXIT_69");
        else
            expect_deferred(&t);
        if (i < 4)
            trial_deinit(&t);
    }
    assert_in_range(t.retry_after, 1, 60000);
    assert_non_null(strstr(t.message, "exit status 69")); /* the reason */
    trial_deinit(&t);
    assert_int_equal(runs_of(w), 3);
}

static void test_no_breaker_unless_configured(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 20; i++) {
        struct trial t;

        run_script(w, &t, "echo >>$0.runs; exit 69");
        assert_string_equal(t.class, "EXIT_69");
        trial_deinit(&t);
    }
    assert_int_equal(runs_of(w), 20);
}

/* Each action has its own breaker, and each actor. */
static void test_breakers_apart(void **state)
{
    static const struct {
        const char *actor, *action;
        bool open;
    } cases[] = {
        {"a", "x", false}, {"a", "x", true}, {"a", "y", false}, {"b", "x", false}, {"a", "y", true},
    };
    struct world *w = *state;

    w->action.breaker = OPENS_AT_ONCE;
    write_script(w, "exit 1");
    for (size_t i = 0; i < array_size(cases); i++) {
        struct trial t;

        w->action.name = (char *)cases[i].action;
        trial_init(w, &t);
        t.request.actor = (char *)cases[i].actor;
        trial_start(&handler_exec, &t);
        finish(w);
        assert_string_equal(t.class, cases[i].open ? "BREAKER_OPEN" : "EXIT_1");
        trial_deinit(&t);
    }
}

/* Which results open the breaker of a program, and which do not. */
static void test_what_a_breaker_counts(void **state)
{
    static const struct {
        const char *script;
        bool counts;
    } cases[] = {
        {"exit 0", false},
        {"exit 65", false},
        {"exit 2", false}, /* configured as permanent */
        {"head -c 300000 /dev/zero", false},
        {"exit 1", true},
        {"exit 75", true},
        {"no-such-program", true},
        {"kill -SEGV $$", true},
        {"exec sleep 1000", true},          /* TIMEOUT */
        {"trap '' TERM; sleep 1000", true}, /* TIMEOUT, and killed */
        {"", true},                         /* no such program: NOT_STARTED */
    };
    struct world *w = *state;

    w->action.breaker = OPENS_AT_ONCE;
    w->action.permanent[2] = true;
    w->action.kill_grace_ms = 100;
    for (size_t i = 0; i < array_size(cases); i++) {
        bool lasts = strstr(cases[i].script, "sleep");
        char action[16];
        struct trial t;

        snprintf(action, sizeof(action), "action-%zu", i);
        w->action.name = action;
        write_script(w, cases[i].script);
        if (!*cases[i].script)
            unlink(w->script);
        for (int n = 0; n < 2; n++) {
            trial_init(w, &t);
            if (lasts)
                t.run.deadline = clock_monotonic_ms() + 500;
            trial_start(&handler_exec, &t);
            finish(w);
            trial_deinit(&t);
        }
        if ((strcmp(t.class, "BREAKER_OPEN") == 0) != cases[i].counts)
            fail_msg("%s: %s", cases[i].script, t.class);
    }
}

/* A run that has no time left is no failure of the program. */
static void test_a_breaker_counts_runs_only(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->action.breaker = OPENS_AT_ONCE;
    write_script(w, "exit 0");
    trial_init(w, &t);
    t.run.deadline = clock_monotonic_ms();
    trial_start(&handler_exec, &t);
    finish(w);
    assert_string_equal(t.class, "NOT_STARTED");
    trial_deinit(&t);
    run_script(w, &t, "exit 0");
    assert_true(t.ok);
    trial_deinit(&t);
}

/* Opens the breaker, for a time that is over soon. */
static void open_breaker(struct world *w)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct trial t;

    w->action.breaker = (struct breaker_config){1, 1, 1};
    run_script(w, &t, "exit 1");
    assert_string_equal(t.class, "EXIT_1");
    while (clock_monotonic_ms() < t.ended + 2)
        nanosleep(&pause, NULL);
    trial_deinit(&t);
}

static void test_one_probe(void **state)
{
    struct world *w = *state;
    struct trial probe, t;
    char path[64];
    int go;

    open_breaker(w);
    snprintf(path, sizeof(path), "%s/go", w->folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    go = open(path, O_RDWR | O_CLOEXEC);
    w->command[1] = path;
    write_script(w, "echo >>$0.runs; read go <\"$1\"");
    trial_init(w, &probe);
    trial_start(&handler_exec, &probe);
    trial_init(w, &t);
    t.run.deadline = clock_monotonic_ms() + 5000; /* it would end by itself, too */
    trial_start(&handler_exec, &t);
    while (w->under_way > 1)
        uv_run(&w->loop, UV_RUN_ONCE);
    expect_deferred(&t);
    trial_deinit(&t);
    assert_int_equal(write(go, "go\n", 3), 3);
    finish(w);
    assert_true(probe.ok);
    trial_deinit(&probe);
    close(go);
    unlink(path);
    run_script(w, &t, "echo >>$0.runs");
    assert_true(t.ok);
    trial_deinit(&t);
    assert_int_equal(runs_of(w), 2);
}

/* A probe that was stopped says nothing about the program, and lets another call be the probe. */
static void test_stopped_probe(void **state)
{
    struct world *w = *state;
    struct trial t;

    open_breaker(w);
    write_script(w, "trap 'exit 7' TERM; : >\"$1\"; sleep 1000 & wait");
    stop_when_ready(w, &t, false);
    assert_string_equal(t.class, "TIMEOUT");
    trial_deinit(&t);
    run_script(w, &t, "exit 0");
    assert_true(t.ok);
    trial_deinit(&t);
}

/* A run that is stopped because the job does not want it does not open the breaker. */
static void test_stopped_run(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->action.breaker = OPENS_AT_ONCE;
    write_script(w, "trap 'exit 7' TERM; : >\"$1\"; sleep 1000 & wait");
    stop_when_ready(w, &t, false);
    assert_string_equal(t.message, "exit status 7");
    trial_deinit(&t);
    stop_when_ready(w, &t, true);
    assert_non_null(strstr(t.message, "signal 9"));
    trial_deinit(&t);
    run_script(w, &t, "exit 0");
    assert_true(t.ok);
    trial_deinit(&t);
}

/* After close() the breakers have no memory. */
static void test_close_forgets(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->action.breaker = OPENS_AT_ONCE;
    run_script(w, &t, "exit 1");
    trial_deinit(&t);
    run_script(w, &t, "exit 1");
    expect_deferred(&t);
    trial_deinit(&t);
    handler_exec.close();
    run_script(w, &t, "exit 0");
    assert_true(t.ok);
    trial_deinit(&t);
}

/* ---- builtin ---- */

static void run_builtin(struct world *w, struct trial *t, const char *action, const char *arguments,
                        uint32_t attempt)
{
    trial_init(w, t);
    t->request.action = (char *)action;
    t->request.attempt = attempt;
    set_payload(&t->arguments, "application/json", arguments);
    set_payload(&t->input, "text/plain", "hello");
    trial_start(&handler_builtin, t);
    assert_int_equal(w->under_way, 1); /* done() is never called from within start() */
    finish(w);
    trial_deinit(t);
}

static void test_builtin(void **state)
{
    static const char fails[] =
        "{\"times\": 2, \"class\": \"x\", \"permanent\": true, \"message\": \"m\"}";
    struct world *w = *state;
    int64_t begun = clock_monotonic_ms();
    struct trial t;

    run_builtin(w, &t, "noop", "", 1);
    assert_true(t.ok);
    run_builtin(w, &t, "echo", "", 1);
    assert_true(t.ok);
    assert_string_equal(t.type, "text/plain");
    run_builtin(w, &t, "sleep", "{\"ms\": 50}", 1);
    assert_true(t.ok && t.ended - begun >= 50);
    run_builtin(w, &t, "sleep", "0", 1);
    assert_true(t.ok);
    run_builtin(w, &t, "sleep", "\"long\"", 1);
    assert_string_equal(t.class, "BAD_ARGUMENTS");
    run_builtin(w, &t, "fail", fails, 2);
    assert_string_equal(t.class, "x");
    assert_string_equal(t.message, "m");
    assert_int_equal(t.verdict, DROVER__V1__VERDICT__VERDICT_PERMANENT);
    run_builtin(w, &t, "fail", fails, 3);
    assert_true(t.ok);
    run_builtin(w, &t, "fail", "", 1000);
    assert_string_equal(t.class, "FAILED");
    assert_int_equal(t.verdict, DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    run_builtin(w, &t, "fail", "{\"times\": \"two\"}", 1);
    assert_string_equal(t.class, "BAD_ARGUMENTS");
    run_builtin(w, &t, "dance", "", 1);
    assert_string_equal(t.class, "UNKNOWN_ACTION");
    assert_int_equal(t.verdict, DROVER__V1__VERDICT__VERDICT_PERMANENT);
    w->action.builtin = (char *)"noop";
    run_builtin(w, &t, "dance", "", 1);
    assert_true(t.ok);
}

static void test_builtin_progress(void **state)
{
    struct world *w = *state;
    double last = 0, fraction;
    struct trial t;
    unsigned n = 0;
    int used;

    trial_init(w, &t);
    t.request.action = (char *)"sleep";
    t.request.heartbeat_ms = 1000;
    set_payload(&t.arguments, "application/json", "350");
    trial_start(&handler_builtin, &t);
    finish(w);
    assert_true(t.ok);
    for (const char *at = buf_str(&t.progress); sscanf(at, "%lf %n", &fraction, &used) == 1; n++) {
        assert_true(fraction > 0.25 && fraction >= last && fraction <= 1);
        last = fraction;
        at += used;
    }
    assert_in_range(n, 1, 3);
    trial_deinit(&t);
}

static void test_builtin_stop(void **state)
{
    struct world *w = *state;
    struct trial t;

    trial_init(w, &t);
    t.request.action = (char *)"sleep";
    set_payload(&t.arguments, "application/json", "1000000");
    trial_start(&handler_builtin, &t);
    handler_builtin.stop(t.handler_run, false);
    finish(w);
    assert_string_equal(t.class, "STOPPED");
    trial_deinit(&t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exit_rules),
        TEST(test_not_started),
        TEST(test_input_and_result),
        TEST(test_arguments),
        TEST(test_input_that_is_not_read),
        TEST(test_pipes_that_fail),
        TEST(test_clean_environment),
        TEST(test_no_file_is_inherited),
        TEST(test_result_limit),
        TEST(test_stderr_tail),
        TEST(test_progress_lines),
        TEST(test_progress),
        TEST(test_deadline),
        TEST(test_deadline_passed),
        TEST(test_program_that_ends_on_sigterm),
        TEST(test_stop),
        TEST(test_children_left_behind),
        TEST(test_process_that_keeps_forking),
        TEST(test_keeper_killed),
        TEST(test_limits),
        TEST(test_other_user),
        TEST(test_many_runs),
        TEST(test_breaker_opens),
        TEST(test_no_breaker_unless_configured),
        TEST(test_breakers_apart),
        TEST(test_what_a_breaker_counts),
        TEST(test_a_breaker_counts_runs_only),
        TEST(test_one_probe),
        TEST(test_stopped_probe),
        TEST(test_stopped_run),
        TEST(test_close_forgets),
        TEST(test_builtin),
        TEST(test_builtin_progress),
        TEST(test_builtin_stop),
    };

    log_set_level(LOG_ERROR); /* breakers log warnings */
    signal(SIGPIPE, SIG_IGN);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); /* descriptors that this program inherited */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
