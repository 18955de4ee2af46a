# SPDX-License-Identifier: Apache-2.0
"""Alerts: one for each cause, however many steps and schedulers meet it, and the command that runs
for each."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import health
import servers
import tap
import wire

JOBS = 20
EXAMPLE = wire.ROOT / "examples" / "alerts"
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
            schedulers=2,
            settings={
                "scheduler": {"scheduler": {"alert_command": str(page), "alert_interval": "1s"}}
            },
        )
        self.alerts, self.ended = [], set()

        def on_event(channel, method, _properties, body):
            event = wire.JobEvent.FromString(body)
            if event.kind == wire.EVENT_KIND_ALERT:
                self.alerts.append((event.job_id, event.reason, event.step))
            elif event.kind == wire.EVENT_KIND_SETTLED:
                self.ended.add(event.job_id)
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(self.c.client, on_event, exchange="drover.events")
        self.addCleanup(listener.stop)

    def submit(self, prefix, steps, count=1):
        jobs = [f"{prefix}{i}" for i in range(count)]
        for job_id in jobs:
            self.c.client.submit(wire.submit(job_id, steps))
        return jobs

    def await_events(self, jobs, event, times=2):
        """Waits until each of the jobs has the event so often in its history."""
        servers.wait_for(
            lambda: all(len(self.c.store.events(job, event)) >= times for job in jobs),
            f"{event} {times} times each")

    def await_alerts(self, count):
        servers.wait_for(lambda: len(self.alerts) >= count, f"{count} alerts")

    def serve(self, jobs):
        """Acts as the agent until the jobs have ended, and all earlier events have come."""
        def on_requests(channel, method, _properties, body):
            for request in wire.Requests.FromString(body).requests:
                reply = wire.StepReply(job_id=request.job_id, step=request.step,
                                       token=request.token, achieved=request.desired)
                channel.basic_publish("drover.replies", "reply",
                                      wire.Replies(replies=[reply]).SerializeToString())
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(self.c.client, on_requests, queue="drover.task.hand")
        try:
            servers.wait_for(lambda: self.ended.issuperset(jobs), "the terminal events")
        finally:
            listener.stop()

    def test_no_agent_is_one_cause(self):
        """An outage raises one alert; the next outage, after an agent has served the actor, raises
        another."""
        for outage in (0, 1, 2):
            jobs = self.submit(f"outage{outage}-", [wire.step("a", actor="hand", **SHORT)], JOBS)
            self.await_events(jobs, "unstarted")
            self.await_alerts(max(outage, 1))
            self.serve(jobs)
            # RabbitMQ may refuse the first publish to a new queue, which is an alert, too
            if outage == 0:
                self.alerts.clear()
            self.assertEqual(["NO_AGENT"] * outage, [reason for _, reason, _ in self.alerts])

    def test_unroutable_is_one_cause(self):
        """The same for a queue that is gone, with schedulers that may not declare it."""
        for _ in range(2):
            self.c.add_scheduler({"rabbitmq": {"declare": False}})
        for scheduler in self.c.schedulers[:2]:
            scheduler.stop()
        self.c.await_ready()
        steps = [wire.step("a", actor="hand", retry=wire.Policy(initial_interval_ms=100))]
        for outage in (1, 2):
            jobs = self.submit(f"outage{outage}-", steps, JOBS)
            self.await_events(jobs, "unroutable")
            self.await_alerts(outage)
            self.make_queue()
            self.serve(jobs)
            self.assertEqual(["UNROUTABLE"] * outage, [reason for _, reason, _ in self.alerts])
            self.c.client.call(lambda channel: channel.queue_delete("drover.task.hand"))

    def make_queue(self):
        def declare(channel):
            arguments = {"x-dead-letter-exchange": "drover.expired"}
            channel.queue_declare("drover.task.hand", durable=True, arguments=arguments)
            channel.queue_bind("drover.task.hand", "drover.tasks", "hand")

        self.c.client.call(declare)

    def test_one_alert_for_a_parked_step(self):
        """There is one alert even if the step is tried again while it is parked, and fails each
        time."""
        step = wire.step("a", actor="demo", action="fail", retry=ONCE)
        for count, job in enumerate(("first0", "later0"), 1):
            self.submit(job[:-1], [step])
            self.await_events([job], "parked", 3)
            self.await_alerts(count)
        servers.wait_for(lambda: len(self.pages()) >= 2, "both to be paged")
        expected = [(job, "PARKED", "a") for job in ("first0", "later0")]
        self.assertEqual(expected, self.alerts)
        self.assertEqual({(*alert, "EVENT_KIND_ALERT") for alert in expected},
                         {(e["jobId"], e["reason"], e["step"], e["kind"]) for e in self.pages()})
        self.assertEqual(2, len(self.pages()))

    def pages(self):
        return [json.loads(line) for line in self.paged.read_text().splitlines() if line]

    def test_a_command_that_fails(self):
        """Each failed run is counted, and the first one is logged."""
        broken = self.directory / "broken.sh"
        for name, program in (("missing", self.directory / "nothing-here"), ("broken", broken)):
            broken.write_text("#!/bin/sh\nexit 1\n")
            broken.chmod(0o755)
            scheduler = self.c.add_scheduler(
                cluster.merged(
                    health.settings()["scheduler"], {"scheduler": {"alert_command": str(program)}}
                )
            )
            self.c.await_ready()
            for other in self.c.schedulers[:-1]:
                other.stop()
            for cause in ("NOW", "THEN"):  # two classes, so that there are two alerts
                arguments = wire.payload(json.dumps({"class": cause}).encode(), "application/json")
                self.submit(
                    name + cause, [wire.step("a", action="fail", arguments=arguments, retry=ONCE)]
                )
            counted = lambda s=scheduler: health.metrics(s)[
                "drover_scheduler_alert_command_failed_total"
            ]
            servers.wait_for(lambda: counted() >= 2, "both to be counted")
            self.assertEqual(1, len(scheduler.records("alert_command_failed")))
            self.assertTrue(scheduler.alive())
        broken.write_text("#!/bin/sh\nexit 0\n")
        self.submit("well", [wire.step("a", action="fail", retry=ONCE)])
        (record,) = servers.wait_for(
            lambda: scheduler.records("alert_command_recovered"), "the command to recover"
        )
        self.assertGreaterEqual(record["failed"], 2)


class Example(cluster.TestCase):
    """The command and the receiver of examples/alerts."""

    def setUp(self):
        super().setUp()
        self.output = self.directory / "output"
        with open(self.output, "wb") as out:
            receiver = subprocess.Popen(
                [sys.executable, "-B", EXAMPLE / "receiver.py", "--port", "0"], stdout=out
            )
        self.addCleanup(receiver.wait)
        self.addCleanup(receiver.terminate)
        self.url = servers.wait_for(self.output.read_text, "the receiver").split()[-1]

    def post(self, text):
        return subprocess.run([EXAMPLE / "alert.sh", self.url], input=text, text=True, check=False,
                              stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"]}).returncode

    def lines(self):
        return [line.split(" ", 1)[1] for line in self.output.read_text().splitlines()[1:]]

    def test_parked(self):
        command = self.directory / "alert.sh"
        command.write_text(f"#!/bin/sh\nexec {EXAMPLE / 'alert.sh'} {self.url}\n")
        command.chmod(0o755)
        c = self.cluster(settings={"scheduler": {"scheduler": {"alert_command": str(command)}}})
        failing = wire.step("s", action="fail", retry=ONCE)
        failing.arguments.CopyFrom(wire.payload(b'{"times": 9}', "application/json"))
        c.client.submit(wire.submit("job", [failing]))
        (line,) = servers.wait_for(self.lines, "the alert")
        self.assertRegex(
            line, r"^PARKED job s at demo \| \w+: .* \| drover why job; drover retry job s$"
        )
        with urllib.request.urlopen(self.url, timeout=30) as page:
            self.assertIn(line, page.read().decode())

    def test_bad(self):
        """A message that is no alert is refused, and the receiver goes on."""
        for text in (
            "", "nonsense", "[1]", '{"error": 1}', '{"count": "many"}', "x" * (1 << 20) + "x",
        ):
            self.assertEqual(1, self.post(text), text[:20])
        self.assertEqual([], self.lines())
        alert = {
            "reason": "DEAD_LETTER",
            "count": "37",
            "error": {"class": "INVALID", "message": "n\u00f6"},
        }
        self.assertEqual(0, self.post(json.dumps(alert, ensure_ascii=False)))
        self.assertEqual(
            ["DEAD_LETTER | INVALID: n\u00f6 | 37 times"], servers.wait_for(self.lines, "the alert")
        )

    def test_no_receiver(self):
        self.url = "http://127.0.0.1:1/"
        self.assertNotEqual(0, self.post("{}"))


if __name__ == "__main__":
    tap.main()
