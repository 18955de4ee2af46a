# SPDX-License-Identifier: Apache-2.0
"""The command `drover` against a real broker: what it prints, and how it exits."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cluster
import servers
import tap
import wire

HELLO = {"definition": {"steps": [
    {"name": "greet", "actor": "demo", "action": "echo"},
    {"name": "finish", "actor": "demo", "action": "noop", "after": ["greet"]}]}}
WAITS = {"definition": {"steps": [{"name": "only", "actor": "hand", "action": "wait"}]}}


class Cli(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.c = self.cluster()

    def drover(self, *words, body=None, url=None):
        """Runs it; returns exit code, stdout and stderr."""
        rabbit = self.c.rabbit
        url = url or (f"amqp://{rabbit.user}:{rabbit.password}@{servers.HOST}:{rabbit.port}/"
                      f"{self.c.name}")
        done = subprocess.run(
            [wire.BUILD / "cli" / "drover", *words, "--url", url],
            input=json.dumps(body) if body is not None else None,
            capture_output=True, text=True, timeout=120,
        )
        return done.returncode, done.stdout, done.stderr

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

    def test_submit_twice(self):
        """The same again is no error; something else under its id is a conflict."""
        for _ in range(2):
            code, out, err = self.drover("submit", "-", "--id", "twice", "-o", "id", body=HELLO)
            self.assertEqual((0, "twice\n", ""), (code, out, err))
        code, out, err = self.drover("submit", "-", "--id", "twice", body=WAITS)
        self.assertEqual(6, code)
        self.assertIn("CONFLICT", out + err)

    def test_cancel(self):
        """Follows a job to its cancelled end; a second cancel has nothing to do."""
        code, _, _ = self.drover("submit", "-", "--id", "stop-me", body=WAITS)
        self.assertEqual(0, code)
        request = self.c.client.consume_step("hand")
        code, _, err = self.drover("cancel", "stop-me", "--reason", "test")
        self.assertEqual((0, ""), (code, err))
        code, _, err = self.drover("run", "-", "--id", "stop-me", "--timeout", "1s", body=WAITS)
        self.assertEqual(124, code, err)  # the step is still in flight
        self.c.client.reply(request)
        code, _, err = self.drover("run", "-", "--id", "stop-me", body=WAITS)
        self.assertEqual(4, code, err)

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

    def test_no_broker(self):
        """It says which address, and why."""
        port = servers.free_ports(1)[0]
        code, _, err = self.drover("get", "x", "--timeout", "2s",
                                   url=f"amqp://guest:guest@{servers.HOST}:{port}/")
        self.assertEqual(7, code)
        self.assertIn(f"{servers.HOST}:{port}", err)
        self.assertIn("refused", err)


if __name__ == "__main__":
    tap.main()
