# SPDX-License-Identifier: Apache-2.0
"""Tests that lose data of the store: which accepted jobs are gone, and which of them alerts name"""

import contextlib
import random

import client
import cluster
import servers
import tap
import wire

SEED = random.SystemRandom().getrandbits(32)
LEASE_MS = 2000


class TestCase(cluster.TestCase):
    """alerts: (reason, job) of each one. jobs: all that were submitted."""

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
        """Submits so many new jobs, as fast as possible."""
        new = [f"job-{len(self.jobs) + i}" for i in range(count)]
        self.jobs += new
        for job_id in new:
            c.client.submit(wire.submit(job_id, wire.chain(2, lock_ms=LEASE_MS)))
        return new

    def alerted(self, reason):
        return [job_id for word, job_id in self.alerts if word == reason]

    def await_receipts(self, c):
        c.client.until(lambda: len(c.client.receipts) == len(self.jobs), "all receipts")

    def gone(self, c):
        """Returns the jobs whose client has a Receipt, and that the store does not have."""
        there = set(c.store.jobs())
        return sorted(job_id for job_id in c.client.receipts if job_id not in there)

    @contextlib.contextmanager
    def reconnecting(self, c):
        """Waits at the end of the block until each scheduler and supervisor is connected again."""
        daemons = c.schedulers + c.supervisors
        ups = {daemon: len(daemon.records("store_up")) for daemon in daemons}
        yield
        servers.wait_for(
            lambda: all(len(d.records("store_up")) > ups[d] for d in daemons), "all to reconnect"
        )

    def expect_lost(self, gone, before=()):
        """Expects alerts about exactly these lost jobs, after the earlier ones."""
        count = len(before) + len(gone)
        servers.wait_for(
            lambda: len(self.alerted("JOB_LOST")) >= count, "the alerts about the loss"
        )
        self.assertEqual(sorted([*before, *gone]), sorted(self.alerted("JOB_LOST")))

    def submit_again(self, c, gone):
        """Submits lost jobs again, as clients do after JOB_LOST, or after a query answered
        UNKNOWN_JOB."""
        for job_id in gone:
            c.client.submit(wire.submit(job_id, wire.chain(2, lock_ms=LEASE_MS)))

    def expect_nothing_lost(self, c):
        self.await_receipts(c)
        self.assertEqual([], self.gone(c))
        self.account(c)
        # On a busy machine a request may wait longer for its agent than the short lease of these
        # jobs.
        self.assertEqual([], [alert for alert in self.alerts if alert[0] != "NO_AGENT"])

    def account(self, c):
        """Expects that all jobs have succeeded, with each step recorded once."""
        servers.wait_for(
            lambda: c.store.total("settled") == len(self.jobs), "all jobs to end", 120
        )
        c.await_idle()
        self.assertEqual({(0, "PROCESSED")}, set(c.store.progress(self.jobs)))
        for job_id in self.jobs:
            done = [words[0] for words in c.store.events(job_id, "done")]
            self.assertEqual(["0", "1"], sorted(done), (job_id, c.store.history(job_id)))
        self.assertEqual(
            (0, 0), (c.client.queue("drover.dead")[0], c.client.queue("drover.replies")[0])
        )
