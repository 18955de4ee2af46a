# SPDX-License-Identifier: Apache-2.0
"""One trial: a cluster, a job, a fault at one exact place, and the checker's verdict

A failpoint stops a process at the place; what is done to it there, or to the servers, is the fault.
Then everything has to come to its end by itself, and checker.py judges what was seen from outside.
"""

import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster
import evidence
import servers
import wire

LOCK_MS = WAIT_MS = 1500  # a dispatch that is lost costs both
REPEAT_S = 30  # a client that has no Receipt submits again
WORLD = {"scan_ms": 100, "lease_ms": 1000, "settle_within_ms": 180000}
POLICY = wire.Policy(initial_interval_ms=50, maximum_interval_ms=500, maximum_attempts=20, maximum_expiries=20)
UNDO = wire.Revert(action="undo", arguments=evidence.arguments(), retry=POLICY)
JOB = "job"


def step(name, after=(), **how):
    return wire.step(
        name, "effect", action="do", after=after, arguments=evidence.arguments(**how), retry=POLICY,
        lock_ms=LOCK_MS, wait_ms=WAIT_MS, revert=UNDO,
    )  # fmt: skip


# Kinds of jobs: what the place asks for to be passed.
KINDS = {
    "chain": [step("a"), step("b", ["a"]), step("c", ["b"])],
    "single": [step("a")],
    "denied": [step("a"), step("b", ["a"]), step("c", ["b"], deny=True)],  # taken back
    "unanswered": [step("a")],  # its first reply is lost: the lease ends
    "cancelled": [step("a"), step("b", ["a"], ms=300), step("c", ["b"])],
}
ENDS = {
    "chain": {wire.OUTCOME_SUCCEEDED},
    "single": {wire.OUTCOME_SUCCEEDED},
    "denied": {wire.OUTCOME_COMPENSATED},
    "unanswered": {wire.OUTCOME_SUCCEEDED},
    "cancelled": {wire.OUTCOME_CANCELLED, wire.OUTCOME_SUCCEEDED},  # where it came too late
}


class Trial(cluster.TestCase):
    traced = True  # the broker tells the checker of each message
    durable = True  # nothing that the store has acknowledged may be gone

    def begin(self, schedulers=1, agents=1, supervisors=1, settings=None):
        """A cluster that can fail, and somebody who takes notes."""
        directory = self.directory / "evidence"
        settings = cluster.merged(evidence.settings(directory), settings)
        self.c = self.cluster(
            schedulers, agents, supervisors, settings, actor="effect", failpoints={}
        )
        world = {**WORLD, "durable": self.durable}
        self.notes = evidence.Collector(self.c, directory, world, self.traced)
        return self.c

    def group(self, role):
        return [daemon for daemon in self.c.daemons if daemon.role == role]

    def submit(self, kind, job_id=JOB):
        if kind == "unanswered":
            for agent in self.c.agents:
                agent.fail("publish.reply.before=1*drop")
        self.c.client.submit(wire.submit(job_id, KINDS[kind]))
        if kind == "cancelled":
            self.c.client.until(lambda: self.c.store.events(job_id, "done"), "its first step")
            self.cancel(job_id)

    def cancel(self, job_id=JOB):
        command_id = f"cancel-{job_id}"
        message = wire.Control(
            job_id=job_id, command_id=command_id, reply_to=self.c.client.REPLIES, cancel=wire.Cancel()
        )
        self.c.client.watch(message)
        self.c.client.publish("drover.control", "control", message)

    def settle(self, kind="chain", jobs=(JOB,)):
        """All comes to its end by itself, and the checker finds nothing."""
        for job_id in jobs:
            self._settle_one(kind, job_id)
        self.c.await_idle()
        self.assertEqual([], self.notes.judge())

    def _settle_one(self, kind, job_id):
        self._repeat_at = time.monotonic() + REPEAT_S
        self.c.client.until(lambda: self._accepted(kind, job_id), f"{job_id} to be accepted", 90)
        event = self.c.client.settled(job_id, 90)
        self.assertIn(event.outcome, ENDS[kind])

    def _accepted(self, kind, job_id):
        """A client submits again where it is told to, or nothing."""
        receipts = self.c.client.receipts.get(job_id, [])
        told = bool(receipts) and all(r.code == wire.RECEIPT_CODE_RETRY_LATER for r in receipts)
        if told or (not receipts and time.monotonic() >= self._repeat_at):
            self.c.client.receipts.pop(job_id, None)
            self._repeat_at = time.monotonic() + REPEAT_S
            self.submit(kind, job_id)
        return any(r.code != wire.RECEIPT_CODE_RETRY_LATER for r in receipts)

    # --- a place ---

    @contextlib.contextmanager
    def standing(self, daemons, spec, kind, job_id=JOB):
        """One of @daemons stands at the failpoint for the time of the block: that one."""
        point = spec.partition("=")[0]
        before = {daemon: daemon.hits(point) for daemon in daemons}
        for daemon in daemons:
            daemon.fail(spec)
        self.submit(kind, job_id)
        standing = servers.wait_for(
            lambda: next((d for d in daemons if d.hits(point) > before[d]), None),
            f"somebody to get to {point}", 60,
        )  # fmt: skip
        for daemon in daemons:
            if daemon is not standing:
                daemon.fail()
        try:
            yield standing
        finally:
            standing.fail()

    def restarted(self, daemon):
        self.notes.fault("started again", daemon.name)
        daemon.start()
