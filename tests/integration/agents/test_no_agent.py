# SPDX-License-Identifier: Apache-2.0
"""An actor has no agent for twenty waits, then it has one: nothing was parked, everything is done,
and the cost was a logarithm of the wait."""

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import servers
import tap
import wire

WAIT_MS = 500
LOCK_MS = 5000  # longer than a busy machine takes to return a request that no agent took
WAITS = 20
JOBS = 20


class NoAgent(cluster.TestCase):
    def now(self, c):
        seconds, micros = c.store.redis.time()
        return seconds * 1000 + micros // 1000

    def test_twenty_waits(self):
        c = self.cluster(agents=0)
        alerts = []

        def on_event(channel, method, _properties, body):
            event = wire.JobEvent.FromString(body)
            if event.kind == wire.EVENT_KIND_ALERT:
                alerts.append(event.reason)
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(c.client, on_event, exchange="drover.events")
        self.addCleanup(listener.stop)
        began = self.now(c)
        jobs = [f"job-{i}" for i in range(JOBS)]
        for job_id in jobs:
            c.client.submit(wire.submit(job_id, wire.chain(2, lock_ms=LOCK_MS, wait_ms=WAIT_MS)))
        wait_ms = WAITS * WAIT_MS
        servers.wait_for(lambda: self.now(c) >= began + wait_ms, "twenty waits")
        self.assertEqual({"NO_AGENT"}, set(alerts))

        c.add_agent()
        for event in c.client.all_settled(jobs, 60):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        most = 0
        for job_id in jobs:
            self.assertEqual([], c.store.events(job_id, "parked"))
            self.assertEqual([], c.store.events(job_id, "expired"))
            most = max(most, c.dispatches(job_id))
        # Waits of 1, 2, 4 ... times WAIT_MS, the one that the agent ended, and one for the second
        # step.
        bound = math.ceil(math.log2(wait_ms / WAIT_MS + 1)) + 3
        tap.narrate(f"at most {most} requests a job, {bound} would be fine")
        self.assertLessEqual(most, bound)

    def test_agent_died_before_its_reply(self):
        """An agent has done the work and ends before it can reply. The broker offers the request
        again, no agent takes it within its wait, and it comes back. The work may have been done, so
        it must be undone."""
        c = self.cluster(agents=0)
        revert = wire.Revert(action="undo", wait_ms=60000)
        c.client.submit(
            wire.submit("job", [wire.step("a", "hand", action="do", wait_ms=800, revert=revert)])
        )
        request, die = c.client.hold_step("hand")
        self.assertEqual("do", request.action)
        die()
        servers.wait_for(lambda: c.store.events("job", "unstarted"), "the request to come back")
        c.client.control("job", cancel=wire.Cancel())
        servers.wait_for(lambda: len(c.store.events("job", "unstarted")) > 1, "the next one, too")
        undo = c.client.consume_step("hand")
        self.assertEqual("undo", undo.action)
        self.assertEqual(request.idempotency_key, undo.forward_key)
        c.client.reply(undo)
        (event,) = c.client.all_settled(["job"], 60)
        self.assertEqual(wire.OUTCOME_CANCELLED, event.outcome)


if __name__ == "__main__":
    tap.main()
