#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two schedulers get everything twice at the same time, and five supervisors without election ask
both

    race.py [--runs N] [--jobs N] [--seed N]

Both schedulers get the Submit and each command of every job; a reply goes to the one that is free.
No job may suffer: each must end as its kind may, and the checker must find nothing. A run in which
the schedulers, or the supervisors, did not compete counts as wrong, too. Each run has its own seed,
from N on, so that an interrupted series can be continued. Logs, and the evidence of runs with
something wrong, stay in the build folder, in race/, and the output in race/log. Exits with 0 if
nothing is wrong.
"""

import argparse
import pathlib
import random
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster
import driver
import evidence
import servers
import wire
import workload

SHOWN = 50
SUPERVISORS = 5
ACTS = ("job_created", "step_dispatched", "job_settled")  # logged by the scheduler that was first
SHARED = 0.5  # of the jobs are driven by both schedulers, at least


def _copied(publish, chance):
    """Two copies in a row, one for each scheduler; a third one changes which scheduler is first."""

    def publish_copies(*args, **fields):
        for _ in range(chance.choice((2, 3))):
            publish(*args, **fields)

    return publish_copies


class Race:
    """One run, in a cluster of its own on @rabbit and @redis."""

    def __init__(self, rabbit, redis, directory, jobs, seed):
        self._directory, self._n_jobs, self._seed = directory, jobs, seed
        settings = evidence.settings(directory / "evidence", concurrency=16)
        settings["supervisor"] = {"supervisor": {"election": False}}
        settings["scheduler"] = {"log": {"level": "debug"}}
        self._cluster = cluster.Cluster(rabbit, redis, directory, settings, actor="effect")
        self.figures = ""

    def run(self):
        """Return: what is wrong, one text each."""
        c = self._cluster
        try:
            c.start(2, 2, 0)
            for _ in range(SUPERVISORS):
                c.add_supervisor()
            wrong = self._run(c)
        finally:
            complaints = c.stop()
        return wrong + complaints

    def _run(self, c):
        collector = evidence.Collector(c, self._directory / "evidence", {
            "scan_ms": 100, "settle_within_ms": workload.SETTLE_WITHIN_MS})
        c.client.publish = _copied(c.client.publish, random.Random(self._seed))
        jobs = workload.Workload(random.Random(self._seed), strangers=False)
        client = driver.Driver(c)
        for number in range(self._n_jobs):
            client.submit(jobs.job(number))
            client.tick()
        client.await_rest()
        return client.wrong() + self._raced(c) + collector.judge()

    def _raced(self, c):
        """The reasons why it was no race."""
        drove = [{record["job.id"] for event in ACTS for record in scheduler.records(event)}
                 for scheduler in c.schedulers]
        created = [len(scheduler.records("job_created")) for scheduler in c.schedulers]
        recovers = [len(supervisor.records("recover")) for supervisor in c.supervisors]
        both = len(drove[0] & drove[1])
        already = sum(wire.RECEIPT_CODE_ALREADY in {r.code for r in receipts}
                      for receipts in c.client.receipts.values())
        self.figures = (f"created by {created}, {already} submitted to both, {both} driven by both,"
                        f" recovered by {recovers}")
        raced = (already == self._n_jobs and both >= SHARED * self._n_jobs
                 and min(created) >= SHARED / 4 * self._n_jobs and sum(n > 0 for n in recovers) > 1)
        return [] if raced else [f"no race: {self.figures}"]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="one after the other (20)")
    parser.add_argument("--jobs", type=int, default=1000, help="in each (1000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first run (1)")
    options = parser.parse_args(arguments)
    directory = driver.empty_folder(wire.BUILD / "race")
    say = driver.reporter("race", directory)
    say(f"seeds {options.seed}..{options.seed + options.runs - 1}, {options.jobs} jobs each; "
        f"logs in {directory}")
    total = 0
    with servers.Rabbit() as rabbit, servers.Redis() as redis:
        for seed in range(options.seed, options.seed + options.runs):
            where, began = directory / f"seed-{seed}", time.monotonic()
            where.mkdir()
            race = Race(rabbit, redis, where, options.jobs, seed)
            wrong = race.run()
            say(f"seed {seed}: {len(wrong)} violations in {time.monotonic() - began:.0f} s; "
                f"{race.figures}")
            for text in wrong[:SHOWN]:
                say(text)
            if not wrong:
                shutil.rmtree(where / "evidence")
            total += len(wrong)
    say(f"{options.runs} runs, {total} violations")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
