# SPDX-License-Identifier: Apache-2.0
"""The broker loses its whole data directory during a run: every accepted job still ends."""

import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster
import driver
import evidence
import servers
import tap
import workload

JOBS = int(os.environ.get("DROVER_TEST_JOBS", "150"))
SEED = int(os.environ.get("DROVER_TEST_SEED", "1"))


class Wipe(cluster.TestCase):
    own_servers = True

    def test_all_end(self):
        directory = self.directory / "evidence"
        c = self.cluster(2, 2, 2, evidence.settings(directory, concurrency=16), actor="effect")
        collector = evidence.Collector(c, directory, {
            "scan_ms": 100, "lease_ms": 1000, "settle_within_ms": workload.SETTLE_WITHIN_MS,
        })
        jobs = workload.Workload(random.Random(SEED), strangers=False)
        client = driver.Driver(c)
        for number in range(JOBS):
            client.submit(jobs.job(number))
        for share in (JOBS // 4, JOBS // 2):
            servers.wait_for(lambda n=share: client.tick() or client.ended() >= n, f"{share} jobs")
            tap.narrate(f"wiped after {client.ended()} jobs, {len(client.accepted())} accepted")
            collector.fault("wiped", "rabbitmq")
            self.rabbit.wipe()
            collector.fault("client's queue lost")
            self.rabbit.start()
            c.restore_vhost()
            collector.fault("again", "rabbitmq")
            client.repeat()
        client.await_rest()
        for line in client.summary():
            tap.narrate(line)
        self.assertEqual([], client.wrong() + collector.judge())


if __name__ == "__main__":
    tap.main()
