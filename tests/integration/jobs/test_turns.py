# SPDX-License-Identifier: Apache-2.0
"""Jobs that turn: compensation, cancel, and desired state, on real servers. The test acts as the
agent."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import servers
import tap
import wire
from hand import Case, error, permanent, step


def trip(**fields):
    return [
        step("flight", **fields),
        step("hotel", ["flight"], **fields),
        step("car", ["hotel"], **fields),
    ]


class Turns(Case):
    # --- compensation ---

    def test_compensate_in_reverse(self):
        """Steps that are done and have an undo are undone, the last first; the others are passed
        over."""
        c = self.begin()
        steps = [step("a"), step("b", ["a"], revert=False), step("c", ["b"])]
        c.client.submit(wire.submit("job", steps))
        self.do("do-a")
        self.do("do-b")
        c.client.reply(self.take(), error=permanent("no"))
        self.do("undo-c")  # it may have taken effect
        self.do("undo-a")
        event = self.end("job", wire.OUTCOME_COMPENSATED)
        self.assertEqual(("FAILURE", "c", "no", ["c"]),
                         (event.reason, event.step, event.error.message, list(event.failed_steps)))
        self.assertEqual(["do-a", "do-b", "do-c", "undo-c", "undo-a"], self.seen)
        self.assertEqual({"a": "REVERTED", "b": "SKIPPED", "c": "REVERTED"}, self.states("job"))
        status = c.client.status("job")
        self.assertEqual("no", status.steps[2].last_error.message)
        self.assertEqual(("c", event.error), (status.failed_step, status.error))
        (listed,) = c.client.control("", list_jobs=wire.ListJobs()).jobs
        self.assertEqual(("c", event.error), (listed.failed_step, listed.error))
        c.await_idle()

    def test_undo_waived(self):
        """A step with waive_revert is not undone after a failure that proves that nothing
        happened."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a"), step("b", ["a"], waive_revert=True)]))
        self.do("do-a")
        c.client.reply(self.take(), error=permanent("no", effect=wire.EFFECT_NONE))
        self.do("undo-a")
        self.end("job", wire.OUTCOME_COMPENSATED)

    def test_undo_with_its_own_terms(self):
        """An undo can have another actor, action, arguments and lease than its forward action."""
        c = self.begin()
        revert = wire.Revert(
            action="refund", actor="till", lock_ms=1234, arguments=wire.payload(b"all")
        )
        c.client.submit(wire.submit("job", [step("pay", revert=revert), step("b", ["pay"])]))
        self.do("do-pay")
        c.client.reply(self.take(), error=permanent("no"))
        self.do("undo-b")
        request = c.client.consume_step("till")
        self.assertEqual(("refund", 1234, b"all"),
                         (request.action, request.lock_ms, request.arguments.data))
        c.client.reply(request)
        self.end("job", wire.OUTCOME_COMPENSATED)

    def test_branches_are_undone_in_parallel(self):
        """There is no barrier: a branch is undone as soon as its dependents are."""
        c = self.begin()
        steps = [step("root"), *[step(f"{x}{i}", [f"{x}{i - 1}"] if i > 1 else ["root"])
                                 for x in "ab" for i in (1, 2)]]
        c.client.submit(wire.submit("job", steps))
        self.do("do-root")
        self.do("do-a1", "do-b1")
        self.do("do-a2", "do-b2")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        held = [self.take(), self.take()]
        quick = next(r for r in held if r.action == "undo-a2")
        slow = next(r for r in held if r.action == "undo-b2")
        c.client.reply(quick)
        self.do("undo-a1")
        c.client.reply(slow)
        self.do("undo-b1")
        self.do("undo-root")
        self.end("job", wire.OUTCOME_COMPENSATED, 2)

    def test_compensation_failed(self):
        """An undo that fails for good ends the job once all else is undone; then a person resolves
        the step."""
        c = self.begin()
        steps = [step("root"), step("a", ["root"]), step("b", ["root"])]
        c.client.submit(wire.submit("job", steps))
        self.do("do-root")
        self.do("do-a", "do-b")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.steer("job", cancel=wire.Cancel())
        self.assertEqual(
            wire.ANSWER_CODE_DONE,
            self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED)),
        )
        for _ in range(2):
            request = self.take()
            failed = request.action == "undo-a"
            c.client.reply(request, **({"error": permanent("cannot")} if failed else {}))
        ended = self.end("job", wire.OUTCOME_COMPENSATION_FAILED, 2)
        self.assertEqual(["a"], list(ended.failed_steps))
        self.assertEqual({"root": "DONE", "a": "FAILED", "b": "REVERTED"}, self.states("job"))
        answer = c.client.control("job", set_desired=wire.SetDesired(desired=wire.STATE_ACTIVE))
        self.assertEqual(wire.ANSWER_CODE_WRONG_STATE, answer.code)
        self.assertIn("COMPENSATION_FAILED", answer.reason)
        resolve = wire.Resolve(step="a", state=wire.STATE_DISABLED)
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", resolve=resolve))
        self.do("undo-root")
        self.end("job", wire.OUTCOME_COMPENSATED, 3)

    # --- desired state ---

    def test_five_turns(self):
        """Each turn has one outcome, and keys of its own."""
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        keys = set()
        for turn in range(1, 6):
            back = turn % 2 == 0
            if turn > 1:
                desired = wire.STATE_DISABLED if back else wire.STATE_ACTIVE
                self.steer("job", set_desired=wire.SetDesired(desired=desired))
            names = ["flight", "hotel", "car"]
            for name in reversed(names) if back else names:
                (request,) = self.do(f"{'undo' if back else 'do'}-{name}")
                self.assertEqual(turn, request.turn)
                keys.add(request.idempotency_key)
            outcome = wire.OUTCOME_COMPENSATED if back else wire.OUTCOME_SUCCEEDED
            self.assertEqual(turn, self.end("job", outcome, turn).turn)
        self.assertEqual(15, len(keys))
        self.assertEqual(5, len(c.client.events["job"]))
        c.await_idle()

    def test_turn_with_a_step_in_flight(self):
        """A step in flight is answered first, then undone; no new step goes forward."""
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        self.do("do-flight")
        in_flight = self.take()
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))
        c.client.reply(in_flight)
        self.do("undo-hotel")
        self.do("undo-flight")
        self.end("job", wire.OUTCOME_COMPENSATED)
        self.assertEqual(["do-flight", "do-hotel", "undo-hotel", "undo-flight"], self.seen)

    def test_turn_with_an_undo_in_flight(self):
        """An undo that was sent is driven to its end; then the step is done again."""
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        for name in ("flight", "hotel", "car"):
            self.do(f"do-{name}")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        undo = self.take()
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_ACTIVE))
        c.client.reply(undo, error=error("later"))
        again = self.take()
        self.assertEqual(("undo-car", undo.idempotency_key), (again.action, again.idempotency_key))
        c.client.reply(again)
        (done,) = self.do("do-car")
        self.assertEqual("job/car/3", done.idempotency_key)
        self.assertEqual(3, self.end("job", wire.OUTCOME_SUCCEEDED, 2).turn)

    def test_turns_before_start_at(self):
        """Whatever a client asks meanwhile, nothing of a job is sent before its start_at."""
        c = self.begin()
        later = c.store.redis.time()[0] * 1000 + 3000
        disable, enable = (
            wire.SetDesired(desired=state) for state in (wire.STATE_DISABLED, wire.STATE_ACTIVE)
        )
        c.client.submit(wire.submit("turned", trip(), start_at=later))
        c.client.receipt("turned")
        self.steer("turned", set_desired=disable)
        c.client.submit(
            wire.submit("made-disabled", trip(), start_at=later, desired=wire.STATE_DISABLED)
        )
        for job in ("turned", "made-disabled"):
            self.end(job, wire.OUTCOME_COMPENSATED)
            self.assertEqual(wire.ANSWER_CODE_DONE, self.steer(job, set_desired=enable))
        for _ in range(2 * len(trip())):
            c.client.reply(self.take())
        for job in ("turned", "made-disabled"):
            self.end(job, wire.OUTCOME_SUCCEEDED, 2)
            first = next(e for e in c.store.history(job) if e.event == "dispatched")
            self.assertGreaterEqual(int(first.at), later)

    def test_tries(self):
        """After a compensation the job is tried once more, as its workflow allows."""
        c = self.begin()
        definition = wire.Workflow(steps=[step("a"), step("b", ["a"])], tries=2)
        c.client.submit(wire.Submit(job_id="job", definition=definition))
        self.do("do-a")
        c.client.reply(self.take(), error=permanent("no"))
        self.do("undo-b")
        self.do("undo-a")
        (again,) = self.do("do-a")
        self.assertEqual("job/a/3", again.idempotency_key)
        self.do("do-b")
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_cancel_during_compensation(self):
        """A Cancel does not change the undos in progress, and the job is not tried again."""
        c = self.begin()
        definition = wire.Workflow(steps=[step("a"), step("b", ["a"])], tries=5)
        c.client.submit(wire.Submit(job_id="job", definition=definition))
        self.do("do-a")
        c.client.reply(self.take(), error=permanent("no"))
        undo = self.take()
        self.assertEqual(wire.ANSWER_CODE_UNCHANGED, self.steer("job", cancel=wire.Cancel()))
        c.client.reply(undo)
        self.do("undo-a")
        self.end("job", wire.OUTCOME_COMPENSATED)
        self.assertEqual(["do-a", "do-b", "undo-b", "undo-a"], self.seen)

    def test_steps_in_any_order(self):
        """A step may stand behind its dependents in the definition."""
        c = self.begin()
        steps = [step("c", ["b"], revert=False), step("b", ["a"], revert=False), step("a")]
        c.client.submit(wire.submit("job", steps))
        for name in "abc":
            self.do(f"do-{name}")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        undo = self.take()
        self.assertEqual((wire.PHASE_PROCESSING, 1),
                         (c.client.status("job").phase, c.client.status("job").steps_open))
        c.client.reply(undo)
        self.end("job", wire.OUTCOME_COMPENSATED, 2)

    def test_results_belong_to_their_turn(self):
        """A forward action without a result has none, even if one of an earlier turn had."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a"), step("b", ["a"])]))
        self.do("do-a", result=wire.payload(b"old"))
        (first,) = self.do("do-b")
        self.assertEqual([b"old"], [r.payload.data for r in first.results])
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        self.do("undo-b")
        self.do("undo-a")
        self.end("job", wire.OUTCOME_COMPENSATED, 2)
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_ACTIVE))
        self.do("do-a")
        (second,) = self.do("do-b")
        self.assertEqual([], list(second.results))
        self.end("job", wire.OUTCOME_SUCCEEDED, 3)
        self.assertEqual("0", c.store.job("job")["bytes"])

    # --- failures ---

    def test_on_permanent_fail(self):
        """The job ends as it is; Retry goes on from there."""
        c = self.begin()
        policy = wire.Policy(on_permanent=wire.RECOURSE_FAIL)
        c.client.submit(wire.submit("job", [step("a"), step("b", ["a"], retry=policy)]))
        self.do("do-a")
        c.client.reply(self.take(), error=permanent("no"))
        ended = self.end("job", wire.OUTCOME_FAILED)
        self.assertEqual(("PERMANENT", ["b"]), (ended.reason, list(ended.failed_steps)))
        self.assertEqual(("b", "no"), (ended.step, ended.error.message))
        self.assertEqual({"a": "DONE", "b": "FAILED"}, self.states("job"))
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", retry=wire.Retry()))
        self.do("do-b")
        ended = self.end("job", wire.OUTCOME_SUCCEEDED, 2)
        self.assertEqual(
            ([], "", False), (list(ended.failed_steps), ended.step, ended.HasField("error"))
        )

    def test_compensation_fails_again(self):
        """Each terminal event names the steps that have failed by then, and none that was settled
        meanwhile, in whatever way."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step(name) for name in "abcd"]))
        self.do("do-a", "do-b", "do-c", "do-d")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        for _ in range(4):
            c.client.reply(self.take(), error=permanent("cannot"))
        ended = self.end("job", wire.OUTCOME_COMPENSATION_FAILED, 2)
        self.assertEqual(list("abcd"), sorted(ended.failed_steps))
        self.steer("job", resolve=wire.Resolve(step="a", state=wire.STATE_DISABLED))
        ended = self.end("job", wire.OUTCOME_COMPENSATION_FAILED, 3)
        self.assertEqual(list("bcd"), sorted(ended.failed_steps))
        self.steer("job", retry=wire.Retry(steps=["b"]))
        self.do("undo-b")
        ended = self.end("job", wire.OUTCOME_COMPENSATION_FAILED, 4)
        self.assertEqual(list("cd"), sorted(ended.failed_steps))
        self.steer("job", retry=wire.Retry())
        for _ in range(2):
            request = self.take()
            failed = request.action == "undo-d"
            c.client.reply(request, **({"error": permanent("cannot")} if failed else {}))
        self.assertEqual(
            ["d"], list(self.end("job", wire.OUTCOME_COMPENSATION_FAILED, 5).failed_steps)
        )

    def test_deadline(self):
        """After complete_by a job is on hold until a person lets it go on, or it goes back."""
        c = self.begin()
        now = c.store.redis.time()[0] * 1000
        c.client.submit(wire.submit("held", trip(), complete_by=now + 3000))
        self.do("do-flight")
        late = self.take()
        servers.wait_for(lambda: c.client.status("held").hold == "deadline", "the deadline")
        c.client.reply(late)
        c.client.until(lambda: self.states("held")["hotel"] == "DONE", "the answer to be recorded")
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("held", resume=wire.Resume()))
        self.do("do-car")
        self.end("held", wire.OUTCOME_SUCCEEDED)
        definition = wire.Workflow(steps=trip(), on_deadline=wire.RECOURSE_COMPENSATE)
        now = c.store.redis.time()[0] * 1000
        c.client.submit(wire.Submit(job_id="back", definition=definition, complete_by=now + 3000))
        self.do("do-flight")
        c.client.reply(self.take(), error=error("no", retry_after_ms=60000))
        self.do("undo-hotel")
        self.do("undo-flight")
        self.end("back", wire.OUTCOME_COMPENSATED)

    def test_submit_after_complete_by(self):
        """A Submit after its complete_by is refused; the repeated Submit of a job that began in
        time is ALREADY."""
        c = self.begin()
        now = c.store.redis.time()[0] * 1000
        c.client.submit(wire.submit("late", trip(), complete_by=now))
        receipt = c.client.receipt("late")
        self.assertEqual((wire.RECEIPT_CODE_REJECTED, "complete_by"), (receipt.code, receipt.field))
        self.assertEqual({}, c.store.job("late"))
        submit = wire.submit("timely", trip(), complete_by=now + 3000)
        c.client.submit(submit)
        self.assertEqual(wire.RECEIPT_CODE_CREATED, c.client.receipt("timely").code)
        servers.wait_for(
            lambda: c.store.redis.time()[0] * 1000 >= now + 3000, "complete_by to pass"
        )
        c.client.receipts.pop("timely")
        c.client.submit(submit)
        self.assertEqual(wire.RECEIPT_CODE_ALREADY, c.client.receipt("timely").code)

    def test_deadline_after_a_retry(self):
        """A job that has failed and is retried runs until its complete_by, and not longer."""
        c = self.begin()
        fail = wire.Policy(on_permanent=wire.RECOURSE_FAIL)
        now = c.store.redis.time()[0] * 1000
        c.client.submit(
            wire.submit("job", [step("a", retry=fail, lock_ms=600_000)], complete_by=now + 6000)
        )
        c.client.reply(self.take(), error=permanent("no"))
        self.end("job", wire.OUTCOME_FAILED)
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", retry=wire.Retry()))
        in_flight = self.take()
        c.client.until(lambda: c.client.status("job").hold == "deadline", "the deadline")
        c.client.reply(in_flight)
        self.end("job", wire.OUTCOME_SUCCEEDED, 2)

    def test_complete_within(self):
        """complete_within_ms of the workflow counts from acceptance. Once it has passed there is an
        alert, also for a paused job."""
        c = self.begin()
        definition = wire.Workflow(steps=trip(), complete_within_ms=1500)
        c.client.submit(wire.Submit(job_id="job", definition=definition))
        in_flight = self.take()
        self.steer("job", pause=wire.Pause())
        c.client.until(lambda: c.schedulers[0].records("alert"), "the deadline")
        self.assertEqual([("job", "DEADLINE")], [(r["job.id"], r["reason"])
                                                 for r in c.schedulers[0].records("alert")])
        c.client.reply(in_flight)
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", resume=wire.Resume()))
        self.do("do-hotel")
        self.do("do-car")
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_pause_outlasts_the_deadline(self):
        """The hold of a person stays: a job that turns then waits until the person resumes it."""
        c = self.begin()
        now = c.store.redis.time()[0] * 1000
        c.client.submit(wire.submit("job", trip(), complete_by=now + 3000))
        self.do("do-flight")
        in_flight = self.take()
        self.steer("job", pause=wire.Pause(), by="jo@desk", reason="hands off")
        c.client.until(lambda: c.schedulers[0].records("alert"), "the deadline")
        status = c.client.status("job")
        self.assertEqual(("paused", "jo@desk", "hands off"),
                         (status.hold, status.held_by, status.held_reason))
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        c.client.reply(in_flight)
        c.client.until(lambda: self.states("job")["hotel"] == "DONE", "the answer to be recorded")
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))
        self.steer("job", resume=wire.Resume())
        self.do("undo-hotel")
        self.do("undo-flight")
        self.end("job", wire.OUTCOME_COMPENSATED)

    def test_failures_and_expiries_apart(self):
        """Failures and expiries have separate limits, and a DEFER counts for neither."""
        c = self.begin()
        policy = wire.Policy(
            initial_interval_ms=20, jitter=-1, maximum_attempts=2, maximum_expiries=2
        )
        c.client.submit(wire.submit("job", [step("a", retry=policy, wait_ms=2500, lock_ms=1500)]))
        c.client.reply(self.take(), error=error("no"))
        self.take(expires=True)
        c.client.reply(self.take(), error=error("busy", wire.VERDICT_DEFER))
        last = self.take()
        self.assertEqual((4, 1, 1), (last.attempt, last.failures, last.expiries))
        c.client.reply(last, error=error("no again"))
        c.client.until(lambda: self.states("job")["a"] == "PARKED", "the step to park")
        self.assertEqual([["0", "EXHAUSTED"]], c.store.events("job", "parked"))
        a = c.client.status("job").steps[0]
        self.assertEqual((2, 1), (a.failures, a.expiries))

    def test_expiries_compensate(self):
        c = self.begin()
        policy = wire.Policy(maximum_expiries=1, on_exhausted=wire.RECOURSE_COMPENSATE)
        c.client.submit(wire.submit("job", [
            step("a"), step("b", ["a"], retry=policy, wait_ms=2500, lock_ms=300, revert=wire.Revert(
                action="undo-b", lock_ms=60000))]))
        self.do("do-a")
        self.take(expires=True)
        self.do("undo-b")
        self.do("undo-a")
        self.assertEqual("FAILURE", self.end("job", wire.OUTCOME_COMPENSATED).reason)
        self.assertEqual([["D", "FAILURE", "DEATHS", "1"]], c.store.events("job", "turned"))

    def test_deadline_fails(self):
        """A step in flight is answered first; then the job ends as it is, and Retry goes on from
        there."""
        c = self.begin()
        definition = wire.Workflow(steps=trip(), on_deadline=wire.RECOURSE_FAIL)
        now = c.store.redis.time()[0] * 1000
        c.client.submit(wire.Submit(job_id="job", definition=definition, complete_by=now + 3000))
        self.do("do-flight")
        in_flight = self.take()
        c.client.until(lambda: c.store.events("job", "ending") == [["DEADLINE"]], "the deadline")
        c.client.reply(in_flight)
        ended = self.end("job", wire.OUTCOME_FAILED)
        self.assertEqual(("DEADLINE", []), (ended.reason, list(ended.failed_steps)))
        self.assertEqual(("", "DEADLINE"), (ended.step, getattr(ended.error, "class")))
        self.assertEqual({"flight": "DONE", "hotel": "DONE", "car": "WAITING"}, self.states("job"))
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", retry=wire.Retry()))
        self.do("do-car")
        self.end("job", wire.OUTCOME_SUCCEEDED, 2)

    # --- commands ---

    def test_reasons_are_kept(self):
        """The history has each command: what it was, its id, who gave it, and why."""
        c = self.begin()
        policy = wire.Policy(on_permanent=wire.RECOURSE_PARK)
        c.client.submit(wire.submit("job", [step("a", retry=policy)]))
        c.client.reply(self.take(), error=permanent("no"))
        c.client.until(lambda: self.states("job")["a"] == "PARKED", "the step to park")
        commands = [("pause", {"pause": wire.Pause()}),
                    ("resolve", {"resolve": wire.Resolve(step="a", state=wire.STATE_DISABLED)}),
                    ("change", {"retry": wire.Retry(steps=["a"], arguments=wire.payload(b"new"))}),
                    ("resume", {"resume": wire.Resume()}),
                    ("disable", {"set_desired": wire.SetDesired(desired=wire.STATE_DISABLED)}),
                    ("enable", {"set_desired": wire.SetDesired(desired=wire.STATE_ACTIVE)}),
                    ("cancel", {"cancel": wire.Cancel()}),
                    ("kill", {"kill": wire.Kill()})]
        expected = []
        for word, command in commands:
            answer = c.client.control("job", by="jo@desk", reason=f"because of {word}", **command)
            self.assertEqual(wire.ANSWER_CODE_DONE, answer.code, word)
            expected.append(f"{word} {answer.command_id} jo@desk because of {word}")
        history = c.client.control("job", history=wire.History()).history
        self.assertEqual(expected, [entry.detail for entry in history if entry.event == "command"])

    def test_pause(self):
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        in_flight = self.take()
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", pause=wire.Pause()))
        self.assertEqual(wire.ANSWER_CODE_UNCHANGED, self.steer("job", pause=wire.Pause()))
        c.client.reply(in_flight)
        c.client.until(lambda: self.states("job")["flight"] == "DONE", "the answer to be recorded")
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", resume=wire.Resume()))
        self.do("do-hotel")
        self.do("do-car")
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_kill(self):
        """The job is closed for good: a late answer changes nothing, and is kept as evidence."""
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        in_flight = self.take()
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", kill=wire.Kill()))
        self.end("job", wire.OUTCOME_KILLED)
        before = c.store.history("job")
        for _ in range(2):
            c.client.reply(in_flight)
        data = c.store.partition("job") + "data:job"
        late = lambda: (c.store.redis.hget(data, "l0") or "").split()
        servers.wait_for(lambda: late()[:1] == ["2"], "the evidence of both")
        self.assertEqual(["A", wire.token_id(in_flight.token)], late()[2:4])
        self.assertEqual(before, c.store.history("job"))
        for command in (
            {"cancel": wire.Cancel()}, {"retry": wire.Retry()}, {"resume": wire.Resume()},
            {"set_desired": wire.SetDesired(desired=wire.STATE_DISABLED)},
        ):
            self.assertEqual(wire.ANSWER_CODE_WRONG_STATE, self.steer("job", **command), command)

    def test_retry_with_other_arguments(self):
        """New arguments for a step without a revert are accepted only if it is known that it has
        done nothing."""
        c = self.begin()
        policy = wire.Policy(on_permanent=wire.RECOURSE_PARK)
        c.client.submit(
            wire.submit(
                "job", [step("a", revert=False, retry=policy, arguments=wire.payload(b"old"))]
            )
        )
        c.client.reply(self.take(), error=permanent("no"))
        c.client.until(lambda: self.states("job")["a"] == "PARKED", "the step to park")
        retry = wire.Retry(steps=["a"], arguments=wire.payload(b"new"))
        answer = c.client.control("job", retry=retry)
        self.assertEqual(wire.ANSWER_CODE_WRONG_STATE, answer.code)
        self.assertIn("step a may have taken effect", answer.reason)
        self.steer("job", resolve=wire.Resolve(step="a", state=wire.STATE_DISABLED))
        request = self.take()
        self.assertEqual((b"old", "job/a/2"), (request.arguments.data, request.idempotency_key))
        answer = c.client.control("job", retry=retry)
        self.assertEqual(wire.ANSWER_CODE_WRONG_STATE, answer.code)
        self.assertIn("step a is in flight", answer.reason)
        c.client.reply(request, error=permanent("no"))
        c.client.until(lambda: self.states("job")["a"] == "PARKED", "the step to park")
        self.steer("job", pause=wire.Pause())
        self.steer("job", resolve=wire.Resolve(step="a", state=wire.STATE_DISABLED))
        self.assertEqual(wire.ANSWER_CODE_DONE, self.steer("job", retry=retry))
        self.steer("job", resume=wire.Resume())
        request = self.take()
        self.assertEqual((b"new", "job/a/4"), (request.arguments.data, request.idempotency_key))
        c.client.reply(request)
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_repeated_command(self):
        """A command with an id that is known changes nothing and gets the same answer; another
        command with that id is refused."""
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        in_flight = self.take()
        command = wire.Control(job_id="job", command_id="mine", reply_to=c.client.REPLIES)
        command.set_desired.desired = wire.STATE_DISABLED
        for _ in range(2):
            c.client.answers.pop("mine", None)
            c.client.publish("drover.control", "control", command)
            answer = c.client.until(lambda: c.client.answers.get("mine"), "an answer")
            self.assertEqual(wire.ANSWER_CODE_DONE, answer.code)
        self.assertEqual(1, len(c.store.events("job", "turned")))
        c.client.answers.pop("mine")
        command.pause.SetInParent()
        c.client.publish("drover.control", "control", command)
        answer = c.client.until(
            lambda: c.client.answers.get("mine"), "an answer to another command"
        )
        self.assertEqual(wire.ANSWER_CODE_INVALID, answer.code)
        self.assertIn("used before", answer.reason)
        c.client.reply(in_flight)
        self.do("undo-flight")
        self.end("job", wire.OUTCOME_COMPENSATED)

    def test_superseded(self):
        """B14.F5: a command that was issued before the last one of its kind is refused."""
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        self.take()
        disable = wire.SetDesired(desired=wire.STATE_DISABLED)
        enable = wire.SetDesired(desired=wire.STATE_ACTIVE)
        self.assertEqual(wire.ANSWER_CODE_UNCHANGED,
                         self.steer("job", set_desired=enable, issued_at=2000))
        self.assertEqual(wire.ANSWER_CODE_SUPERSEDED,
                         self.steer("job", set_desired=disable, issued_at=1000))
        self.assertEqual(
            wire.ANSWER_CODE_SUPERSEDED, self.steer("job", pause=wire.Pause(), if_seq=1)
        )
        self.assertEqual(wire.ANSWER_CODE_DONE,
                         self.steer("job", set_desired=disable, issued_at=3000))

    def test_unknown_job_and_step(self):
        c = self.begin()
        c.client.submit(wire.submit("job", trip()))
        self.take()
        for command in ({"cancel": wire.Cancel()}, {"kill": wire.Kill()}, {"pause": wire.Pause()},
                        {"retry": wire.Retry(steps=["x"])}, {"retry": wire.Retry()},
                        {"resolve": wire.Resolve(step="x", state=wire.STATE_ACTIVE)}):
            self.assertEqual(wire.ANSWER_CODE_UNKNOWN_JOB, self.steer("nobody", **command), command)
        answer = c.client.control("job", retry=wire.Retry(steps=["bus"]))
        self.assertEqual((wire.ANSWER_CODE_INVALID, "the job has no step bus"),
                         (answer.code, answer.reason))
        answer = c.client.control(
            "job", resolve=wire.Resolve(step="flight", state=wire.STATE_ACTIVE)
        )
        self.assertEqual(wire.ANSWER_CODE_WRONG_STATE, answer.code)
        self.assertIn("step flight is in flight", answer.reason)


if __name__ == "__main__":
    tap.main()
