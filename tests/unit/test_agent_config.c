// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's list of actors: what is read, and what is refused with which words
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

#define ACTIONS(text)                                                                              \
    "agent = { actors = ( { name = \"a\"; handler = \"exec\"; actions = (" text "); } ); };"
#define ACTION(text) ACTIONS("{ name = \"x\"; command = [\"/bin/true\"]; " text " }")

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
    assert_int_equal(served->actor.early_ack_ms, 15 * 60 * 1000);
    assert_null(agent_served_action(served, "echo"));
    served = agent_setup_actor(setup, "mock");
    assert_string_equal(agent_served_action(served, "charge")->builtin, "noop");
    assert_null(agent_served_action(served, "refund"));
    assert_null(agent_setup_actor(setup, "nobody"));
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        const char *key;    /* begins the reason */
        const char *reason; /* is in it */
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
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
