# SPDX-License-Identifier: Apache-2.0
"""Jobs in progress that get another version of their workflow. The test acts as the agent."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

# The first version is wrong: actor "nobody" has no agent. The second one corrects that, puts
# "check" before that step, and leaves "spare" out. The third has another "first", the fourth none,
# the fifth only corrects the actor, and the sixth ends early.
VERSIONS = [
    """{ name = "first"; actor = "hand"; },
       { name = "spare"; actor = "hand"; after = ["first"]; },
       { name = "charge"; actor = "nobody"; after = ["first"]; },
       { name = "last"; actor = "hand"; after = ["charge"]; }""",
    """{ name = "last"; actor = "hand"; after = ["charge"]; },
       { name = "check"; actor = "hand"; after = ["first"]; },
       { name = "charge"; actor = "hand"; after = ["check"]; },
       { name = "first"; actor = "hand"; },
       { name = "more"; actor = "hand"; after = ["first"]; }""",
    """{ name = "first"; actor = "hand"; action = "other"; },
       { name = "last"; actor = "hand"; after = ["first"]; }""",
    """{ name = "last"; actor = "hand"; }""",
    """{ name = "first"; actor = "hand"; },
       { name = "spare"; actor = "hand"; after = ["first"]; },
       { name = "charge"; actor = "hand"; after = ["first"]; },
       { name = "last"; actor = "hand"; after = ["charge"]; }""",
    """{ name = "first"; actor = "hand"; },
       { name = "spare"; actor = "hand"; after = ["first"]; }""",
]
WAIT_MS = 300


class Migrate(cluster.TestCase):
    def setUp(self):
        super().setUp()
        workflows = self.directory / "workflows"
        workflows.mkdir()
        for version, steps in enumerate(VERSIONS, 1):
            (workflows / f"order{version}.cfg").write_text(
                f'name = "order"; version = {version}; wait = "{WAIT_MS}ms"; steps = ( {steps} );\n'
            )
        (workflows / "other.cfg").write_text(
            'name = "other"; version = 1; steps = ( { name = "first"; actor = "hand"; } );\n')
        self.c = self.cluster(agents=0, schedulers=2,
                              settings={"scheduler": {"scheduler": {"workflows": str(workflows)}}})

    def migrate(self, job, workflow, **more):
        answer = self.c.client.control(job, migrate=wire.Migrate(workflow=workflow), **more)
        return wire.AnswerCode.Name(answer.code)[len("ANSWER_CODE_"):], answer.reason

    def record(self, job):
        """Returns all that the store keeps of a job, except what answering a command adds."""
        r, p = self.c.store.redis, self.c.store.partition(job)
        data = r.hgetall(f"{p}data:{job}")
        data.pop("commands", None)
        return r.hgetall(f"{p}job:{job}"), data, r.lrange(f"{p}hist:{job}", 0, -1)

    def begin(self, version=1, **fields):
        self.c.client.submit(wire.Submit(job_id="job", workflow=f"order@{version}", **fields))
        return self.c.client.consume_step("hand")

    def do(self, *steps, result=None):
        """Takes one request for each step, in any order, and answers them."""
        seen = {}
        for _ in steps:
            request = self.c.client.consume_step("hand")
            seen[request.step] = request
            self.c.client.reply(request)
        self.assertEqual(set(steps), set(seen))
        return seen

    def test_blocked_step_is_corrected(self):
        """A step without agents gets the actor of the newer version. Done steps stay done; steps at
        another place in the graph get their results; removed steps are not begun."""
        c = self.c
        first = self.begin()
        c.client.control("job", pause=wire.Pause())  # so "spare" does not begin, and can be removed
        c.client.reply(first, result=wire.payload(b"kept"))
        servers.wait_for(lambda: c.store.events("job", "done"), "first to be done")
        self.assertEqual(("DONE", ""), self.migrate("job", "order@2"))
        c.client.control("job", resume=wire.Resume())
        seen = self.do("check", "more")
        self.assertEqual(
            {b"kept"}, {{x.step: x.payload.data for x in r.results}["first"] for r in seen.values()}
        )
        self.assertEqual(("job/first/1", "job/check/3"),
                         (first.idempotency_key, seen["check"].idempotency_key))
        self.do("charge")
        self.do("last")
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        status = c.client.status("job")
        self.assertEqual("order@2", status.workflow)
        self.assertEqual(
            {"first", "check", "charge", "last", "more"}, {s.name for s in status.steps}
        )
        self.assertEqual([], c.store.events("job", "mended"))

    def test_in_flight_without_an_agent(self):
        """A request that no agent takes is withdrawn; it came back before, so no agent has begun
        it."""
        c = self.c
        self.c.client.submit(wire.Submit(job_id="job", workflow="order@1"))
        self.do("first")
        self.assertEqual("spare", c.client.consume_step("hand").step)
        servers.wait_for(lambda: c.store.events("job", "unstarted"), "charge to come back")
        code, reason = self.migrate("job", "order@2")
        self.assertEqual(("WRONG_STATE", True), (code, "step spare was sent" in reason))
        self.assertEqual(("DONE", ""), self.migrate("job", "order@5"))
        self.assertEqual("charge", self.c.client.consume_step("hand").step)
        # its undo, in case an agent has begun
        self.assertEqual([["2"]], c.store.events("job", "skipped"))

    def test_timers_stay(self):
        """A step that backs off goes on doing so in the newer version."""
        c = self.c
        later = wire.Error(
            **{"class": "LATER"}, verdict=wire.VERDICT_TRANSIENT, retry_after_ms=600_000
        )
        c.client.reply(self.begin(), error=later)
        servers.wait_for(lambda: c.store.events("job", "failed"), "the failure")
        before = c.store.steps("job")[0]
        self.assertEqual("B", before.state)
        self.assertEqual(("DONE", ""), self.migrate("job", "order@2"))
        after = c.store.steps("job")[0]
        for word in ("state", "turn", "attempt", "token", "until"):
            self.assertEqual(getattr(before, word), getattr(after, word), word)

    def test_nothing_is_left_of_removed_steps(self):
        c = self.c
        first = self.begin()
        c.client.control("job", pause=wire.Pause())
        c.client.reply(first)
        servers.wait_for(lambda: c.store.events("job", "done"), "first to be done")
        steps = {"0", "1", "2"}  # the steps that were touched; "last" waits only for "charge"
        self.assertEqual(steps, {name for name in c.store.job("job") if name.isdigit()})
        self.assertEqual(("DONE", ""), self.migrate("job", "order@6"))
        self.assertEqual({"0", "1"}, {name for name in c.store.job("job") if name.isdigit()})
        c.client.control("job", resume=wire.Resume())
        self.do("spare")
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_before_it_starts(self):
        c = self.c
        later = int(c.store.redis.time()[0]) * 1000 + 3_600_000
        c.client.submit(wire.Submit(job_id="job", workflow="order@1", start_at=later))
        c.client.receipt("job")
        self.assertEqual("DONE", self.migrate("job", "order@4")[0])
        self.assertEqual(["last"], [s.name for s in c.client.status("job").steps])
        self.assertEqual(wire.PHASE_PENDING, c.client.status("job").phase)

    def test_refused(self):
        c = self.c
        first = self.begin()
        record = self.record("job")
        for workflow, code, word in [
            ("order@3", "WRONG_STATE", "step first is in flight"),
            ("order@4", "WRONG_STATE", "step first was sent"),
            ("order@9", "UNKNOWN_WORKFLOW", "registered"),
            ("other", "INVALID", "order@1"),
            ("order@1", "UNCHANGED", "already"),
        ]:
            answer = self.migrate("job", workflow)
            self.assertEqual(code, answer[0], workflow)
            self.assertIn(word, answer[1])
        self.assertEqual(record, self.record("job"))
        self.assertEqual("UNKNOWN_JOB", self.migrate("nothing", "order")[0])
        self.assertEqual("SUPERSEDED", self.migrate("job", "order@2", if_seq=1)[0])
        c.client.control("job", cancel=wire.Cancel())
        self.assertIn("taken back", self.migrate("job", "order@2")[1])
        c.client.reply(first)
        c.client.settled("job")
        self.assertIn("ended as CANCELLED", self.migrate("job", "order@2")[1])


if __name__ == "__main__":
    tap.main()
