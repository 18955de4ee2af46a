#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An actor without agents for N minutes, with default settings; then its agent starts

    absence.py [--minutes N] [--jobs N]

Jobs are submitted while there is no agent, so that their requests wait out of step with each other.
At the end of the absence nothing may be parked, no expiry may count, and the number of requests of
a job must be a logarithm of its wait; when an agent starts all jobs must be done. The output and
the logs stay in the build folder, in absence/. Exits with 0 if nothing is wrong.
"""

import argparse
import math
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster
import driver
import servers
import wire

WAIT_MS = 60000  # the default
STEPS = 2


class Absence:
    def __init__(self, rabbit, redis, directory, minutes, jobs, say):
        defaults = {"supervisor": {"supervisor": None}}
        self._cluster = cluster.Cluster(rabbit, redis, directory, defaults, actor="none")
        self._seconds, self._n_jobs, self.say = 60 * minutes, jobs, say

    def run(self):
        """Return: what is wrong, one text each."""
        c = self._cluster
        try:
            c.start(1, 0, 1)
            wrong = self._run(c)
        finally:
            complaints = c.stop()
        return wrong + complaints

    def _run(self, c):
        began, jobs = time.monotonic(), {}
        while time.monotonic() < began + self._seconds:
            at = time.monotonic() - began
            if len(jobs) < self._n_jobs and at >= len(jobs) * self._seconds / 2 / self._n_jobs:
                job_id = f"job-{len(jobs)}"
                c.client.submit(wire.submit(job_id, wire.chain(STEPS)))
                jobs[job_id] = at
            time.sleep(1)
        requests = {job_id: c.dispatches(job_id) for job_id in jobs}
        counts = ", ".join(
            f"{sum(len(c.store.events(job_id, event)) for job_id in jobs)} {event}"
            for event in ("unstarted", "silent", "expired", "parked")
        )
        self.say(
            f"{self._seconds // 60} minutes without agents, {len(jobs)} jobs: "
            f"{sum(requests.values())} requests, at most {max(requests.values())} of one; {counts}"
        )
        wrong = [f"{job_id}: {requests[job_id]} requests" for job_id, at in jobs.items()
                 if requests[job_id] > math.ceil(
                     math.log2((self._seconds - at) * 1000 / WAIT_MS + 1)
                 ) + 1]
        came = time.monotonic()
        c.add_agent()
        # the longest wait, and a little more
        ends = [event.outcome for event in c.client.all_settled(jobs, 3900)]
        self.say(f"all ended {time.monotonic() - came:.1f} s after an agent came")
        wrong += [f"{job_id} has ended as {wire.Outcome.Name(end)}"
                  for job_id, end in zip(jobs, ends)
                  if end != wire.OUTCOME_SUCCEEDED]
        wrong += [f"{job_id}: {event} {words}" for job_id in jobs for event in ("expired", "parked")
                  for words in c.store.events(job_id, event)]
        return wrong


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=int, default=30, help="without agents (30)")
    parser.add_argument("--jobs", type=int, default=8, help="that come meanwhile (8)")
    options = parser.parse_args(arguments)
    directory = driver.empty_folder(wire.BUILD / "absence")
    say = driver.reporter("absence", directory)
    with servers.Rabbit() as rabbit, servers.Redis() as redis:
        wrong = Absence(rabbit, redis, directory, options.minutes, options.jobs, say).run()
    for text in wrong:
        say(text)
    say(f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
