# SPDX-License-Identifier: Apache-2.0
"""What a client sees of ordinary jobs."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import servers
import tap
import wire


def arguments(text):
    return wire.payload(text.encode(), "application/json")


class Jobs(cluster.TestCase):
    def test_diamond(self):
        """The Receipt, results along the edges, the sink's result, and the labels in the event."""
        c = self.cluster()
        steps = [
            wire.step("top", actor="hand"),
            wire.step("left", actor="hand", after=["top"]),
            wire.step("right", actor="hand", after=["top"]),
            wire.step("bottom", actor="hand", after=["left", "right"]),
        ]
        labels = [wire.Label(name="customer", value="7")]
        c.client.submit(
            wire.submit("diamond", steps, labels=labels, input=wire.payload(b"in", "text/plain"))
        )
        receipt = c.client.receipt("diamond")
        self.assertEqual((wire.RECEIPT_CODE_CREATED, 4), (receipt.code, receipt.steps))
        seen = {}
        for _ in steps:
            request = c.client.consume_step("hand")
            seen[request.step] = {r.step: r.payload.data for r in request.results}
            self.assertEqual(b"in", request.input.data)
            self.assertEqual("7", request.labels[0].value)
            self.assertEqual(f"diamond/{request.step}/1", request.idempotency_key)
            self.assertEqual(1, request.attempt)
            c.client.reply(request, result=wire.payload(request.step.encode()))
        self.assertEqual({}, seen["top"])
        self.assertEqual({"left": b"left", "right": b"right"}, seen["bottom"])
        event = c.client.settled("diamond")
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual({"bottom": b"bottom"}, {r.step: r.payload.data for r in event.results})
        self.assertEqual("customer", event.labels[0].name)
        c.await_idle()

    def test_early_ack_with_one_slot(self):
        """Requests beyond the agents' slots are given back in time: nothing expires. One agent
        alone would need longer than a lease for its half."""
        early = {"name": "slow", "handler": "builtin", "ack": "early"}
        c = self.cluster(
            agents=2,
            settings={"agent": {"agent": {"concurrency": 1, "actors": [cluster.BUILTIN, early]}}},
        )
        nap = arguments('{"ms": 1500}')
        c.client.submit(
            wire.submit(
                "job",
                [
                    wire.step(f"s{i}", "slow", action="sleep", arguments=nap, lock_ms=5000)
                    for i in range(8)
                ],
            )
        )
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        self.assertEqual([], c.store.events("job", "expired"))
        c.await_idle()

    def test_failures(self):
        """Transient failures are tried again with a backoff. Steps that have used up their tries
        park, and so do permanent failures if the policy says so."""
        c = self.cluster()
        soon = wire.Policy(initial_interval_ms=50, maximum_attempts=3, park_interval_ms=-1,
                           on_permanent=wire.RECOURSE_PARK)
        for job_id, how in (
            ("heals", '{"times": 2}'),
            ("never", "{}"),
            ("permanent", '{"permanent": true, "class": "BROKEN"}'),
        ):
            step = wire.step("s", action="fail", arguments=arguments(how), retry=soon)
            c.client.submit(wire.submit(job_id, [step]))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("heals").outcome)
        self.assertEqual(3, c.dispatches("heals"))
        for job_id, cost, reason in (("never", 3, "EXHAUSTED"), ("permanent", 1, "PERMANENT")):
            servers.wait_for(lambda j=job_id: c.store.events(j, "parked"), f"{job_id} to park")
            self.assertEqual([["0", reason]], c.store.events(job_id, "parked"))
            self.assertEqual(cost, c.dispatches(job_id))
        step = c.client.status("permanent").steps[0]
        self.assertEqual(wire.STEP_STATE_PARKED, step.state)
        self.assertEqual("BROKEN", getattr(step.last_error, "class"))

    def test_exec(self):
        """A program's output is the result, and its exit code the verdict."""
        script = 'read -r line; case $line in bad) exit 65;; esac; echo "got $line $DROVER_STEP"'
        actor = {
            "name": "program",
            "handler": "exec",
            "actions": [{"name": "*", "command": ["/bin/sh", "-c", script]}],
        }
        c = self.cluster(settings={"agent": {"agent": {"actors": [actor, cluster.BUILTIN]}}})
        steps = [wire.step("s", actor="program")]
        c.client.submit(wire.submit("good", steps, input=wire.payload(b"day\n")))
        c.client.submit(wire.submit("bad", steps, input=wire.payload(b"bad\n")))
        event = c.client.settled("good")
        self.assertEqual(b"got day s\n", event.results[0].payload.data)
        event = c.client.settled("bad")
        self.assertEqual((wire.OUTCOME_COMPENSATED, "FAILURE"), (event.outcome, event.reason))
        self.assertEqual(1, c.dispatches("bad"))

    def test_deadline(self):
        """A program that would run beyond its lease is ended, with all that it has started, early
        enough to report that."""
        pids = self.directory / "pids"
        command = ["/bin/sh", "-c", 'echo $$ >>"$0"; sleep 1000 & wait', str(pids)]
        actor = {
            "name": "hangs",
            "handler": "exec",
            "actions": [{"name": "*", "command": command}],
        }
        c = self.cluster(settings={"agent": {"agent": {"actors": [actor, cluster.BUILTIN]}}})
        policy = wire.Policy(maximum_attempts=2, initial_interval_ms=50)
        steps = [wire.step("s", actor="hangs", lock_ms=4000, retry=policy)]
        c.client.submit(wire.submit("job", steps))
        servers.wait_for(lambda: c.store.events("job", "parked"), "the step to park")
        self.assertEqual([["0", "EXHAUSTED"]], c.store.events("job", "parked"))
        self.assertEqual([], c.store.events("job", "expired"))
        started = [int(line) for line in pids.read_text().split()]
        self.assertEqual(2, len(started))
        for pid in started:
            servers.wait_for(lambda p=pid: not self.group_exists(p), f"group {pid} to be gone")

    def group_exists(self, pid):
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return False
        return True

    def test_start_at(self):
        c = self.cluster()
        seconds, micros = c.store.redis.time()
        start_at = seconds * 1000 + micros // 1000 + 1500
        c.client.submit(wire.submit("later", wire.chain(1), start_at=start_at))
        c.client.receipt("later")
        self.assertEqual(wire.PHASE_PENDING, c.client.status("later").phase)
        self.assertEqual("", c.store.job("later").get("locked_by", ""))
        event = c.client.settled("later")
        self.assertGreaterEqual(event.at, start_at)

    def test_cancel(self):
        """Steps in flight are waited for, and no step begins."""
        c = self.cluster()
        c.client.submit(
            wire.submit("job", [wire.step("a", actor="hand"), wire.step("b", after=["a"])])
        )
        request = c.client.consume_step("hand")
        answer = c.client.control("job", cancel=wire.Cancel(), reason="changed my mind")
        self.assertEqual(wire.ANSWER_CODE_DONE, answer.code)
        c.client.reply(request)
        self.assertEqual(wire.OUTCOME_CANCELLED, c.client.settled("job").outcome)
        self.assertEqual(1, c.dispatches("job"))
        answer = c.client.control("job", cancel=wire.Cancel())
        self.assertEqual(wire.ANSWER_CODE_WRONG_STATE, answer.code)
        c.await_idle()

    def test_progress(self):
        """Heartbeats keep the lease of a long step; the answer tells an agent that its attempt is
        not wanted."""
        c = self.cluster()
        steps = [wire.step("slow", actor="hand", lock_ms=60000, heartbeat_ms=300)]
        c.client.submit(wire.submit("job", steps))
        request = c.client.consume_step("hand")

        def progress(fraction):
            report = wire.Progress(
                job_id="job", step="slow", token=request.token, fraction=fraction, note="half"
            )
            return self.ask_progress(c, report)

        answer = progress(0.5)
        self.assertTrue(answer.wanted)
        self.assertLessEqual(answer.locked_until, answer.now + 900)
        step = c.client.status("job").steps[0]
        self.assertEqual((0.5, "half"), (step.fraction, step.note))
        servers.wait_for(lambda: c.store.events("job", "expired"), "the lease to expire")
        self.assertFalse(progress(0.9).wanted)
        c.client.reply(c.client.consume_step("hand"))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def ask_progress(self, c, report):
        c.client.call(lambda channel: channel.queue_declare("test.progress", durable=True))
        c.client.publish(
            "drover.replies", "reply", wire.Replies(progress=[report]), reply_to="test.progress"
        )
        _, body = servers.wait_for(lambda: c.client.get("test.progress"), "a progress answer")
        return wire.ProgressAnswers.FromString(body).answers[0]

    def test_events(self):
        """Step events are published only if the Submit asks for them; the event of a job's end
        always is."""
        c = self.cluster()
        keys = []

        def on_event(channel, method, _properties, body):
            event = wire.JobEvent.FromString(body)
            keys.append((event.job_id, method.routing_key))
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(c.client, on_event, exchange="drover.events")
        self.addCleanup(listener.stop)
        c.client.submit(wire.submit("quiet", wire.chain(2)))
        c.client.submit(wire.submit("loud", wire.chain(2), events=wire.EVENTS_STEP))
        ends = {("quiet", "unnamed.succeeded"), ("loud", "unnamed.succeeded")}
        servers.wait_for(lambda: ends <= set(keys), "both terminal events")
        self.assertNotIn(("quiet", "unnamed.step"), keys)
        self.assertEqual(2, keys.count(("loud", "unnamed.step")))

    def test_step_events_to_the_client(self):
        """The client gets one event for each thing that happens at a step, with its attempt, error
        and agent; no other client gets them."""
        c = self.cluster(agents=0)
        received = []
        c.client.watch = lambda m: received.append(m) if isinstance(m, wire.JobEvent) else None
        steps = [
            wire.step("a", "hand", revert=wire.Revert(), retry=wire.Policy(initial_interval_ms=1)),
            wire.step(
                "b", "hand", after=["a"], retry=wire.Policy(maximum_attempts=1, park_interval_ms=-1)
            ),
        ]
        others = client.Listener(c.client, lambda channel, method, _properties, body: (
            self.assertNotEqual(wire.EVENT_KIND_STEP, wire.JobEvent.FromString(body).kind),
            channel.basic_ack(method.delivery_tag)), exchange="drover.events")
        self.addCleanup(others.stop)
        c.client.submit(wire.submit("job", steps, events=wire.EVENTS_STEP_REPLY))
        failed = wire.Error(
            **{"class": "NO"}, message="no room", details="a long log",
            verdict=wire.VERDICT_TRANSIENT,
        )
        c.client.reply(c.client.consume_step("hand"), error=failed)
        request = c.client.consume_step("hand")
        progress = wire.Progress(
            job_id="job", step="a", token=request.token, agent="test", elapsed_ms=1
        )
        for _ in range(2):  # the step begins once
            c.client.publish("drover.reply.hand", "reply", wire.Replies(progress=[progress]))
        servers.wait_for(lambda: c.store.events("job", "began"), "the first Progress")
        c.client.reply(request)
        c.client.reply(c.client.consume_step("hand"), error=failed)
        servers.wait_for(lambda: c.store.events("job", "parked"), "b to park")
        c.client.control("job", cancel=wire.Cancel())
        c.client.reply(c.client.consume_step("hand"))
        c.client.until(lambda: any(e.kind == wire.EVENT_KIND_SETTLED for e in received), "the end")
        step_events = sorted(
            (e for e in received if e.kind == wire.EVENT_KIND_STEP), key=lambda e: e.seq
        )
        name = wire.StepEvent.Name
        self.assertEqual(
            [
                ("a", "SENT", 1, ""), ("a", "FAILED", 1, "NO no room"), ("a", "SENT", 2, ""),
                ("a", "BEGAN", 2, ""), ("a", "DONE", 2, ""), ("b", "SENT", 1, ""),
                ("b", "FAILED", 1, "NO no room"), ("b", "PARKED", 1, "NO no room"),
                ("a", "SENT", 3, ""), ("a", "UNDONE", 3, ""),
            ],
            [
                (
                    e.step, name(e.step_event)[len("STEP_EVENT_") :], e.attempt,
                    " ".join(filter(None, (getattr(e.error, "class"), e.error.message))),
                )
                for e in step_events
            ],
        )
        self.assertEqual({""}, {e.error.details for e in step_events})
        for happened in (wire.STEP_EVENT_BEGAN, wire.STEP_EVENT_DONE):
            self.assertEqual("test", next(e.agent for e in step_events if e.step_event == happened))
        self.assertEqual(1, len(c.store.events("job", "began")))

    def test_missing_reply_queue(self):
        """A notification that cannot be delivered does not delay the job."""
        c = self.cluster()
        c.client.submit(wire.submit("job", wire.chain(1), reply_to="nobody.here"))
        servers.wait_for(lambda: c.store.total("settled") == 1, "the job to settle")
        self.assertEqual(1, c.store.total("owed"))

    def test_several_submitters(self):
        """Each client that has submitted the job gets its event; one whose queue is gone does not
        delay the others."""
        c = self.cluster()
        queues = ["gone", "first", "second"]
        c.client.call(
            lambda channel: [channel.queue_declare(queue, durable=True) for queue in queues]
        )
        for queue in queues:
            submit = wire.submit("job", [wire.step("a", "hand")], reply_to=queue)
            c.client.publish("drover.submit", "submit", submit, correlation_id=f"of {queue}")
            properties, _ = servers.wait_for(
                lambda queue=queue: c.client.get(queue), f"a receipt in {queue}"
            )
            self.assertEqual(
                ("drover.v1.Receipt", f"of {queue}"), (properties.type, properties.correlation_id)
            )
        c.client.call(lambda channel: channel.queue_delete("gone"))
        c.client.reply(c.client.consume_step("hand"))
        for queue in queues[1:]:
            properties, _ = servers.wait_for(
                lambda queue=queue: c.client.get(queue), f"the end in {queue}"
            )
            self.assertEqual(
                ("drover.v1.JobEvent", f"of {queue}"), (properties.type, properties.correlation_id)
            )
        servers.wait_for(lambda: c.store.total("owed") == 0, "the outbox to be empty")


if __name__ == "__main__":
    tap.main()
