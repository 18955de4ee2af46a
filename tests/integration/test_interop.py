# SPDX-License-Identifier: Apache-2.0
"""A job from amqp-publish, with a bare body and no properties; one step served by a Python agent, the
rest by drover-agent."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import client
import cluster
import servers
import tap
import wire

JOB = {
    "jobId": "from-a-shell",
    "input": {"contentType": "text/plain", "data": "aGVsbG8="},
    "definition": {
        "steps": [
            {"name": "greet", "actor": "demo", "action": "echo"},
            {"name": "shout", "actor": "python", "after": ["greet"]},
            {"name": "finish", "actor": "demo", "action": "noop", "after": ["shout"]},
        ]
    },
}


def shout(channel, method, _properties, body):
    """The whole of an agent: read the requests, reply with their tokens, then acknowledge."""
    replies = wire.Replies()
    for request in wire.Requests.FromString(body).requests:
        heard = request.results[0].payload.data
        replies.replies.add(
            job_id=request.job_id,
            step=request.step,
            token=request.token,
            achieved=request.desired,
            result=wire.payload(heard.upper(), "text/plain"),
            agent="python",
        )
    channel.basic_publish("drover.replies", "reply", replies.SerializeToString())
    channel.basic_ack(method.delivery_tag)


class Interop(cluster.TestCase):
    def publish(self, c, body):
        subprocess.run(
            [
                *("amqp-publish", "--server", servers.HOST, "--port", str(c.rabbit.port)),
                *("--vhost", c.name, "--username", c.rabbit.user, "--password", c.rabbit.password),
                *("--exchange", "drover.submit", "--routing-key", "submit", "--body", body),
            ],
            check=True,
        )

    @unittest.skipUnless(shutil.which("amqp-publish"), "amqp-publish is not installed")
    def test_three_languages(self):
        c = self.cluster()
        self.publish(c, json.dumps(JOB))
        # A scheduler declares the queue of an actor that it has a request for.
        servers.wait_for(lambda: c.client.queue("drover.task.python")[0], "a request")
        agent = client.Listener(c.client, shout, queue="drover.task.python")
        self.addCleanup(agent.stop)
        status = servers.wait_for(lambda: self.settled(c), "the job to settle")
        self.assertEqual(wire.OUTCOME_SUCCEEDED, status.outcome)
        self.assertEqual(3, c.dispatches("from-a-shell"))
        query = wire.Query(with_data=True)
        steps = c.client.control("from-a-shell", query=query).status.steps
        results = {step.name: step.result.data for step in steps}
        self.assertEqual((b"hello", b"HELLO"), (results["greet"], results["shout"]))

    def settled(self, c):
        status = c.client.status("from-a-shell")
        return status if status.phase == wire.PHASE_PROCESSED else None


if __name__ == "__main__":
    tap.main()
