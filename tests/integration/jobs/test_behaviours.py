# SPDX-License-Identifier: Apache-2.0
"""Cases from the test suites of other engines, each under its name there; the code is our own."""

import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import health
import servers
import tap
import wire
from hand import SOON, Case, error, permanent, step

# a short lease, in a request that the broker does not return before the lease ends
LEASE = {"wait_ms": 2500, "lock_ms": 300}


class Behaviours(Case):
    def dispatched(self, job, index=0):
        """Returns the dispatches of one step: (time, attempt, token)."""
        return [(int(e.at), int(e.attempt), e.token) for e in self.c.store.history(job)
                if e.event == "dispatched" and e.step == str(index)]

    def times(self, job, event):
        return [int(e.at) for e in self.c.store.history(job) if e.event == event]

    def naps(self, seconds=0, **more):
        """Returns settings of agents with an actor whose runs note their begin and end. No run ends
        before go()."""
        self.log = self.directory / "naps"
        self.log.touch()
        script = (f'echo "begin $DROVER_JOB" >>"$0"; sleep {seconds};'
                  'while [ -e "$0" ] && ! [ -e "$0.go" ]; do sleep 0.05; done;'
                  'echo "end $DROVER_JOB" >>"$0"')
        actor = {
            "name": "nap",
            "handler": "exec",
            "actions": [{"name": "*", "command": ["/bin/sh", "-c", script, str(self.log)]}],
            **more,
        }
        return {"agent": {"agent": {"concurrency": 8, "actors": [cluster.BUILTIN, actor]}}}

    def go(self):
        self.log.with_suffix(".go").touch()

    def lines(self, word):
        return [
            line.split()[1] for line in self.log.read_text().splitlines() if line.startswith(word)
        ]

    # --- deliveries that are lost, or repeated ---

    def test_lost_dispatch(self):
        """The request for b reaches no agent, or is never published. It is sent again, and a has
        run once."""
        c = self.begin(failpoints={})
        c.client.submit(wire.submit("job", [step("a"), step("b", ["a"], **LEASE)]))
        self.do("do-a")
        lost = self.take()
        again = self.take()
        self.assertEqual(("do-b", 2, 0), (again.action, again.attempt, again.expiries))
        self.assertNotEqual(lost.token, again.token)
        c.client.reply(again)
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.assertEqual(1, len(self.dispatched("job", 0)))
        self.assertGreaterEqual(self.dispatched("job", 1)[1][0], lost.locked_until)
        scheduler = c.schedulers[0]
        c.client.submit(wire.submit("unsent", [step("a"), step("b", ["a"])]))
        request = self.take()
        scheduler.fail("publish.request.before=crash@do-b")
        c.client.reply(request)
        scheduler.await_crash()
        self.assertEqual(1, len(self.dispatched("unsent", 1)), "recorded")
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"), "and not sent")
        scheduler.start()
        self.do("do-b")
        self.end("unsent", wire.OUTCOME_SUCCEEDED)
        self.assertEqual(1, len(self.dispatched("unsent", 0)))

    def test_agent_killed_in_flight(self):
        """Four runs that were acknowledged early end with their agent. Each is sent again after its
        own lease, and counts one expiry."""
        settings = health.settings(self.naps(ack="early"))
        for role in settings.values():
            # it reports at once what is not acknowledged
            role["rabbitmq"] = {"queue_type": "classic"}
        c = self.begin(settings=settings)
        lease = {"wait_ms": 2000, "lock_ms": 3000}
        c.client.submit(wire.submit("job", [wire.step(f"s{i}", "nap", **lease) for i in range(4)]))
        servers.wait_for(lambda: len(self.lines("begin")) == 4, "four runs to begin")
        acked = "drover_broker_acked_total"  # comes after a quarter of the lease, with the evidence
        servers.wait_for(
            lambda: health.metrics(c.agents[0])[acked] == 4, "the runs to be acknowledged"
        )
        self.rabbit.await_acknowledged(c.name, "drover.task.nap")
        until = {i: int(record.until) for i, record in c.store.steps("job").items()}
        c.agents[0].kill()
        self.go()
        c.add_agent()
        self.end("job", wire.OUTCOME_SUCCEEDED)
        for i, record in c.store.steps("job").items():
            self.assertEqual(("2", "1"), (record.attempt, record.expiries), record)
            self.assertGreaterEqual(self.dispatched("job", i)[1][0], until[i])
            self.assertEqual(2, len(self.dispatched("job", i)))
        self.assertEqual(4, len(c.store.events("job", "done")))

    def test_agent_killed_before_its_ack(self):
        """By default a request is not acknowledged early. The broker offers it again at once: the
        same attempt, and no expiry."""
        c = self.begin(settings=self.naps())
        c.client.submit(
            wire.submit("job", [wire.step(f"s{i}", "nap", lock_ms=600_000) for i in range(4)])
        )
        servers.wait_for(lambda: len(self.lines("begin")) == 4, "four runs to begin")
        c.agents[0].kill()
        self.go()
        c.add_agent()
        self.end("job", wire.OUTCOME_SUCCEEDED)
        for i, record in c.store.steps("job").items():
            self.assertEqual(("1", "0"), (record.attempt, record.expiries), record)
            self.assertEqual(1, len(self.dispatched("job", i)))
        self.assertEqual(8, len(self.lines("begin")))
        self.assertEqual(4, len(c.store.events("job", "done")))

    def test_duplicate_step_before_fanout(self):
        """A request that is delivered twice and answered by two agents: its dependents are
        dispatched once."""
        c = self.begin()
        c.client.submit(wire.submit(
            "job", [step("a"), step("b", ["a"]), step("c", ["a"]), step("d", ["b", "c"])]))
        request = self.take()
        c.client.publish("", "drover.task.hand", wire.Requests(requests=[request]))
        self.assertEqual(request, self.take())
        c.client.reply(request, agent="one")
        c.client.reply(request, agent="two")
        for done in self.do("do-b", "do-c") + self.do("do-d"):
            self.assertEqual(("job", 1, f"job/{done.step}/1"),
                             (done.job_id, done.attempt, done.idempotency_key))
        self.end("job", wire.OUTCOME_SUCCEEDED)
        c.await_idle()
        self.assertEqual([1, 1, 1, 1], [len(self.dispatched("job", i)) for i in range(4)])
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))

    def test_second_completion_rejected(self):
        """The same result again, and another one: the first counts."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a"), step("b", ["a"])]))
        request = self.take()
        first = wire.payload(b"first")
        c.client.reply(request, result=first)
        held = self.take()
        before = c.store.job("job")
        c.client.reply(request, result=first)
        c.client.reply(request, result=wire.payload(b"second"))
        c.client.submit(wire.submit("behind", [wire.step("x")]))  # ends after them
        c.client.settled("behind")
        servers.wait_for(lambda: c.client.queue("drover.replies")[0] == 0, "the replies to be read")
        self.assertEqual(before, c.store.job("job"))
        status = c.client.control("job", query=wire.Query(with_data=True)).status
        self.assertEqual(first, status.steps[0].result)
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))
        self.assertEqual(0, c.client.queue(c.client.DEAD)[0])
        c.client.reply(held)
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_completion_unknown_job(self):
        """A reply for no job, one that is no message, an empty one: each is dropped or a dead
        letter, and others go on."""
        c = self.begin()
        c.client.reply(wire.StepRequest(job_id="nobody", step="a", token="0.0123456789abcdef",
                                        desired=wire.STATE_ACTIVE))
        for body in (b"\xff\xff", b""):
            c.client.publish("drover.replies", "reply", body)
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.end("job", wire.OUTCOME_SUCCEEDED)
        dead = [c.client.dead_letter() for _ in range(2)]
        self.assertEqual([b"", b"\xff\xff"], sorted(body for _, body in dead))
        c.await_idle()
        self.assertEqual(0, c.client.queue(c.client.DEAD)[0])
        self.assertEqual(
            ["nobody"], [r["job.id"] for r in c.schedulers[0].records("reply_unknown_job")]
        )
        self.assertEqual({}, c.store.job("nobody"))

    def test_fresh_fence_per_dispatch(self):
        """Each dispatch has a token of its own, and attempts grow, also across a restart."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a")]))
        requests = [self.take()]
        for kill in (False, True, False):
            if kill:
                for queue in "drover.submit", "drover.replies":
                    # otherwise the request would be sent again
                    self.rabbit.await_acknowledged(c.name, queue)
                c.schedulers[0].kill()
                c.schedulers[0].start()
            c.client.reply(requests[-1], error=error("no"))
            requests.append(self.take())
        self.assertEqual([1, 2, 3, 4], [r.attempt for r in requests])
        self.assertEqual(4, len({r.token for r in requests}))
        self.assertEqual(1, len({r.idempotency_key for r in requests}))
        c.client.reply(requests[0])  # for a dispatch that is over
        c.client.reply(requests[-1])
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.assertEqual(
            [["0", "4", wire.token_id(requests[-1].token), "test"]], c.store.events("job", "done")
        )

    # --- failures ---

    def test_retry_count_exact(self):
        """Five failures are five requests, and the status has the last error."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a", retry=SOON)]))  # at most five attempts
        for attempt in range(1, 6):
            c.client.reply(self.take(), error=error(f"attempt {attempt} failed"))
        c.client.until(lambda: self.states("job")["a"] == "PARKED", "the step to give up")
        status = c.client.status("job").steps[0]
        self.assertEqual((5, 5, "attempt 5 failed"),
                         (status.attempt, status.failures, status.last_error.message))
        self.assertEqual(5, c.dispatches("job"))
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))

    def test_terminal_error_stops_retries(self):
        """By the agent's verdict, or by the workflow's list of classes. The error is kept."""
        c = self.begin()
        fail = wire.Policy(on_permanent=wire.RECOURSE_FAIL, maximum_attempts=9,
                           non_retryable=["BROKEN"])
        for job, verdict in (("says", wire.VERDICT_PERMANENT), ("listed", wire.VERDICT_TRANSIENT)):
            c.client.submit(wire.submit(job, [step("a", retry=fail)]))
            c.client.reply(self.take(), error=error("no", verdict, details="line 1\nline 2"))
            self.end(job, wire.OUTCOME_FAILED)
            self.assertEqual(1, c.dispatches(job))
            failed = c.client.control(job, query=wire.Query(with_data=True)).status.steps[0]
            self.assertEqual(("no", "line 1\nline 2"),
                             (failed.last_error.message, failed.last_error.details))

    def test_backoff_capped_jittered(self):
        """1, 2, then 3 to 3.5: the maximum applies before the jitter, and no try is early or late.
        The store has the time of the next try; the supervisor is stopped while the test reads
        it."""
        unit = 200
        policy = wire.Policy(initial_interval_ms=unit, backoff_coefficient=2, jitter=1 / 6,
                             maximum_interval_ms=3 * unit)
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a", retry=policy)]))
        waits, late = [], []
        for failures in range(1, 7):
            request = self.take()
            c.supervisors[0].pause()
            c.client.reply(request, error=error("no"))
            c.client.until(lambda: c.store.steps("job")[0].state == "B", "the backoff")
            until = int(c.store.steps("job")[0].until)
            waits.append(until - self.times("job", "failed")[-1])
            self.assertGreaterEqual(waits[-1], min(failures, 3) * unit)
            self.assertLessEqual(waits[-1], min(failures, 3) * unit * 7 / 6)
            c.supervisors[0].resume()
            servers.wait_for(lambda n=failures: len(self.dispatched("job")) > n, "the next try")
            late.append(self.dispatched("job")[failures][0] - until)
        self.assertGreater(max(waits), 3 * unit, "jitter exceeds the maximum")
        self.assertGreaterEqual(min(late), 0)
        self.assertLess(
            min(late), 1000, "the supervisor runs each 100 ms, except when it is stopped"
        )
        self.assertLess(max(late), 30_000)
        c.client.reply(self.take())
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_failed_branch_stops_the_rest(self):
        """If a failure ends the job, steps in flight are waited for, and no other step is
        dispatched."""
        c = self.begin()
        fail = wire.Policy(
            on_exhausted=wire.RECOURSE_FAIL, maximum_attempts=2, initial_interval_ms=20
        )
        c.client.submit(
            wire.submit(
                "job",
                [
                    step("a"), step("b", ["a"]), step("c", ["a"], retry=fail), step("d", ["b"]),
                    step("e", ["d"]),
                ],
            )
        )
        self.do("do-a")
        requests = {r.action: r for r in (self.take(), self.take())}
        c.client.reply(requests["do-c"], error=error("no"))
        c.client.reply(self.take(), error=error("no again"))
        c.client.until(lambda: self.states("job")["c"] == "FAILED", "c to fail for good")
        c.client.reply(requests["do-b"])
        self.assertEqual("EXHAUSTED", self.end("job", wire.OUTCOME_FAILED).reason)
        self.assertEqual({"a": "DONE", "b": "DONE", "c": "FAILED", "d": "WAITING", "e": "WAITING"},
                         self.states("job"))
        self.assertEqual([0, 0], [s.attempt for s in c.client.status("job").steps[3:]])
        c.await_idle()

    def test_stall_limit_parks_step(self):
        """Expiries alone count. The step parks, with one alert and no more requests; other jobs go
        on."""
        c = self.begin()
        policy = wire.Policy(maximum_expiries=3)
        c.client.submit(wire.submit("job", [step("a", retry=policy, **LEASE)]))
        for expiries in range(3):
            self.assertEqual(expiries, self.take(expires=True).expiries)
        c.client.until(lambda: self.states("job")["a"] == "PARKED", "the step to park")
        self.assertEqual([["0", "DEATHS"]], c.store.events("job", "parked"))
        c.client.submit(wire.submit("other", wire.chain(2)))
        self.end("other", wire.OUTCOME_SUCCEEDED)
        servers.wait_for(lambda: c.schedulers[0].records("alert"), "the alert")
        self.assertEqual([("job", "PARKED")], [(r["job.id"], r["reason"])
                                               for r in c.schedulers[0].records("alert")])
        self.assertEqual(3, c.dispatches("job"))
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))

    # --- compensation and cancel ---

    def test_compensate_in_reverse(self):
        """Steps that are done and have an undo are undone, the last first, once; then there is one
        terminal event."""
        c = self.begin()
        c.client.submit(wire.submit(
            "job", [step("a"), step("b", ["a"], revert=False), step("c", ["b"]),
                    step("d", ["c"], revert=False)]))
        for name in "abc":
            self.do(f"do-{name}")
        c.client.reply(self.take(), error=permanent("no"))
        self.do("undo-c")
        self.do("undo-a")
        self.end("job", wire.OUTCOME_COMPENSATED)
        c.await_idle()
        self.assertEqual(["do-a", "do-b", "do-c", "do-d", "undo-c", "undo-a"], self.seen)
        self.assertEqual(1, len(c.client.events["job"]))

    def test_compensation_is_retried(self):
        """An undo is tried again like any step, after a failure or an expiry, and nothing else is
        run again."""
        c = self.begin()
        undo = wire.Revert(action="undo-a", **LEASE)
        c.client.submit(wire.submit("job", [step("a", revert=undo), step("b", ["a"])]))
        self.do("do-a")
        self.do("do-b")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.steer("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        c.client.reply(self.take(), error=error("later"))
        again = self.take()
        self.assertEqual(("undo-b", 3, 1), (again.action, again.attempt, again.failures))
        c.client.reply(again)
        unanswered = self.take(expires=True)
        again = self.take()
        self.assertEqual(("undo-a", 3, 1), (again.action, again.attempt, again.expiries))
        self.assertEqual(unanswered.idempotency_key, again.idempotency_key)
        c.client.reply(again)
        event = self.end("job", wire.OUTCOME_COMPENSATED, 2)
        self.assertEqual(("REQUESTED", 2), (event.reason, event.turn))
        self.assertEqual(["do-a", "do-b", "undo-b", "undo-b", "undo-a", "undo-a"], self.seen)

    def test_forward_result_reaches_undo(self):
        """An undo gets the arguments, the result and the key of its forward action, byte for
        byte."""
        c = self.begin()
        given, gave = bytes(range(256)), b'{"OriginalValue": "Hello"}\0'
        arguments = wire.payload(given, "application/x-any")
        c.client.submit(wire.submit("job", [step("a", arguments=arguments), step("b", ["a"])]))
        (done,) = self.do("do-a", result=wire.payload(gave, "application/json"))
        c.client.reply(self.take(), error=permanent("no"))
        self.do("undo-b")
        (undone,) = self.do("undo-a")
        self.assertEqual(arguments, undone.arguments)
        self.assertEqual(wire.payload(gave, "application/json"), undone.forward_result)
        self.assertEqual(done.idempotency_key, undone.forward_key)
        self.assertEqual(("job/a/1", "job/a/2"), (done.idempotency_key, undone.idempotency_key))
        self.assertEqual((wire.STATE_ACTIVE, wire.STATE_DISABLED), (done.desired, undone.desired))
        self.end("job", wire.OUTCOME_COMPENSATED)

    def test_cancel_idempotent(self):
        """Two cancels at once are one cancellation. A job that has ended refuses one, and does not
        change."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a"), step("b", ["a"])]))
        self.do("do-a")
        in_flight = self.take()
        twice = wire.Control(job_id="job", reply_to=c.client.REPLIES, cancel=wire.Cancel())
        for command_id in ("one", "two"):
            twice.command_id = command_id
            c.client.publish("drover.control", "control", twice)
        c.client.until(lambda: {"one", "two"} <= c.client.answers.keys(), "both answers")
        self.assertEqual({wire.ANSWER_CODE_DONE, wire.ANSWER_CODE_UNCHANGED},
                         {c.client.answers[command_id].code for command_id in ("one", "two")})
        c.client.reply(in_flight)
        self.do("undo-b")
        self.do("undo-a")
        self.end("job", wire.OUTCOME_CANCELLED)
        self.assertEqual(1, len(c.store.events("job", "turned")))
        before = c.store.job_at_rest("job")
        answer = c.client.control("job", cancel=wire.Cancel())
        self.assertEqual((wire.ANSWER_CODE_WRONG_STATE, "the job has ended as CANCELLED"),
                         (answer.code, answer.reason))
        self.assertEqual(before, c.store.job("job"))

    # --- replies, rejections, restarts ---

    def test_reply_mixed_up(self):
        """An agent answers one request with the name of another step. Neither step is recorded, and
        both can still be answered."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a"), step("b")]))
        requests = {request.step: request for request in (self.take(), self.take())}
        mixed = wire.StepRequest(
            job_id="job", step="b", token=requests["a"].token, desired=wire.STATE_ACTIVE
        )
        c.client.reply(mixed)
        reason, body = c.client.dead_letter()
        self.assertTrue(reason.startswith("INVALID replies.step"), reason)
        self.assertEqual("b", wire.Replies.FromString(body).replies[0].step)
        servers.wait_for(lambda: c.schedulers[0].records("alert"), "the alert")
        self.assertEqual(["OTHER_STEP"], [r["reason"] for r in c.schedulers[0].records("alert")])
        self.assertEqual({"a": "RUNNING", "b": "RUNNING"}, self.states("job"))
        for request in requests.values():
            c.client.reply(request)
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_reply_of_another_actor(self):
        """A reply or a Progress that came by the exchange of another actor is refused, even with
        the right token, because only agents of that actor may publish there. The reply by the right
        exchange counts."""
        c = self.begin()
        c.client.submit(wire.submit("job", [step("a"), wire.step("b", actor="thief")]))
        a, b = self.take(), c.client.consume_step("thief")
        stolen = {"job_id": "job", "step": "a", "token": a.token}
        reply = wire.StepReply(**stolen, achieved=wire.STATE_ACTIVE)
        progress = wire.Progress(**stolen, fraction=-1)
        c.client.publish(
            "drover.reply.thief", "reply", wire.Replies(replies=[reply], progress=[progress])
        )
        reason, _ = c.client.dead_letter()
        self.assertEqual(
            "INVALID replies came from an agent of thief, and the step is not for that actor",
            reason,
        )
        servers.wait_for(lambda: c.schedulers[0].records("alert"), "the alert")
        self.assertEqual(["OTHER_ACTOR"], [r["reason"] for r in c.schedulers[0].records("alert")])
        self.assertEqual({"a": "RUNNING", "b": "RUNNING"}, self.states("job"))
        self.assertIsNone(c.store.redis.hget(c.store.partition("job") + "data:job", "p0"))
        c.client.publish("drover.reply.hand", "reply", wire.Replies(replies=[reply]))
        c.client.publish("drover.reply.thief", "reply", wire.Replies(replies=[wire.StepReply(
            job_id="job", step="b", token=b.token, achieved=wire.STATE_ACTIVE)]))
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_rejected_request(self):
        """A request that an agent rejects shows that there is an agent; it is sent again after a
        backoff."""
        c = self.begin()
        policy = wire.Policy(initial_interval_ms=1500, jitter=-1)
        c.client.submit(wire.submit("job", [step("a", retry=policy)]))

        def reject(channel):
            method, _, _ = channel.basic_get("drover.task.hand")
            if method:
                channel.basic_nack(method.delivery_tag, requeue=False)
            return method

        servers.wait_for(lambda: c.client.call(reject), "a request to reject")
        servers.wait_for(lambda: c.schedulers[0].records("alert"), "the alert")
        self.assertEqual(["REJECTED"], [r["reason"] for r in c.schedulers[0].records("alert")])
        again = self.take()
        rejected, sent = [
            int(e.at)
            for e in c.store.history("job")
            if e.event == "unstarted" or e.event == "dispatched" and e.attempt == "2"
        ]
        self.assertGreaterEqual(sent - rejected, 1500)
        self.assertEqual((2, 0, 0), (again.attempt, again.failures, again.expiries))
        c.client.reply(again)
        self.end("job", wire.OUTCOME_SUCCEEDED)

    def test_supervisor_restart(self):
        """Leases are in the store. A dispatch that expired meanwhile is sent again once, others are
        left alone."""
        c = self.begin()
        c.client.submit(wire.submit("short", [step("a", wait_ms=3000, lock_ms=100)]))
        short = self.take()
        c.client.submit(wire.submit("long", [step("b", lock_ms=600_000)]))
        self.take()
        # otherwise the request would be sent again
        self.rabbit.await_acknowledged(c.name, "drover.submit")
        c.supervisors[0].kill()
        c.schedulers[0].kill()
        alone = c.store.job("long")
        servers.wait_for(
            lambda: c.store.redis.time()[0] * 1000 > short.locked_until, "the lease to end"
        )
        c.schedulers[0].start()
        c.supervisors[0].start()
        again = self.take()
        self.assertEqual(("short", 2, 0), (again.job_id, again.attempt, again.expiries))
        c.client.reply(again)
        self.end("short", wire.OUTCOME_SUCCEEDED)
        self.assertEqual(1, len(c.store.events("short", "silent")))
        self.assertEqual(alone["0"], c.store.job("long")["0"])
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))

    def test_agent_warm_shutdown(self):
        """Asked three times to stop while a step of five seconds runs, the agent finishes it,
        reports the result, and takes no other request."""
        c = self.begin(settings=self.naps(5), supervisors=0)
        agent = c.agents[0]
        c.client.submit(wire.submit("job", [wire.step("a", "nap"), wire.step("b", after=["a"])]))
        servers.wait_for(lambda: self.lines("begin"), "the run to begin")
        agent.signal(signal.SIGTERM)
        servers.wait_for(
            lambda: c.client.queue("drover.task.demo") == (0, 0), "the agent to stop consuming"
        )
        agent.signal(signal.SIGTERM)
        c.client.submit(wire.submit("next", [wire.step("a")]))
        servers.wait_for(
            lambda: c.client.queue("drover.task.demo")[0] == 1,
            "a request that the agent does not take",
        )
        agent.signal(signal.SIGTERM)
        self.assertEqual([], self.lines("end"))
        self.go()
        agent.await_stop()
        self.assertEqual([0], agent.exit_codes)
        self.assertEqual((["job"], ["job"]), (self.lines("begin"), self.lines("end")))
        agent.start()
        for job, dispatches in ("job", 2), ("next", 1):
            self.end(job, wire.OUTCOME_SUCCEEDED)
            self.assertEqual(dispatches, c.dispatches(job))
        self.assertEqual(["job"], self.lines("begin"))

    # --- definitions ---

    def test_bad_graphs_refused(self):
        """The refusal names the step if it has a name. Nothing is left in Redis, and nothing is
        published."""
        c = self.begin(agents=0)
        events = []
        lock = threading.Lock()

        def collect(channel, method, _, body):
            with lock:
                events.append(method.routing_key)
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(c.client, collect, exchange="drover.events")
        self.addCleanup(listener.stop)
        long = "x" * 129
        cases = {
            "dangling": ([step("pay"), step("ship", ["pack"])], "steps[1].after", ["ship", "pack"]),
            "itself": ([step("pay", ["pay"])], "steps[0].after", ["pay"]),
            "cycle": (
                [step("pay", ["ship"]), step("ship", ["pay"])],
                "steps[0].after",
                ["pay", "ship"],
            ),
            "duplicate": ([step("pay"), step("pay")], "steps[1].name", ["pay"]),
            "over-long": ([wire.step(long, "hand")], "steps[0].name", []),
            "negative": ([wire.step("pay", "hand", lock_ms=-1)], "steps[0].lock_ms", ["pay"]),
        }
        for name, (steps, field, named) in cases.items():
            c.client.submit(wire.submit(name, steps))
            receipt = c.client.receipt(name)
            self.assertEqual(wire.RECEIPT_CODE_REJECTED, receipt.code, name)
            self.assertIn(field, receipt.field, name)
            for word in named:
                self.assertIn(f'"{word}"', receipt.reason, name)
            self.assertTrue(receipt.reason, name)
        c.await_idle()
        kinds = {key.partition("}:")[2].partition(":")[0] for key in c.store.keys("}:")}
        self.assertEqual(
            set(), kinds & {"job", "data", "hist", "def", "defs", "open", "due", "jobs"}
        )
        self.assertEqual((0, 0), c.client.queue("drover.task.hand"))
        self.assertEqual([], events)

    def test_fan_in_1000_and_empty(self):
        """The join is dispatched once, after all of them. A job without steps is refused."""
        c = self.begin()
        c.client.submit(wire.submit("empty", []))
        receipt = c.client.receipt("empty")
        self.assertEqual(
            (wire.RECEIPT_CODE_REJECTED, "definition.steps"), (receipt.code, receipt.field)
        )
        c.client.submit(wire.submit("wide", [
            *(wire.step(f"m{i}") for i in range(1000)),
            wire.step("join", after=[f"m{i}" for i in range(1000)], take_none=True)]))
        self.assertEqual(
            wire.OUTCOME_SUCCEEDED, c.client.settled("wide", 120 * cluster.SLOW).outcome
        )
        entries = [[e.event, e.step] for e in c.store.history("wide")]
        self.assertEqual(1, entries.count(["dispatched", "1000"]))
        done = [i for i, (event, *_) in enumerate(entries) if event == "done"]
        self.assertEqual(1001, len(done))
        self.assertGreater(entries.index(["dispatched", "1000"]), done[999])


class Outage(Case):
    own_servers = True

    def drover(self, *words, **more):
        settings = {"DROVER_URL": self.c.url, "DROVER_REDIS__PORT": str(self.redis.port),
                    "DROVER_REDIS__PREFIX": self.c.store.prefix}
        return subprocess.run(
            [wire.BUILD / "cli" / "drover", *words], capture_output=True, text=True, timeout=120,
            env={**cluster.command_environment(), **cluster.SANITIZER_OPTIONS, **settings}, **more)

    def test_broker_down_at_submit(self):
        """A submit fails, leaves nothing, and can be repeated; a cancel changes nothing; get and
        list work with --from-store. Each command that needs the broker says that it cannot reach
        it, and its address."""
        c = self.begin()
        c.client.submit(wire.submit("running", [step("a"), step("b", ["a"])]))
        request = self.take()
        # otherwise the request would be sent again
        self.rabbit.await_acknowledged(c.name, "drover.submit")
        self.rabbit.stop()
        before = c.store.job("running")
        job = '{"definition": {"steps": [{"name": "a", "actor": "demo", "action": "noop"}]}}'
        words = ("submit", "-", "--id", "new", "--timeout", "2s")
        for command in (
            words,
            *((w, "running", "--timeout", "2s") for w in ("cancel", "get")),
            ("list",),
        ):
            tried = self.drover(*command, input=job)
            self.assertEqual(7, tried.returncode, command)
            self.assertIn(f"cannot reach the broker at {servers.HOST}:{self.rabbit.known_port}:",
                          tried.stderr)
        self.assertEqual({}, c.store.job("new"))
        self.assertIn("SENT", self.drover("get", "running", "--from-store").stdout)
        self.assertEqual("running\n", self.drover("list", "-o", "id", "--from-store").stdout)
        self.assertEqual(before, c.store.job("running"))
        self.rabbit.start()
        c.await_ready()
        self.assertEqual(0, self.drover(*words[:-1], "60s", input=job).returncode)
        copy = self.take()  # of what the broker has lost
        self.assertEqual(request.token, copy.token)
        c.client.reply(copy)
        self.do("do-b")
        self.end("running", wire.OUTCOME_SUCCEEDED)
        self.assertEqual(0, self.drover("wait", "new", "--timeout", "60s").returncode)
        self.assertEqual([2, 1], [c.dispatches("running"), c.dispatches("new")])


if __name__ == "__main__":
    tap.main()
