# SPDX-License-Identifier: Apache-2.0
"""All real workloads in DROVER_WORKLOADS/dag at the same time, without faults: no step begins
before its dependencies have ended, and there are exactly as many requests and runs as steps."""

import json
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import tap
import wire

WORKLOADS = os.environ.get("DROVER_WORKLOADS", "")


def read(folder):
    """Returns job id -> {step: its dependencies}."""
    jobs = {}
    for path in sorted((pathlib.Path(folder) / "dag").glob("*.json")):
        dags = json.loads(path.read_text())
        for dag in dags if isinstance(dags, list) else [dags]:
            base = re.sub(r"[^A-Za-z0-9._-]", "-", dag["name"])
            job_id, n = base, 1
            while job_id in jobs:
                n += 1
                job_id = f"{base}-{n}"
            # Some files name a dependency twice.
            jobs[job_id] = {s["name"]: list(dict.fromkeys(s["depends_on"])) for s in dag["steps"]}
    return jobs


class Workloads(cluster.TestCase):
    def check(self, c, job_id, steps, lines):
        """lines: (begin or end, step), in time order."""
        self.assertEqual(len(steps), c.dispatches(job_id))
        self.assertEqual(sorted(steps), sorted(step for word, step in lines if word == "begin"))
        ended = set()
        for word, step in lines:
            if word == "end":
                ended.add(step)
            else:
                self.assertLessEqual(set(steps[step]), ended, f"{step} began too early")

    @unittest.skipUnless(WORKLOADS, "DROVER_WORKLOADS names no folder")
    def test_all(self):
        jobs = read(WORKLOADS)
        self.assertTrue(jobs, f"nothing in {WORKLOADS}/dag")
        c = self.cluster(schedulers=2, agents=2, supervisors=2)
        for job_id, steps in jobs.items():
            definition = [
                wire.step(name, actor="effect", after=after, take_none=True)
                for name, after in steps.items()
            ]
            c.client.submit(wire.submit(job_id, definition))
        for job_id in jobs:
            receipt = c.client.receipt(job_id)
            self.assertEqual(wire.RECEIPT_CODE_CREATED, receipt.code, receipt)
        events, seconds = self.timed(lambda: c.client.all_settled(jobs, 300 * cluster.SLOW))
        total = sum(map(len, jobs.values()))
        tap.narrate(f"{len(jobs)} jobs of {total} steps in {seconds:.1f} s")
        lines = {job_id: [] for job_id in jobs}
        for word, key in c.journal.lines():
            job_id, step, _turn = key.split("/")
            lines[job_id].append((word, step))
        for event in events:
            with self.subTest(event.job_id):
                self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
                self.check(c, event.job_id, jobs[event.job_id], lines[event.job_id])


if __name__ == "__main__":
    tap.main()
