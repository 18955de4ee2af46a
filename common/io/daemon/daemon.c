// SPDX-License-Identifier: Apache-2.0
/*
 * Daemons: command line, signals, start and stop of a daemon process
 *
 * See io/daemon/daemon.h.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "io/address.h"
#include "io/config/config_connections.h"
#include "io/daemon/daemon.h"
#include "io/daemon/health.h"
#include "io/failpoint.h"

/* The part of drain_timeout that is kept for closing connections: the role gets the rest. */
#define CLOSING_SHARE 5 /* a fifth */

#define HEALTHCHECK_MS 3000 /* without an answer by then the other process counts as dead */

enum {
    STATUS_GOOD = 0,
    STATUS_FAILED = 1,
    STATUS_WRONG = 2,
};

struct options {
    const char *file;
    const char **sets; /* "path=value", in the order of the command line */
    int n_sets;
    bool check_only;
    bool healthcheck;
};

enum {
    OPTION_CONFIG = 'c',
    OPTION_HELP = 'h',
    OPTION_VERSION = 'V',
    OPTION_CHECK = 256,
    OPTION_HEALTHCHECK,
    OPTION_LOG_LEVEL,
    OPTION_SET,
    OPTION_SWITCH, /* the first one of the role */
};

#define SWITCHES_MAX 4

/* The daemon of this process; static, so that memory that a failed start leaves stays reachable. */
static struct daemon {
    const struct daemon_role *role;
    const struct options *options;
    struct config *config; /* as read at the start, except log.level */
    uv_loop_t loop;
    uv_signal_t term, interrupt, hangup, usr1;
    uv_timer_t timer; /* starts the role, then bounds its stop */
    void *self;
    bool stopping;
    bool stopped;
    int status;
    uint64_t reloads_refused;
} process;

/* ---- command line ---- */

static void print_help(const struct daemon_role *role)
{
    printf("Usage: drover-%s [OPTION]...\n%s\n\n"
           "  -c, --config FILE     read settings from FILE\n"
           "      --check-config    print the settings in force and exit\n"
           "      --healthcheck     ask the one that runs whether it is alive, at health.listen, "
           "and exit\n"
           "      --log-level WORD  debug, info, warn or error; as --set log.level=WORD\n"
           "      --set PATH=VALUE  change one setting; may be repeated\n",
           role->name, role->summary);
    for (const struct daemon_switch *s = role->switches; s && s->name; s++)
        printf("      --%-16s%s\n", s->name, s->help);
    printf("  -V, --version         print the version and exit\n"
           "  -h, --help            print this and exit\n\n"
           "Settings, as PATH is written; the environment variable of a.b is DROVER_A__B. A\n"
           "secret can also be read from the file that DROVER_A__B_FILE names. The command line\n"
           "goes before the environment, that before the file.\n\n");
    config_describe(role->role, stdout);
    puts("\nSIGTERM and SIGINT stop it when what was begun is done, another SIGINT at once; "
         "SIGUSR1\n"
         "makes it tell in the log what it is doing; SIGHUP makes it read its settings again and "
         "take\n"
         "log.level from them, anything else waits for a restart.\n\n"
         "Exit status: 0 stopped as asked; 1 could not start, failed, or did not stop in time;\n"
         "2 wrong command line or configuration. Of --healthcheck: 0 alive, 1 not.");
}

/* Return: 0 to go on; otherwise the process exits with *status. */
static int apply_option(struct options *o, const struct daemon_role *role, int option, int *status)
{
    static char log_level[64];

    switch (option) {
    case OPTION_CONFIG:
        o->file = optarg;
        return 0;
    case OPTION_CHECK:
        o->check_only = true;
        return 0;
    case OPTION_HEALTHCHECK:
        o->healthcheck = true;
        return 0;
    case OPTION_LOG_LEVEL:
        snprintf(log_level, sizeof(log_level), "log.level=%s", optarg);
        o->sets[o->n_sets++] = log_level;
        return 0;
    case OPTION_SET:
        o->sets[o->n_sets++] = optarg;
        return 0;
    case OPTION_VERSION:
        printf("drover-%s %s\n", role->name, DROVER_VERSION);
        *status = STATUS_GOOD;
        return 1;
    case OPTION_HELP:
        print_help(role);
        *status = STATUS_GOOD;
        return 1;
    default:
        if (option >= OPTION_SWITCH && role->switches) {
            *role->switches[option - OPTION_SWITCH].set = true;
            return 0;
        }
        fprintf(stderr, "Try 'drover-%s --help'.\n", role->name);
        *status = STATUS_WRONG;
        return 1;
    }
}

/* Return: 0 to go on; otherwise the process exits with *status. */
static int parse_options(struct options *o, int argc, char **argv, const struct daemon_role *role,
                         int *status)
{
    struct option options[7 + SWITCHES_MAX + 1] = {
        {"config", required_argument, NULL, OPTION_CONFIG},
        {"check-config", no_argument, NULL, OPTION_CHECK},
        {"healthcheck", no_argument, NULL, OPTION_HEALTHCHECK},
        {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
        {"set", required_argument, NULL, OPTION_SET},
        {"version", no_argument, NULL, OPTION_VERSION},
        {"help", no_argument, NULL, OPTION_HELP},
    };
    int option, n = 7;

    for (const struct daemon_switch *s = role->switches; s && s->name; s++, n++)
        options[n] = (struct option){s->name, no_argument, NULL, OPTION_SWITCH + n - 7};
    assert(n <= 7 + SWITCHES_MAX);

    while ((option = getopt_long(argc, argv, "c:Vh", options, NULL)) >= 0) {
        if (apply_option(o, role, option, status))
            return 1;
    }
    if (optind == argc)
        return 0;
    fprintf(stderr, "drover-%s: %s: unexpected argument\n", role->name, argv[optind]);
    *status = STATUS_WRONG;
    return 1;
}

/* ---- configuration ---- */

/* Return: 0, -errno, or positive with @problem set. */
static int read_config(const struct options *o, const struct daemon_role *role, struct config **out,
                       struct problem *problem)
{
    const struct config_source source = {o->file, environ, o->sets, o->n_sets};
    CLEANUP(config_free) struct config *config = NULL;
    int ret;

    if (failpoint("config.load", "", "", NULL, 0) == FAILPOINT_RETURN)
        return -EIO;
    ret = config_load(&config, &source, problem);
    /* --healthcheck may lack what the daemon has, such as files that the role reads. */
    if (ret == 0 && role->check && !o->healthcheck)
        ret = role->check(config, problem);
    if (ret == 0 && !o->healthcheck)
        ret = config_secure_bus(config, problem);
    if (ret == 0 && !o->healthcheck && role->role != CONFIG_AGENT)
        ret = config_secure_store(config, problem);
    if (ret == 0)
        *out = take(config);
    return ret;
}

/* Return: 0; or the exit status, after it has printed what is wrong. */
static int load_config(const struct options *o, const struct daemon_role *role, struct config **out)
{
    struct problem problem = {0};
    int ret = failpoint_init(&problem);

    if (ret == 0)
        ret = read_config(o, role, out, &problem);
    if (ret < 0) {
        fprintf(stderr, "drover-%s: %s\n", role->name, strerror(-ret));
        return STATUS_FAILED;
    }
    if (ret > 0) {
        fprintf(stderr, "drover-%s: %s: %s\n", role->name, problem.field, problem.reason);
        return STATUS_WRONG;
    }
    return 0;
}

/* ---- the loop ---- */

static void on_stopped(void *ctx)
{
    struct daemon *d = ctx;

    d->stopped = true;
}

_Noreturn static void end_at_once(struct daemon *d, const char *why)
{
    log_error("stop_forced", LOG_S("why", why));
    if (d->role->abandon)
        d->role->abandon(d->self);
    _exit(STATUS_FAILED);
}

_Noreturn void daemon_fail(const char *why)
{
    end_at_once(&process, why);
}

static void on_too_late(uv_timer_t *timer)
{
    end_at_once(timer->data, "drain_timeout passed");
}

static void stop(struct daemon *d)
{
    int64_t timeout = d->config->drain_timeout_ms;

    d->stopping = true;
    uv_timer_start(&d->timer, on_too_late, (uint64_t)timeout, 0);
    d->role->stop(d->self, (int)(timeout - timeout / CLOSING_SHARE), on_stopped, d);
}

static void on_term(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    if (d->stopping && number == SIGINT)
        end_at_once(d, "another SIGINT");
    if (d->stopping)
        return;
    log_info("stopping", LOG_I("signal", number), LOG_I("timeout_ms", d->config->drain_timeout_ms));
    stop(d);
}

uint64_t daemon_reloads_refused(void)
{
    return process.reloads_refused;
}

void daemon_end(int status)
{
    if (process.stopping)
        return;
    process.status = status;
    stop(&process);
}

/* Only log.level and certificates change while the process runs: jobs keep the definition that they
 * have, and connections the settings that they were made with. */
static void on_hangup(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;
    CLEANUP(config_free) struct config *config = NULL;
    CLEANUP(buf_deinit) struct buf rest = {0};
    struct problem problem = {0};
    int ret = read_config(d->options, d->role, &config, &problem);

    if (ret) {
        d->reloads_refused++;
        log_error("reload_refused", LOG_S("where", problem.field),
                  LOG_S("why", ret < 0 ? strerror(-ret) : problem.reason));
        return;
    }
    d->config->log.level = config->log.level;
    config_take_tls(d->config, config);
    if (d->role->reload)
        d->role->reload(d->self);
    log_set_level((enum log_level)config->log.level);
    log_info("reloaded");
    config_difference(d->config, config, &rest);
    if (rest.len > 0)
        log_warn("needs_restart", LOG_S("settings", buf_str(&rest)));
}

static void on_usr1(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    d->role->dump(d->self);
}

static void watch(struct daemon *d, uv_signal_t *handle, uv_signal_cb cb, int number)
{
    uv_signal_init(&d->loop, handle);
    handle->data = d;
    uv_signal_start(handle, cb, number);
    /* The loop ends when the role has closed all its handles; signals must not keep it running. */
    uv_unref((uv_handle_t *)handle);
}

/* Runs in the loop, so that signals are handled while the role starts. */
static void on_start(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    struct rng seed;
    int ret = rng_seed_system(&seed);

    uv_unref((uv_handle_t *)timer);
    watch(d, &d->term, on_term, SIGTERM);
    watch(d, &d->interrupt, on_term, SIGINT);
    watch(d, &d->hangup, on_hangup, SIGHUP);
    watch(d, &d->usr1, on_usr1, SIGUSR1);
    if (ret == 0)
        ret = d->role->start(&d->self, &d->loop, d->config, &seed);
    if (ret < 0) {
        log_error("start_failed", LOG_S("why", strerror(-ret)));
        uv_stop(&d->loop);
        return;
    }
    log_info("started", LOG_S("version", DROVER_VERSION), LOG_S("name", d->config->name));
    config_log_queues(d->config);
}

static void close_loop(struct daemon *d)
{
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    uv_close((uv_handle_t *)&d->hangup, NULL);
    uv_close((uv_handle_t *)&d->usr1, NULL);
    uv_close((uv_handle_t *)&d->timer, NULL);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_loop_close(&d->loop);
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* Hides the memory of this process, which holds passwords, from other processes of its user, such
 * as the programs that an agent runs: no debugger, no core file, and /proc shows neither memory nor
 * environment. Not if sanitized, because the check for leaks at the end attaches as a debugger. */
static void hide_memory(const struct config *config)
{
    if (!SANITIZED && !config->security.dumpable && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
        log_warn("dumpable", LOG_S("why", strerror(errno)));
}

static int serve(struct daemon *d)
{
    hide_memory(d->config);
    uv_loop_init(&d->loop);
    uv_timer_init(&d->loop, &d->timer);
    d->timer.data = d;
    uv_timer_start(&d->timer, on_start, 0, 0);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    d->role->free(d->self);
    if (!d->stopped)
        return STATUS_FAILED;
    close_loop(d);
    log_info("stopped");
    return d->status;
}

/* ---- --healthcheck ---- */

static int healthcheck(const struct config *config, const struct daemon_role *role)
{
    const char *listen = config->health.listen;
    struct address address;
    const char *why;

    if (!*listen || address_parse(listen, &address) || strcmp(address.port, "0") == 0) {
        fprintf(stderr, "drover-%s: health.listen: must name a port to be asked at\n", role->name);
        return STATUS_WRONG;
    }
    why = health_ask(listen, HEALTHCHECK_MS);
    if (why)
        fprintf(stderr, "drover-%s: %s: %s\n", role->name, listen, why);
    return why ? STATUS_FAILED : STATUS_GOOD;
}

int daemon_main(int argc, char **argv, const struct daemon_role *role)
{
    CLEANUP(free) const char **sets = calloc((size_t)argc, sizeof(*sets));
    struct options options = {.sets = sets};
    struct daemon *d = &process;
    int status;

    if (!sets)
        return STATUS_FAILED;
    if (parse_options(&options, argc, argv, role, &status))
        return status;
    status = load_config(&options, role, &d->config);
    if (status)
        return status;
    if (options.check_only) {
        config_print(d->config, stdout);
    } else if (options.healthcheck) {
        status = healthcheck(d->config, role);
    } else {
        d->role = role;
        d->options = &options;
        signal(SIGPIPE, SIG_IGN);
        signal(SIGHUP, SIG_IGN); /* until the loop handles it */
        log_init(&(struct log_config){.service = role->name,
                                      .instance = d->config->name,
                                      .level = (enum log_level)d->config->log.level,
                                      .format = (enum log_format)d->config->log.format,
                                      .fd = STDERR_FILENO});
        status = serve(d);
    }
    if (status == STATUS_GOOD)
        d->config = config_free(d->config);
    return status;
}
