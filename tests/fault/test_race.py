# SPDX-License-Identifier: Apache-2.0
"""Two schedulers get everything twice and at once, and five supervisors that elect nobody ask both of
them: no job is the worse for it."""

import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster
import driver
import evidence
import tap
import workload

JOBS = int(os.environ.get("DROVER_TEST_JOBS", "150"))
RUNS = int(os.environ.get("DROVER_TEST_RUNS", "1"))
SEED = int(os.environ.get("DROVER_TEST_SEED", "1"))
SUPERVISORS = 5


class Race(cluster.TestCase):
    def twice(self, publish):
        """Two copies, one behind the other: each scheduler gets one."""

        def publish_twice(*args, **fields):
            publish(*args, **fields)
            publish(*args, **fields)

        return publish_twice

    def setUp(self):
        super().setUp()
        self.runs = self.directory

    def race(self, run):
        self.directory = self.runs / f"run-{run}"
        self.directory.mkdir()
        directory = self.directory / "evidence"
        settings = evidence.settings(directory, concurrency=16)
        settings["supervisor"] = {"supervisor": {"election": False}}
        c = self.cluster(2, 2, 0, settings, actor="effect")
        for _ in range(SUPERVISORS):
            c.add_supervisor()
        collector = evidence.Collector(c, directory, {
            "scan_ms": 100, "settle_within_ms": workload.SETTLE_WITHIN_MS})
        c.client.publish = self.twice(c.client.publish)
        jobs = workload.Workload(random.Random(SEED + run), strangers=False)
        client = driver.Driver(c)
        for number in range(JOBS):
            client.submit(jobs.job(number))
            client.tick()
        client.await_rest()
        self.assertEqual([], collector.judge(), f"seed {SEED + run}")
        self.assertEqual([], c.stop())

    def test_both_get_everything(self):
        for run in range(RUNS):
            with self.subTest(run=run):
                self.race(run)
                tap.narrate(f"run {run}: {JOBS} jobs, no violation")


if __name__ == "__main__":
    tap.main()
