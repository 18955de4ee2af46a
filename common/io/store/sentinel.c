// SPDX-License-Identifier: Apache-2.0
/*
 * Sentinel: see io/store/sentinel.h
 */
#include "io/store/sentinel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The replies to one question, in order. */
enum {
    STEP_LOGIN,
    STEP_ADDRESS,
    STEP_EPOCH,
};

static void refuse(struct sentinel_talk *talk, const char *why, ...)
    __attribute__((format(printf, 2, 3)));

/* The first refusal counts: the others follow from it. */
static void refuse(struct sentinel_talk *talk, const char *why, ...)
{
    va_list args;

    if (talk->answer.kind == SENTINEL_REFUSES)
        return;
    talk->answer.kind = SENTINEL_REFUSES;
    va_start(args, why);
    vsnprintf(talk->answer.why, sizeof(talk->answer.why), why, args);
    va_end(args);
}

static void ask_for(struct buf *command, const char *what, const char *master_name)
{
    resp_command(command, 3);
    resp_puts(command, "SENTINEL");
    resp_puts(command, what);
    resp_puts(command, master_name);
}

void sentinel_ask(struct sentinel_talk *talk, const struct sentinel_config *config, bool login,
                  struct buf *command)
{
    login = login && config->password;
    *talk = (struct sentinel_talk){
        .config = config,
        .step = login ? STEP_LOGIN : STEP_ADDRESS,
    };
    if (login) {
        resp_command(command, config->user ? 3 : 2);
        resp_puts(command, "AUTH");
        if (config->user)
            resp_puts(command, config->user);
        resp_puts(command, config->password);
    }
    ask_for(command, "GET-MASTER-ADDR-BY-NAME", config->master_name);
    ask_for(command, "MASTER", config->master_name);
}

static void hear_error(struct sentinel_talk *talk, const struct resp_reply *reply)
{
    if (talk->step == STEP_LOGIN)
        refuse(talk,
               "Sentinel refuses the login: set redis.sentinel_user and redis.sentinel_password "
               "(%.100s)",
               resp_text(reply));
    else if (resp_is_error(reply, "NOAUTH"))
        refuse(talk, "Sentinel wants a login: set redis.sentinel_password (%.100s)",
               resp_text(reply));
    else if (resp_is_error(reply, "NOPERM"))
        refuse(talk,
               "the user of Sentinel needs +sentinel|get-master-addr-by-name +sentinel|master "
               "(%.100s)",
               resp_text(reply));
    else if (strstr(resp_text(reply), "unknown command"))
        refuse(talk,
               "it is no Sentinel: point redis.host at Sentinels, or leave redis.master_name out "
               "(%.60s)",
               resp_text(reply));
    else
        refuse(talk, "Sentinel does not tell the primary: %.150s", resp_text(reply));
}

/* Whether it can be the name or the number of a host. */
static bool is_name(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return text.len > 0;
}

static void hear_address(struct sentinel_talk *talk, const struct resp_reply *reply)
{
    struct sentinel_primary *primary = &talk->answer.primary;
    int64_t port = 0;

    if (reply->n != 2) {
        refuse(talk, "Sentinel knows no primary %.100s: set redis.master_name",
               talk->config->master_name);
        return;
    }
    if (!is_name(reply->items[0]) || reply->items[0].len >= sizeof(primary->host) ||
        !bytes_to_i64(reply->items[1], &port) || port < 1 || port > UINT16_MAX) {
        refuse(talk, "Sentinel names a primary without an address");
        return;
    }
    snprintf(primary->host, sizeof(primary->host), "%s", (const char *)reply->items[0].data);
    primary->port = (int)port;
}

/* The reply is a list name, value, name, value ... */
static void hear_epoch(struct sentinel_talk *talk, const struct resp_reply *reply)
{
    for (uint32_t i = 0; i + 1 < reply->n; i += 2)
        if (bytes_is(reply->items[i], "config-epoch") &&
            bytes_to_i64(reply->items[i + 1], &talk->answer.primary.epoch) &&
            talk->answer.primary.epoch >= 0)
            return;
    refuse(talk, "Sentinel does not tell the epoch of its configuration");
}

bool sentinel_hear(struct sentinel_talk *talk, const struct resp_reply *reply)
{
    if (reply->error)
        hear_error(talk, reply);
    else if (talk->step == STEP_ADDRESS)
        hear_address(talk, reply);
    else if (talk->step == STEP_EPOCH)
        hear_epoch(talk, reply);
    if (talk->step++ < STEP_EPOCH)
        return false;
    if (talk->answer.kind == SENTINEL_ASKED)
        talk->answer.kind = SENTINEL_NAMES;
    return true;
}

bool sentinel_is_same(const struct sentinel_primary *a, const struct sentinel_primary *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static bool names(const struct sentinel_answer *answer, int64_t epoch)
{
    return answer->kind == SENTINEL_NAMES && answer->primary.epoch == epoch;
}

/* Return: how many name this primary for its epoch. */
static size_t support(const struct sentinel_answer *answers, size_t n,
                      const struct sentinel_primary *primary)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count +=
            names(&answers[i], primary->epoch) && sentinel_is_same(&answers[i].primary, primary);
    return count;
}

static bool has_majority(const struct sentinel_answer *answers, size_t n,
                         const struct sentinel_primary *primary)
{
    return support(answers, n, primary) * 2 > n;
}

/* Return: the primary that more than half of all name for one epoch; NULL for none. */
static const struct sentinel_primary *of_majority(const struct sentinel_answer *answers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (answers[i].kind == SENTINEL_NAMES && has_majority(answers, n, &answers[i].primary))
            return &answers[i].primary;
    return NULL;
}

/* Return: the highest epoch that counts; -1 if no Sentinel names a primary. */
static int64_t highest_epoch(const struct sentinel_choice *choice,
                             const struct sentinel_answer *answers, size_t n)
{
    int64_t highest = -1;

    for (size_t i = 0; i < n; i++) {
        const int64_t epoch = answers[i].primary.epoch;
        const bool counts = !choice->rejected || epoch < choice->rejected ||
                            has_majority(answers, n, &answers[i].primary);

        if (answers[i].kind == SENTINEL_NAMES && counts && epoch > highest)
            highest = epoch;
    }
    return highest;
}

/* Return: the primary of the highest epoch that counts, the known one included; NULL for none. */
static const struct sentinel_primary *newest(const struct sentinel_choice *choice,
                                             const struct sentinel_answer *answers, size_t n)
{
    const struct sentinel_primary *best = NULL, *known = &choice->known;
    int64_t epoch = highest_epoch(choice, answers, n);
    size_t most = 0;

    if (*known->host && epoch <= known->epoch)
        return known;
    for (size_t i = 0; i < n; i++) {
        const struct sentinel_primary *primary = &answers[i].primary;
        size_t count = names(&answers[i], epoch) ? support(answers, n, primary) : 0;

        if (count > most) {
            most = count;
            best = primary;
        }
    }
    return best;
}

/* Whether a majority that names another primary than the newest one counts by now. */
static bool has_contradicted(struct sentinel_choice *choice, const struct sentinel_primary *newest,
                             const struct sentinel_primary *majority, bool round)
{
    if (!majority)
        return false;
    if (sentinel_is_same(majority, newest))
        choice->contradicted = 0;
    else if (!*choice->known.host)
        choice->contradicted = SENTINEL_ROUNDS;
    else
        choice->contradicted += round;
    return choice->contradicted == SENTINEL_ROUNDS;
}

bool sentinel_choose(struct sentinel_choice *choice, const struct sentinel_answer *answers,
                     size_t n, bool round)
{
    const struct sentinel_primary *majority = of_majority(answers, n), *primary;
    bool same;

    if (majority && majority->epoch >= choice->rejected)
        choice->rejected = 0;
    primary = newest(choice, answers, n);
    if (!primary)
        return false;
    if (has_contradicted(choice, primary, majority, round)) {
        choice->contradicted = 0;
        choice->rejected = primary->epoch > majority->epoch ? primary->epoch : 0;
        primary = majority;
    }
    same = sentinel_is_same(primary, &choice->known);
    choice->known = *primary;
    return !same;
}
