# SPDX-License-Identifier: Apache-2.0
"""The command `drover` against a real broker: what it prints, and its exit codes."""

import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import pika

import client
import cluster
import servers
import tap
import wire
from store_library import schema

HELLO = {"definition": {"steps": [
    {"name": "greet", "actor": "demo", "action": "echo"},
    {"name": "finish", "actor": "demo", "action": "noop", "after": ["greet"]}]}}
WAITS = {"definition": {"steps": [{"name": "only", "actor": "hand", "action": "wait"}]}}


ORDER = """name = "order"; version = %d;
steps = ( { name = "reserve"; actor = "hand"; },
          { name = "charge"; actor = "hand"; after = ["reserve"]; } );
"""
NO_STEPS = {"desired": "DISABLED"}  # the job ends at once, taken back before it began
A_WHILE = f"{3 * cluster.SLOW}s"  # enough to connect and get an answer on a busy machine

SIDE_BY_SIDE = 12  # commands that run at the same time; most of them wait


class Command:
    """Runs the program in a test case that knows the URL of the broker: self.url."""

    here = None  # the folder in which it runs

    def command(self, *words):
        """Returns the arguments for subprocess. The URL goes by the environment, because arguments
        are public."""
        return {
            "args": [wire.BUILD / "cli" / "drover", *words],
            "text": True,
            "cwd": self.here,
            "env": {**cluster.command_environment(), **cluster.SANITIZER_OPTIONS,
                    "DROVER_URL": self.url},
        }

    def drover(self, *words, body=None, out=subprocess.PIPE):
        """Runs the program; returns exit code, stdout and stderr."""
        done = subprocess.run(
            **self.command(*words),
            input=json.dumps(body) if body is not None else None,
            stdout=out, stderr=subprocess.PIPE, timeout=120,
        )
        self.assertNotRegex(done.stderr, cluster.SANITIZER)
        return done.returncode, done.stdout, done.stderr

    def at_once(self, *lines):
        """Runs command lines at the same time; returns for each what drover() returns."""

        def run(line):
            words, _, path = line.partition(" > ")
            with open(path, "w") if path else contextlib.nullcontext(subprocess.PIPE) as out:
                return self.drover(*words.split(), out=out)

        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            return list(pool.map(run, lines))

    def run_well(self, *words, **more):
        """Runs a command that must succeed with an empty stderr; returns stdout."""
        code, out, err = self.drover(*words, **more)
        self.assertEqual((0, ""), (code, err))
        return out


class Case(Command, cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.workflows = self.directory / "workflows"
        self.workflows.mkdir()
        for version in (1, 2):
            (self.workflows / f"order{version}.cfg").write_text(ORDER % version)
        self.c = self.cluster(
            settings={"scheduler": {"scheduler": {"workflows": str(self.workflows)}}}
        )
        self.url = self.c.url


class Cli(Case):
    def test_run(self):
        code, out, err = self.drover("run", "-", "--id", "hello", "--input", '{"a": 1}',
                                     "-o", "json", body=HELLO)
        self.assertEqual((0, "hello CREATED, 2 steps\n"), (code, err))
        status = json.loads(out)
        self.assertEqual(("hello", "OUTCOME_SUCCEEDED"), (status["jobId"], status["outcome"]))
        code, out, _ = self.drover("get", "hello")
        self.assertEqual(0, code)
        for word in ("hello", "SUCCEEDED", "greet", "finish", "DONE"):
            self.assertIn(word, out)

    def test_failure_in_results(self):
        """run, wait and get name the step that has failed, and its error, also in JSON."""
        job = {
            "definition": {
                "steps": [
                    {
                        "name": "book",
                        "actor": "demo",
                        "action": "noop",
                        "revert": {"action": "noop"},
                    },
                    {
                        "name": "pay",
                        "actor": "demo",
                        "action": "fail",
                        "after": ["book"],
                        "arguments": {
                            "json": {"class": "DECLINED", "message": "no cover", "permanent": True}
                        },
                    },
                ]
            }
        }
        why = "pay: DECLINED: no cover"
        code, out, _ = self.drover("run", "-", "--id", "why", body=job)
        self.assertEqual(4, code)
        self.assertIn(f"COMPENSATED after", out)
        self.assertIn(f", because {why}", out)
        self.assertEqual((4, f"why COMPENSATED: {why}\n"), self.drover("wait", "why")[:2])
        self.assertRegex(self.drover("get", "why")[1], f"Because +{why}\n")
        for words in (("get",), ("wait", "-o", "json")):
            status = json.loads(self.drover(words[0], "why", "-o", "json")[1])
            self.assertEqual(("pay", "DECLINED"), (status["failedStep"], status["error"]["class"]))
        (listed,) = json.loads(self.drover("list", "-o", "json", "--limit", "1")[1])
        self.assertEqual("pay", listed["failedStep"])
        *_, end = map(json.loads, self.drover("watch", "why", "-o", "jsonl")[1].splitlines())
        self.assertEqual(("pay", "no cover"), (end["step"], end["error"]["message"]))

    def test_submit_twice(self):
        """A repeated Submit is no error; another one under the same id is a conflict."""
        for _ in range(2):
            code, out, err = self.drover("submit", "-", "--id", "twice", "-o", "id", body=HELLO)
            self.assertEqual((0, "twice\n", ""), (code, out, err))
        code, out, err = self.drover("submit", "-", "--id", "twice", body=WAITS)
        self.assertEqual(6, code)
        self.assertIn("CONFLICT", out + err)

    def test_cancel(self):
        """Follows a job until it is cancelled; a second cancel has nothing to do."""
        code, _, _ = self.drover("submit", "-", "--id", "stop-me", body=WAITS)
        self.assertEqual(0, code)
        request = self.c.client.consume_step("hand")
        self.assertEqual("stop-me is being cancelled\n",
                         self.run_well("cancel", "stop-me", "--reason", "test"))
        self.assertEqual(
            "stop-me is being taken back already\n", self.run_well("cancel", "stop-me")
        )
        code, _, err = self.drover("run", "-", "--id", "stop-me", "--timeout", A_WHILE, body=WAITS)
        self.assertEqual(124, code, err)  # the step is still in flight
        self.c.client.reply(request)
        code, _, err = self.drover("run", "-", "--id", "stop-me", body=WAITS)
        self.assertEqual(4, code, err)

    def pause_while_it_changes(self, turn):
        """Runs `drover pause` for a job that changes each time the command arrives, and then is in
        this turn. Returns what drover() returns, and the if_seq of each command. The test acts as
        the scheduler."""
        self.c.schedulers[0].stop()
        seen = []

        def answer(channel, method, properties, body):
            control = wire.Control.FromString(body)
            answer = wire.Answer(job_id=control.job_id, command_id=control.command_id)
            if control.HasField("query"):
                answer.code = wire.ANSWER_CODE_DONE
                answer.status.CopyFrom(wire.JobStatus(
                    job_id=control.job_id, seq=len(seen) + 1, turn=turn if seen else 1))
            else:
                seen.append(control.if_seq)
                answer.code = (
                    wire.ANSWER_CODE_SUPERSEDED if control.if_seq else wire.ANSWER_CODE_DONE
                )
            channel.basic_publish(
                "",
                properties.reply_to,
                answer.SerializeToString(),
                pika.BasicProperties(
                    type="drover.v1.Answer",
                    content_type="application/x-protobuf",
                    correlation_id=properties.correlation_id,
                ),
            )
            channel.basic_ack(method.delivery_tag)

        scheduler = client.Listener(self.c.client, answer, queue="drover.control")
        self.addCleanup(scheduler.stop)
        return self.drover("pause", "busy"), seen

    def test_job_that_keeps_changing(self):
        """A command repeats itself for a job that keeps changing, as long as the job stays in the
        turn that the command has seen."""
        self.assertEqual(
            ((0, "busy is paused\n", ""), [1, 2, 3, 0]), self.pause_while_it_changes(turn=1)
        )

    def test_job_that_turned_meanwhile(self):
        self.assertEqual(
            ((6, "", "drover: refused: the job has been turned or changed meanwhile\n"), [1]),
            self.pause_while_it_changes(turn=2),
        )

    def test_unroutable(self):
        """B1.F16 B14.F16: a message that finds no queue is reported as such, and can be
        repeated."""
        words = ("submit", "-", "--id", "again", "-o", "id")
        for queue, key, line, code in (
            ("drover.submit", "submit", words, 0),
            ("drover.control", "control", ("cancel", "again"), 0),
        ):
            with self.subTest(queue):
                self.c.client.call(lambda c, q=queue, k=key: c.queue_unbind(q, q, k))
                body = WAITS if queue == "drover.submit" else None
                refused, out, err = self.drover(*line, body=body)
                self.assertEqual((7, ""), (refused, out), err)
                self.assertIn(f"no queue is bound to {queue}", err)
                self.c.client.call(lambda c, q=queue, k=key: c.queue_bind(q, q, k))
                self.assertEqual(code, self.drover(*line, body=body)[0])
        request = self.c.client.consume_step("hand")
        self.c.client.reply(request)
        self.assertEqual(4, self.drover("wait", "again")[0])

    def test_refusals(self):
        code, _, err = self.drover("get", "nobody")
        self.assertEqual(5, code)
        self.assertIn("there is no job nobody", err)
        code, _, err = self.drover("cancel", "nobody")
        self.assertEqual(5, code)
        code, out, err = self.drover("submit", "-", "--id", "bad", body={"definition": {"steps": [
            {"name": "a", "actor": "x", "action": "y", "after": ["b"]}]}})
        self.assertEqual(1, code)
        self.assertIn("after", out + err)
        code, _, err = self.drover("run", "--workflow", "nothing-like-it")
        self.assertEqual(1, code)
        self.assertIn("workflow", err)
        code, _, err = self.drover("frobnicate")
        self.assertEqual(2, code)

    def test_list(self):
        """Each filter, paging, and each form of output."""
        for i in range(5):
            labels = ["-l", f"n={i}", "-l", "site=a=b"] if i < 3 else []
            self.run_well("submit", "--workflow", "order" if i % 2 else "order@1", "--id", f"o{i}",
                      "-o", "id", *labels)
        self.run_well("submit", "-", "--id", "ended", "-o", "id", body=HELLO)
        self.run_well("submit", "-", "--id", "undone", "-o", "id", body={**HELLO, **NO_STEPS})
        self.run_well("submit", "-", "--id", "later", "--start-at", "+1h", "-o", "id", body=HELLO)
        self.run_well("cancel", "o4")
        self.c.client.reply(self.c.client.consume_step("hand"))  # for one of o0 to o4, possibly o4
        self.assertEqual("ended SUCCEEDED\n", self.run_well("wait", "ended"))

        def ids(*words):
            return self.run_well("list", "-o", "id", *words).split()

        everything = ["later", "undone", "ended", "o4", "o3", "o2", "o1", "o0"]
        self.assertEqual(everything, ids())
        self.assertEqual(["o3", "o1"], ids("-w", "order@2"))
        self.assertEqual(["o4", "o3", "o2", "o1", "o0"], ids("-w", "order"))
        self.assertEqual(["o2", "o1", "o0"], ids("-l", "site=a=b"))
        self.assertEqual(["o1"], ids("-l", "site=a=b", "-l", "n=1"))
        self.assertEqual(["o2", "o0"], ids("-l", "site=a=b", "-w", "order@1"))
        self.assertEqual(["later"], ids("-p", "pending"))
        self.assertEqual(["undone", "ended"], ids("-p", "processed"))
        self.assertEqual(everything, ids("--since", "-1h"))
        self.assertEqual(everything, ids("--before", "+1m"))
        code, out, err = self.drover("list", "-o", "id", "--before", "-1h")
        self.assertEqual((0, "", "no such jobs\n"), (code, out, err))

        pages, place = [], []
        while True:
            code, out, err = self.drover("list", "-o", "id", "-n", "3", *place)
            self.assertEqual(0, code)
            pages.append(out.split())
            if "--after" not in err:
                break
            place = ["--after", err.split()[-1]]
        self.assertEqual(everything, sum(pages, []))
        self.assertEqual([3, 3, 2], [len(page) for page in pages])

        self.assertEqual(
            everything, [job["jobId"] for job in json.loads(self.run_well("list", "-o", "json"))]
        )
        lines = [json.loads(line) for line in self.run_well("list", "-o", "jsonl").splitlines()]
        self.assertEqual(everything, [job["jobId"] for job in lines])
        self.assertEqual({"n": "1", "site": "a=b"},
                         {label["name"]: label["value"] for label in lines[6]["labels"]})
        table = self.run_well("list").splitlines()
        self.assertEqual("JOB WORKFLOW STATE STEPS CREATED FOR".split(), table[0].split())
        self.assertEqual("order@2", table[5].split()[1])
        self.assertNotIn("\033", "".join(table))
        code, _, err = self.drover("list", "--after", "nowhere")
        self.assertEqual(1, code)
        self.assertIn("after", err)

    def test_history(self):
        """The events of a job, in the words of the store; --follow goes on until the job has
        ended."""
        self.run_well("submit", "-w", "order", "--id", "h", "-o", "id")
        with subprocess.Popen(**self.command("history", "h", "--follow", "-o", "jsonl"),
                              stdout=subprocess.PIPE) as follower:
            self.c.client.reply(self.c.client.consume_step("hand"))
            self.c.client.reply(self.c.client.consume_step("hand"))
            entries = [json.loads(line) for line in follower.stdout]
        self.assertEqual(0, follower.returncode)
        self.assertEqual(
            ["created", "dispatched reserve", "done reserve", "dispatched charge", "done charge",
             "settled"],
            [f"{e['event']} {e.get('step', '')}".strip() for e in entries])
        self.assertEqual([str(i + 1) for i in range(6)], [e["seq"] for e in entries])
        self.assertEqual("SUCCEEDED", entries[-1]["detail"])
        self.assertEqual(entries, json.loads(self.run_well("history", "h", "-o", "json")))
        self.assertRegex(self.run_well("history", "h"), r"3  \S+Z  done reserve\n")
        self.assertEqual(5, self.drover("history", "nobody")[0])

    def test_watch_and_wait(self):
        """Each outcome has an exit code; a job that has not ended in time gives 124."""
        fails = {"definition": {"steps": [{"name": "a", "actor": "hand", "retry":
                 {"maximumAttempts": 1}}]}}
        self.run_well("submit", "-", "--id", "good", "-o", "id", body=HELLO)
        code, out, err = self.drover("watch", "good")
        self.assertEqual((0, ""), (code, err))
        self.assertIn("2 of 2", out)
        self.run_well("submit", "-", "--id", "stopped", "-o", "id", body=fails)
        request = self.c.client.consume_step("hand")
        code, out, err = self.drover("wait", "stopped", "--timeout", A_WHILE)
        self.assertEqual((124, ""), (code, out))
        self.assertIn("timed out", err)
        self.assertEqual(124, self.drover("watch", "stopped", "--timeout", A_WHILE)[0])
        self.run_well("cancel", "stopped")
        self.c.client.reply(request)
        code, out, err = self.drover("wait", "good", "stopped", "nobody")
        self.assertEqual((4, "good SUCCEEDED\nstopped CANCELLED\n"), (code, out))
        self.assertIn("no job nobody", err)
        self.assertEqual(4, self.drover("watch", "stopped")[0])
        self.assertEqual(5, self.drover("wait", "nobody")[0])
        self.assertEqual(5, self.drover("watch", "nobody")[0])

    def test_wrong_password(self):
        """The command fails at once, without --timeout."""
        self.url = self.url.replace(f":{self.rabbit.password}@", ":wrong@")
        for code, out, err in self.at_once("get x", "wait x", "watch x"):
            self.assertEqual((7, ""), (code, out))
            self.assertIn("refuses", err)
            self.assertNotIn("job", err)

    def test_lost_connection(self):
        """A job is followed on a new connection."""
        self.run_well("submit", "-", "--id", "long", "-o", "id", body=WAITS)
        request = self.c.client.consume_step("hand")
        with subprocess.Popen(**self.command("watch", "long"), stdout=subprocess.PIPE) as watch:
            self.assertIn("SENT", watch.stdout.readline())
            self.rabbit.rabbitmqctl("close_all_connections", "--vhost", self.c.name, "test")
            self.c.client.reply(request)
            self.assertIn("SUCCEEDED", watch.stdout.read())
        self.assertEqual(0, watch.returncode)

    def test_workflows(self):
        self.assertEqual("order@1\norder@2\n", self.run_well("workflow", "list", "-o", "id"))
        self.assertIn("DEFINITION", self.run_well("workflow", "list"))
        definition = json.loads(self.run_well("workflow", "show", "order", "-o", "json"))
        self.assertEqual(("order", 2), (definition["name"], definition["version"]))
        self.assertEqual("order@1\n", self.run_well("workflow", "show", "order@1", "-o", "id"))
        self.assertRegex(
            self.run_well("workflow", "show", "order"), r"charge +hand +charge .*reserve"
        )
        code, _, err = self.drover("workflow", "show", "nothing-like-it")
        self.assertEqual(5, code)
        self.assertIn("registered", err)
        out = self.run_well("workflow", "validate", str(self.workflows))
        self.assertIn("order1.cfg: order@1, 2 steps\n", out)
        bad = self.directory / "bad.cfg"
        bad.write_text('name = "x";\nversion = 1;\nsteps = ( { nmae = "a"; } );\n')
        code, out, err = self.drover("workflow", "validate", str(bad), str(self.workflows))
        self.assertEqual(1, code)
        self.assertIn("bad.cfg:3", err)
        self.assertIn("did you mean name?", err)
        self.assertIn("order@2", out)

    def test_progress(self):
        """What run prints while it waits is not a result; what watch prints is."""
        code, out, err = self.drover("run", "-", "--id", "p", body=HELLO)
        self.assertEqual(0, code)
        self.assertRegex(out, r"\A\S+ 2 of 2 settled, SUCCEEDED after \S+\n\Z")
        self.assertRegex(err, r"\Ap CREATED, 2 steps\n(\+\S+ (greet|finish) [^\n]+\n)+\Z")
        code, seen, _ = self.drover("watch", "p")
        self.assertEqual(0, code)
        self.assertRegex(
            seen, r"\A\+\S+ greet DONE\n\+\S+ finish DONE\n\S+ 2 of 2 settled, SUCCEEDED"
        )
        for verb in ("run - --id p", "watch p"):
            for output in ("json", "jsonl"):
                with self.subTest(verb, output=output):
                    code, out, err = self.drover(*verb.split(), "-o", output, body=HELLO)
                    self.assertEqual((0, "p ALREADY, 2 steps\n" if "run" in verb else ""),
                                     (code, err))
                    printed = [json.loads(line) for line in out.splitlines()]
                    self.assertEqual({"p"}, {message["jobId"] for message in printed})
                    self.assertEqual("OUTCOME_SUCCEEDED", printed[-1]["outcome"])
                    self.assertEqual(1 if output == "json" else 3, len(printed))

    def on_terminal(self, *words, act=None, body=None, results=None, **variables):
        """Runs the program on a terminal; `results`: a pipe for stdout. Calls act() when a step
        runs. Returns exit code, the terminal's text, and the pipe's."""
        command = self.command(*words)
        command["env"].update({"TERM": "xterm", **variables})
        given = self.directory / "given.json"
        given.write_text(json.dumps(body))
        try:
            ours, theirs = os.openpty()
        except OSError as error:
            self.skipTest(f"no terminals, because /dev/pts is not there: {error}")
        with open(given) as stdin, subprocess.Popen(
                **command, stdin=stdin, stdout=results or theirs, stderr=theirs) as process:
            os.close(theirs)
            limit = threading.Timer(60 * cluster.SLOW, process.kill)
            limit.start()
            seen = b""
            with contextlib.suppress(OSError):
                while chunk := os.read(ours, 65536):
                    seen += chunk
                    if act and b"SENT" in seen:
                        act, _ = None, act()
            out = process.stdout.read() if results else ""
            limit.cancel()
        os.close(ours)
        return process.returncode, seen.decode(), out

    def test_colours(self):
        """Colours appear on a terminal only, and not if they are switched off."""
        self.run_well("submit", "-", "--id", "t", "-o", "id", body={**HELLO, **NO_STEPS})
        self.assertIn("\033[", self.on_terminal("list")[1])
        self.assertNotIn("\033[", self.on_terminal("list", NO_COLOR="1")[1])
        self.assertNotIn("\033[", self.on_terminal("list", TERM="dumb")[1])

    def answer(self):
        self.c.client.reply(self.c.client.consume_step("hand"))

    def screens(self, seen):
        """Returns the successive pictures on the terminal; each is drawn over the one before."""
        _, *rest = re.split(r"(?:\033\[(\d+)A)?\r\033\[J", seen)
        ups, screens = rest[::2], rest[1::2]
        self.assertIsNone(ups[0])
        self.assertEqual([str(screen.count("\n")) for screen in screens[:-1]], ups[1:])
        self.assertGreater(len(screens), 1)
        return screens

    def test_watch_redraws(self):
        self.run_well("submit", "-", "--id", "w", "-o", "id", body=WAITS)
        code, seen, _ = self.on_terminal("watch", "w", act=self.answer)
        screens = self.screens(seen)
        self.assertEqual(0, code)
        self.assertRegex(screens[0], r"only +\S*hand\S* +\S*SENT")
        self.assertIn("0 of 1 settled, 1 running, PROCESSING", screens[0])
        self.assertRegex(screens[-1], r"only +\S*hand\S* +\S*DONE")
        self.assertRegex(screens[-1], r"1 of 1 settled, SUCCEEDED after \S+\r\n\Z")

    def test_run_redraws(self):
        """The table is on stderr; the result may go elsewhere, or stands below it on the same
        terminal."""
        code, seen, out = self.on_terminal(
            "run", "-", "--id", "r", body=WAITS, act=self.answer, results=subprocess.PIPE)
        screens = self.screens(seen)
        self.assertEqual(0, code)
        self.assertRegex(screens[-1], r"only +\S*hand\S* +\S*DONE")
        self.assertNotIn("SUCCEEDED", screens[-1])
        self.assertRegex(out, r"\A\S+ 1 of 1 settled, SUCCEEDED after \S+\n\Z")
        seen = self.on_terminal("run", "-", "--id", "r2", body=WAITS, act=self.answer)[1]
        self.assertRegex(self.screens(seen)[-1], r"1 of 1 settled, SUCCEEDED after \S+\r\n\Z")
        self.assertEqual(1, seen.count("SUCCEEDED"))


# ---- Every command, and every exit code it has --------------------------------------------------
#
# Command lines, by command and exit code. A code that is in none of these tables does not occur.

ENDS = {
    "submit": {
        0: ["submit hello.json --id new", "submit hello.json --id taken", "submit -w order"],
        1: ["submit nowhere.json", "submit wrong.json", "submit -w nothing-like-it"],
        2: ["submit", "submit hello.json -w order", "submit two.json --id one"],
        6: ["submit other.json --id taken"],
    },
    "run": {
        0: ["run hello.json --id other-new", "run hello.json --id taken"],
        1: ["run nowhere.json", "run wrong.json", "run -w nothing-like-it"],
        2: ["run", "run two.json"],
        3: [f"run hello.json --id {job}" for job in ("FAILED", "COMPENSATION_FAILED", "KILLED")],
        4: [f"run hello.json --id {job}" for job in ("CANCELLED", "COMPENSATED")],
        6: ["run other.json --id taken"],
    },
    "list": {
        0: ["list", "list -l none=such", "list --needs attention", "list --group --actor nobody"],
        1: ["list --after nowhere", "list --error-class a/b"],
        2: ["list job", "list -p done", "list --needs help"],
    },
    "get": {0: ["get taken"], 2: ["get", "get a b"], 5: ["get nobody"]},
    "why": {0: ["why taken"], 2: ["why", "why a b"], 5: ["why nobody"]},
    "history": {
        0: ["history taken", "history taken --follow"],
        2: ["history", "history a b"],
        5: ["history nobody", "history nobody --follow"],
    },
    "watch": {
        0: ["watch taken"],
        2: ["watch", "watch a b"],
        3: ["watch FAILED", "watch COMPENSATION_FAILED", "watch KILLED"],
        4: ["watch CANCELLED", "watch COMPENSATED"],
        5: ["watch nobody"],
    },
    "wait": {
        0: ["wait taken", "wait taken taken"],
        2: ["wait"],
        3: [
            "wait FAILED", "wait COMPENSATION_FAILED", "wait KILLED", "wait taken FAILED CANCELLED",
        ],
        4: ["wait CANCELLED", "wait COMPENSATED", "wait taken CANCELLED FAILED"],
        5: ["wait nobody", "wait nobody FAILED"],
    },
    "set-desired": {
        0: ["set-desired turns disabled", "set-desired taken active"],
        2: ["set-desired", "set-desired taken", "set-desired taken done"],
        5: ["set-desired nobody active"],
        6: ["set-desired KILLED active", "set-desired COMPENSATION_FAILED active"],
    },
    "cancel": {
        0: ["cancel waits"],
        2: ["cancel", "cancel a b"],
        5: ["cancel nobody"],
        6: ["cancel taken"],
    },
    "kill": {
        0: ["kill dies", "kill --where -l none=such"],
        2: [
            "kill", "kill a b", "kill --where", "kill taken -p error",
            "kill taken --where -p error",
        ],
        5: ["kill nobody"],
        6: ["kill taken"],
    },
    "pause": {
        0: ["pause halts"],
        2: ["pause", "pause a b"],
        5: ["pause nobody"],
        6: ["pause taken"],
    },
    "resume": {
        0: ["resume goes"],
        2: ["resume", "resume a b"],
        5: ["resume nobody"],
        6: ["resume taken"],
    },
    "acknowledge": {
        0: ["acknowledge FAILED"],
        2: ["acknowledge", "acknowledge a b"],
        5: ["acknowledge nobody"],
        6: ["acknowledge taken"],
    },
    "retry": {
        0: ["retry again"],
        1: ["retry FAILED nothing"],
        2: ["retry", "retry again --input 1", "retry again a b --input 1"],
        5: ["retry nobody", "retry nobody step"],
        6: ["retry taken"],
    },
    "resolve": {
        0: ["resolve stated greet active"],
        1: ["resolve stated nothing active"],
        2: ["resolve", "resolve stated greet", "resolve stated greet done"],
        5: ["resolve nobody greet active"],
        6: ["resolve taken greet disabled"],
    },
    "migrate": {
        0: ["migrate moves order@2", "migrate --where -l none=such order"],
        1: ["migrate taken order"],
        2: ["migrate", "migrate moves", "migrate moves order@2 order@1", "migrate --where order"],
        5: ["migrate nobody order", "migrate moves order@3"],
        6: ["migrate ends order@2"],
    },
    "resend": {
        0: ["resend demo", "resend *"],
        1: ["resend a/b"],
        2: ["resend", "resend a b"],
    },
    "workflow list": {0: ["workflow list"], 2: ["workflow list order"]},
    "workflow show": {
        0: ["workflow show order", "workflow show order@1"],
        2: ["workflow show"],
        5: ["workflow show nothing-like-it", "workflow show order@3"],
    },
    "workflow validate": {
        0: ["workflow validate workflows", "workflow validate workflows/order1.cfg"],
        1: ["workflow validate nowhere.cfg", "workflow validate workflows wrong.json"],
        2: ["workflow validate"],
    },
    "import": {
        0: ["import trace.json", "import trace.json trace.json --scale 0"],
        1: ["import nowhere.json", "import wrong.json", "import trace.json hello.json"],
        2: ["import", "import trace.json --scale much"],
    },
    "config": {0: ["config"], 1: ["config > /dev/full"], 2: ["config file"]},
    "completion": {
        0: ["completion bash"],
        1: ["completion bash > /dev/full"],
        2: ["completion"],
        5: ["completion zsh"],
    },
    "manual": {
        0: ["manual drover", "manual drover.cfg"],
        1: ["manual drover > /dev/full"],
        2: ["manual"],
        5: ["manual nothing"],
    },
    "failpoints": {0: ["failpoints"], 1: ["failpoints > /dev/full"], 2: ["failpoints all"]},
    "version": {0: ["version", "--version"], 1: ["version > /dev/full"], 2: ["version 2"]},
    "help": {
        0: ["help", "help get", "help workflow show", "--help"],
        1: ["help > /dev/full"],
        2: ["help nothing", "help workflow nothing", "help get job other"],
    },
}

# For each command that asks the broker, a line that needs an answer: 7 without a broker, 124 if no
# scheduler answers in time, 130 if the command is interrupted while it waits.
ASKS = {
    "submit": "submit hello.json --id unanswered",
    "run": "run hello.json --id unanswered-too",
    "list": "list",
    "get": "get taken",
    "why": "why taken",
    "history": "history taken",
    "watch": "watch taken",
    "wait": "wait taken",
    "set-desired": "set-desired nobody active",
    "cancel": "cancel nobody",
    "kill": "kill nobody",
    "pause": "pause nobody",
    "resume": "resume nobody",
    "acknowledge": "acknowledge nobody",
    "retry": "retry nobody",
    "resolve": "resolve nobody step active",
    "migrate": "migrate nobody order",
    "resend": "resend demo",
    "workflow list": "workflow list",
    "workflow show": "workflow show order",
}

# For each command that goes on until a job has ended, a line with a job that does not end: 124 and
# 130.
FOLLOWS = {
    "run": "run waits.json --id run-waits",
    "history": "history history-waits --follow",
    "watch": "watch watch-waits",
    "wait": "wait wait-waits",
}


def wrong_lines(command):
    """Returns the lines that are wrong, or fail, for each command of a kind."""
    asks = ASKS.get(command)
    return {
        1: [f"{asks} --config nowhere.cfg"] if asks else [],
        2: [f"{command} --frobnicate", *([f"{asks} --url nonsense"] if asks else [])],
    }


class Exits(Case):
    def prepare(self):
        """Makes the files and jobs that the lines above name."""
        self.here = self.directory
        for name, content in {
            "hello": HELLO,
            "other": {**HELLO, "labels": [{"name": "a", "value": "b"}]},
            "waits": WAITS,
            "wrong": {"definition": {"steps": [{"name": "a", "actor": "x", "after": ["b"]}]}},
            "trace": {"name": "t", "steps": [{"name": "a", "depends_on": [], "runtime": 1}]},
        }.items():
            (self.here / f"{name}.json").write_text(json.dumps(content))
        (self.here / "two.json").write_text(2 * json.dumps(HELLO))
        outcomes = {
            **{
                o: o
                for o in ("FAILED", "COMPENSATION_FAILED", "KILLED", "CANCELLED", "COMPENSATED")
            },
            "again": "FAILED",
            "stated": "FAILED",
        }
        waiting = [
            "waits", "turns", "dies", "halts", "goes", *(f"{command}-waits" for command in FOLLOWS),
        ]
        for result in self.at_once(
                *(f"run hello.json --id {job}" for job in ("taken", *outcomes)),
                *(f"submit waits.json --id {job}" for job in waiting),
                *(f"submit -w order@1 --id {job}" for job in ("moves", "ends"))):
            self.assertEqual(0, result[0], result)
        self.run_well("kill", "ends")
        for job, outcome in outcomes.items():  # as the records would have them
            key = f"{self.c.store.partition(job)}job:{job}"
            phase = "PROCESSED" if outcome == "COMPENSATED" else "ERROR"
            attention = "ended 1 greet demo BAD" if outcome == "FAILED" else ""
            self.c.store.redis.hset(
                key, mapping={"outcome": outcome, "phase": phase, "attention": attention}
            )

    def expect_code(self, code, lines, says=""):
        """Expects that each of the lines ends with the code."""
        lines = list(lines)
        for line, (seen, _, err) in zip(lines, self.at_once(*lines)):
            with self.subTest(line, code=code):
                self.assertEqual(code, seen, err)
                self.assertIn(says, err)

    @contextlib.contextmanager
    def collect_questions(self):
        """Collects meanwhile the questions to schedulers: {job: {ids of questions}}."""
        asked = collections.defaultdict(set)

        def take(message, name):
            def on_message(channel, method, _, body):
                question = message.FromString(body)
                asked[question.job_id].add(getattr(question, name))
                channel.basic_ack(method.delivery_tag)

            return on_message

        listeners = [
            client.Listener(self.c.client, take(message, name), exchange=exchange, keys=[key])
            for message, name, exchange, key in (
                (wire.Control, "command_id", "drover.control", "control"),
                (wire.Submit, "job_id", "drover.submit", "submit"))]
        try:
            yield asked
        finally:
            for listener in listeners:
                listener.stop()

    def interrupt(self, lines, ready, says):
        """Interrupts all of the lines when ready(questions)."""
        with self.collect_questions() as asked, contextlib.ExitStack() as stack:
            running = [stack.enter_context(subprocess.Popen(
                **self.command(*line.split()), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
                for line in lines]
            servers.wait_for(lambda: ready(asked), "questions", 60 * cluster.SLOW)
            for process in running:
                process.send_signal(signal.SIGINT)
            for line, process in zip(lines, running):
                with self.subTest(line, code=130):
                    _, err = process.communicate(timeout=60)
                    self.assertNotRegex(err, cluster.SANITIZER)
                    self.assertEqual(130, process.returncode, err)
                    self.assertIn(says(line), err)

    def test_every_command(self):
        self.prepare()
        for code in sorted({code for codes in ENDS.values() for code in codes}):
            lines = [line for codes in ENDS.values() for line in codes.get(code, ())]
            wrong = [line for command in ENDS for line in wrong_lines(command).get(code, ())]
            self.expect_code(code, lines + wrong, "drover: " if code == 2 else "")
        nowhere = f"amqp://{servers.HOST}:{servers.free_ports(1)[0]}/"
        self.expect_code(
            7, (f"{line} --url {nowhere} --timeout 1s" for line in ASKS.values()), "refused"
        )
        self.expect_code(
            124, (f"{line} --timeout {A_WHILE}" for line in FOLLOWS.values()), "has not ended"
        )
        self.interrupt(  # a second question follows the answer to the first
            list(FOLLOWS.values()),
            lambda asked: all(len(asked[f"{command}-waits"]) >= 2 for command in FOLLOWS),
            lambda line: f"detached; job {line.split()[0]}-waits still runs")
        self.c.schedulers[0].pause()
        self.addCleanup(self.c.schedulers[0].resume)
        self.expect_code(124, (f"{line} --timeout {A_WHILE}" for line in ASKS.values()),
                   "no scheduler has answered in time")
        self.interrupt(
            list(ASKS.values()),
            lambda asked: len(set().union(*asked.values())) == len(ASKS),
            lambda line: "drover: interrupted")


class Alone(Command, unittest.TestCase):
    """Commands that need no broker, or find none."""

    url = f"amqp://{servers.HOST}:1/"

    def test_texts(self):
        """Texts that are made from the tables of commands."""
        for words in (["help"], ["help", "workflow", "list"], ["list", "--help"], ["version"]):
            self.assertIn("drover", self.drover(*words)[1])
        completion = self.drover("completion", "bash")[1]
        script = completion + (
            "COMP_WORDS=(drover list -p e) COMP_CWORD=3; _drover; echo ${COMPREPLY[@]}\n"
            "COMP_WORDS=(drover workflow v) COMP_CWORD=2; _drover; echo ${COMPREPLY[@]}\n"
            "COMP_WORDS=(drover wa) COMP_CWORD=1; _drover; echo ${COMPREPLY[@]}\n"
            "COMP_WORDS=(drover workflow show --js) COMP_CWORD=3; _drover; echo ${COMPREPLY[@]}\n"
            "COMP_WORDS=(drover get --da) COMP_CWORD=2; _drover; echo ${COMPREPLY[@]}\n")
        done = subprocess.run(["bash"], input=script, capture_output=True, text=True)
        self.assertEqual(
            ("error\nvalidate\nwatch wait\n\n--data\n", ""), (done.stdout, done.stderr)
        )
        for page in ("drover", "drover.cfg"):
            self.assertTrue(self.drover("manual", page)[1].startswith(f"{page}("))
        sample = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "sample.cfg"
        sample.write_text(self.drover("config")[1])
        checked = subprocess.run(
            [wire.BUILD / "scheduler" / "drover-scheduler", "--config", sample, "--check-config"],
            capture_output=True, text=True, env=cluster.command_environment())
        self.assertEqual((0, ""), (checked.returncode, checked.stderr))
        self.assertEqual(5, self.drover("manual", "nothing")[0])

    def test_table_of_exits(self):
        """The table has all commands and codes that `drover help` names."""
        overview = self.run_well("help")
        commands = re.findall(r"^  ([a-z-]+(?: [a-z]+)?)  ", overview, re.M)
        self.assertEqual(commands, list(ENDS))
        self.assertEqual(
            commands,
            re.findall(r"^    '([a-z -]+)'\) options=", self.run_well("completion", "bash"), re.M),
        )
        help_of = {command: self.run_well("help", *command.split()) for command in commands}
        self.assertEqual([c for c in commands if "--url" in help_of[c]], list(ASKS))
        codes = {int(code): text for code, text in re.findall(r"^  +(\d+)  (.*)$", overview, re.M)}
        used = {code for table in ENDS.values() for code in table} | {7, 124, 130}
        self.assertEqual(set(codes), used)
        endless = re.search(r"30s; (.*) have no limit", overview)[1].replace(" and", ",")
        self.assertEqual(
            {*endless.split(", "), *(c for c in commands if "--follow" in help_of[c])}, set(FOLLOWS)
        )
        for code in (3, 4):
            named = codes[code].partition(":")[0].split(", ")
            self.assertEqual(set(named), {c for c in commands if code in ENDS[c]})
        for command, table in ENDS.items():
            self.assertLessEqual({0, 2}, set(table), command)
            for code, lines in table.items():
                self.assertTrue(lines, (command, code))

    def test_bad_url(self):
        """On the command line it is a usage error, in the environment a failure."""
        example = ", as in amqp://user@host:port/vhost"
        seen = ("others can see a password there: put it into DROVER_RABBITMQ__PASSWORD, or the "
                "whole URL into DROVER_URL")
        for url, reason in (
            ("nonsense", "must begin with amqp:// or amqps://"),
            ("", "must begin with amqp:// or amqps://"),
            ("amqp://me:secret@h/", None), ("amqps://me:secret@h/", None),
            ("amqp://", "host is missing"),
            ("amqp://me:secret@h:x/", "host must have ports from 1 to 65535"),
        ):
            with self.subTest(url):
                printed = self.drover("get", "x", "--url", url, "--timeout", "1s")
                why = f"{reason}{example}" if reason else seen
                self.assertEqual((2, "", f"drover: --url: {why}\n"), printed)
        self.url = "nonsense"
        printed = self.drover("get", "x")
        said = "drover: DROVER_URL: must begin with amqp:// or amqps://\n"
        self.assertEqual((1, "", said), printed)

    def test_no_broker(self):
        """The error names the address and the reason, and says nothing of the job."""
        port = servers.free_ports(1)[0]
        self.url = f"amqp://guest:guest@{servers.HOST}:{port}/"
        verbs = "get x", "wait x", "watch x", "list", "pause --where -l a=b"
        lines = [f"{verb} --timeout 2s" for verb in verbs]
        for code, out, err in self.at_once(*lines):
            self.assertEqual((7, ""), (code, out))
            self.assertIn(f"{servers.HOST}:{port}", err)
            self.assertIn("refused", err)
            self.assertNotIn("job", err)


class Lists(cluster.TestCase):
    """Pages over many partitions, and over many jobs that do not match."""

    def preload(self, c, jobs):
        """Stores jobs (id, active, label) with the function that a scheduler calls."""
        pipeline = c.store.redis.pipeline(transaction=False)
        for number, (job_id, active, label) in enumerate(jobs):
            pipeline.fcall(
                "drover1_submit",
                1,
                c.store.partition(job_id),
                *schema.arguments(
                    "submit", job_id=job_id, digest="digest", workflow="order", redelivered=0,
                    nonce=f"{number:016x}", by="test", desired="A" if active else "D", start_at=0,
                    complete_by=0, events="job", priority=0,
                    labels=f"{len(label)}:{label}" if label else "",
                ),
            )
        answers = [schema.answer("submit", answer) for answer in pipeline.execute()]
        self.assertEqual({"CREATED"}, {answer.code for answer in answers})

    def created(self, c, job_id):
        return int(c.store.job(job_id)["created"])

    def pages(self, c, limit, **query):
        """Returns the ids of each page."""
        found, after = [], ""
        while True:
            answer = c.client.control(
                "", list_jobs=wire.ListJobs(limit=limit, after=after, **query)
            )
            self.assertEqual(wire.ANSWER_CODE_DONE, answer.code)
            found.append([job.job_id for job in answer.jobs])
            after = answer.next
            if not after:
                return found

    def start(self, partitions):
        workflows = self.directory / "workflows"
        workflows.mkdir()
        (workflows / "order.cfg").write_text(ORDER % 1)
        c = self.cluster(agents=0, supervisors=0, settings={"scheduler": {
            "redis": {"partitions": partitions}, "scheduler": {"workflows": str(workflows)}}})
        c.store.partitions = partitions
        servers.wait_for(lambda: c.store.total("defs") == 0 and c.store.keys("workflows"),
                         "the workflow to be registered")
        return c

    def test_many_partitions(self):
        c = self.start(8)
        jobs = [(f"job-{i * 7919 % 1000:03d}", i % 3 != 0, "odd=yes" if i % 2 else "")
                for i in range(600)]
        self.preload(c, jobs)
        self.preload(c, [("last", True, "odd=yes")])

        def expected(wanted):
            ids = [job_id for job_id, active, label in [*jobs, ("last", True, "odd=yes")]
                   if wanted(active, label)]
            return sorted(ids, key=lambda job_id: (self.created(c, job_id), job_id), reverse=True)

        odd = wire.Label(name="odd", value="yes")
        for limit in (17, 200):
            for wanted, query in (
                (lambda active, label: True, {}),
                (lambda active, label: label, {"labels": [odd]}),
                (lambda active, label: not active, {"phase": wire.PHASE_PROCESSED}),
                (lambda active, label: active and label,
                 {"phase": wire.PHASE_PROCESSING, "labels": [odd], "workflow": "order@1"}),
            ):
                pages = self.pages(c, limit, **query)
                self.assertEqual(expected(wanted), sum(pages, []))
                self.assertLessEqual(max(map(len, pages)), limit)

    def test_sparse_matches(self):
        """The jobs that match stand behind thousands that do not: pages are short, and go on."""
        c = self.start(1)
        self.preload(c, [(f"old-{i}", False, "") for i in range(3)])
        self.preload(c, [(f"new-{i}", True, "") for i in range(4500)])
        pages = self.pages(c, 50, phase=wire.PHASE_PROCESSED)
        self.assertEqual(["old-2", "old-1", "old-0"], sum(pages, []))
        self.assertGreater(len(pages), 1)


if __name__ == "__main__":
    tap.main()
