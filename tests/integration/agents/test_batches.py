# SPDX-License-Identifier: Apache-2.0
"""Requests in batches: short work shares messages, and slow work never delays other requests"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import health
import servers
import tap
import wire

SLOW_MS = 200
FAN = 24


def sleep(name, ms, **fields):
    return wire.step(
        name, action="sleep", arguments=wire.Payload(data=ms.encode()), lock_ms=3_600_000, **fields
    )


def fan(slow=()):
    """Returns a step, and many that depend on it, of one actor. slow: the numbers of those whose
    work is slow."""
    return [wire.step("root", actor="hand", action="fast")] + [
        wire.step(f"s{i}", actor="hand", action="slow" if i in slow else "fast", after=["root"])
        for i in range(FAN)]


class Batches(cluster.TestCase):
    def serve_by_hand(self, batch):
        """Acts as a foreign agent that reports how long it took; returns the requests that it gets,
        by message."""
        messages = []

        def on_requests(channel, method, _properties, body):
            requests = wire.Requests.FromString(body).requests
            messages.append([(r.job_id, r.step, r.action) for r in requests])
            replies = [
                wire.StepReply(
                    job_id=r.job_id, step=r.step, token=r.token, achieved=r.desired, batch=batch,
                    duration_ms=SLOW_MS if r.action == "slow" else 0,
                )
                for r in requests
            ]
            channel.basic_publish("drover.replies", "reply",
                                  wire.Replies(replies=replies).SerializeToString())
            channel.basic_ack(method.delivery_tag)

        self.c.client.call(self.make_queue)
        listener = client.Listener(self.c.client, on_requests, queue="drover.task.hand")
        self.addCleanup(listener.stop)
        return messages

    @staticmethod
    def make_queue(channel):
        channel.queue_declare("drover.task.hand", durable=True, arguments={
            "x-queue-type": "quorum", "x-dead-letter-exchange": "drover.expired"})
        channel.queue_bind("drover.task.hand", "drover.tasks", "hand")

    def run_job(self, job, steps):
        self.c.client.submit(wire.submit(job, steps))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.c.client.settled(job).outcome)

    def test_slow_steps_travel_alone(self):
        """Fast steps of the same actor travel in batches meanwhile, of at most eight."""
        self.c = self.cluster(agents=0)
        messages = self.serve_by_hand(batch=8)
        self.run_job("known", fan(slow=[0]))  # now the service time of both is known
        slow = {3, 4, 5, 11, 12, 20}
        self.run_job("mixed", fan(slow))
        mixed = [m for m in messages if m[0][0] == "mixed" and m[0][1] != "root"]
        together = [m for m in mixed if len(m) > 1]
        self.assertTrue(together)
        self.assertLessEqual(max(map(len, mixed)), 8)
        self.assertEqual(len(slow), sum(m[0][2] == "slow" for m in mixed if len(m) == 1))
        self.assertEqual({"fast"}, {action for m in together for _, _, action in m})
        self.assertEqual(FAN, sum(map(len, mixed)))

    def test_no_batches_for_other_agents(self):
        self.c = self.cluster(agents=0)
        messages = self.serve_by_hand(batch=0)
        for job in ("first", "second"):
            self.run_job(job, fan())
        self.assertEqual({1}, set(map(len, messages)))

    def test_steps_that_become_slow(self):
        """Steps that were fast until now travel in batches, and do not end. As long as an agent has
        a slot, no request waits for another one to end."""
        sleeps = {"concurrency": FAN // 2, "actors": [{"name": "demo", "handler": "builtin"}]}
        self.c = self.cluster(agents=2, settings=health.settings({"agent": {"agent": sleeps}}))
        steps = [sleep("root", "0")] + [
            sleep(f"s{i}", "600000", after=["root"]) for i in range(FAN)
        ]
        self.c.client.submit(wire.submit("job", steps))
        servers.wait_for(
            lambda: self.total(self.c.agents, "agent_running") == FAN, "all to run at once"
        )
        sent = self.total(self.c.schedulers, "scheduler_dispatched_total")
        if not cluster.WRAP:
            self.assertLess(
                self.total(self.c.schedulers, "scheduler_messages_total"), sent - FAN // 2
            )
        for agent in self.c.agents:
            agent.kill()

    def total(self, daemons, name):
        return sum(health.metrics(daemon)[f"drover_{name}"] for daemon in daemons)


if __name__ == "__main__":
    tap.main()
