# SPDX-License-Identifier: Apache-2.0
"""One job whose steps are done in C, Python and Node, each with the result of the one before. It is
submitted in protobuf and in JSON, from the clients of examples/ and from a shell. The tests of Node
are skipped if npm is missing or reaches no registry."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import examples
import servers
import tap
import wire

# The agent in C: a program of drover-agent that does with a request what the examples do.
SIGN = """
import json, sys
request = json.load(sys.stdin)
given = request["results"][0]["payload"] if "results" in request else request["input"]
print(given["text"] + ", c", end="")
"""
C_ACTOR = {
    "name": "c",
    "handler": "exec",
    "actions": [
        {
            "name": "echo",
            "command": ["/usr/bin/python3", "-c", SIGN],
            "stdin": "request",
            "result_type": "text/plain; charset=utf-8",
        }
    ],
}
README = wire.ROOT / "examples" / "README.md"


class Interop(examples.TestCase):
    def begin(self):
        settings = {"agent": {"agent": {"actors": [cluster.BUILTIN, C_ACTOR]}}}
        return self.cluster(settings=settings)

    def pass_on(self, client_language, job, *actors):
        """Runs a job through all of the actors, and expects its result in the output of the
        client."""
        code, output = self.submit(client_language, job, "hello", *actors).end()
        result = ", ".join(["hello", *actors])
        self.assertEqual((0, ["RECEIPT_CODE_CREATED", f"OUTCOME_SUCCEEDED {result}"]),
                         (code, [line.strip() for line in output.splitlines()]))
        wanted = {
            f"step{i}": ", ".join(["hello", *actors[: i + 1]]) for i in range(len(actors))
        }
        self.assertEqual(wanted, self.results(job))
        self.assertEqual(len(actors), self.c.dispatches(job))

    def test_c_and_python(self):
        self.start_agent("python")
        self.pass_on("python", "in-protobuf", "c", "python", "c")

    def test_c_python_and_node(self):
        for language in examples.AGENTS:
            self.start_agent(language)
        self.pass_on("python", "in-protobuf", "c", "python", "node", "c", "node", "python")
        self.pass_on("node", "in-json", "c", "python", "node", "c", "node", "python")

    @unittest.skipUnless(shutil.which("amqp-publish"), "amqp-publish is not installed")
    def test_shell(self):
        """The client of the README, word for word: it prints a Receipt and the terminal event."""
        self.start_agent("python")
        rabbit = self.c.rabbit
        url = f"amqp://{rabbit.user}:{rabbit.password}@{servers.HOST}:{rabbit.port}/{self.c.name}"
        script = re.search(r"```sh\n(amqp-declare-queue.*?)```", README.read_text(), re.S).group(1)
        done = subprocess.run(
            ["sh", "-ec", script],
            env={**os.environ, "AMQP_URL": url},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=120, check=True,
        )
        receipt, event = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
        self.assertEqual("RECEIPT_CODE_CREATED", receipt["code"])
        self.assertEqual("OUTCOME_SUCCEEDED", event["outcome"])
        self.assertEqual("hello, python", event["results"][0]["payload"]["text"])


if __name__ == "__main__":
    tap.main()
