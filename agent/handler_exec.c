// SPDX-License-Identifier: Apache-2.0
/*
 * Handler exec: runs one program for each run, never by a shell, as agent_io.c starts it
 *
 *     stdin    the job's input, or the whole request as JSON
 *     stdout   the result, at most WIRE_RESULT_MAX
 *     stderr   its last 4 KiB are the details of a failure
 *     fd 3     its progress, in lines: progress_lines.h
 *     exit     0: done · 65 (EX_DATAERR) and permanent_exit_codes: a permanent failure · any other:
 *              a transient failure
 *
 * Where the actor has breakers, each of its actions has its own. For the breaker a transient
 * failure and a program that cannot be started are failures; success and a permanent failure are
 * answers. A program that the agent stopped before its lease was over, and that did not answer, is
 * neither.
 *
 * The program does not inherit the agent's environment. It gets PATH, `env` of the action, and
 *
 *     DROVER_JOB, DROVER_STEP, DROVER_ATTEMPT
 *     DROVER_IDEMPOTENCY_KEY   the same for every attempt of the same work
 *     DROVER_DIRECTION         do, or undo
 *     DROVER_DEADLINE_MS       the time that its lease has left
 *
 * drover-keep (keep.c) runs the program, in a session of its own, with its user and its limits. The
 * program's process group gets SIGTERM kill_grace before the lease ends. When the lease ends, and
 * when the program has exited, drover-keep kills all processes that the program has started, in
 * whatever group or session: no process of a run may act after the run has ended. Input and output
 * are pipes, because many programs cannot open /dev/stdout if it is a socket. The program gets none
 * of the agent's own file descriptors.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/handler.h"
#include "agent/orphans.h"
#include "agent/progress_lines.h"
#include "agent/target.h"
#include "agent/template.h"
#include "base/clock.h"
#include "io/daemon/child.h"
#include "model/json.h"
#include "model/wire.h"

#define EXIT_DATA_ERROR 65      /* sysexits.h: the input was incorrect */
#define TAIL_MAX ((size_t)4096) /* bytes of stderr that are kept */
/* File descriptors of drover-keep: 0, 1 and 2 are the program's, 3 is for its progress, and on 4
 * drover-keep reports that the program could not be started. */
#define FILES 5
#define KEEPER_MS 3000 /* how long drover-keep may take to kill all and end */
/* How long the loop may wait for killed orphans to end. A later call reaps the slower ones. */
#define ORPHANS_MS 100
#define KEEPER "drover-keep"      /* the file, in the folder of this program */
#define READ_SIZE ((size_t)65536) /* as much as a pipe holds */

static_assert(TAIL_MAX <= WIRE_ERROR_DETAILS_MAX, "details are not cut again");

enum phase {
    NOT_STARTED, /* the program could not be started: done() follows */
    RUNNING,
    TERMINATED, /* SIGTERM sent */
    KILLED,     /* SIGUSR1 sent: drover-keep kills all processes */
    ABANDONED,  /* drover-keep has not ended in time: SIGKILL sent to it */
};

struct exec_run {
    struct handler_run head;
    const struct agent_action *action;
    enum phase phase;
    uv_process_t process; /* drover-keep */
    uv_timer_t timer;     /* the next phase is due */
    struct list active;   /* in keepers */
    uv_pipe_t in, out, err, progress, report;
    unsigned handles; /* that are not closed yet */
    uv_write_t write;
    struct buf request; /* as JSON, for stdin */
    struct buf result;
    bool too_large;
    char tail[TAIL_MAX]; /* the end of stderr */
    size_t tail_len;
    struct progress_lines progress_lines;
    char reported[16]; /* drover-keep's errno, as text: the program was not started; "": it was */
    int error; /* why the program was not started, a negative errno; 0: its breaker is open */
    struct agent_result deferred; /* the result where its breaker is open */
    struct target_call call;
    bool given_up; /* stopped before its lease was over: its end says nothing of the program */
};

const char *handler_exec_keeper;

static struct list keepers = LIST_INIT(keepers); /* runs whose drover-keep has not ended */
static struct targets targets;                   /* the programs, by the names of their actions */

/* Return: the path of drover-keep; "" if the kernel does not tell that of this program. Static. */
static const char *keeper_path(void)
{
    static char path[PATH_MAX];
    ssize_t n = handler_exec_keeper || *path
                    ? 0
                    : readlink("/proc/self/exe", path, sizeof(path) - sizeof(KEEPER));
    char *name = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;

    if (name)
        memcpy(name + 1, KEEPER, sizeof(KEEPER));
    return handler_exec_keeper ? handler_exec_keeper : path;
}

/* ---- the end of a run ---- */

static void on_closed(uv_handle_t *handle)
{
    struct exec_run *run = handle->data;

    if (--run->handles > 0)
        return;
    buf_deinit(&run->request);
    buf_deinit(&run->result);
    free(run);
}

static void close_once(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

/* Tells the breaker how the call ended. A program that is being stopped may still answer. */
static void tell_target(const struct exec_run *run, const struct agent_result *result)
{
    if (result->ok || result->verdict == DROVER__V1__VERDICT__VERDICT_PERMANENT)
        target_answered(&run->call);
    else if (run->given_up)
        target_abandoned(&run->call, clock_monotonic_ms());
    else
        target_failed(&run->call, result, clock_monotonic_ms());
}

static void finish(struct exec_run *run, const struct agent_result *result)
{
    tell_target(run, result);
    run->head.done(&run->head, result);
    if (uv_handle_get_type((uv_handle_t *)&run->process) == UV_PROCESS)
        close_once(&run->process);
    close_once(&run->timer);
    close_once(&run->in);
    close_once(&run->out);
    close_once(&run->err);
    close_once(&run->progress);
    close_once(&run->report);
}

static void finish_failed(struct exec_run *run, const char *class, bool permanent,
                          const char *message)
{
    finish(run, &(struct agent_result){
                    .class = class,
                    .message = message,
                    .details = bytes_of(run->tail, run->tail_len),
                    .verdict = permanent ? DROVER__V1__VERDICT__VERDICT_PERMANENT
                                         : DROVER__V1__VERDICT__VERDICT_TRANSIENT,
                });
}

static void finish_not_started(struct exec_run *run)
{
    const char *program = *run->reported ? run->action->command[0] : keeper_path();
    char message[256];

    if (run->deferred.class) {
        finish(run, &run->deferred);
        return;
    }
    snprintf(message, sizeof(message), "%s: %s", program, uv_strerror(run->error));
    finish_failed(run, "NOT_STARTED", false, message);
}

static void finish_ended(struct exec_run *run, int status, int signal)
{
    bool stopped = run->phase >= TERMINATED;
    bool permanent = status == EXIT_DATA_ERROR || run->action->permanent[status & 0xff];
    char class[24], message[64];

    if (run->too_large) {
        finish_failed(run, "RESULT_TOO_LARGE", true, "stdout exceeds the limit of a result");
        return;
    }
    if (signal == 0 && status == 0) {
        finish(run, &(struct agent_result){.ok = true,
                                           .content_type = run->action->result_type,
                                           .result = buf_bytes(&run->result)});
        return;
    }
    if (signal != 0) {
        snprintf(class, sizeof(class), "SIGNAL_%d", signal);
        snprintf(message, sizeof(message), "ended by signal %d, %s", signal, strsignal(signal));
    } else {
        snprintf(class, sizeof(class), "EXIT_%d", status);
        snprintf(message, sizeof(message), "exit status %d", status);
    }
    if (stopped && !permanent)
        finish_failed(run, "TIMEOUT", false, message);
    else
        finish_failed(run, class, signal == 0 && permanent, message);
}

/* ---- signals ---- */

static void on_timer(uv_timer_t *timer);

/* Return: ms from SIGTERM to SIGKILL: kill_grace, at most half of the time that is left. */
static int64_t grace(const struct exec_run *run, int64_t left)
{
    return run->action->kill_grace_ms < left / 2 ? run->action->kill_grace_ms : left / 2;
}

static int64_t time_left(const struct exec_run *run)
{
    int64_t left = run->head.run->deadline - clock_monotonic_ms();

    return left > 0 ? left : 0;
}

static void kill_group(struct exec_run *run)
{
    run->phase = KILLED;
    uv_process_kill(&run->process, SIGUSR1);
    uv_timer_start(&run->timer, on_timer, KEEPER_MS, 0);
}

static void terminate_group(struct exec_run *run)
{
    int64_t left = time_left(run);
    int64_t wait = run->action->kill_grace_ms < left ? run->action->kill_grace_ms : left;

    run->phase = TERMINATED;
    uv_process_kill(&run->process, SIGTERM);
    uv_timer_start(&run->timer, on_timer, (uint64_t)wait, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct exec_run *run = timer->data;

    switch (run->phase) {
    case NOT_STARTED:
        finish_not_started(run);
        break;
    case RUNNING:
        terminate_group(run);
        break;
    case TERMINATED:
        kill_group(run);
        break;
    case KILLED: /* such as where a program of the same user has sent SIGSTOP to drover-keep */
        run->phase = ABANDONED;
        uv_process_kill(&run->process, SIGKILL);
        break;
    case ABANDONED:
        break;
    }
}

static void stop(struct handler_run *head, bool at_once)
{
    struct exec_run *run = container_of(head, struct exec_run, head);

    if (run->phase == NOT_STARTED || run->phase >= KILLED)
        return;
    if (run->phase == RUNNING)
        run->given_up = time_left(run) > 0;
    if (at_once || time_left(run) == 0)
        kill_group(run);
    else if (run->phase == RUNNING)
        terminate_group(run);
}

/* ---- input and output ---- */

static void on_written(uv_write_t *write, int status)
{
    struct exec_run *run = write->data;

    close_once(&run->in); /* also after an error: a program need not read its input */
}

static void write_input(struct exec_run *run)
{
    const Drover__V1__StepRequest *request = run->head.run->request;
    struct bytes input = BYTES_EMPTY;
    uv_buf_t buf;

    if (run->action->whole_request) {
        template_request(request, &run->request);
        buf_putc(&run->request, '\n');
        if (run->request.failed)
            abort();
        input = buf_bytes(&run->request);
    } else if (request->input) {
        input = bytes_of(request->input->data.data, request->input->data.len);
    }
    buf = uv_buf_init((char *)input.data, (unsigned)input.len);
    run->write.data = run;
    if (input.len == 0 || uv_write(&run->write, (uv_stream_t *)&run->in, &buf, 1, on_written))
        close_once(&run->in);
}

static void add_result(struct exec_run *run, const char *data, size_t len)
{
    size_t room = WIRE_RESULT_MAX - strlen(run->action->result_type) - run->result.len;

    if (len <= room) {
        buf_append(&run->result, data, len);
        if (run->result.failed)
            abort();
        return;
    }
    run->too_large = true;
    if (run->phase < KILLED)
        kill_group(run);
}

static void add_tail(struct exec_run *run, const char *data, size_t len)
{
    size_t added = len < TAIL_MAX ? len : TAIL_MAX;
    size_t kept = run->tail_len < TAIL_MAX - added ? run->tail_len : TAIL_MAX - added;

    memmove(run->tail, run->tail + run->tail_len - kept, kept);
    memcpy(run->tail + kept, data + len - added, added);
    run->tail_len = kept + added;
}

static void add_progress(struct exec_run *run, const char *data, size_t len)
{
    if (progress_lines_add(&run->progress_lines, bytes_of(data, len)))
        run->head.progress(&run->head, run->progress_lines.fraction, run->progress_lines.note);
}

static void add_report(struct exec_run *run, const char *data, size_t len)
{
    snprintf(run->reported, sizeof(run->reported), "%.*s", (int)len, data);
}

static void add(struct exec_run *run, const void *pipe, const char *data, size_t len)
{
    if (pipe == &run->report)
        add_report(run, data, len);
    else if (pipe == &run->err)
        add_tail(run, data, len);
    else if (pipe == &run->progress)
        add_progress(run, data, len);
    else if (!run->too_large)
        add_result(run, data, len);
}

static char read_buffer[READ_SIZE]; /* for all runs: its content is used before the next read */

static void on_room(uv_handle_t *pipe, size_t suggested, uv_buf_t *out)
{
    *out = uv_buf_init(read_buffer, sizeof(read_buffer));
}

static void on_read(uv_stream_t *pipe, ssize_t n, const uv_buf_t *buf)
{
    if (n > 0)
        add(pipe->data, pipe, buf->base, (size_t)n);
    else if (n < 0)
        close_once(pipe);
}

/* Reads what is still in the pipe. It does not wait for the end of the pipe: a process that has
 * left the group may hold the pipe open for any time. */
static void read_rest(struct exec_run *run, uv_pipe_t *pipe)
{
    uv_os_fd_t fd;
    ssize_t n;

    if (uv_is_closing((uv_handle_t *)pipe) || uv_fileno((uv_handle_t *)pipe, &fd))
        return;
    for (size_t total = 0; total <= WIRE_RESULT_MAX; total += (size_t)n) {
        n = read(fd, read_buffer, sizeof(read_buffer));
        if (n <= 0)
            return;
        add(run, pipe, read_buffer, (size_t)n);
    }
}

static bool is_keeper(pid_t pid)
{
    list_foreach(l, &keepers)
        if (list_entry(l, struct exec_run, active)->process.pid == pid)
            return true;
    return false;
}

/* A program may kill its drover-keep where both have the same user. Then the agent, a subreaper,
 * becomes the parent of the program and of what it has started, and kills these. Usually
 * drover-keep ended by the signal that ended its program, and there is none: then this costs one
 * scan of /proc. */
static void end_orphans(void)
{
    for (int64_t end = clock_monotonic_ms() + ORPHANS_MS;
         orphans_kill(is_keeper) > 0 && clock_monotonic_ms() < end;)
        if (!orphans_reap(is_keeper))
            usleep(1000);
}

static void on_end(uv_process_t *process, int64_t status, int signal)
{
    struct exec_run *run = process->data;

    list_remove(&run->active);
    if (signal != 0)
        end_orphans();
    read_rest(run, &run->out);
    read_rest(run, &run->err);
    read_rest(run, &run->progress);
    read_rest(run, &run->report);
    if (*run->reported) {
        run->error = -atoi(run->reported);
        finish_not_started(run);
    } else {
        finish_ended(run, (int)status, signal);
    }
}

/* ---- the start of a run ---- */

static void make_environment(struct child_env *env, const struct exec_run *run)
{
    const Drover__V1__StepRequest *request = run->head.run->request;
    bool undo = request->desired == DROVER__V1__STATE__STATE_DISABLED;

    child_env_init(env, run->action->env);
    child_env_add(env, "DROVER_JOB=%s", request->job_id);
    child_env_add(env, "DROVER_STEP=%s", request->step);
    child_env_add(env, "DROVER_ATTEMPT=%u", request->attempt);
    child_env_add(env, "DROVER_IDEMPOTENCY_KEY=%s", request->idempotency_key);
    child_env_add(env, "DROVER_DIRECTION=%s", undo ? "undo" : "do");
    child_env_add(env, "DROVER_DEADLINE_MS=%" PRId64, time_left(run));
}

/* The child's ends of the pipes, by file descriptor of the child; -1: not open. */
struct child_ends {
    int fds[FILES];
};

/* Makes a pipe. @childs: set to the child's end. @ours: opened on the other end, unless that fails.
 * Return: 0 or -errno. */
static int open_pipe(uv_pipe_t *ours, int *childs, bool child_reads)
{
    int fds[2];
    int r;

    if (pipe2(fds, O_CLOEXEC))
        return -errno;
    *childs = fds[child_reads ? 0 : 1];
    r = uv_pipe_open(ours, fds[child_reads ? 1 : 0]);
    if (r)
        close(fds[child_reads ? 1 : 0]);
    return r;
}

static int open_pipes(struct exec_run *run, struct child_ends *childs)
{
    int r = open_pipe(&run->in, &childs->fds[0], true);

    if (!r)
        r = open_pipe(&run->out, &childs->fds[1], false);
    if (!r)
        r = open_pipe(&run->err, &childs->fds[2], false);
    if (!r)
        r = open_pipe(&run->progress, &childs->fds[3], false);
    if (!r)
        r = open_pipe(&run->report, &childs->fds[4], false);
    return r;
}

/* Return: the number as text, in @room; "-" if it is not given. */
static const char *number_of(int64_t number, bool given, char room[INT_TEXT_MAX + 1])
{
    struct bytes text;

    if (!given)
        return "-";
    text = int_text(number, room);
    memmove(room, text.data, text.len);
    room[text.len] = '\0';
    return room;
}

/* Starts drover-keep with the program. Return: 0 or -errno. */
static int spawn(uv_loop_t *loop, struct exec_run *run, const struct child_ends *childs)
{
    const struct agent_action *action = run->action;
    CLEANUP(child_env_deinit) struct child_env env;
    uv_stdio_container_t stdio[FILES];
    char rooms[6][INT_TEXT_MAX + 1];
    const char *const keeper[] = {
        KEEPER,
        number_of(getpid(), true, rooms[0]),
        number_of(action->uid, action->other_user, rooms[1]),
        number_of(action->gid, action->other_user, rooms[2]),
        number_of(action->files, action->files > 0, rooms[3]),
        number_of(action->processes, action->processes > 0, rooms[4]),
        number_of(action->memory, action->memory > 0, rooms[5]),
        "--",
    };
    CLEANUP(free) char **words = NULL;
    uv_process_options_t options = {
        .exit_cb = on_end, .file = keeper_path(), .stdio_count = FILES, .stdio = stdio};
    size_t n = 0;
    int r;

    while (action->command[n])
        n++;
    words = or_abort(calloc(array_size(keeper) + n + 1, sizeof(*words)));
    memcpy(words, keeper, sizeof(keeper));
    memcpy(words + array_size(keeper), action->command, n * sizeof(*words));
    options.args = words;
    make_environment(&env, run);
    for (size_t i = 0; i < FILES; i++)
        stdio[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = childs->fds[i]};
    r = child_spawn(loop, &run->process, options, &env);
    run->process.data = run;
    run->handles++; /* the handle must be closed even if the process did not start */
    if (!r)
        list_append(&keepers, &run->active);
    return r;
}

static void init_handles(uv_loop_t *loop, struct exec_run *run)
{
    uv_timer_init(loop, &run->timer);
    uv_pipe_init(loop, &run->in, 0);
    uv_pipe_init(loop, &run->out, 0);
    uv_pipe_init(loop, &run->err, 0);
    uv_pipe_init(loop, &run->progress, 0);
    uv_pipe_init(loop, &run->report, 0);
    run->timer.data = run->in.data = run->out.data = run->err.data = run;
    run->progress.data = run->report.data = run;
    run->handles = 6;
}

/* Makes the pipes and starts drover-keep. Return: 0 or -errno. */
static int launch(uv_loop_t *loop, struct exec_run *run)
{
    struct child_ends childs = {{-1, -1, -1, -1, -1}};
    int r = open_pipes(run, &childs);

    if (!r)
        r = spawn(loop, run, &childs);
    for (size_t i = 0; i < FILES; i++)
        if (childs.fds[i] >= 0)
            close(childs.fds[i]);
    return r;
}

/* Return: whether the program was started; else run->error or run->deferred says why not. */
static bool begin(uv_loop_t *loop, struct exec_run *run)
{
    const char *actor = run->head.run->request->actor;
    struct target *target;

    if (time_left(run) == 0) { /* the process stood still since it took the request */
        run->error = UV_ETIMEDOUT;
        return false;
    }
    target = target_find(&targets, actor, run->action->name, &run->action->breaker);
    if (!target_admit(target, clock_monotonic_ms(), &run->call, &run->deferred))
        return false;
    run->error = launch(loop, run);
    return run->error == 0;
}

static struct handler_run *start(uv_loop_t *loop, const struct agent_action *action,
                                 const struct handler_run *head)
{
    struct exec_run *run = or_abort(calloc(1, sizeof(*run)));
    int64_t left;

    run->head = *head;
    list_init(&run->head.link);
    list_init(&run->active);
    run->action = action;
    progress_lines_init(&run->progress_lines);
    left = time_left(run);
    init_handles(loop, run);
    if (!begin(loop, run)) {
        uv_timer_start(&run->timer, on_timer, 0, 0);
        return &run->head;
    }
    run->phase = RUNNING;
    uv_timer_start(&run->timer, on_timer, (uint64_t)(left - grace(run, left)), 0);
    write_input(run);
    uv_read_start((uv_stream_t *)&run->out, on_room, on_read);
    uv_read_start((uv_stream_t *)&run->err, on_room, on_read);
    uv_read_start((uv_stream_t *)&run->progress, on_room, on_read);
    uv_read_start((uv_stream_t *)&run->report, on_room, on_read);
    return &run->head;
}

static void close_targets(void)
{
    targets_free(&targets);
}

const struct handler handler_exec = {
    .name = "exec", .start = start, .stop = stop, .close = close_targets};

bool handler_exec_possible(const char **path)
{
    *path = keeper_path();
    return access(*path, X_OK) == 0;
}
