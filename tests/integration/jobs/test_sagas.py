# SPDX-License-Identifier: Apache-2.0
"""The sagas in DROVER_WORKLOADS/saga, with the results that their authors expect. The test acts as
every agent."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import servers
import tap
import wire
from hand import Case, error, permanent

WORKLOADS = os.environ.get("DROVER_WORKLOADS", "")
SCALE = 100  # the factor by which intervals are shorter


def policy(source, **more):
    """Returns the policy of a step, or of its compensation."""
    return wire.Policy(
        initial_interval_ms=int(source.get("interval_s", 1) * 1000 / SCALE),
        backoff_coefficient=source.get("backoff", 2),
        maximum_interval_ms=int(source.get("max_interval_s", 100) * 1000 / SCALE),
        maximum_attempts=source.get("max_attempts", 1),
        on_exhausted=wire.RECOURSE_COMPENSATE, jitter=-1, **more)


def definition(saga):
    """Returns the steps of the file. A step whose failure undoes nothing ends the job as it is. The
    deadline of an attempt is its lease. The actions of `on_failed` are no steps: see
    Sagas.after_failure()."""
    steps = []
    for source in saga["steps"]:
        more = {}
        if source.get("undo_order_on_failure") == []:
            more["on_permanent"] = wire.RECOURSE_FAIL
        step = wire.step(source["name"], source["actor"], action=source["name"],
                         after=source["depends_on"], retry=policy(source, **more),
                         lock_ms=source.get("deadline_s", 0) * 1000)
        for compensation in source.get("compensation", []):
            revert = wire.Revert(actor=compensation["actor"], action=compensation["actor"])
            revert.retry.CopyFrom(policy(compensation))
            step.revert.CopyFrom(revert)
        steps.append(step)
    return steps


@unittest.skipUnless(WORKLOADS, "DROVER_WORKLOADS names no folder")
class Sagas(Case):
    def read(self, name):
        return json.loads((pathlib.Path(WORKLOADS) / "saga" / f"{name}.json").read_text())

    labels = []  # of the job in progress

    def take(self, actor):
        request = super().take(actor)
        self.assertEqual(self.labels, list(request.labels))
        return request

    def serve(self, saga, job, fails=None, failure=None):
        """Does the steps in order, up to the one that fails."""
        for source in saga["steps"]:
            request = self.take(source["actor"])
            self.assertEqual((job, source["name"]), (request.job_id, request.step))
            if "deadline_s" in source:
                self.assertEqual(source["deadline_s"] * 1000, request.lock_ms)
            if source["name"] == fails:
                self.c.client.reply(request, error=failure)
                return
            result = json.dumps(source["result"]).encode() if "result" in source else b""
            self.c.client.reply(request, **({"result": wire.payload(result)} if result else {}))

    def answer(self, *actors):
        for actor in actors:
            self.c.client.reply(self.take(actor))

    def after_failure(self, saga, job):
        """In the file these actions follow the last undo. For Drover they are a job of their own:
        each client that receives the event of the end submits it, as often as the event comes, and
        it is done once."""
        after, names = f"after-{job}", saga["on_failed"]
        for _ in range(2):
            self.c.client.submit(wire.submit(after, [wire.step(n, n, action=n) for n in names]))
        self.answer(*names)
        self.end(after, wire.OUTCOME_SUCCEEDED)
        self.assertEqual(len(names), self.c.dispatches(after))

    def fail_attempts(self, name, times):
        """Fails a step so often, with transient errors."""
        for failures in range(times):
            request = self.take(name)
            self.assertEqual((name, failures), (request.action, request.failures))
            self.c.client.reply(request, error=error("not now"))

    def check_waits(self, job, i, source):
        """Returns how often step i, or its undo, was tried again. Each try must have come after the
        pause that the file says."""
        tries = failures = 0
        failed, direction = None, None
        for entry in (e for e in self.c.store.history(job) if e.step == str(i)):
            event, at, asked = entry.event, int(entry.at), entry.last
            if event == "failed":
                failures, failed = failures + 1, at
            elif event == "dispatched" and failures and asked == direction:
                wait = source["interval_s"] * 1000 / SCALE * source["backoff"] ** (failures - 1)
                self.assertGreaterEqual(at - failed, int(wait), (source["name"], failures))
                tries += 1
            elif event == "dispatched":
                failures, direction = 0, asked
        return tries

    def test_aws_saga_travel_retries(self):
        """At most seven attempts of a step and of its compensation, with growing pauses."""
        saga = self.read("aws-saga-travel")
        flight, car, payment, *_ = saga["steps"]
        undo_flight, undo_car, undo_payment = (s["compensation"][0] for s in (flight, car, payment))
        self.begin(agents=0)
        self.c.client.submit(wire.submit("job", definition(saga)))
        self.fail_attempts(flight["name"], flight["max_attempts"] - 1)
        self.answer(flight["name"], car["name"])
        self.fail_attempts(payment["name"], payment["max_attempts"])
        self.answer(undo_payment["actor"])
        self.fail_attempts(undo_car["actor"], undo_car["max_attempts"] - 1)
        self.answer(undo_car["actor"], undo_flight["actor"])
        self.assertEqual("FAILURE", self.end("job", wire.OUTCOME_COMPENSATED).reason)
        self.assertEqual(
            [6, 6, 6], [self.check_waits("job", i, s) for i, s in enumerate((flight, car, payment))]
        )
        self.assertEqual(3 * 7 + 3, self.c.dispatches("job"))
        self.after_failure(saga, "job")

    def test_aws_saga_travel(self):
        """Whichever step fails, the steps that the authors list are undone, in that order; or none
        fails."""
        saga = self.read("aws-saga-travel")
        self.begin(agents=0)
        for source in saga["steps"]:
            with self.subTest(source["name"]):
                job, fails = f"fails-{source['name']}", source["name"]
                self.seen = []
                self.c.client.submit(wire.submit(job, definition(saga)))
                self.serve(saga, job, fails, permanent("no"))
                self.answer(*source["undo_order_on_failure"])
                undone = bool(source["undo_order_on_failure"])
                self.end(job, wire.OUTCOME_COMPENSATED if undone else wire.OUTCOME_FAILED)
                names = [s["name"] for s in saga["steps"]]
                self.assertEqual(names[: names.index(fails) + 1] + source["undo_order_on_failure"],
                                 self.seen)
                if undone:
                    self.after_failure(saga, job)
        self.c.client.submit(wire.submit("all-good", definition(saga)))
        self.serve(saga, "all-good")
        self.end("all-good", wire.OUTCOME_SUCCEEDED)
        self.c.await_idle()

    def test_masstransit_courier_fault(self):
        """A step without compensation is passed over. The undo gets the result of its forward
        action. The variable is in each request and each event, also in that of the fault."""
        saga = self.read("masstransit-courier-fault")
        self.begin(agents=0)
        events = []

        def collect(channel, method, _, body):
            events.append(wire.JobEvent.FromString(body))
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(self.c.client, collect, exchange="drover.events")
        self.addCleanup(listener.stop)
        self.labels = [
            wire.Label(name=name, value=value) for name, value in saga["variables"].items()
        ]
        self.c.client.submit(wire.submit("job", definition(saga), labels=self.labels,
                                         events=wire.EVENTS_STEP))
        faulty = next(s["name"] for s in saga["steps"] if s.get("fails"))
        self.serve(saga, "job", faulty, permanent("fault"))
        (actor,) = saga["expect"]["compensated"]
        request = self.take(actor)
        self.assertEqual(saga["steps"][0]["result"], json.loads(request.forward_result.data))
        self.c.client.reply(request)
        event = self.end("job", wire.OUTCOME_COMPENSATED)
        self.assertEqual(("FAILURE", self.labels), (event.reason, list(event.labels)))
        self.assertEqual("SKIPPED", self.states("job")["SecondTest"])
        servers.wait_for(
            lambda: any(e.kind == wire.EVENT_KIND_SETTLED for e in events), "the event of the fault"
        )
        first, *between, back = [
            (e.step, e.step_state) for e in events if e.kind == wire.EVENT_KIND_STEP
        ]
        self.assertEqual(
            (("Test", wire.STEP_STATE_RUNNING), ("Test", wire.STEP_STATE_REVERTING)), (first, back)
        )
        self.assertEqual(len(saga["steps"]) - 1, len(between))
        self.assertTrue(all(list(e.labels) == self.labels for e in events), events)

    def test_temporal_money_transfer(self):
        """Three attempts, then strictly in reverse, also if everything restarts in between."""
        saga = self.read("temporal-money-transfer")
        self.begin(agents=0)
        self.c.client.submit(wire.submit("job", definition(saga)))
        (fails, attempts), = saga["expect"]["attempts"].items()
        self.serve(saga, "job", fails, error("no"))
        for attempt in range(2, attempts + 1):
            request = self.take("bank")
            self.assertEqual((fails, attempt), (request.step, request.attempt))
            self.c.client.reply(request, error=error("no"))
        first, *rest = saga["expect"]["compensated"]
        self.answer(first)
        for daemon in self.c.schedulers + self.c.supervisors:
            daemon.kill()
            daemon.start()
        self.answer(*rest)
        self.end("job", wire.OUTCOME_COMPENSATED)
        self.assertEqual(attempts, self.seen.count(fails))
        self.assertEqual(saga["expect"]["compensated"], self.seen[-len(rest) - 1:])
        self.assertEqual(
            len(saga["steps"]) + attempts - 1 + len(rest) + 1, self.c.dispatches("job")
        )


if __name__ == "__main__":
    tap.main()
