# SPDX-License-Identifier: Apache-2.0
"""Alerts: one for each cause, however many steps and schedulers meet it, and the command that is run
for each."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import client
import cluster
import servers
import tap
import wire

JOBS = 20
SHORT = {"lock_ms": 2000, "wait_ms": 300}
ONCE = wire.Policy(maximum_attempts=1, park_interval_ms=300)


class Alerts(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.paged = self.directory / "paged"
        self.paged.touch()
        page = self.directory / "page.sh"
        page.write_text(f'#!/bin/sh\n{{ cat; echo; }} >>"{self.paged}"\n')
        page.chmod(0o755)
        self.c = self.cluster(
            schedulers=2, settings={"scheduler": {"scheduler": {"alert_command": str(page)}}}
        )
        self.alerts = []

        def on_event(channel, method, _properties, body):
            event = wire.JobEvent.FromString(body)
            if event.kind == wire.EVENT_KIND_ALERT:
                self.alerts.append((event.reason, event.step))
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(self.c.client, on_event, exchange="drover.events")
        self.addCleanup(listener.stop)

    def submit(self, prefix, steps, count=1):
        jobs = [f"{prefix}{i}" for i in range(count)]
        for job_id in jobs:
            self.c.client.submit(wire.submit(job_id, steps))
        return jobs

    def unstarted(self, jobs, times):
        """Waits until each of the jobs had so many requests that nobody took."""
        servers.wait_for(
            lambda: all(len(self.c.store.events(job, "unstarted")) >= times for job in jobs),
            f"{times} unstarted requests each")

    def serve(self, jobs):
        """Plays the agent until the jobs have ended."""
        def on_requests(channel, method, _properties, body):
            for request in wire.Requests.FromString(body).requests:
                reply = wire.StepReply(job_id=request.job_id, step=request.step,
                                       token=request.token, achieved=request.desired)
                channel.basic_publish("drover.replies", "reply",
                                      wire.Replies(replies=[reply]).SerializeToString())
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(self.c.client, on_requests, queue="drover.task.hand")
        try:
            self.c.client.all_settled(jobs)
        finally:
            listener.stop()

    def test_no_agent_is_one_cause(self):
        """An outage is told once; the next one, after somebody has served again, once more."""
        for outage in (1, 2):
            jobs = self.submit(f"outage{outage}-", [wire.step("a", actor="hand", **SHORT)], JOBS)
            self.unstarted(jobs, 2)
            self.assertEqual(["NO_AGENT"] * outage, [reason for reason, _ in self.alerts])
            self.serve(jobs)

    def test_parked_is_told_once(self):
        """Also where the step is tried again and again while it is parked, and fails each time."""
        step = wire.step("a", actor="demo", action="fail", retry=ONCE)
        self.submit("parked", [step])
        servers.wait_for(lambda: len(self.c.store.events("parked0", "parked")) >= 3, "three times")
        self.assertEqual([("PARKED", "a")], self.alerts)
        events = [json.loads(line) for line in self.paged.read_text().splitlines() if line]
        self.assertEqual([("parked0", "PARKED", "a", "EVENT_KIND_ALERT")],
                         [(e["jobId"], e["reason"], e["step"], e["kind"]) for e in events])

    def test_a_command_that_fails(self):
        """It is said in the log, and that is all."""
        for name in ("missing", "false"):
            program = "/bin/false" if name == "false" else str(self.directory / "nothing-here")
            scheduler = self.c.add_scheduler({"scheduler": {"alert_command": program}})
            self.c.await_ready()
            for other in self.c.schedulers[:-1]:
                other.stop()
            self.submit(name, [wire.step("a", action="fail", retry=ONCE)])
            servers.wait_for(lambda: scheduler.records("alert_command_failed"), "it to be told")
            self.assertTrue(scheduler.alive())


if __name__ == "__main__":
    tap.main()
