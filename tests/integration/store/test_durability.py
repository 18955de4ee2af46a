# SPDX-License-Identifier: Apache-2.0
"""The store loses power, with what was not on disk, or fails over to a replica that lags. With fast
durability each accepted job that is gone is listed; with strict durability none is. All other jobs
end as they should."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import redis

import cluster
import losses
import power
import servers
import tap

ROUNDS = 6  # at most; what was at risk may have been synced a moment before
BURST = 150


class Cut(losses.TestCase):
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

    def cut_and_restart(self, c):
        """Returns how many bytes were at risk."""
        with self.reconnecting(c):
            lost, at_risk = self.redis.cut_power(self.rng)
            tap.narrate(f"{lost} of {at_risk} bytes at risk lost, after {len(self.jobs)} jobs")
            self.redis.come_back()
        return at_risk


def strict(replicas=0):
    redis = {"durability": "strict", "replicas": replicas, "call_timeout": "2s"}
    return {role: {"redis": redis} for role in ("scheduler", "supervisor")}


class Fast(Cut):
    """B1.F9, B3.F9, B8.F9, B9.F9 with appendfsync everysec."""

    redis_options = ("--appendfsync", "everysec")

    def test_lost_jobs_are_listed(self):
        c = self.begin(schedulers=2)
        self.submit(c, BURST)
        self.await_receipts(c)
        self.redis.await_synced()  # otherwise the store would be lost, which is another alert
        lost = []
        for _ in range(ROUNDS):
            self.submit(c, BURST)
            self.await_receipts(c)
            self.submit(c, BURST // 3)
            self.cut_and_restart(c)
            self.await_receipts(c)
            gone = self.gone(c)
            self.expect_lost(gone, lost)
            lost += gone
            self.submit_again(c, gone)
            if gone:
                break
        tap.narrate(f"lost {len(lost)} of {len(self.jobs)} jobs")
        self.assertTrue(lost, "nothing was lost: this test has shown nothing")
        self.assertTrue(self.alerted("STORE_WENT_BACK"))
        self.assertFalse(self.alerted("STORE_LOST"))
        self.account(c)


class Strict(Cut):
    """B1.F9, B2.F9, B9.F9, B10.F9 with appendfsync always: what is cut was written and not synced
    yet, so no client has an answer about it. Syncs are slow, so there mostly is something to
    cut."""

    redis_options = ("--appendfsync", "always")
    sync_ms = 20

    def test_nothing_is_lost(self):
        c = self.begin(schedulers=2, settings=strict())
        at_risk = seen = 0
        for number in range(2 * ROUNDS):
            self.submit(c, BURST // 3)
            c.client.until(lambda n=seen: len(c.client.events) > n, "a terminal event")
            settled, accepted = set(c.client.events), set(c.client.receipts)
            self.submit(c, BURST // 3)
            at_risk += self.cut_and_restart(c)
            phases = c.store.progress(settled)
            self.assertLessEqual(
                {phase for _, phase in phases}, {"PROCESSED"}, "an event, and another phase"
            )
            self.assertLessEqual(accepted, set(c.store.jobs()), "a Receipt, and no job")
            seen = len(settled)
            if at_risk and number >= 3:
                break
        self.assertGreater(at_risk, 0, "nothing was at risk: this test has shown nothing")
        self.expect_nothing_lost(c)


class Failover(Cut):
    """The primary is gone, and a replica replaces it that has not received the last writes."""

    def server(self, *options):
        return self.servers.enter_context(servers.Redis(options=options))

    def follow(self, primary):
        """Starts a new replica, and returns when it has all data."""
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
        self.expect_lost(gone)
        self.assertTrue(self.alerted("STORE_WENT_BACK"))
        self.submit_again(c, gone)
        self.account(c)

    def test_primary_again(self):
        """A primary that was a replica for a while is primary again in the same process: another
        primary may have taken jobs meanwhile, so this is another run of the store."""
        self.redis = self.server()
        c = self.begin()
        store = c.store.redis
        run, run_id = store.hget(f"{c.store.prefix}{{p0}}:mark", "run"), store.info()["run_id"]
        with self.reconnecting(c):
            store.execute_command("REPLICAOF", servers.HOST, servers.free_ports(1)[0])
            store.execute_command("REPLICAOF", "NO", "ONE")
        self.assertEqual(run_id, store.info()["run_id"])
        self.assertNotEqual(run, store.hget(f"{c.store.prefix}{{p0}}:mark", "run"))
        self.assertFalse(self.alerted("STORE_WENT_BACK"))
        self.submit(c, 1)
        self.account(c)

    def test_strict(self):
        """B1.F10, B2.F10, B9.F10, B10.F10: no answer comes before a replica has the writes."""
        self.redis = self.server(
            "--appendfsync", "always", "--min-replicas-to-write", "1", "--min-replicas-max-lag",
            "60",
        )
        replica = self.follow(self.redis)
        c = self.begin(schedulers=2, settings=strict(replicas=1))
        self.submit(c, BURST)
        self.await_receipts(c)
        replica.pause()
        new = self.submit(c, 10)
        servers.wait_for(
            lambda: all(s.records("store_replicas_behind") for s in c.schedulers),
            "the lag to be noticed",
        )
        c.client.pump()
        self.assertEqual([], [job_id for job_id in new if job_id in c.client.receipts])
        self.fail_over(c, replica)
        self.expect_nothing_lost(c)


class Unsafe(Cut):
    """A Redis that may lose something, with strict durability."""

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
        servers.wait_for(lambda: scheduler.records("store_up"), "Redis to be used")


if __name__ == "__main__":
    tap.main()
