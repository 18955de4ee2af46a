# SPDX-License-Identifier: Apache-2.0
"""Commands that the state of a job forbids: the answer is a code and that state, and nothing
changes. The test acts as the agent; no other process changes a job."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

ACTIVE = wire.SetDesired(desired=wire.STATE_ACTIVE)
DISABLED = wire.SetDesired(desired=wire.STATE_DISABLED)

KEPT = {"commands"}  # what is kept of a refused command: its answer
ORDER = {"ordered", "retried"}  # and its place in the order of commands, if there was nothing to do


def error(verdict=wire.VERDICT_PERMANENT):
    return wire.Error(**{"class": "BROKEN"}, message="no", verdict=verdict)


def step(name, after=(), **fields):
    fields.setdefault("revert", wire.Revert(action=f"undo-{name}"))
    return wire.step(name, "hand", action=f"do-{name}", after=after, **fields)


class Refusals(cluster.TestCase):
    def begin(self, **more):
        """Starts without supervisors, which would change the records of jobs."""
        self.c = self.cluster(agents=0, supervisors=0, **more)
        return self.c

    def submit(self, job, steps=None, **fields):
        steps = steps or [step("a"), step("b", ["a"]), step("c", ["b"])]
        self.c.client.submit(
            wire.Submit(
                job_id=job,
                definition=wire.Workflow(steps=steps, tries=fields.pop("tries", 0)),
                **fields,
            )
        )
        self.c.client.receipt(job)

    def take(self, action):
        request = self.c.client.consume_step("hand")
        self.assertEqual(action, request.action)
        return request

    def do(self, *actions, **reply):
        for action in actions:
            self.c.client.reply(self.take(action), **reply)

    def end(self, job, outcome, n=1):
        events = self.c.client.until(
            lambda: len(self.c.client.events.get(job, [])) >= n and self.c.client.events[job],
            f"end {n} of {job}")
        self.assertEqual(outcome, events[n - 1].outcome)
        self.c.client.until(
            lambda: self.c.store.total("owed") == 0, "the notification to be confirmed"
        )

    def until_state(self, job, step_index, letter):
        self.c.client.until(
            lambda: (record := self.c.store.steps(job).get(step_index)) and record.state == letter,
            f"{letter} of {job}",
        )

    def everything(self, store=None, kept=KEPT):
        """Returns all that the store has, except what is kept of commands."""
        store, found = store or self.c.store, {}
        for key in store.keys("}:"):
            kind = store.redis.type(key)
            if kind == "hash":
                found[key] = {k: v for k, v in store.redis.hgetall(key).items() if k not in kept}
            elif kind == "zset":
                found[key] = store.redis.zrange(key, 0, -1, withscores=True)
            elif kind == "list":
                found[key] = store.redis.lrange(key, 0, -1)
            else:
                found[key] = store.redis.get(key)
        return found

    def refused(self, job, code, words, kept=KEPT, **command):
        servers.wait_for(lambda: self.c.store.total("owed") == 0, "the outbox to be empty")
        before = self.everything(kept=kept)
        answer = self.c.client.control(job, **command)
        self.assertEqual(wire.AnswerCode.Name(code), wire.AnswerCode.Name(answer.code), command)
        self.assertIn(words, answer.reason, command)
        self.assertEqual(before, self.everything(kept=kept), command)
        self.assertEqual(0, self.c.client.queue("drover.task.hand")[0], command)

    def wrong(self, job, words, **command):
        self.refused(job, wire.ANSWER_CODE_WRONG_STATE, words, **command)

    def unchanged(self, job, **command):
        self.refused(job, wire.ANSWER_CODE_UNCHANGED, "already so", KEPT | ORDER, **command)

    def every(self, step="a"):
        """Returns one of each command."""
        return ({"set_desired": ACTIVE}, {"set_desired": DISABLED}, {"cancel": wire.Cancel()},
                {"kill": wire.Kill()}, {"pause": wire.Pause()}, {"resume": wire.Resume()},
                {"retry": wire.Retry()}, {"retry": wire.Retry(steps=[step])},
                {"resolve": wire.Resolve(step=step, state=wire.STATE_ACTIVE)})

    # --- jobs of others ---

    def test_unknown_job(self):
        self.begin()
        for command in self.every():
            self.refused("nobody", wire.ANSWER_CODE_UNKNOWN_JOB, "there is no such job", **command)

    def test_job_of_another_drover(self):
        """A job of another Drover on the same Redis and RabbitMQ is unknown here, and not changed
        there."""
        theirs = self.cluster(agents=0, supervisors=0)
        theirs.client.submit(wire.submit("job", [step("a")]))
        theirs.client.receipt("job")
        before = self.everything(theirs.store)
        self.directory = self.directory / "mine"
        self.directory.mkdir()
        self.begin()
        for command in self.every():
            self.refused("job", wire.ANSWER_CODE_UNKNOWN_JOB, "there is no such job", **command)
        self.assertEqual(before, self.everything(theirs.store))

    # --- jobs that have ended ---

    def test_settled_job(self):
        self.begin()
        self.submit("job", [step("a")])
        self.do("do-a")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        for command in self.every():
            if "set_desired" not in command:
                self.wrong("job", "the job has ended as SUCCEEDED", **command)
        self.unchanged("job", set_desired=ACTIVE)

    def test_killed_job(self):
        self.begin()
        self.submit("job")
        self.take("do-a")
        self.c.client.control("job", kill=wire.Kill())
        self.end("job", wire.OUTCOME_KILLED)
        for command in self.every():
            self.wrong("job", "the job has ended as KILLED", **command)

    def test_failed_job(self):
        """The job already goes forward: its failed steps must be handled first."""
        self.begin()
        self.submit("job", [step("a", retry=wire.Policy(on_permanent=wire.RECOURSE_FAIL))])
        self.do("do-a", error=error())
        self.end("job", wire.OUTCOME_FAILED)
        words = "the job has ended as FAILED: Retry or Resolve its failed steps"
        for command in ({"set_desired": ACTIVE}, {"cancel": wire.Cancel()}, {"kill": wire.Kill()},
                        {"resume": wire.Resume()}):
            self.wrong("job", words, **command)

    def test_active_on_compensation_failed(self):
        self.begin()
        self.submit("job", [step("a")])
        self.do("do-a")
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.c.client.control("job", set_desired=DISABLED)
        policy = self.take("undo-a")
        self.c.client.reply(policy, error=error())
        self.end("job", wire.OUTCOME_COMPENSATION_FAILED, 2)
        self.wrong(
            "job",
            "the job has ended as COMPENSATION_FAILED: Retry or Resolve its failed steps",
            set_desired=ACTIVE,
        )

    # --- retry and resolve ---

    def test_retry_of_a_step_that_has_not_failed(self):
        self.begin()
        self.submit("job")
        self.do("do-a")
        self.take("do-b")
        self.wrong("job", "step b is in flight", retry=wire.Retry(steps=["b"]))
        self.wrong(
            "job",
            "step a is neither parked nor failed, nor to be tried again",
            retry=wire.Retry(steps=["a"]),
        )
        self.wrong(
            "job",
            "step c is neither parked nor failed, nor to be tried again",
            retry=wire.Retry(steps=["c"]),
        )
        self.wrong(
            "job",
            "step b is in flight",
            retry=wire.Retry(steps=["b"], arguments=wire.payload(b"x")),
        )
        self.refused("job", wire.ANSWER_CODE_INVALID, "the job has no step x",
                     retry=wire.Retry(steps=["x"]))

    def test_edited_arguments(self):
        """Arguments beyond their limit, beyond the limit of the job's data, or for a step that may
        have taken effect."""
        c = self.begin()
        policy = wire.Policy(on_permanent=wire.RECOURSE_PARK)
        self.submit("job", [wire.step("a", "hand", action="do-a", retry=policy), step("b", ["a"])])
        self.do("do-a", error=error())
        self.until_state("job", 0, "P")
        small, large = wire.payload(b"x"), wire.payload(bytes(1 << 20) + b"x")
        for retry, words in (
            (wire.Retry(steps=["a"], arguments=large), "retry.arguments"),
            (wire.Retry(steps=["a", "b"], arguments=small), "only with exactly one step"),
            (wire.Retry(arguments=small), "only with exactly one step"),
        ):
            self.refused("job", wire.ANSWER_CODE_INVALID, words, retry=retry)
        self.wrong(
            "job",
            "step a may have taken effect, and has no revert",
            retry=wire.Retry(steps=["a"], arguments=small),
        )
        c.client.control("job", pause=wire.Pause())
        c.client.control("job", resolve=wire.Resolve(step="a", state=wire.STATE_DISABLED))
        c.store.redis.hset(c.store.partition("job") + "job:job", "bytes", (64 << 20) - 1)
        full = "the job's input, arguments and results would exceed 64 MiB"
        self.wrong("job", full, retry=wire.Retry(steps=["a"], arguments=small))
        self.wrong(
            "job", full, resolve=wire.Resolve(step="a", state=wire.STATE_ACTIVE, result=small)
        )
        self.refused("job", wire.ANSWER_CODE_INVALID, "resolve.result", resolve=wire.Resolve(
            step="a", state=wire.STATE_ACTIVE, result=wire.payload(bytes(256 << 10) + b"x")))

    def test_resolve(self):
        self.begin()
        self.submit("job")
        self.do("do-a")
        self.take("do-b")
        for state in (wire.STATE_ACTIVE, wire.STATE_DISABLED):
            self.wrong("job", "step b is in flight: wait for its answer, or for its lease to end",
                       resolve=wire.Resolve(step="b", state=state))
        self.wrong("job", "step a is where the job wants it",
                   resolve=wire.Resolve(step="a", state=wire.STATE_DISABLED))
        self.unchanged("job", resolve=wire.Resolve(step="a", state=wire.STATE_ACTIVE))
        self.wrong("job", "step c waits for others",
                   resolve=wire.Resolve(step="c", state=wire.STATE_ACTIVE))
        for state in (wire.STATE_UNSPECIFIED, wire.STATE_UNKNOWN):
            self.refused("job", wire.ANSWER_CODE_INVALID, "resolve.state",
                         resolve=wire.Resolve(step="c", state=state))
        self.refused("job", wire.ANSWER_CODE_INVALID, "the job has no step x",
                     resolve=wire.Resolve(step="x", state=wire.STATE_ACTIVE))

    def test_retry_of_nothing(self):
        """Retry of all steps of a job in which none is parked or has failed."""
        self.begin()
        self.submit("job")
        in_flight = self.take("do-a")
        self.unchanged("job", retry=wire.Retry())
        self.c.client.control("job", pause=wire.Pause())
        self.unchanged("job", retry=wire.Retry())
        self.c.client.reply(in_flight, error=error(wire.VERDICT_TRANSIENT))
        self.until_state("job", 0, "B")
        self.unchanged("job", retry=wire.Retry())

    # --- cancel ---

    def test_cancel_before_the_first_dispatch(self):
        """A job that waits for its start_at ends at once, and nothing is sent. Then it has
        ended."""
        self.begin()
        self.submit("job", start_at=int(time.time() + 30 * 86400) * 1000)
        for command in ({"retry": wire.Retry()}, {"retry": wire.Retry(steps=["a"])},
                        {"resolve": wire.Resolve(step="a", state=wire.STATE_ACTIVE)}):
            self.wrong("job", "the job has not started yet", **command)
        self.assertEqual(wire.ANSWER_CODE_DONE,
                         self.c.client.control("job", cancel=wire.Cancel()).code)
        self.end("job", wire.OUTCOME_CANCELLED)
        self.wrong("job", "the job has ended as CANCELLED", cancel=wire.Cancel())
        self.assertEqual(0, self.c.dispatches("job"))

    def test_cancel_twice(self):
        """Two cancels are one cancellation, with one round of undos."""
        self.begin()
        self.submit("job")
        self.do("do-a")
        in_flight = self.take("do-b")
        self.assertEqual(wire.ANSWER_CODE_DONE,
                         self.c.client.control("job", cancel=wire.Cancel()).code)
        self.unchanged("job", cancel=wire.Cancel())
        self.unchanged("job", set_desired=DISABLED)
        self.c.client.reply(in_flight)
        undo = self.take("undo-b")
        self.unchanged("job", cancel=wire.Cancel())
        self.c.client.reply(undo)
        self.do("undo-a")
        self.end("job", wire.OUTCOME_CANCELLED)
        self.assertEqual(1, len(self.c.store.events("job", "turned")))

    def test_cancel_while_compensating(self):
        self.begin()
        self.submit("job")
        self.do("do-a")
        self.do("do-b", error=error())
        undo = self.take("undo-b")
        self.unchanged("job", cancel=wire.Cancel())
        self.c.client.reply(undo)
        self.do("undo-a")
        self.end("job", wire.OUTCOME_COMPENSATED)

    # --- holds, and the order of commands ---

    def test_holds(self):
        self.begin()
        self.submit("job")
        self.take("do-a")
        self.unchanged("job", resume=wire.Resume())
        self.c.client.control("job", pause=wire.Pause())
        self.unchanged("job", pause=wire.Pause(), by="somebody@else", reason="me too")

    def test_if_seq(self):
        """if_seq is older than the job, or one that the job never had: the job has changed
        since."""
        self.begin()
        self.submit("job")
        self.take("do-a")
        seq = self.c.client.status("job").seq
        for wrong in (seq - 1, seq + 1):
            for command in self.every():
                if "resolve" not in command:
                    self.refused("job", wire.ANSWER_CODE_SUPERSEDED,
                                 "the job has moved on since if_seq", if_seq=wrong, **command)
        self.assertEqual(wire.ANSWER_CODE_DONE,
                         self.c.client.control("job", pause=wire.Pause(), if_seq=seq).code)

    def test_issued_before(self):
        self.begin()
        self.submit("job")
        self.take("do-a")
        self.unchanged("job", set_desired=ACTIVE, issued_at=2000)
        for command in ({"set_desired": DISABLED}, {"cancel": wire.Cancel()}):
            self.refused(
                "job", wire.ANSWER_CODE_SUPERSEDED, "issued later", issued_at=1000, **command
            )

    def test_limits_of_a_command(self):
        self.begin()
        self.submit("job")
        self.take("do-a")
        for field, value in (
            ("reason", "x" * 1025), ("by", "x" * 129), ("by", "a\nb"), ("issued_at", -1),
        ):
            self.refused(
                "job", wire.ANSWER_CODE_INVALID, field, pause=wire.Pause(), **{field: value}
            )


if __name__ == "__main__":
    tap.main()
