# SPDX-License-Identifier: Apache-2.0
"""Steps at rest that go on differently than their definition says: drover retry --set. The test
acts as the agent."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

PARKS = wire.Policy(maximum_attempts=1, park_interval_ms=-1, on_permanent=wire.RECOURSE_PARK)
BROKEN = wire.Error(**{"class": "BROKEN"}, message="no", verdict=wire.VERDICT_TRANSIENT)


class Change(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.c = self.cluster(agents=0)
        for actor in ("hand", "other"):  # so that their queues exist
            self.c.client.submit(wire.submit(f"of-{actor}", [wire.step("s", actor)]))
            self.c.client.reply(self.c.client.consume_step(actor))
            self.c.client.settled(f"of-{actor}")

    def drover(self, *words):
        done = self.c.drover(*words)
        return done.returncode, done.stdout, done.stderr

    def retry(self, *words):
        self.assertEqual((0, "job is tried again\n", ""), self.drover("retry", "job", "s", *words))

    def refused(self, code, text, *words):
        got, out, err = self.drover("retry", "job", *words)
        self.assertEqual((code, ""), (got, out), words)
        self.assertIn(text, err)

    def park(self, beside=False, **fields):
        """Submits a job whose step fails, and may have taken effect; returns its request. beside:
        whether there are other steps, of which the first is in flight."""
        others = (
            [wire.step("beside", "other"), wire.step("last", "other", after=["beside"])]
            if beside
            else []
        )
        self.c.client.submit(
            wire.submit("job", [wire.step("s", "hand", retry=PARKS, **fields), *others])
        )
        self.beside = self.c.client.consume_step("other") if beside else None
        request = self.c.client.consume_step("hand")
        self.c.client.reply(request, error=BROKEN)
        servers.wait_for(lambda: self.c.store.events("job", "parked"), "the step to park")
        return request

    def succeed(self, request):
        self.c.client.reply(request)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.c.client.settled("job").outcome)

    def entry(self, event):
        history = self.c.client.control("job", history=wire.History()).history
        return [(e.step, e.detail) for e in history if e.event == event]

    def test_another_lease(self):
        """The same work under the same key, with more time. The history has who changed it, and
        why."""
        first = self.park(lock_ms=5000)
        self.retry(
            "--set", "lock=10m", "--set", "retry.maximum_attempts=3", "--reason", "the disk is slow"
        )
        second = self.c.client.consume_step("hand")
        self.assertEqual((5000, 600_000), (first.lock_ms, second.lock_ms))
        self.assertEqual(first.idempotency_key, second.idempotency_key)
        self.c.client.reply(second, error=BROKEN)  # it has tries left now
        self.succeed(self.c.client.consume_step("hand"))
        self.assertEqual([("s", "lock_ms,retry.maximum_attempts")], self.entry("changed"))
        (command,) = self.entry("command")
        self.assertRegex(command[1], r"^change \S+ \S+ the disk is slow$")

    def test_another_actor(self):
        """The first actor undoes what may have been done; then the other actor does the work, under
        another key."""
        first = self.park(revert=wire.Revert(action="take-back"), beside=True)
        self.retry("--set", "actor=other")
        undo = self.c.client.consume_step("hand")
        self.c.client.reply(self.beside)
        servers.wait_for(lambda: self.c.store.events("job", "done"), "the step beside it")
        self.assertEqual(("take-back", first.idempotency_key), (undo.action, undo.forward_key))
        self.assertRegex(self.drover("get", "job")[1], r"(?m)^s +hand +SENT +2 ")
        self.assertTrue(self.c.client.status("job").changing)
        self.assertRegex(
            self.drover("why", "job")[1], r"\nlast +CHANGE +waits until a step is undone"
        )
        self.c.client.reply(undo)
        second = self.c.client.consume_step("other")
        self.assertFalse(self.c.client.status("job").changing)
        self.assertNotEqual(first.idempotency_key, second.idempotency_key)
        self.c.client.reply(self.c.client.consume_step("other"))  # the last step
        self.succeed(second)
        self.assertEqual([("s", "actor")], self.entry("edited"))
        self.c.client.control("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        self.assertEqual(second.idempotency_key, self.c.client.consume_step("other").forward_key)

    def test_other_arguments(self):
        first = self.park(revert=wire.Revert(action="take-back"), arguments=wire.payload(b"1"))
        self.retry("--input", "2")
        undo = self.c.client.consume_step("hand")
        self.assertEqual(b"1", undo.arguments.data)
        self.c.client.reply(undo)
        second = self.c.client.consume_step("hand")
        self.assertEqual(b"2", second.arguments.data)
        self.assertNotEqual(first.idempotency_key, second.idempotency_key)
        self.succeed(second)

    def test_step_without_a_revert(self):
        first = self.park()
        self.refused(
            6, "step s may have taken effect, and has no revert: say by Resolve", "s", "--set",
            "actor=other",
        )
        self.retry("--set", "actor=other", "--begin-anew")
        second = self.c.client.consume_step("other")
        self.assertNotEqual(first.idempotency_key, second.idempotency_key)
        self.succeed(second)
        self.assertEqual([("s", "")], self.entry("anew"))

    def test_refused(self):
        request = self.park(lock_ms=5000)
        before = self.c.store.job("job")["seq"]
        for code, text, *words in [
            (2, "--set: 'lock' is not FIELD=VALUE", "s", "--set", "lock"),
            (1, "lock=soon: lock: must be a duration", "s", "--set", "lock=soon"),
            (
                1, "lokc=1m: lokc: there is no such setting; did you mean lock?", "s", "--set",
                "lokc=1m",
            ),
            (
                1, "retry.tries=1: retry.tries: there is no such setting", "s", "--set",
                "retry.tries=1",
            ),
            (2, "change one step: name it", "--set", "lock=1m"),
            (2, "change one step: name it", "s", "t", "--set", "lock=1m"),
            (2, "--begin-anew goes with", "s", "--begin-anew"),
            (1, "may set only actor, action, lock_ms", "s", "--set", 'after=["s"]'),
            (1, "may set only actor", "s", "--set", "name=t"),
            (1, "are given by retry.arguments", "s", "--set", "arguments=1 2"),
            (1, "may set only lock_ms", "s", "--set", "revert.actor=other"),
            (1, "the step has no revert", "s", "--set", "revert.lock=1m"),
            (1, "must not be more than lock_ms", "s", "--set", "heartbeat=1h"),
            (
                1, "steps[0].retry.backoff_coefficient", "s", "--set",
                "retry.backoff_coefficient=0.5",
            ),
            (1, "actor", "s", "--set", "actor=no/name"),
            (1, "the job has no step t", "t", "--set", "lock=1m"),
        ]:
            with self.subTest(" ".join(words)):
                self.refused(code, text, *words)
        self.assertEqual(before, self.c.store.job("job")["seq"])
        self.assertEqual(1, self.c.dispatches("job"))
        self.retry()
        self.refused(6, "step s is in flight", "s", "--set", "lock=1m")
        self.c.client.consume_step("hand")
        self.c.client.control("job", cancel=wire.Cancel())
        self.refused(6, "the job is being taken back", "s", "--set", "actor=other")
        self.assertEqual(5000, request.lock_ms)

    def test_dropped_by_a_cancel(self):
        """The job goes back before its step is undone: the step is not changed, and the history
        says so."""
        self.park(revert=wire.Revert(action="take-back"))
        self.retry("--set", "actor=other")
        self.refused(
            6, "another change of the job waits until a step is undone", "s", "--set", "actor=hand"
        )
        self.c.client.control("job", cancel=wire.Cancel())
        self.c.client.reply(self.c.client.consume_step("hand"))
        self.assertEqual(wire.OUTCOME_CANCELLED, self.c.client.settled("job").outcome)
        self.assertEqual([("", "TURNED")], self.entry("unchanged"))


if __name__ == "__main__":
    tap.main()
