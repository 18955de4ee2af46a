# SPDX-License-Identifier: Apache-2.0
"""`drover why`: the reason for every step that does not move. The test acts as the agent."""

import json
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import servers
import tap
import wire

CLOCK = r"\d\d:\d\d:\d\dZ"
LATER = wire.Policy(initial_interval_ms=3_600_000, maximum_interval_ms=3_600_000, jitter=-1)


def error(message="no", verdict=wire.VERDICT_TRANSIENT):
    return wire.Error(**{"class": "BROKEN"}, message=message, verdict=verdict)


class Why(cluster.TestCase):
    def start(self, **more):
        self.c = self.cluster(agents=0, **more)
        # The test is the agent of actor hand; actor nobody has no agent.
        self.agent = client.Listener(self.c.client, self.note, queue=self.task_queue("hand"))
        self.addCleanup(self.agent.stop)
        self.requests = []
        return self.c

    def task_queue(self, actor):
        name = f"drover.task.{actor}"
        self.c.client.call(lambda channel: channel.queue_declare(
            name, durable=True, arguments={"x-dead-letter-exchange": "drover.expired"}))
        self.c.client.call(lambda channel: channel.queue_bind(name, "drover.tasks", actor))
        return name

    def note(self, channel, method, _, body):
        channel.basic_ack(method.delivery_tag)
        self.requests += wire.Requests.FromString(body).requests

    def request(self, step):
        """Returns the last request for a step, and removes it."""
        def find():
            return next((r for r in self.requests if r.step == step), None)

        found = self.c.client.until(find, f"a request for {step}")
        self.requests.remove(found)
        return found

    def why(self, job, *more):
        """Returns (code, sentence) of the job, and of each step that does not move."""
        done = self.c.drover("why", job, "-o", "json", *more)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        answer = json.loads(done.stdout)
        self.assertEqual(job, answer["jobId"])
        return (answer["code"], answer["why"]), {
            s["step"]: (s["code"], s["why"]) for s in answer["steps"]}

    def until_why(self, job, step, code, *more):
        """Waits until a step has this code, and returns its sentence."""
        seen = {}

        def reached():
            seen.update(self.why(job, *more)[1])
            return seen.get(step, [""])[0] == code

        self.c.client.until(reached, f"{step} of {job} to be {code}")
        return seen[step][1]

    def submit(self, job, steps, **fields):
        self.c.client.submit(wire.Submit(
            job_id=job, definition=wire.Workflow(steps=steps), **fields))
        self.c.client.receipt(job)

    def test_job_in_progress(self):
        self.start()
        self.submit("job", [
            wire.step("reserve", "hand", retry=LATER),
            *(wire.step(f"pay{i}", "hand", after=["reserve"]) for i in range(5)),
            wire.step("ship", "hand", after=[f"pay{i}" for i in range(5)], take_none=True)])
        request = self.request("reserve")
        job, steps = self.why("job")
        self.assertEqual(("PROCESSING", "7 of 7 steps are not ACTIVE yet"), job)
        self.assertEqual(7, len(steps))
        self.assertEqual("LEASED", steps["reserve"][0])
        self.assertRegex(steps["reserve"][1], rf"^leased until {CLOCK}$")
        self.assertEqual(("WAITS", "waits for `reserve`"), steps["pay3"])
        self.assertEqual(("WAITS", "waits for `pay0`, `pay1`, `pay2` and 2 more"), steps["ship"])
        self.c.client.reply(request, error=error("no room"))
        self.assertRegex(
            self.until_why("job", "reserve", "BACKOFF"),
            r"^backing off after 1 of 10 failures, next \S+Z, "
            "last error BROKEN: no room, at agent test$",
        )

    def test_done_and_back(self):
        """Steps that are done are not listed. On the way back a step waits for its dependents."""
        self.start()
        revert = wire.Revert(action="undo", actor="nobody")
        self.task_queue("nobody")
        self.submit("job", [wire.step("a", "hand", revert=revert),
                            wire.step("b", "hand", after=["a"], revert=revert),
                            wire.step("c", "hand", after=["b"], revert=revert)])
        for name in "abc":
            self.c.client.reply(self.request(name))
        self.c.client.settled("job")
        self.assertEqual((("ENDED", "has ended: SUCCEEDED"), {}), self.why("job"))
        self.c.client.control("job", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        sentence = self.until_why("job", "c", "NO_AGENT")
        self.assertRegex(sentence, rf"^no agent on `drover.task.nobody` since {CLOCK}$")
        self.assertEqual({"a": ("WAITS", "waits for `b`"), "b": ("WAITS", "waits for `c`")},
                         {k: v for k, v in self.why("job")[1].items() if k != "c"})

    def test_no_agent(self):
        """Since the first request that no agent took, however often it was sent again."""
        self.start()
        self.task_queue("nobody")
        self.submit("job", [wire.step("a", "nobody", wait_ms=100, lock_ms=60_000)])
        self.c.client.until(lambda: len(self.c.store.events("job", "dispatched")) >= 3, "a repeat")
        first = int(next(e.at for e in self.c.store.history("job") if e.event == "dispatched"))
        sentence = self.why("job")[1]["a"][1]
        self.assertRegex(
            sentence,
            rf"^no agent on `drover.task.nobody` since {CLOCK}, no agent is known to have begun "
            r"the last \d+ requests?$",
        )
        since = sentence.split(" since ")[1][:8]
        hours, minutes, seconds = map(int, since.split(":"))
        self.assertEqual(first // 1000 % 86400, hours * 3600 + minutes * 60 + seconds)

    def test_parked_and_failed(self):
        self.start()
        park = wire.Policy(on_permanent=wire.RECOURSE_PARK)
        self.submit("parks", [wire.step("a", "hand", retry=park)])
        self.c.client.reply(self.request("a"), error=error("bad card", wire.VERDICT_PERMANENT))
        self.assertEqual(
            "parked after 1 of 10 failures, last error BROKEN: bad card, at agent test; "
            "until a person says `drover retry parks a`", self.until_why("parks", "a", "PARKED"))
        fail = wire.Policy(on_permanent=wire.RECOURSE_FAIL)
        self.submit(
            "fails", [wire.step("b", "hand", retry=fail), wire.step("c", "hand", after=["b"])]
        )
        self.c.client.reply(self.request("b"), error=error("bad card", wire.VERDICT_PERMANENT))
        self.c.client.settled("fails")
        self.assertEqual(
            (
                ("ENDED", "has ended: FAILED, PERMANENT"),
                {
                    "b": (
                        "FAILED",
                        "failed for good after 1 of 10 failures, "
                        "last error BROKEN: bad card, at agent test",
                    )
                },
            ),
            self.why("fails"),
        )
        self.c.client.control("parks", kill=wire.Kill())
        self.assertEqual({}, self.why("parks")[1], "a killed job")

    def test_ending(self):
        """A job that will end FAILED begins nothing more, and says what it waits for."""
        self.start()
        fail = wire.Policy(on_permanent=wire.RECOURSE_FAIL)
        self.submit(
            "job",
            [
                wire.step("a", "hand", retry=fail), wire.step("b", "hand"), wire.step("c", "hand"),
                wire.step("d", "hand", after=["b"]),
            ],
        )
        b = self.request("b")
        self.c.client.reply(self.request("a"), error=error("bad card", wire.VERDICT_PERMANENT))
        self.c.client.reply(b)
        self.assertEqual(
            "not sent any more, because the job ends", self.until_why("job", "d", "ENDING")
        )
        job, steps = self.why("job")
        self.assertEqual(
            ("ENDING", "ends as FAILED, PERMANENT, when nothing is in flight any more"), job
        )
        self.assertEqual(
            {"a": "FAILED", "c": "LEASED", "d": "ENDING"}, {k: v[0] for k, v in steps.items()}
        )

    def test_undo(self):
        """On the way back the sentences are about undos, and the job says why it turned."""
        self.start()
        revert = wire.Revert(action="undo", actor="hand")
        self.submit(
            "job",
            [
                wire.step("a", "hand", revert=revert, retry=LATER),
                wire.step("b", "hand", after=["a"]),
            ],
            complete_by=4_000_000_000_000,
        )
        self.assertEqual("2 of 2 steps are not ACTIVE yet; to be complete by 2096-10-02T07:06:40Z",
                         self.why("job")[0][1])
        self.c.client.reply(self.request("a"))
        self.c.client.reply(self.request("b"), error=error("bad card", wire.VERDICT_PERMANENT))
        undo = self.request("a")
        job, steps = self.why("job")
        self.assertEqual(("PROCESSING", "1 of 2 steps are not DISABLED yet; turned: FAILURE"), job)
        self.assertRegex(steps["a"][1], rf"^its undo is leased until {CLOCK}$")
        self.assertRegex(self.c.drover("history", "job").stdout, r"turned b: D FAILURE PERMANENT\n")
        self.c.client.reply(undo, error=error("no"))
        self.assertRegex(
            self.until_why("job", "a", "BACKOFF"),
            r"^its undo is backing off after 1 of 10 failures, next \S+Z, "
            "last error BROKEN: no, at agent test$",
        )

    def test_undo_on_the_way_forward(self):
        """An undo that was sent is still named when the job goes forward again."""
        self.start()
        revert = wire.Revert(
            action="undo", actor="hand", retry=wire.Policy(on_permanent=wire.RECOURSE_PARK)
        )
        self.submit("job", [wire.step("a", "hand", revert=revert)])
        self.c.client.reply(self.request("a"))
        self.c.client.settled("job")
        for state in (wire.STATE_DISABLED, wire.STATE_ACTIVE):
            self.c.client.control("job", set_desired=wire.SetDesired(desired=state))
        self.c.client.reply(self.request("a"), error=error("bad card", wire.VERDICT_PERMANENT))
        self.assertRegex(
            self.until_why("job", "a", "PARKED"), "^its undo is parked after 1 of 10 failures, "
        )
        self.assertEqual(
            "1 of 1 steps are not ACTIVE yet; turned: REQUESTED", self.why("job")[0][1]
        )
        self.c.client.control("job", retry=wire.Retry())
        self.c.client.reply(self.request("a"))
        self.request("a")
        self.assertRegex(self.why("job")[1]["a"][1], "^leased until ")

    def test_held(self):
        """The sentence names who holds the job, since when, and why."""
        self.start()
        self.submit("job", [wire.step("a", "hand"), wire.step("b", "hand", after=["a"])])
        request = self.request("a")
        self.assertEqual(0, self.c.drover("pause", "job", "-r", "the bank is shut").returncode)
        self.c.client.reply(request)
        self.assertEqual("to be sent when the job is resumed", self.until_why("job", "b", "HELD"))
        job, _ = self.why("job")
        self.assertEqual("HELD", job[0])
        self.assertRegex(job[1], rf"^held by \S+@\S+ since {CLOCK}, reason: the bank is shut; "
                                 "`drover resume job` lets it go on$")
        self.assertRegex(
            self.c.drover("get", "job").stdout, r"Held by +\S+@\S+: the bank is shut\n"
        )
        (command,) = self.c.store.events("job", "command")
        self.assertEqual(["pause", ["the", "bank", "is", "shut"]], [command[0], command[3:]])
        self.assertRegex(command[2], "^[^ ]+@[^ ]+$")
        self.c.client.control("job", resume=wire.Resume())
        self.assertEqual("PROCESSING", self.why("job")[0][0])
        self.c.client.control("job", kill=wire.Kill(), by="a b")
        self.assertEqual("a_b", self.c.client.status("job").held_by)

    def test_held_and_turned(self):
        """While the job is on hold no timer acts; after a turn the step has none."""
        self.start()
        self.submit("job", [wire.step("a", "hand", retry=LATER)])
        self.c.client.reply(self.request("a"), error=error())
        self.until_why("job", "a", "BACKOFF")
        self.c.client.control("job", pause=wire.Pause())
        self.assertRegex(
            self.why("job")[1]["a"][1], r", next \S+Z if the job is resumed by then, last error"
        )
        self.c.client.control("job", cancel=wire.Cancel())
        self.assertEqual({"a": ("HELD", "to be sent when the job is resumed")}, self.why("job")[1])

    def test_not_started(self):
        self.start()
        start = int(time.time()) + 30 * 86400
        self.submit("job", [wire.step("a", "hand")], start_at=1000 * start)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start))
        self.assertEqual((("PENDING", f"starts {at}"),
                          {"a": ("PENDING", "the job has not started")}), self.why("job"))

    def test_agent_without_free_slots(self):
        """An agent without free slots has cancelled its consumers; the step that it works on has an
        agent."""
        go = self.directory / "go"
        os.mkfifo(go)
        command = ["/bin/sh", "-c", "read line <$0", str(go)]
        busy = {
            "name": "busy",
            "handler": "exec",
            "ack": "early",
            "actions": [{"name": "*", "command": command}],
        }
        c = self.c = self.cluster(
            settings={"agent": {"agent": {"actors": [busy], "concurrency": 1}}}, actor="busy"
        )

        def submit(job, **fields):
            c.client.submit(
                wire.submit(
                    job, [wire.step("a", "busy", lock_ms=600_000, wait_ms=60_000, **fields)]
                )
            )

        def await_queue(messages, consumers):
            servers.wait_for(
                lambda: c.client.queue("drover.task.busy") == (messages, consumers), "the queue"
            )

        submit("silent")
        await_queue(0, 0)
        self.assertRegex(
            self.why("silent")[1]["a"][1], rf"^leased until {CLOCK}(, at agent agent-1)?$"
        )
        go.write_text("\n")
        c.client.settled("silent")
        submit("beating", heartbeat_ms=1000)
        await_queue(0, 0)
        submit("behind")
        await_queue(1, 0)
        servers.wait_for(lambda: c.client.status("beating").steps[0].begun, "the Progress")
        self.assertRegex(
            self.why("beating")[1]["a"][1], rf"^leased until {CLOCK}, at agent agent-1$"
        )
        self.assertEqual("NO_AGENT", self.why("behind")[1]["a"][0])
        for job in ("beating", "behind"):
            go.write_text("\n")
            c.client.settled(job)

    def test_overdue(self):
        """A lease has ended and nothing ends the dispatch: no supervisor, or no scheduler reads the
        replies."""
        self.start(supervisors=0)
        self.submit("job", [wire.step("a", "hand", wait_ms=1000, lock_ms=100)])
        self.request("a")
        self.assertRegex(
            self.until_why("job", "a", "OVERDUE"),
            rf"^its lease ended {CLOCK}; no supervisor has checked since: is one running\?$",
        )

    def test_overdue_backoff(self):
        """A step backs off and nothing tries it again: that is never because of the replies."""
        self.start(supervisors=0)
        soon = wire.Policy(initial_interval_ms=100)
        self.submit("job", [wire.step("a", "hand", retry=soon)])
        self.c.client.reply(self.request("a"), error=error("busy"))
        for more in ([], ["--from-store"]):
            self.assertRegex(
                self.until_why("job", "a", "OVERDUE", *more),
                r"^backing off after 1 of 10 failures, next .*, last error BROKEN: busy, at agent "
                r"test; no supervisor has checked since: is one running\?$",
            )

    def test_overdue_next_try(self):
        """The time for the next try of a parked step, and of a job that was taken back, is over."""
        self.start(supervisors=0)
        parks = wire.Policy(maximum_attempts=1, park_interval_ms=100)
        self.submit("parks", [wire.step("a", "hand", retry=parks)])
        self.c.client.reply(self.request("a"), error=error("busy"))
        self.c.client.until(
            lambda: self.why("parks")[1]["a"][1].endswith("is one running?"),
            "the time for the next try of the step to be over long ago")
        self.assertEqual("PARKED", self.why("parks")[1]["a"][0])
        self.assertRegex(
            self.why("parks")[1]["a"][1],
            rf"^parked after 1 of 1 failures, next {CLOCK}, last error BROKEN: busy, at agent "
            r"test; no supervisor has checked since: is one running\?$",
        )
        self.assertEqual(0, self.c.drover("pause", "parks").returncode)
        self.assertEqual(
            ("PARKED", "parked after 1 of 1 failures, to be tried again when the job is resumed, "
             "last error BROKEN: busy, at agent test"), self.why("parks")[1]["a"])
        self.c.client.submit(wire.Submit(
            job_id="rests", definition=wire.Workflow(
                steps=[wire.step("b", "hand", revert=wire.Revert(action="undo"))], tries=2,
                tries_interval_ms=100)))
        self.c.client.reply(self.request("b"), error=error("no", wire.VERDICT_PERMANENT))
        self.c.client.reply(self.request("b"))
        self.c.client.until(
            lambda: re.fullmatch(
                rf"was taken back, and is brought forward again {CLOCK}; no supervisor has "
                r"checked since: is one running\?", self.why("rests")[0][1]),
            "the time for the next try of the job to be over long ago")
        self.assertEqual("RESTS", self.why("rests")[0][0])

    def test_no_scheduler(self):
        """If no scheduler can answer, the command says so, and what waits."""
        self.start()
        self.c.schedulers[0].stop()
        self.c.client.publish("drover.control", "control", wire.Control(job_id="job"))
        self.assertEqual(
            (7, "job NO_SCHEDULER: the schedulers are not consuming; waiting: 1 in "
                "`drover.control`, 0 in `drover.replies`\n"),
            (lambda done: (done.returncode, done.stdout))(self.c.drover("why", "job")))
        answer = json.loads(self.c.drover("why", "job", "-o", "json").stdout)
        self.assertEqual(("NO_SCHEDULER", []), (answer["code"], answer["steps"]))

    def test_silent_scheduler(self):
        self.start()
        self.c.schedulers[0].pause()
        self.addCleanup(self.c.schedulers[0].resume)
        done = self.c.drover("why", "job", "--timeout", "2s")
        self.assertEqual(124, done.returncode)
        self.assertIn("job NO_ANSWER: the schedulers consume, and do not answer", done.stdout)
        self.assertIn("no scheduler has answered in time", done.stderr)


if __name__ == "__main__":
    tap.main()
