// SPDX-License-Identifier: Apache-2.0
/*
 * Alert command: a queue of alerts for each about, and the run of the program
 *
 * See alert_io.h. Called by scheduler_io.c; uses libuv, and is no part of the machine.
 */
#include "scheduler/alert_io.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "io/daemon/child.h"

/* Abouts with alerts that wait, or with a number left out that is not reported yet. */
#define ALERTS_ABOUT_MAX (2 * ALERTS_WAITING)

struct waiting {
    struct list link;
    char event[];
};

/* The alerts of one about. It exists while alerts wait, or while a number left out is to be
 * reported. */
struct subject {
    struct list link; /* in alert_io.abouts, the next one first */
    struct list waiting;
    unsigned n;
    uint64_t left_out;
    char name[];
};

/* One run of the program. */
struct run {
    struct alert_io *owner;
    uv_process_t process;
    uv_pipe_t in;
    uv_timer_t limit;
    uv_write_t write;
    struct waiting *alert; /* owned */
    bool killed;           /* it was counted as killed */
    unsigned handles;      /* that are not closed yet */
};

struct alert_io {
    uv_loop_t *loop;
    const char *command;
    int limit_ms;
    struct list abouts;
    unsigned n_abouts;
    unsigned n_waiting; /* alerts, of all abouts */
    struct run *running;
    uint64_t failing; /* runs since the last one that ended well */
    struct alert_io_stats stats;
    void (*on_closed)(void *ctx); /* NULL: alerts are accepted */
    void *ctx;
    /* Fires when the alerts that wait are left out; on_closed is called when it is closed. */
    uv_timer_t closing;
};

static void run_next(struct alert_io *a);

/* ---- the end of a run ---- */

static void on_all_closed(uv_handle_t *handle)
{
    struct alert_io *a = handle->data;

    a->on_closed(a->ctx);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct run *run = handle->data;
    struct alert_io *a = run->owner;

    if (--run->handles > 0)
        return;
    a->running = NULL;
    free(run->alert);
    free(run);
    run_next(a);
}

static void close_once(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

static void run_end(struct run *run)
{
    close_once(&run->process);
    close_once(&run->in);
    close_once(&run->limit);
}

/* Counts a run that does not end well. Return: whether to log it: only the first one since a run
 * ended well. */
static bool fails(struct alert_io *a, uint64_t *counter)
{
    (*counter)++;
    return a->failing++ == 0;
}

static void ends_well(struct alert_io *a)
{
    if (a->failing > 0)
        log_info("alert_command_recovered", LOG_S("command", a->command),
                 LOG_I("failed", (int64_t)a->failing));
    a->failing = 0;
}

static void on_ended(uv_process_t *process, int64_t status, int signal)
{
    struct run *run = process->data;
    struct alert_io *a = run->owner;

    child_signal(process, SIGKILL); /* the processes that it has left in its group */
    if (status == 0 && signal == 0) {
        ends_well(a);
    } else if (!run->killed && fails(a, &a->stats.failed)) {
        log_error("alert_command_failed", LOG_S("command", a->command), LOG_I("status", status),
                  LOG_I("signal", signal));
    }
    run_end(run);
}

static void run_kill(struct run *run)
{
    run->killed = true;
    if (uv_is_active((uv_handle_t *)&run->process))
        child_signal(&run->process, SIGKILL);
}

static void on_limit(uv_timer_t *timer)
{
    struct run *run = timer->data;
    struct alert_io *a = run->owner;

    if (fails(a, &a->stats.killed))
        log_error("alert_command_too_slow", LOG_S("command", a->command),
                  LOG_I("limit_ms", a->limit_ms));
    run_kill(run);
}

/* ---- the start of a run ---- */

static void on_written(uv_write_t *write, int status)
{
    struct run *run = write->data;

    close_once(&run->in); /* the program may read it or not */
}

static void feed(struct run *run)
{
    uv_buf_t buf = uv_buf_init(run->alert->event, (unsigned)strlen(run->alert->event));

    run->write.data = run;
    if (uv_write(&run->write, (uv_stream_t *)&run->in, &buf, 1, on_written))
        close_once(&run->in);
}

static void run_start(struct alert_io *a, struct waiting *alert)
{
    struct run *run = or_abort(calloc(1, sizeof(*run)));
    CLEANUP(child_env_deinit) struct child_env env;
    char *args[] = {(char *)a->command, NULL};
    uv_stdio_container_t stdio[] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&run->in},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
    };
    const uv_process_options_t options = {
        .exit_cb = on_ended, .file = a->command, .args = args, .stdio_count = 3, .stdio = stdio};
    int r;

    run->owner = a;
    run->alert = alert;
    run->handles = 3;
    a->running = run;
    uv_pipe_init(a->loop, &run->in, 0);
    uv_timer_init(a->loop, &run->limit);
    child_env_init(&env, (char *[]){NULL});
    r = child_spawn(a->loop, &run->process, options, &env);
    run->process.data = run->in.data = run->limit.data = run;
    if (r) {
        if (fails(a, &a->stats.failed))
            log_error("alert_command_failed", LOG_S("command", a->command),
                      LOG_S("why", uv_strerror(r)));
        run_end(run);
        return;
    }
    uv_timer_start(&run->limit, on_limit, (uint64_t)a->limit_ms, 0);
    feed(run);
}

/* ---- the next alert ---- */

static struct waiting *waiting_new(const char *event)
{
    size_t size = strlen(event) + 1;
    struct waiting *alert = or_abort(malloc(sizeof(*alert) + size));

    list_init(&alert->link);
    memcpy(alert->event, event, size);
    return alert;
}

static struct subject *subject_find(struct alert_io *a, const char *name)
{
    list_foreach(l, &a->abouts) {
        struct subject *about = list_entry(l, struct subject, link);

        if (strcmp(about->name, name) == 0)
            return about;
    }
    return NULL;
}

static struct subject *subject_new(struct alert_io *a, const char *name)
{
    size_t size = strlen(name) + 1;
    struct subject *about = or_abort(calloc(1, sizeof(*about) + size));

    memcpy(about->name, name, size);
    list_init(&about->waiting);
    list_append(&a->abouts, &about->link);
    a->n_abouts++;
    return about;
}

/* Beyond ALERTS_ABOUT_MAX all others are one about. */
static struct subject *subject_of(struct alert_io *a, const char *name)
{
    struct subject *about = subject_find(a, name);

    if (!about && a->n_abouts >= ALERTS_ABOUT_MAX) {
        name = "others";
        about = subject_find(a, name);
    }
    return about ? about : subject_new(a, name);
}

static void subject_free(struct alert_io *a, struct subject *about)
{
    list_remove(&about->link);
    a->n_abouts--;
    free(about);
}

static struct waiting *left_out_new(const struct subject *about)
{
    CLEANUP(buf_deinit) struct buf event = {0};

    buf_puts(&event, "{\"kind\":\"EVENT_KIND_ALERT\",\"reason\":\"ALERTS_LEFT_OUT\",\"labels\":"
                     "[{\"name\":\"about\",\"value\":");
    buf_json(&event, about->name, strlen(about->name));
    buf_puts(&event, "},{\"name\":\"alerts\",\"value\":\"");
    buf_put_int(&event, (int64_t)about->left_out);
    buf_puts(&event, "\"}]}");
    (void)buf_or_abort(&event);
    return waiting_new(buf_str(&event));
}

/* The next alert of the first about, which becomes the last one. */
static struct waiting *take_turn(struct alert_io *a)
{
    struct subject *about = list_entry(list_pop(&a->abouts), struct subject, link);
    struct list *first = list_pop(&about->waiting);
    struct waiting *alert;

    list_append(&a->abouts, &about->link);
    if (first) {
        alert = list_entry(first, struct waiting, link);
        about->n--;
        a->n_waiting--;
    } else {
        alert = left_out_new(about);
        about->left_out = 0;
    }
    if (about->n == 0 && about->left_out == 0)
        subject_free(a, about);
    return alert;
}

/* Starts the next run. When all is done at the end, closes the timer. */
static void run_next(struct alert_io *a)
{
    if (!a->running && !list_empty(&a->abouts))
        run_start(a, take_turn(a));
    if (!a->running && a->on_closed && !uv_is_closing((uv_handle_t *)&a->closing))
        uv_close((uv_handle_t *)&a->closing, on_all_closed);
}

/* ---- alerts left out ---- */

/* The about with most alerts. */
static struct subject *subject_with_most(struct alert_io *a)
{
    struct subject *most = NULL;

    list_foreach(l, &a->abouts) {
        struct subject *about = list_entry(l, struct subject, link);

        if (!most || about->n > most->n)
            most = about;
    }
    return most;
}

static void leave_out(struct alert_io *a, struct subject *about, struct list *alert)
{
    list_remove(alert);
    free(list_entry(alert, struct waiting, link));
    about->n--;
    a->n_waiting--;
    a->stats.left_out++;
    about->left_out++;
    log_often(LOG_ERROR, "alert_command_busy", LOG_I("waiting", a->n_waiting),
              LOG_S("about", about->name));
}

/* Too many alerts wait: leaves out the last alert of the about with most. If several have as
 * many, and @latest is one of them, it is that one. */
static void make_room(struct alert_io *a, struct subject *latest)
{
    struct subject *most = subject_with_most(a);

    if (a->n_waiting <= ALERTS_WAITING)
        return;
    if (latest->n == most->n)
        most = latest;
    leave_out(a, most, most->waiting.prev);
}

void alert_io_run(struct alert_io *a, const char *about_name, const char *event)
{
    struct subject *about;

    if (a->on_closed)
        return;
    about = subject_of(a, about_name);
    list_append(&about->waiting, &waiting_new(event)->link);
    about->n++;
    a->n_waiting++;
    make_room(a, about);
    run_next(a);
}

/* ---- creating and closing ---- */

int alert_io_new(struct alert_io **out, uv_loop_t *loop, const char *command, int limit_ms)
{
    struct alert_io *a = calloc(1, sizeof(*a));

    if (!a)
        return -ENOMEM;
    a->loop = loop;
    a->command = command;
    a->limit_ms = limit_ms;
    list_init(&a->abouts);
    uv_timer_init(loop, &a->closing);
    a->closing.data = a;
    *out = a;
    return 0;
}

const struct alert_io_stats *alert_io_stats(const struct alert_io *a)
{
    return &a->stats;
}

static void drop_waiting(struct alert_io *a)
{
    while (!list_empty(&a->abouts)) {
        struct subject *about = list_entry(a->abouts.next, struct subject, link);

        for (struct list *l; (l = list_pop(&about->waiting));)
            free(list_entry(l, struct waiting, link));
        subject_free(a, about);
    }
    a->n_waiting = 0;
}

/* The time to close is over. The alerts that are left out are in the log. */
static void on_late(uv_timer_t *timer)
{
    struct alert_io *a = timer->data;

    if (a->n_waiting > 0)
        log_warn("alert_command_busy", LOG_I("waiting", a->n_waiting));
    a->stats.left_out += a->n_waiting;
    drop_waiting(a);
    run_kill(a->running);
}

void alert_io_close(struct alert_io *a, int within_ms, void (*on_closed)(void *ctx), void *ctx)
{
    a->on_closed = on_closed;
    a->ctx = ctx;
    uv_timer_start(&a->closing, on_late, (uint64_t)within_ms, 0);
    run_next(a);
}

struct alert_io *alert_io_free(struct alert_io *a)
{
    if (!a)
        return NULL;
    drop_waiting(a);
    free(a);
    return NULL;
}
