# SPDX-License-Identifier: Apache-2.0
"""The store loses power, and what was not on disk with it, or it fails over to a replica that lags: with
fast durability what was accepted and is gone is listed, job by job; with strict nothing is. All that
is left ends as it should."""

import contextlib
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import redis

import client
import cluster
import power
import servers
import tap
import wire

SEED = random.SystemRandom().getrandbits(32)
ROUNDS = 6  # at most: what was at risk may have been synced a moment before
BURST = 150
LEASE_MS = 2000


class Cut(cluster.TestCase):
    redis_options = ()
    sync_ms = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis = power.Redis(options=cls.redis_options, sync_ms=cls.sync_ms)
        cls.addClassCleanup(cls.redis.close)
        cls.redis.start()

    def setUp(self):
        super().setUp()
        self.servers = contextlib.ExitStack()
        self.addCleanup(self.servers.close)
        tap.narrate(f"seed {SEED}")
        self.rng = random.Random(SEED)
        self.alerts = []
        self.jobs = []

    def _on_event(self, channel, method, properties, body):
        event = wire.JobEvent.FromString(body)
        if event.kind == wire.EVENT_KIND_ALERT:
            self.alerts.append((event.reason, event.job_id))
        channel.basic_ack(method.delivery_tag)

    def begin(self, **more):
        c = self.cluster(**more)
        listener = client.Listener(c.client, self._on_event, exchange="drover.events")
        self.addCleanup(listener.stop)
        return c

    def submit(self, c, count):
        """That many new jobs, in a hurry."""
        new = [f"job-{len(self.jobs) + i}" for i in range(count)]
        self.jobs += new
        for job_id in new:
            c.client.submit(wire.submit(job_id, wire.chain(2, lock_ms=LEASE_MS)))
        return new

    def told(self, reason):
        return [job_id for word, job_id in self.alerts if word == reason]

    def await_receipts(self, c):
        c.client.until(lambda: len(c.client.receipts) == len(self.jobs), "all receipts")

    def gone(self, c):
        """Jobs whose client has a receipt, and that the store does not have."""
        there = set(c.store.jobs())
        return sorted(job_id for job_id in c.client.receipts if job_id not in there)

    @contextlib.contextmanager
    def reconnecting(self, c):
        """At its end each scheduler and supervisor is connected again."""
        daemons = c.schedulers + c.supervisors
        ups = {daemon: len(daemon.records("store_up")) for daemon in daemons}
        yield
        servers.wait_for(
            lambda: all(len(d.records("store_up")) > ups[d] for d in daemons), "all to reconnect"
        )

    def cut_and_restart(self, c):
        """Return: how many bytes were at risk."""
        with self.reconnecting(c):
            lost, at_risk = self.redis.cut_power(self.rng)
            tap.narrate(f"{lost} of {at_risk} bytes at risk lost, after {len(self.jobs)} jobs")
            self.redis.come_back()
        return at_risk

    def expect_told(self, gone, before=()):
        """Exactly these are told to be lost, after those that were."""
        count = len(before) + len(gone)
        servers.wait_for(lambda: len(self.told("JOB_LOST")) >= count, "the loss to be told")
        self.assertEqual(sorted([*before, *gone]), sorted(self.told("JOB_LOST")))

    def submit_again(self, c, gone):
        """As clients do that hear of it, or ask and are told UNKNOWN_JOB."""
        for job_id in gone:
            c.client.submit(wire.submit(job_id, wire.chain(2, lock_ms=LEASE_MS)))

    def expect_nothing_lost(self, c):
        self.await_receipts(c)
        self.assertEqual([], self.gone(c))
        self.account(c)
        # on a busy machine a request may wait longer for its agent than the short lease of these jobs
        self.assertEqual([], [alert for alert in self.alerts if alert[0] != "NO_AGENT"])

    def account(self, c):
        """All have ended well, with each step recorded once."""
        servers.wait_for(
            lambda: c.store.total("settled") == len(self.jobs), "all jobs to end", 120
        )
        c.await_idle()
        self.assertEqual({(0, "PROCESSED")}, set(c.store.progress(self.jobs)))
        for job_id in self.jobs:
            done = [words[0] for words in c.store.events(job_id, "done")]
            self.assertEqual(["0", "1"], sorted(done), (job_id, c.store.history(job_id)))
        self.assertEqual((0, 0), (c.client.queue("drover.dead")[0], c.client.queue("drover.replies")[0]))


def strict(replicas=0):
    redis = {"durability": "strict", "replicas": replicas, "call_timeout": "2s"}
    return {role: {"redis": redis} for role in ("scheduler", "supervisor")}


class Fast(Cut):
    """B1.F9, B3.F9, B8.F9, B9.F9 with appendfsync everysec."""

    redis_options = ("--appendfsync", "everysec")

    def test_what_is_gone_is_listed(self):
        c = self.begin(schedulers=2)
        self.submit(c, BURST)
        self.await_receipts(c)
        self.redis.await_synced()  # a store that has lost all it had is another thing to tell
        lost = []
        for _ in range(ROUNDS):
            self.submit(c, BURST)
            self.await_receipts(c)
            self.submit(c, BURST // 3)
            self.cut_and_restart(c)
            self.await_receipts(c)
            gone = self.gone(c)
            self.expect_told(gone, lost)
            lost += gone
            self.submit_again(c, gone)
            if gone:
                break
        tap.narrate(f"lost {len(lost)} of {len(self.jobs)} jobs")
        self.assertTrue(lost, "nothing was lost: this test has seen nothing")
        self.assertTrue(self.told("STORE_WENT_BACK"))
        self.assertFalse(self.told("STORE_LOST"))
        self.account(c)


class Strict(Cut):
    """B1.F9, B2.F9, B9.F9, B10.F9 with appendfsync always: what is cut was written and not synced yet, so that nobody
    has been told of it. The disk is a slow one: mostly there is something to cut."""

    redis_options = ("--appendfsync", "always")
    sync_ms = 20

    def test_nothing_is_lost(self):
        c = self.begin(schedulers=2, settings=strict())
        at_risk = told = 0
        for number in range(2 * ROUNDS):
            self.submit(c, BURST // 3)
            c.client.until(lambda n=told: len(c.client.events) > n, "an end to be told")
            settled, accepted = set(c.client.events), set(c.client.receipts)
            self.submit(c, BURST // 3)
            at_risk += self.cut_and_restart(c)
            phases = c.store.progress(settled)
            self.assertLessEqual({phase for _, phase in phases}, {"PROCESSED"}, "told, and not so")
            self.assertLessEqual(accepted, set(c.store.jobs()), "accepted, and not there")
            told = len(settled)
            if at_risk and number >= 3:
                break
        self.assertGreater(at_risk, 0, "nothing was at risk: this test has seen nothing")
        self.expect_nothing_lost(c)


class Failover(Cut):
    """The primary is gone, and a replica takes its place that has not heard of the last."""

    def server(self, *options):
        return self.servers.enter_context(servers.Redis(options=options))

    def follow(self, primary):
        """A new replica; returns when it has all."""
        replica = self.servers.enter_context(power.replica_of(primary))
        power.await_following(replica)
        return replica

    def fail_over(self, c, replica):
        with self.reconnecting(c):
            power.take_over(replica, self.redis)
            self.redis = replica
            self.follow(replica)

    def test_fast(self):
        """B1.F10, B9.F10: detected, and listed."""
        self.redis = self.server()
        replica = self.follow(self.redis)
        c = self.begin(schedulers=2)
        self.submit(c, BURST)
        self.await_receipts(c)
        replica.pause()
        new = self.submit(c, 30)
        self.await_receipts(c)
        self.fail_over(c, replica)
        gone = self.gone(c)
        self.assertLessEqual(set(new), set(gone))
        self.expect_told(gone)
        self.assertTrue(self.told("STORE_WENT_BACK"))
        self.submit_again(c, gone)
        self.account(c)

    def test_strict(self):
        """B1.F10, B2.F10, B9.F10, B10.F10: nobody is told before a replica has it."""
        self.redis = self.server(
            "--appendfsync", "always", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "60"
        )
        replica = self.follow(self.redis)
        c = self.begin(schedulers=2, settings=strict(replicas=1))
        self.submit(c, BURST)
        self.await_receipts(c)
        replica.pause()
        new = self.submit(c, 10)
        servers.wait_for(
            lambda: all(s.records("store_replicas_behind") for s in c.schedulers), "the lag to be seen"
        )
        c.client.pump()
        self.assertEqual([], [job_id for job_id in new if job_id in c.client.receipts])
        self.fail_over(c, replica)
        self.expect_nothing_lost(c)


class Unsafe(Cut):
    """A Redis that may lose something, where nothing may be lost."""

    redis_options = ("--appendfsync", "everysec")

    def test_refused(self):
        name = "scheduler-1"
        settings = {"name": name, "log": {"format": "json"}, "redis": {"port": self.redis.port}}
        settings["redis"] |= strict()["scheduler"]["redis"]
        scheduler = cluster.Daemon("scheduler", name, self.directory, settings)
        self.addCleanup(scheduler.stop)
        scheduler.start()
        (refused,) = servers.wait_for(lambda: scheduler.records("store_refused"), "a refusal")
        self.assertIn("appendfsync is everysec: set appendfsync always in Redis", refused["why"])
        with redis.Redis(servers.HOST, self.redis.port) as admin:
            admin.config_set("appendfsync", "always")
        servers.wait_for(lambda: scheduler.records("store_up"), "it to be taken")


if __name__ == "__main__":
    tap.main()
