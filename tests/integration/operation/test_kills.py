# SPDX-License-Identifier: Apache-2.0
"""Each process and both servers go down, one after another, under a load of jobs: all jobs end,
each effect exists once, and each attempt is accounted for."""

import collections
import contextlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import redis

import cluster
import servers
import tap
import wire

JOBS = int(os.environ.get("DROVER_TEST_JOBS", "500"))
STEPS = 5
ENDS = ("done", "failed", "deferred", "expired", "silent", "unstarted", "unroutable", "unsent")


class Kills(cluster.TestCase):
    own_servers = True

    def kill(self, daemon):
        daemon.kill()
        daemon.start()

    def faults(self, c):
        return [
            ("scheduler killed", lambda: self.kill(c.schedulers[0])),
            ("agent killed", lambda: self.kill(c.agents[0])),
            ("supervisor killed", lambda: self.kill(c.supervisors[0])),
            ("RabbitMQ restarted", self.rabbit.restart),
            ("Redis restarted", self.redis.restart),
            ("both schedulers killed", lambda: [self.kill(s) for s in c.schedulers]),
        ]

    def settled(self, c):
        with contextlib.suppress(redis.ConnectionError):
            return c.store.total("settled")
        return 0

    def test_all_settle(self):
        c = self.cluster(schedulers=2, agents=2, supervisors=2)
        jobs = [f"job-{i}" for i in range(JOBS)]
        steps = wire.chain(STEPS, actor="effect", lock_ms=10000)
        for job_id in jobs:
            c.client.submit(wire.submit(job_id, steps))
        faults = self.faults(c)
        for i, (what, act) in enumerate(faults):
            share = JOBS * (i + 1) // (len(faults) + 2)
            servers.wait_for(lambda n=share: self.settled(c) >= n, f"{share} jobs", 120)
            tap.narrate(f"{what} after {self.settled(c)} jobs")
            act()
        for event in c.client.all_settled(jobs, 180):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        # If a scheduler was killed after it had recorded the job, the next one answers ALREADY.
        codes = {c.client.receipts[job_id][0].code for job_id in jobs}
        self.assertLessEqual(codes, {wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY})
        c.await_idle()
        self.account(c, jobs)

    def account(self, c, jobs):
        keys = [f"{job_id}/s{i}/1" for job_id in jobs for i in range(STEPS)]
        self.assertEqual(set(keys), c.journal.effects())

        dispatched, ended, done = set(), collections.Counter(), set()
        for job_id in jobs:
            for entry in c.store.history(job_id):
                if entry.event == "dispatched":
                    dispatched.add((f"{job_id}/s{entry.step}/1", int(entry.attempt)))
                elif entry.event in ENDS:
                    ended[(f"{job_id}/s{entry.step}/1", int(entry.attempt))] += 1
                    if entry.event == "done":
                        done.add((f"{job_id}/s{entry.step}/1", int(entry.attempt)))
        self.assertEqual(dispatched, set(ended))
        self.assertEqual({1}, set(ended.values()))
        self.assertEqual(sorted(keys), sorted(key for key, _ in done))

        began, finished = set(c.journal.runs("begin")), set(c.journal.runs("end"))
        self.assertEqual(set(), began - dispatched, "runs of attempts that were never dispatched")
        self.assertEqual(set(), done - finished, "recorded, and never finished")
        tap.narrate(
            f"{len(jobs)} jobs, {len(dispatched)} dispatches,"
            f" {len(c.journal.runs('begin'))} runs, {len(keys)} effects"
        )


if __name__ == "__main__":
    tap.main()
