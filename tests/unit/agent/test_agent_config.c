// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's list of actors: what is accepted, and the words with which a wrong one is refused
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent_config.h"
#include "agent/handler.h"
#include "model/wire.h"

#define ACTIONS(text)                                                                              \
    "agent = { actors = ( { name = \"a\"; handler = \"exec\"; actions = (" text "); } ); };"
#define ACTION(text) ACTIONS("{ name = \"x\"; command = [\"/bin/true\"]; " text " }")
#define EXEC_ACTOR(text)                                                                           \
    "agent = { actors = ( { name = \"a\"; handler = \"exec\"; " text                               \
    " actions = ( { name = \"x\"; command = [\"/bin/true\"]; } ); } ); };"
#define HTTP_ACTOR(text) "agent = { actors = ( { name = \"a\"; handler = \"http\"; " text " } ); };"
#define HTTP_ACTION(text) HTTP_ACTOR("actions = ( { name = \"x\"; " text " } );")
#define HTTP(text) HTTP_ACTION("url = \"http://h/\"; " text)
#define BREAKER(text)                                                                              \
    HTTP_ACTOR("breaker = { " text " }; actions = ( { name = \"x\"; url = \"http://h/\"; } );")

static int read_text(const char *text, struct agent_setup **out, struct problem *problem)
{
    config_t tree;
    int r;

    config_init(&tree);
    if (!config_read_string(&tree, text))
        fail_msg("line %d: %s", config_error_line(&tree), config_error_text(&tree));
    r = agent_setup_read(out, config_root_setting(&tree), problem);
    config_destroy(&tree);
    return r;
}

static void test_all_keys(void **state)
{
    CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
    struct problem problem = {0};
    const struct agent_served *served;
    const struct agent_action *action;

    if (read_text(
            "agent = { concurrency = 9; actors = (\n"
            "  { name = \"payments\"; handler = \"exec\"; lease_retries = 3; ack = \"early\";\n"
            "    batch = 2;\n"
            "    actions = (\n"
            "      { name = \"charge\"; command = [\"/bin/charge\", \"--json\"];\n"
            "        stdin = \"request\"; env = [\"A=b\", \"C=\"]; kill_grace = \"250ms\";\n"
            "        permanent_exit_codes = [2, 255]; result_type = \"text/plain\"; },\n"
            "      { name = \"*\"; command = (\"/bin/any\"); } ); },\n"
            "  { name = \"demo\"; handler = \"builtin\"; },\n"
            "  { name = \"mock\"; handler = \"builtin\";\n"
            "    actions = ( { name = \"charge\"; builtin = \"noop\"; } ); } ); };\n",
            &setup, &problem))
        fail_msg("%s: %s", problem.field, problem.reason);
    assert_int_equal(setup->n_actors, 3);
    served = agent_setup_actor(setup, "payments");
    assert_ptr_equal(served->handler, &handler_exec);
    assert_int_equal(served->actor.lease_retries, 3);
    assert_int_equal(served->actor.early_ack_ms, 1);
    assert_int_equal(served->actor.batch, 2);
    action = agent_served_action(served, "charge");
    assert_string_equal(action->command[1], "--json");
    assert_null(action->command[2]);
    assert_true(action->whole_request);
    assert_string_equal(action->env[1], "C=");
    assert_int_equal(action->kill_grace_ms, 250);
    assert_true(action->permanent[2] && action->permanent[255] && !action->permanent[3]);
    assert_string_equal(action->result_type, "text/plain");
    action = agent_served_action(served, "anything");
    assert_string_equal(action->command[0], "/bin/any");
    assert_false(action->whole_request);
    assert_null(action->env[0]);
    assert_int_equal(action->kill_grace_ms, 1000);
    assert_string_equal(action->result_type, "application/octet-stream");
    served = agent_setup_actor(setup, "demo");
    assert_ptr_equal(served->handler, &handler_builtin);
    assert_int_equal(served->actor.early_ack_ms, 0);
    assert_null(agent_served_action(served, "echo"));
    served = agent_setup_actor(setup, "mock");
    assert_string_equal(agent_served_action(served, "charge")->builtin, "noop");
    assert_null(agent_served_action(served, "refund"));
    assert_null(agent_setup_actor(setup, "nobody"));
}

static void test_http_keys(void **state)
{
    CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
    struct problem problem = {0};
    const struct agent_served *served;
    const struct agent_action *action;
    const struct http_action *http;

    if (read_text(
            "agent = { actors = (\n"
            "  { name = \"payments\"; handler = \"http\"; lease_retries = 5;\n"
            "    breaker = { failures = 7; open = \"250ms\"; open_max = \"1h\"; };\n"
            "    actions = (\n"
            "      { name = \"charge\"; method = \"PUT\";\n"
            "        url = \"https://pay.example:8443/charges/${job}?step=${step}\";\n"
            "        headers = [\"X-Tenant: ${input.tenant}\", \"Accept:\"]; body = \"input\";\n"
            "        timeout = \"10s\"; max_response = 1000; ca_file = \"/etc/own.pem\";\n"
            "        cert_file = \"/etc/agent.pem\"; key_file = \"/etc/agent.key\";\n"
            "        insecure = false; proxy = \"http://proxy:3128\"; },\n"
            "      { name = \"look\"; method = \"GET\"; url = \"http://[::1]:80\"; },\n"
            "      { name = \"*\"; url = \"http://h?a=${arguments.a}\"; } ); } ); };\n",
            &setup, &problem))
        fail_msg("%s: %s", problem.field, problem.reason);
    served = agent_setup_actor(setup, "payments");
    assert_ptr_equal(served->handler, &handler_http);
    assert_int_equal(served->actor.lease_retries, 5);
    action = agent_served_action(served, "charge");
    assert_int_equal(action->breaker.failures, 7);
    assert_int_equal(action->breaker.open_ms, 250);
    assert_int_equal(action->breaker.open_max_ms, 3600000);
    http = action->http;
    assert_string_equal(http->method, "PUT");
    assert_string_equal(http->url, "https://pay.example:8443/charges/${job}?step=${step}");
    assert_string_equal(http->target, "https://pay.example:8443");
    assert_string_equal(http->headers[0], "X-Tenant: ${input.tenant}");
    assert_string_equal(http->headers[1], "Accept:");
    assert_null(http->headers[2]);
    assert_int_equal(http->body, HTTP_BODY_INPUT);
    assert_int_equal(http->timeout_ms, 10000);
    assert_int_equal(http->max_response, 1000);
    assert_string_equal(http->security.ca_file, "/etc/own.pem");
    assert_string_equal(http->security.cert_file, "/etc/agent.pem");
    assert_string_equal(http->security.key_file, "/etc/agent.key");
    assert_false(http->security.insecure);
    assert_string_equal(http->proxy, "http://proxy:3128");
    http = agent_served_action(served, "look")->http;
    assert_string_equal(http->target, "http://[::1]:80");
    assert_int_equal(http->body, HTTP_BODY_NONE);
    action = agent_served_action(served, "anything");
    assert_string_equal(action->http->target, "http://h");
    assert_int_equal(action->breaker.failures, 7);
}

static void test_http_defaults(void **state)
{
    CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
    const struct agent_served *served;
    const struct agent_action *action;
    const struct http_action *http;

    assert_int_equal(read_text(HTTP(""), &setup, NULL), 0);
    served = agent_setup_actor(setup, "a");
    assert_int_equal(served->actor.lease_retries, 2);
    assert_int_equal(served->actor.batch, 8);
    action = agent_served_action(served, "x");
    assert_int_equal(action->breaker.failures, 5);
    assert_int_equal(action->breaker.open_ms, 5000);
    assert_int_equal(action->breaker.open_max_ms, 60000);
    http = action->http;
    assert_string_equal(http->method, "POST");
    assert_null(http->headers[0]);
    assert_int_equal(http->body, HTTP_BODY_DOCUMENT);
    assert_int_equal(http->timeout_ms, 0);
    assert_int_equal(http->max_response, WIRE_RESULT_MAX - WIRE_CONTENT_TYPE_MAX);
    assert_null(http->security.ca_file);
    assert_null(http->proxy);
}

/* What an action does not say, its actor may. */
static void test_http_security_of_an_actor(void **state)
{
    CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
    struct problem problem = {0};
    const struct agent_served *served;
    const struct http_security *security;

    if (read_text("agent = { actors = (\n"
                  "  { name = \"a\"; handler = \"http\"; insecure = true; ca_file = \"/ca\";\n"
                  "    cert_file = \"/cert\"; key_file = \"/key\"; actions = (\n"
                  "      { name = \"x\"; url = \"http://10.0.0.1/x\"; },\n"
                  "      { name = \"y\"; url = \"https://10.0.0.1/y\"; ca_file = \"/other\";\n"
                  "        cert_file = \"/own\"; insecure = false; },\n"
                  "      { name = \"z\"; url = \"http://10.0.0.1\"; insecure = false;\n"
                  "        proxy = \"http://127.0.0.1:3128\"; },\n"
                  "      { name = \"l\"; url = \"http://[::1]:80/\"; insecure = false; } ); },\n"
                  "  { name = \"b\"; handler = \"http\";\n"
                  "    actions = ( { name = \"x\"; url = \"http://h/\"; } ); } ); };\n",
                  &setup, &problem))
        fail_msg("%s: %s", problem.field, problem.reason);
    assert_int_equal(agent_setup_expiry(setup), 0); /* there are no such files */
    served = agent_setup_actor(setup, "a");
    security = &agent_served_action(served, "x")->http->security;
    assert_true(security->insecure);
    assert_string_equal(security->ca_file, "/ca");
    assert_string_equal(security->cert_file, "/cert");
    assert_string_equal(security->key_file, "/key");
    security = &agent_served_action(served, "y")->http->security;
    assert_false(security->insecure);
    assert_string_equal(security->ca_file, "/other");
    assert_string_equal(security->cert_file, "/own");
    assert_string_equal(security->key_file, "/key");
    security = &agent_served_action(agent_setup_actor(setup, "b"), "x")->http->security;
    assert_false(security->insecure);
    assert_null(security->ca_file);
}

/* Files are looked at when a process begins, or is told to reload, not when its settings are read.
 */
static void test_http_files(void **state)
{
    static const struct {
        const char *text, *field, *reason;
    } cases[] = {
        {HTTP("ca_file = \"/nowhere/ca.pem\";"), "agent.actors[0].actions[0].ca_file",
         "cannot read /nowhere/ca.pem: No such file"},
        {HTTP("cert_file = \"/nowhere/a.pem\";"), "agent.actors[0].actions[0].key_file",
         "is missing: cert_file is given"},
        {HTTP("key_file = \"/nowhere/a.key\";"), "agent.actors[0].actions[0].cert_file",
         "is missing: key_file is given"},
    };

    for (size_t i = 0; i < array_size(cases); i++) {
        CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
        struct problem problem = {0};

        assert_int_equal(read_text(cases[i].text, &setup, NULL), 0);
        assert_int_equal(agent_setup_check_files(setup, &problem), TREE_E_INVALID);
        assert_string_equal(problem.field, cases[i].field);
        if (!strstr(problem.reason, cases[i].reason))
            fail_msg("%s", problem.reason);
    }
}

/* A program has a circuit breaker only if its actor asks for one. */
static void test_exec_breakers(void **state)
{
    static const struct {
        const char *text;
        struct breaker_config breaker;
    } cases[] = {
        {"", {0}},
        {"breaker = {};", {5, 5000, 60000}},
        {"breaker = { failures = 1; open = \"1h\"; open_max = \"1h\"; };", {1, 3600000, 3600000}},
    };

    for (size_t i = 0; i < array_size(cases); i++) {
        CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
        const struct breaker_config *breaker;
        char text[256];

        snprintf(text, sizeof(text), EXEC_ACTOR("%s"), cases[i].text);
        assert_int_equal(read_text(text, &setup, NULL), 0);
        breaker = &setup->actors[0].actions[0].breaker;
        assert_int_equal(breaker->failures, cases[i].breaker.failures);
        if (breaker->failures == 0)
            continue;
        assert_int_equal(breaker->open_ms, cases[i].breaker.open_ms);
        assert_int_equal(breaker->open_max_ms, cases[i].breaker.open_max_ms);
    }
}

static void test_http_bodies(void **state)
{
    static const char *const words[] = {
        [HTTP_BODY_DOCUMENT] = "document",   [HTTP_BODY_INPUT] = "input",
        [HTTP_BODY_ARGUMENTS] = "arguments", [HTTP_BODY_REQUEST] = "request",
        [HTTP_BODY_NONE] = "none",
    };
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

    for (size_t m = 0; m < array_size(methods); m++) {
        for (size_t i = 0; i < array_size(words); i++) {
            CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
            char text[256];

            snprintf(text, sizeof(text), HTTP("method = \"%s\"; body = \"%s\";"), methods[m],
                     words[i]);
            assert_int_equal(read_text(text, &setup, NULL), 0);
            assert_int_equal(setup->actors[0].actions[0].http->body, i);
            assert_string_equal(setup->actors[0].actions[0].http->method, methods[m]);
        }
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        const char *key;    /* the reason begins with it */
        const char *reason; /* the reason contains it */
    } cases[] = {
        {"agent = { };", "", "serve some actor"},
        {"agent = { actors = (); };", "agent.actors", "list of groups"},
        {"agent = { actors = ( 5 ); };", "agent.actors[0]", "must be a group"},
        {"agent = { actors = ( { handler = \"exec\"; } ); };", "agent.actors[0]",
         "name is missing"},
        {"agent = { actors = ( { name = \"a b\"; handler = \"exec\"; } ); };",
         "agent.actors[0].name", "letters"},
        {"agent = { actors = ( { name = \"a\"; } ); };", "agent.actors[0]", "handler is missing"},
        {"agent = { actors = ( { name = \"a\"; handler = \"magic\"; } ); };",
         "agent.actors[0].handler", "\"http\", \"exec\" or \"builtin\""},
        {"agent = { actors = ( { name = \"a\"; handler = \"exec\"; } ); };", "agent.actors[0]",
         "actions are missing"},
        {"agent = { actors = ( { name = \"a\"; handler = \"builtin\"; action = (); } ); };",
         "agent.actors[0].action", "actions"},
        {"agent = { actors = ( { name = \"a\"; handler = \"builtin\"; },\n"
         "{ name = \"a\"; handler = \"builtin\"; } ); };",
         "agent.actors[1].name", "actors[0]"},
        {"agent = { actors = ( { name = \"a\"; handler = \"builtin\"; lease_retries = -1; } ); };",
         "agent.actors[0].lease_retries", "0 to 100"},
        {"agent = { actors = ( { name = \"a\"; handler = \"builtin\"; batch = 9; } ); };",
         "agent.actors[0].batch", "1 to 8"},
        {"agent = { actors = ( { name = \"a\"; handler = \"builtin\"; ack = \"never\"; } ); };",
         "agent.actors[0].ack", "\"late\" or \"early\""},
        {"agent = { actors = ( { name = \"a\"; handler = \"builtin\"; actions = (\n"
         "{ name = \"x\"; builtin = \"dance\"; } ); } ); };",
         "agent.actors[0].actions[0].builtin", "noop, echo"},
        {ACTIONS("{ name = \"x\"; }"), "agent.actors[0].actions[0]", "command is missing"},
        {ACTIONS("{ name = \"x\"; command = \"/bin/true\"; }"),
         "agent.actors[0].actions[0].command", "list of texts"},
        {ACTIONS("{ name = \"x\"; command = [1]; }"), "agent.actors[0].actions[0].command[0]",
         "must be text"},
        {ACTION("comand = 1;"), "agent.actors[0].actions[0].comand", "command"},
        {ACTION("stdin = \"none\";"), "agent.actors[0].actions[0].stdin", "\"input\""},
        {ACTION("env = [\"A\"];"), "agent.actors[0].actions[0].env[0]", "NAME=value"},
        {ACTION("env = [\"DROVER_JOB=x\"];"), "agent.actors[0].actions[0].env[0]", "DROVER_"},
        {ACTION("permanent_exit_codes = [0];"),
         "agent.actors[0].actions[0].permanent_exit_codes[0]", "1 to 255"},
        {ACTION("permanent_exit_codes = 2;"), "agent.actors[0].actions[0].permanent_exit_codes",
         "list of numbers"},
        {ACTION("kill_grace = \"soon\";"), "agent.actors[0].actions[0].kill_grace", "duration"},
        {ACTION("kill_grace = \"2d\";"), "agent.actors[0].actions[0].kill_grace", "at most 3600s"},
        {ACTION("}, { name = \"x\"; command = [\"y\"];"), "agent.actors[0].actions[1].name",
         "actions[0]"},
        {"agent = { actors = ( { name = \"a\"; handler = \"builtin\"; breaker = {}; } ); };",
         "agent.actors[0].breaker", "only the handlers \"http\" and \"exec\""},
        {EXEC_ACTOR("breaker = 5;"), "agent.actors[0].breaker", "must be a group"},
        {EXEC_ACTOR("breaker = { failures = 0; };"), "agent.actors[0].breaker.failures",
         "1 to 1000"},
        {EXEC_ACTOR("breaker = { open = \"soon\"; };"), "agent.actors[0].breaker.open", "duration"},
        {EXEC_ACTOR("breaker = { open = \"2m\"; };"), "agent.actors[0].breaker",
         "open_max at least that"},
        {ACTION("breaker = {};"), "agent.actors[0].actions[0].breaker", "not known"},
        {HTTP_ACTOR(""), "agent.actors[0]", "actions are missing"},
        {HTTP_ACTION(""), "agent.actors[0].actions[0]", "url is missing"},
        {HTTP_ACTION("url = 5;"), "agent.actors[0].actions[0].url", "must be text"},
        {HTTP_ACTION("url = \"\";"), "agent.actors[0].actions[0].url", "must be text"},
        {HTTP_ACTION("url = \"pay.example/x\";"), "agent.actors[0].actions[0].url",
         "http://HOST or https://HOST"},
        {HTTP_ACTION("url = \"file:///etc/passwd\";"), "agent.actors[0].actions[0].url",
         "http://HOST or https://HOST"},
        {HTTP_ACTION("url = \"http:///x\";"), "agent.actors[0].actions[0].url",
         "http://HOST or https://HOST"},
        {HTTP_ACTION("url = \"http://${input.host}/x\";"), "agent.actors[0].actions[0].url",
         "only behind the host"},
        {HTTP_ACTION("url = \"http://h:${input.port}/x\";"), "agent.actors[0].actions[0].url",
         "only behind the host"},
        {HTTP_ACTION("url = \"http://h.${job}\";"), "agent.actors[0].actions[0].url",
         "only behind the host"},
        {HTTP_ACTION("url = \"http://user:word@h/x\";"), "agent.actors[0].actions[0].url",
         "give a header Authorization"},
        {HTTP_ACTION("url = \"http://h/a b\";"), "agent.actors[0].actions[0].url",
         "without spaces"},
        {HTTP_ACTION("url = \"http://h/a\\n\";"), "agent.actors[0].actions[0].url",
         "must be ASCII"},
        {HTTP_ACTION("url = \"http://h/\xc3\xa4\";"), "agent.actors[0].actions[0].url",
         "must be ASCII"},
        {HTTP_ACTION("url = \"http://h/#${job}\";"), "agent.actors[0].actions[0].url", "without #"},
        {HTTP_ACTION("url = \"http://h/${env.HOME}\";"), "agent.actors[0].actions[0].url",
         "${env.HOME} must be job, step"},
        {HTTP_ACTION("url = \"http://h:99999/x\";"), "agent.actors[0].actions[0].url",
         "is no URL: Port number"},
        {HTTP_ACTION("url = \"http://h:x/\";"), "agent.actors[0].actions[0].url", "is no URL: "},
        {HTTP_ACTION("url = \"http://[::1/x\";"), "agent.actors[0].actions[0].url", "is no URL: "},
        {HTTP_ACTION("url = \"http://:80/x\";"), "agent.actors[0].actions[0].url", "is no URL: "},
        {HTTP_ACTION("url = \"http://a{b/x\";"), "agent.actors[0].actions[0].url", "is no URL: "},
        {HTTP_ACTION("url = \"http://h/../x\";"), "agent.actors[0].actions[0].url",
         "must have no segment \".\" or \"..\""},
        {HTTP_ACTION("url = \"http://h/a%2f..%5cx\";"), "agent.actors[0].actions[0].url",
         "must have no segment \".\" or \"..\""},
        {HTTP_ACTION("url = \"http://h/${input.}\";"), "agent.actors[0].actions[0].url",
         "${input.} must be job, step"},
        {HTTP_ACTION("url = \"http://h/${job\";"), "agent.actors[0].actions[0].url",
         "${job has no closing }"},
        {HTTP("methode = \"GET\";"), "agent.actors[0].actions[0].methode", "method"},
        {HTTP("command = [\"/bin/true\"];"), "agent.actors[0].actions[0].command", "not known"},
        {HTTP("method = \"TRACE\";"), "agent.actors[0].actions[0].method", "must be GET, HEAD"},
        {HTTP("method = \"post\";"), "agent.actors[0].actions[0].method", "must be GET, HEAD"},
        {HTTP("headers = \"A: b\";"), "agent.actors[0].actions[0].headers", "list of texts"},
        {HTTP("headers = [\"A: b\", \"A\"];"), "agent.actors[0].actions[0].headers[1]",
         "\"Name: value\""},
        {HTTP("headers = [\": b\"];"), "agent.actors[0].actions[0].headers[0]", "\"Name: value\""},
        {HTTP("headers = [\"A b: c\"];"), "agent.actors[0].actions[0].headers[0]",
         "\"Name: value\""},
        {HTTP("headers = [\"A;\"];"), "agent.actors[0].actions[0].headers[0]", "\"Name: value\""},
        {HTTP("headers = [\"A: b\\r\\nC: d\"];"), "agent.actors[0].actions[0].headers[0]",
         "in ASCII"},
        {HTTP("headers = [\"A: ${nothing}\"];"), "agent.actors[0].actions[0].headers[0]",
         "${nothing} must be job"},
        {HTTP("headers = [\"${job}: a\"];"), "agent.actors[0].actions[0].headers[0]",
         "\"Name: value\""},
        {HTTP("headers = [\"idempotency-key: a\"];"), "agent.actors[0].actions[0].headers[0]",
         "is set by the agent"},
        {HTTP("headers = [\"Traceparent: a\"];"), "agent.actors[0].actions[0].headers[0]",
         "is set by the agent"},
        {HTTP("headers = [\"Content-length: 1\"];"), "agent.actors[0].actions[0].headers[0]",
         "is set by the agent"},
        {HTTP("headers = [\"transfer-encoding: chunked\"];"),
         "agent.actors[0].actions[0].headers[0]", "is set by the agent"},
        {HTTP("body = \"all\";"), "agent.actors[0].actions[0].body", "\"document\", \"input\""},
        {HTTP("body = 1;"), "agent.actors[0].actions[0].body", "\"document\", \"input\""},
        {HTTP("timeout = \"soon\";"), "agent.actors[0].actions[0].timeout", "duration"},
        {HTTP("timeout = \"31d\";"), "agent.actors[0].actions[0].timeout", "at most 2592000s"},
        {HTTP("max_response = -1;"), "agent.actors[0].actions[0].max_response", "0 to 262016"},
        {HTTP("max_response = 262017;"), "agent.actors[0].actions[0].max_response", "0 to 262016"},
        {HTTP("max_response = \"1\";"), "agent.actors[0].actions[0].max_response", "number"},
        {HTTP("insecure = 1;"), "agent.actors[0].actions[0].insecure", "must be true or false"},
        {HTTP("cert_file = \"\";"), "agent.actors[0].actions[0].cert_file", "must be text"},
        {HTTP_ACTION("url = \"http://10.0.0.1:8001/x\";"), "agent.actors[0].actions[0].url",
         "10.0.0.1 is no loopback address, and clear text can be read and changed on the way: use "
         "https://, or add the line insecure = true; to the actor, or to the action"},
        {HTTP_ACTION("url = \"http://[2001:db8::1]/\";"), "agent.actors[0].actions[0].url",
         "2001:db8::1 is no loopback address"},
        {HTTP_ACTOR("insecure = 0; actions = ();"), "agent.actors[0].insecure", "true or false"},
        {EXEC_ACTOR("insecure = true;"), "agent.actors[0].insecure", "only the handler \"http\""},
        {EXEC_ACTOR("ca_file = \"/ca\";"), "agent.actors[0].ca_file", "only the handler"},
        {ACTION("ca_file = \"/ca\";"), "agent.actors[0].actions[0].ca_file", "not known"},
        {HTTP("ca_file = 5;"), "agent.actors[0].actions[0].ca_file", "must be text"},
        {HTTP("method = \"HEAD\"; body = \"document\";"), "agent.actors[0].actions[0].body",
         "a request of HEAD has no body"},
        {HTTP("proxy = \"proxy:3128\";"), "agent.actors[0].actions[0].proxy",
         "must begin with http://, https://, socks5:// or socks5h://"},
        {HTTP("proxy = \"ftp://proxy:3128\";"), "agent.actors[0].actions[0].proxy",
         "must begin with http://, https://, socks5:// or socks5h://"},
        {HTTP("proxy = \"http://proxy:x\";"), "agent.actors[0].actions[0].proxy", "is no URL: "},
        {HTTP("proxy = \"\";"), "agent.actors[0].actions[0].proxy", "must be text"},
        {BREAKER("failure = 1;"), "agent.actors[0].breaker.failure", "failures"},
        {BREAKER("failures = 0;"), "agent.actors[0].breaker.failures", "1 to 1000"},
        {BREAKER("failures = 1001;"), "agent.actors[0].breaker.failures", "1 to 1000"},
        {BREAKER("open = \"0ms\";"), "agent.actors[0].breaker", "more than 0"},
        {BREAKER("open = \"61m\";"), "agent.actors[0].breaker.open", "at most 3600s"},
        {BREAKER("open = \"61s\";"), "agent.actors[0].breaker", "open_max at least that"},
        {BREAKER("open_max = \"4s\";"), "agent.actors[0].breaker", "open_max at least that"},
        {HTTP_ACTOR("breaker = 5; actions = ();"), "agent.actors[0].breaker", "must be a group"},
    };

    for (size_t i = 0; i < array_size(cases); i++) {
        struct agent_setup *setup = NULL;
        struct problem problem = {0};

        assert_int_equal(read_text(cases[i].text, &setup, &problem), TREE_E_INVALID);
        assert_null(setup);
        if (strncmp(problem.reason, cases[i].key, strlen(cases[i].key)) != 0 ||
            !strstr(problem.reason, cases[i].reason))
            fail_msg("%s\n%s: %s", cases[i].text, problem.field, problem.reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_keys),
        cmocka_unit_test(test_http_keys),
        cmocka_unit_test(test_http_defaults),
        cmocka_unit_test(test_exec_breakers),
        cmocka_unit_test(test_http_security_of_an_actor),
        cmocka_unit_test(test_http_files),
        cmocka_unit_test(test_http_bodies),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
