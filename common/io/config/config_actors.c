// SPDX-License-Identifier: Apache-2.0
/*
 * The keys of agent.actors, for the man page drover.cfg(5)
 *
 * The agent reads agent.actors (agent/agent_config.c); a test compares the keys there with these.
 */
#include "io/config/config_actors.h"
#include "base/cleanup.h"

static const struct {
    const char *key;
    const char *text;
} ROWS[] = {
    {"name", "of the actor; of an action, where \"\\*\" is any that is not listed; needed"},
    {"handler", "builtin, exec or http; needed"},
    {"lease_retries", "further tries within one lease; default: 2 for http, else 0"},
    {"ack", "late (default): with the reply, but of a long lease when the handler starts "
            "(agent.consumer_timeout); early: always then"},
    {"batch", "requests that may share a message where they were short of late, 1 to 8; default: "
              "8, but no more than the agent works on at a time"},
    {"user", "exec: as whom the programs run, each actor as another one; the agent must be root"},
    {"actions", "a list of groups, one for each action; builtin has its own and needs none"},
    {"builtin", "builtin: the one that does an action of another name"},
    {"command", "exec: the program and its arguments; there is no shell"},
    {"stdin", "exec: input (default), or request: the whole StepRequest as JSON"},
    {"env", "exec: further variables, as \"NAME=value\""},
    {"permanent_exit_codes", "exec: those that mean never again, with 65"},
    {"kill_grace", "exec: from SIGTERM to SIGKILL at the end of the lease; default: 1s"},
    {"result_type", "exec: the content type of standard output"},
    {"files", "exec: that the program may have open; default: 1024; 0: as many as the agent"},
    {"processes",
     "exec: that its user may have; default: 256 where user is set, else as many as the agent's"},
    {"megabytes", "exec: of address space, of 2^20 bytes; default: no limit"},
    {"method", "http: POST (default), GET, HEAD, PUT, PATCH or DELETE"},
    {"url", "http: where to, with names such as ${job} behind the host; needed"},
    {"headers", "http: as \"Name: value\", with names in the value"},
    {"body", "http: document, input, arguments, request or none"},
    {"timeout", "http: of one try; default: what the lease has left"},
    {"max_response", "http: bytes of a result, at most 262016"},
    {"ca_file", "http: authorities to trust instead of the system's (PEM); this key and the next "
                "three may also stand beside handler, for all actions that have none of their own"},
    {"cert_file", "http: certificate of the agent and its chain (PEM), for services that want one"},
    {"key_file", "http: its private key (PEM), which others must not be able to read"},
    {"insecure", "http: true: http:// may leave this machine, and can be read and changed on the "
                 "way; default: false"},
    {"proxy", "http: by which to go"},
    {"breaker",
     "http, exec: a group of the next three; a breaker for each target of http, by default, "
     "and for each action of exec where this stands"},
    {"failures", "in a row, until it opens; default: 5"},
    {"open", "for so long at first; default: 5s"},
    {"open_max", "and never longer than; default: 1m"},
};

/* Prints a text of ROWS, which may have other markup of scdoc, with underscores escaped. */
static void print_literally(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '_')
            fputc('\\', out);
        fputc(*text, out);
    }
}

void config_actors_manual(FILE *out)
{
    fputs("# ACTORS\n\n"
          "*agent.actors* is a list of groups, one for each actor that the agent serves: "
          "( { name = \"payments\"; handler = \"exec\"; actions = ( { ... } ); } ). A group takes "
          "these keys, and those of its actions:\n\n",
          out);
    for (size_t i = 0; i < array_size(ROWS); i++) {
        fprintf(out, "*%s*\n\t", ROWS[i].key);
        print_literally(ROWS[i].text, out);
        fputs(".\n\n", out);
    }
    fputs("Secrets in headers: a line *@include \"secret.cfg\"* takes a part of the configuration "
          "from a file that the agent alone can read.\n\n",
          out);
}
