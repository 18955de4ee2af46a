# SPDX-License-Identifier: Apache-2.0
"""One trial: a cluster, a job, a fault at one exact place, and the checker's verdict

A failpoint stops a process at the place; then the fault strikes it or a server. After that
everything has to end by itself, and checker.py checks the evidence from outside.
"""

import contextlib
import itertools
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
REPEAT_S = 30  # a client without a Receipt submits again
WORLD = {"scan_ms": 100, "lease_ms": 1000, "settle_within_ms": 180000}
POLICY = wire.Policy(initial_interval_ms=50, maximum_interval_ms=500, maximum_attempts=20,
                     maximum_expiries=20)
UNDO = wire.Revert(action="undo", arguments=evidence.arguments(), retry=POLICY)
JOB = "job"
RETENTION_S = 1


def step(name, after=(), lock_ms=LOCK_MS, **how):
    return wire.step(
        name, "effect", action="do", after=after, arguments=evidence.arguments(**how), retry=POLICY,
        lock_ms=lock_ms, wait_ms=WAIT_MS, revert=UNDO,
    )  # fmt: skip


# Kinds of jobs, by what a place needs to be passed.
KINDS = {
    "chain": [step("a"), step("b", ["a"]), step("c", ["b"])],
    "single": [step("a")],
    "denied": [step("a"), step("b", ["a"]), step("c", ["b"], deny=True)],  # taken back
    "unanswered": [step("a")],  # its first reply is lost: the lease ends
    "cancelled": [step("a"), step("b", ["a"], ms=300), step("c", ["b"])],
    # half of a lease is for the run, half for its end: even on a busy machine it is done by then
    "long": [step("a", ms=700, lock_ms=6000), step("b", ["a"])],
    # in time even on a busy machine
    "in_time": [step("a", ms=700, lock_ms=30000), step("b", ["a"])],
    "stuck": [step("a", hang=1, deaf=True), step("b", ["a"])],  # SIGTERM does not end its first run
    # a job in each partition, all of them past their retention; no supervisor is there if one fails
    "forgotten": [step("a", lock_ms=30000)],
}
ENDS = {
    "chain": {wire.OUTCOME_SUCCEEDED},
    "single": {wire.OUTCOME_SUCCEEDED},
    "denied": {wire.OUTCOME_COMPENSATED},
    "unanswered": {wire.OUTCOME_SUCCEEDED},
    "cancelled": {wire.OUTCOME_CANCELLED, wire.OUTCOME_SUCCEEDED},  # if it came too late
    "long": {wire.OUTCOME_SUCCEEDED},
    "in_time": {wire.OUTCOME_SUCCEEDED},
    "stuck": {wire.OUTCOME_SUCCEEDED},
}
SETTINGS = {"forgotten": {"supervisor": {"supervisor": {"retention": f"{RETENTION_S}s"}}}}


def parent_of(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


class Trial(cluster.TestCase):
    traced = True  # the broker traces each message for the checker
    durable = True  # nothing that the store has acknowledged may be lost
    world = WORLD

    def begin(self, schedulers=1, agents=1, supervisors=1, settings=None):
        """Starts a cluster with failpoints, and a collector of evidence."""
        directory = self.directory / "evidence"
        settings = cluster.merged(evidence.settings(directory), settings)
        self.c = self.cluster(
            schedulers, agents, supervisors, settings, actor="effect", failpoints={}
        )
        forgets = "retention" in settings.get("supervisor", {}).get("supervisor", {})
        world = {**self.world, "durable": self.durable, "forgets": forgets}
        self.notes = evidence.Collector(self.c, directory, world, self.traced)
        return self.c

    def group(self, role):
        return [daemon for daemon in self.c.daemons if daemon.role == role]

    def prepare(self, kind, job_id=JOB):
        """Prepares the state that such a job needs to reach its place."""
        if kind != "forgotten":
            return
        for supervisor in self.c.supervisors:
            supervisor.pause()
        jobs = self.spread(job_id)
        for each in jobs:
            self.c.client.submit(wire.submit(each, KINDS[kind]))
        self.c.client.all_settled(jobs)
        last = self.store_ms()
        self.notes.catch_up()
        servers.wait_for(lambda: self.store_ms() > last + RETENTION_S * 1000,
                         "their retention to be over")

    def store_ms(self):
        seconds, micros = self.c.store.redis.time()
        return seconds * 1000 + micros // 1000

    def spread(self, job_id):
        """Ids of jobs, one in each partition."""
        ids = {}
        for number in itertools.count():
            each = f"{job_id}-{number}"
            ids.setdefault(self.c.store.partition(each), each)
            if len(ids) == self.c.store.partitions:
                return list(ids.values())

    def kept(self, job_id=JOB):
        """Those of them that are not forgotten."""
        return set(self.spread(job_id)) & set(self.c.store.jobs())

    def submit(self, kind, job_id=JOB):
        if kind == "forgotten":
            for supervisor in self.c.supervisors:
                supervisor.resume()
            return
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
            job_id=job_id, command_id=command_id, reply_to=self.c.client.REPLIES,
            cancel=wire.Cancel()
        )
        self.c.client.watch(message)
        self.c.client.publish("drover.control", "control", message)

    def settle(self, kind="chain", jobs=(JOB,)):
        """All jobs end by themselves, and the checker finds nothing."""
        for job_id in jobs:
            self._settle_one(kind, job_id)
        self.c.await_idle()
        self.assertEqual([], self.notes.judge())

    def _settle_one(self, kind, job_id):
        if kind == "forgotten":
            servers.wait_for(lambda: len(self.kept(job_id)) < self.c.store.partitions,
                             "a job to be forgotten")
            # the other partitions; then no job is forgotten while the store is read
            self.assertEqual(0, self.c.once("--once")[0])
            self.assertEqual(set(), self.kept(job_id))
            return
        self._repeat_at = time.monotonic() + REPEAT_S
        self.c.client.until(lambda: self._accepted(kind, job_id), f"{job_id} to be accepted", 90)
        event = self.c.client.settled(job_id, 90)
        self.assertIn(event.outcome, ENDS[kind])

    def _accepted(self, kind, job_id):
        """The client submits again if it is told to, or gets no Receipt."""
        receipts = self.c.client.receipts.get(job_id, [])
        refused = bool(receipts) and all(r.code == wire.RECEIPT_CODE_RETRY_LATER for r in receipts)
        if refused or (not receipts and time.monotonic() >= self._repeat_at):
            self.c.client.receipts.pop(job_id, None)
            self._repeat_at = time.monotonic() + REPEAT_S
            self.submit(kind, job_id)
        return any(r.code != wire.RECEIPT_CODE_RETRY_LATER for r in receipts)

    # --- a place ---

    @contextlib.contextmanager
    def standing(self, daemons, spec, kind, job_id=JOB):
        """During the block one of @daemons stands at the failpoint: the one that is returned."""
        point = spec.partition("=")[0]
        self.prepare(kind, job_id)
        before = {daemon: daemon.hits(point) for daemon in daemons}
        for daemon in daemons:
            daemon.fail(spec)
        self.submit(kind, job_id)
        standing = servers.wait_for(
            lambda: next((d for d in daemons if d.hits(point) > before[d]), None),
            f"a process to reach {point}", 60,
        )  # fmt: skip
        for daemon in daemons:
            if daemon is not standing:
                daemon.fail()
        try:
            yield standing
        finally:
            standing.fail()

    # --- a handler ---

    def begun(self, job_id=JOB):
        """The processes of all its runs so far."""
        log = self.notes.directory / "effects.log"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [int(pid)
                for _, what, key, _, _, pid, _ in lines if what == "BEGIN"
                and key.startswith(f"{job_id}/")]

    @contextlib.contextmanager
    def running(self, daemons, kind, job_id=JOB):
        """The first handler of a job runs when the block begins. Yields its agent."""
        self.submit(kind, job_id)
        (self.handler,) = servers.wait_for(lambda: self.begun(job_id), "a handler to run")
        keeper = parent_of(self.handler)
        yield next(daemon for daemon in daemons if daemon.pid == parent_of(keeper))

    def restarted(self, daemon):
        self.notes.fault("started again", daemon.name)
        daemon.start()
