# SPDX-License-Identifier: Apache-2.0
"""Each failpoint that `drover failpoints` lists fires, and each task does what it says."""

import datetime
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

# The role that reaches each point in the workload of test_every_point. A new point needs a line
# here and, if that workload does not reach it, a test that does.
POINTS = {
    "store.defer_owed": None,  # tests/sim/machines/test_notifications.c
    "store.define": "scheduler",
    "store.drive": "scheduler",
    "store.expire": "supervisor",
    "store.forget": "supervisor",
    "store.inspect": "scheduler",
    "store.lead": "supervisor",
    "store.look": None,  # test_dry_run
    "store.lost": "supervisor",
    "store.mark": "scheduler",
    "store.record": "scheduler",
    "store.renew": "scheduler",
    "store.settle_owed": "scheduler",
    "store.steer": "scheduler",
    "store.step_events": "scheduler",
    "store.submit": "scheduler",
    "store.suspect": None,  # test_poison.py
    "store.sweep": "supervisor",
    "store.taken": None,  # test_backlog.py
    "store.told": "scheduler",
    "store.unsent": None,  # tests/sim/machines/test_dispatch.c
    "publish.request": "scheduler",
    "publish.reply": "agent",
    "publish.progress": "agent",
    "publish.progress_answer": "scheduler",
    "publish.control": "supervisor",
    "publish.receipt": "scheduler",
    "publish.answer": "scheduler",
    "publish.notice": "scheduler",
    "publish.event": "scheduler",
    "publish.dead": "scheduler",
    "publish.pulse": "agent",
    "publish.marker": "supervisor",
    "delivery.submit": "scheduler",
    "delivery.replies": "scheduler",
    "delivery.control": "scheduler",
    "delivery.expired": "scheduler",
    "delivery.task": "agent",
    "delivery.answers": "agent",
    "ack": "agent",
    "run": "agent",
    "exec": "agent",
    "config.load": "supervisor",
}

DROVER = wire.BUILD / "cli" / "drover"
QUICK = {"supervisor": {"supervisor": {"sweep": "1s"}}}


def listed():
    """Returns all failpoints that the command lists."""
    out = subprocess.run([DROVER, "failpoints"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in out.splitlines()]


def boundary(point):
    """Returns a point without before and after."""
    return point.removesuffix(".before").removesuffix(".after")


def one(job_id, **fields):
    """Returns a job of one step."""
    return wire.submit(job_id, [wire.step("a", **fields)])


def short(job_id):
    """Returns a job with a short lease."""
    return one(job_id, lock_ms=1000, wait_ms=1000)


class Every(cluster.TestCase):
    def workload(self, c):
        """A bit of everything."""
        beating = wire.step("beating", action="sleep", heartbeat_ms=300)
        beating.arguments.CopyFrom(wire.payload(b"1000", "application/json"))
        failing = wire.step("failing", action="fail", after=["beating"])
        failing.arguments.CopyFrom(wire.payload(b'{"times": 1}', "application/json"))
        steps = [beating, failing, wire.step("program", actor="effect", after=["failing"])]
        c.client.submit(wire.submit("job", steps, events=wire.EVENTS_STEP_REPLY))
        c.client.submit(wire.submit("nobody", [wire.step("a", actor="none", wait_ms=200)]))
        c.client.publish("drover.submit", "submit", b"\xff")
        c.client.settled("job")
        c.client.status("job")
        c.agents[0].await_hits("delivery.answers")
        c.schedulers[0].await_hits("store.told.after")
        c.client.control("nobody", kill=wire.Kill())
        c.client.settled("nobody")

    def test_every_point(self):
        points = listed()
        self.assertEqual(
            sorted({boundary(p) for p in points}), sorted(POINTS), "POINTS is complete"
        )
        spec = "\n".join(f"{point}=print" for point in points)
        roles = ("scheduler", "agent", "supervisor")
        none = dict.fromkeys(roles, {"rabbitmq": {"replication": "none"}})  # it has a marker
        c = self.cluster(settings=cluster.merged(QUICK, none),
                         failpoints=dict.fromkeys(roles, spec))
        self.workload(c)
        by_role = {daemon.role: daemon for daemon in c.daemons}
        for point in filter(lambda p: POINTS[boundary(p)], points):
            with self.subTest(point=point):
                by_role[POINTS[boundary(point)]].await_hits(point)

    def test_dry_run(self):
        c = self.cluster(agents=0, supervisors=0)
        c.once("--once", "--dry-run", failpoints="store.look.before=print\nstore.look.after=print")
        log = (c.directory / "by-hand.log").read_text()
        for point in ("store.look.before", "store.look.after"):
            self.assertTrue(f'"{point}"' in log, point)


class Tasks(cluster.TestCase):
    def job(self, c, submit):
        c.client.submit(submit)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled(submit.job_id).outcome)
        return [entry.event for entry in c.store.history(submit.job_id)]

    def test_crash(self):
        """A crash between store and publish: the next incarnation sends again what was recorded."""
        c = self.cluster(failpoints={})
        (scheduler,) = c.schedulers
        scheduler.fail("store.submit.after=crash")
        c.client.submit(one("job"))
        scheduler.await_crash()
        self.assertEqual([], c.client.receipts.get("job", []))
        scheduler.start()
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        self.assertEqual(1, scheduler.hits("store.submit.after"))

    def test_panic(self):
        c = self.cluster(failpoints={})
        c.agents[0].fail("run.before=panic")
        c.client.submit(one("job"))
        servers.wait_for(lambda: not c.agents[0].alive(), "the agent to abort")
        c.agents[0].await_stop()
        self.assertEqual([-signal.SIGABRT], c.agents[0].exit_codes)
        c.agents[0].exit_codes.clear()
        c.agents[0].fail()
        c.agents[0].start()
        c.client.settled("job")

    def test_return(self):
        """A call that is not made, and an answer that is lost: both calls are repeated."""
        c = self.cluster(failpoints={})
        (scheduler,) = c.schedulers
        scheduler.fail("store.submit.before=2*return\nstore.record.after=2*return")
        events = self.job(c, one("job"))
        self.assertEqual((1, 1), (events.count("dispatched"), events.count("done")))
        self.assertEqual(2, scheduler.hits("store.submit.before"))
        self.assertEqual(2, scheduler.hits("store.record.after"))

    def test_refused(self):
        """A publish that the broker seems to refuse is repeated; a program that cannot be started
        is a failure."""
        c = self.cluster(failpoints={})
        c.agents[0].fail("publish.reply.before=1*return\nexec=1*return")
        events = self.job(c, one("job", actor="effect"))
        self.assertEqual((1, 1), (events.count("failed"), events.count("done")))
        self.assertEqual(1, c.agents[0].hits("publish.reply.before"))

    def test_drop(self):
        """A lost request costs its lease, and is not counted."""
        c = self.cluster(failpoints={})
        c.schedulers[0].fail("publish.request.before=1*drop")
        events = self.job(c, short("job"))
        self.assertGreaterEqual(events.count("silent"), 1)
        self.assertEqual(events.count("dispatched"), events.count("silent") + 1)
        self.assertEqual(0, events.count("expired"))

    def test_lost_reply(self):
        """The reply is lost, and not the progress that the agent has sent before."""
        c = self.cluster(failpoints={})
        c.agents[0].fail("publish.reply.before=1*drop")
        arguments = wire.payload(b"500", "application/json")
        events = self.job(
            c, one("job", action="sleep", arguments=arguments, lock_ms=1000, wait_ms=1000)
        )
        self.assertGreaterEqual(events.count("expired") + events.count("silent"), 1)
        self.assertEqual(1, events.count("done"))

    def test_double(self):
        """A reply that comes twice is recorded once."""
        c = self.cluster(failpoints={})
        c.agents[0].fail("publish.reply.before=double")
        c.schedulers[0].fail("delivery.replies=print")
        events = self.job(c, one("job"))
        c.schedulers[0].await_hits("delivery.replies", 2)
        self.assertEqual(1, events.count("done"))

    def test_payload(self):
        """Only for the job that is named."""
        c = self.cluster(failpoints={})
        c.agents[0].fail("run.before=crash@poison")
        self.job(c, one("innocent"))
        c.client.submit(one("poison"))
        c.agents[0].await_crash()
        c.agents[0].start()
        c.client.settled("poison")

    def test_pause(self):
        """Until the file changes; SIGTERM must wait for it as well."""
        c = self.cluster(failpoints={})
        c.agents[0].fail("run.before=pause")
        c.client.submit(one("job"))
        c.agents[0].await_hits("run.before")
        c.agents[0].begin_stop()
        self.assertTrue(c.agents[0].alive())
        c.agents[0].fail()
        c.agents[0].await_stop()
        self.assertEqual([0], c.agents[0].exit_codes)
        c.client.settled("job")

    def test_sleep(self):
        """A pause beyond the lease: another agent has the run by then."""
        c = self.cluster(failpoints={})
        c.agents[0].fail("publish.reply.before=1*sleep(3s)")
        events = self.job(c, short("job"))
        self.assertGreaterEqual(events.count("expired") + events.count("silent"), 1)
        self.assertEqual(1, events.count("done"))

    def test_clock(self):
        """Nothing that an agent does depends on the time of day."""
        c = self.cluster(failpoints={})
        c.agents[0].fail("run.before=1*clock(+600s)")
        events = self.job(c, one("job"))
        self.assertEqual((1, 1), (events.count("dispatched"), events.count("done")))
        c.agents[0].stop()
        (stopped,) = c.agents[0].records("stopped")
        at = datetime.datetime.fromisoformat(stopped["timestamp"].replace("Z", "+00:00"))
        self.assertGreater(at.timestamp() - time.time(), 500)

    def test_wrong(self):
        """A wrong file changes nothing; a process does not start with one."""
        c = self.cluster(failpoints={"agent": "run.before=print"})
        (agent,) = c.agents
        agent.fail("run.before=explode")
        self.job(c, one("job"))
        self.assertEqual(1, agent.hits("run.before"))
        self.assertIn("no such task", agent.records("failpoints_wrong")[0]["why"])
        agent.stop()
        agent.start()
        agent.await_stop()
        self.assertEqual([0, 2], agent.exit_codes)
        agent.exit_codes.clear()


class Forbidden(cluster.TestCase):
    def test_not_allowed(self):
        """Without DROVER_FAILPOINTS_ALLOW=1 the other variables are ignored."""
        done = subprocess.run(
            [wire.BUILD / "agent" / "drover-agent", "--check-config"],
            env={"DROVER_FAILPOINTS": "config.load=crash", "DROVER_FAILPOINTS_ALLOW": "yes"},
            capture_output=True,
            text=True,
        )
        self.assertNotEqual(cluster.CRASHED, done.returncode)
        self.assertIn("failpoints_ignored", done.stderr)

    def test_environment(self):
        done = subprocess.run(
            [wire.BUILD / "agent" / "drover-agent", "--check-config"],
            env={"DROVER_FAILPOINTS": "config.load=crash", "DROVER_FAILPOINTS_ALLOW": "1"},
        )
        self.assertEqual(cluster.CRASHED, done.returncode)


if __name__ == "__main__":
    tap.main()
