# SPDX-License-Identifier: Apache-2.0
"""The store loses power, and what was not on disk with it: what was accepted and is gone is listed, job
by job; all that is left ends as it should."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import client
import cluster
import power
import servers
import tap
import wire

SEED = random.SystemRandom().getrandbits(32)
ROUNDS = 6  # at most: what was at risk may have been synced a moment before
BURST = 150


class Cut(cluster.TestCase):
    redis_options = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis = power.Redis(options=cls.redis_options)
        cls.addClassCleanup(cls.redis.close)
        cls.redis.start()

    def setUp(self):
        super().setUp()
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
            c.client.submit(wire.submit(job_id, wire.chain(2, lock_ms=5000)))
        return new

    def told(self, reason):
        return [job_id for word, job_id in self.alerts if word == reason]

    def await_receipts(self, c):
        c.client.until(lambda: len(c.client.receipts) == len(self.jobs), "all receipts")

    def gone(self, c):
        """Jobs whose client has a receipt, and that the store does not have."""
        there = set(c.store.jobs())
        return sorted(job_id for job_id in c.client.receipts if job_id not in there)

    def cut_and_restart(self, c):
        """Until each scheduler and supervisor is connected again."""
        daemons = c.schedulers + c.supervisors
        ups = {daemon: len(daemon.records("store_up")) for daemon in daemons}
        lost, at_risk = self.redis.cut_power(self.rng)
        tap.narrate(f"{lost} of {at_risk} bytes at risk lost, after {len(self.jobs)} jobs")
        self.redis.start()
        servers.wait_for(
            lambda: all(len(d.records("store_up")) > ups[d] for d in daemons), "all to reconnect"
        )
        return lost

    def account(self, c):
        """All have ended well, with each step recorded once."""
        def ended():
            return all(phase == "PROCESSED" for _, phase in c.store.progress(self.jobs))

        servers.wait_for(ended, "all jobs to end", 120)
        c.await_idle()
        for job_id in self.jobs:
            done = [words[0] for words in c.store.events(job_id, "done")]
            self.assertEqual(["0", "1"], sorted(done), job_id)
        self.assertEqual((0, 0), (c.client.queue("drover.dead")[0], c.client.queue("drover.replies")[0]))


class Fast(Cut):
    """B1.F9, B3.F9, B8.F9, B9.F9 with appendfsync everysec."""

    redis_options = ("--appendfsync", "everysec")

    def test_what_is_gone_is_listed(self):
        c = self.begin(schedulers=2)
        lost = []
        for _ in range(ROUNDS):
            self.submit(c, BURST)
            self.await_receipts(c)
            self.submit(c, BURST // 3)
            self.cut_and_restart(c)
            self.await_receipts(c)
            gone = self.gone(c)
            servers.wait_for(
                lambda: len(self.told("JOB_LOST")) >= len(lost) + len(gone), "the loss to be told"
            )
            self.assertEqual(sorted(lost + gone), sorted(self.told("JOB_LOST")))
            lost += gone
            for job_id in gone:  # as clients do that hear of it, or ask and are told UNKNOWN_JOB
                c.client.submit(wire.submit(job_id, wire.chain(2, lock_ms=5000)))
            if gone:
                break
        tap.narrate(f"lost {len(lost)} of {len(self.jobs)} jobs")
        self.assertTrue(lost, "nothing was lost: this test has seen nothing")
        self.assertTrue(self.told("STORE_WENT_BACK"))
        self.assertFalse(self.told("STORE_LOST"))
        self.account(c)


if __name__ == "__main__":
    tap.main()
