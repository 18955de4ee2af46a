# SPDX-License-Identifier: Apache-2.0
"""Recorded workflows, imported and submitted with the command line; their steps only sleep

The end is a check: each job is done, and no step began before its dependencies were done.
"""

import json
import re

import stage
from stage import check, say

import cluster
import servers

SCALE = 0.004  # factor for the runtimes of real workloads, which take up to an hour
SLOTS = 64  # steps that an agent works on at the same time
GIVE_UP_S = 600


class Job:
    """One job: its submission, and what the store has of it."""

    def __init__(self, submission):
        self.submission = submission
        self.id = submission["jobId"]
        self.steps = submission["definition"]["steps"]
        self.names = [step["name"] for step in self.steps]
        self.after = {step["name"]: step.get("after", []) for step in self.steps}
        self.edges = sum(map(len, self.after.values()))
        self.done = 0
        self.settled = False
        self.history = []

    def outcome(self):
        return next(
            (entry.about[0] for entry in self.history if entry.event == "settled"), "unfinished"
        )

    def count(self, event):
        return sum(entry.event == event for entry in self.history)

    def seconds(self):
        return (int(self.history[-1].at) - int(self.history[0].at)) / 1000

    def too_early(self):
        """Returns the steps that were dispatched before all of their dependencies were done."""
        done, found = set(), []
        for entry in self.history:
            if entry.event == "done":
                done.add(self.names[int(entry.step)])
            elif entry.event == "dispatched":
                name = self.names[int(entry.step)]
                if not done.issuperset(self.after[name]):
                    found.append(name)
        return found


class Recorded:
    def __init__(self, drover, files, scale):
        self.drover, self.scale = drover, scale
        self.jobs = self._import(files)
        self.steps = sum(len(job.names) for job in self.jobs)
        self.kills = stage.Kills(drover, "steps")

    def _import(self, files):
        """Has the files turned into submissions, and gives each a readable id."""
        arguments = ["--actor", "demo", "--scale", self.scale, *files]
        lines = stage.drover(self.drover.url, "import", *arguments)
        jobs = []
        for number, line in enumerate(lines.splitlines(), 1):
            submission = json.loads(line)
            name = submission["labels"][0]["value"] if submission["labels"] else "job"
            submission["jobId"] = re.sub(r"[^A-Za-z0-9._-]", "-", f"{name}.{number}")
            jobs.append(Job(submission))
        return jobs

    def submit(self):
        edges = sum(job.edges for job in self.jobs)
        say(f"drover submit: {len(self.jobs)} jobs, {self.steps} steps, {edges} edges")
        submissions = "\n".join(json.dumps(job.submission) for job in self.jobs)
        stage.drover(self.drover.url, "submit", "-o", "id", "-", text=submissions)
        say("all are recorded in Redis: whatever happens now, they will be done")

    def _check(self):
        running = [job for job in self.jobs if not job.settled]
        store = self.drover.store
        for job, (steps, phase) in zip(running, store.progress([job.id for job in running])):
            job.done = len(job.names) - steps
            job.settled = phase in ("PROCESSED", "ERROR")
            if job.settled:
                job.history = store.history(job.id)
                say(f"{job.outcome()} {job.id}: {len(job.names)} steps in {job.seconds():.1f} s")
        self.kills.advance(sum(job.done for job in self.jobs), self.steps)
        return all(job.settled for job in self.jobs)

    def follow(self):
        servers.wait_for(self._check, "the jobs to end", GIVE_UP_S)

    def verify(self):
        good = sum(job.outcome() == "SUCCEEDED" for job in self.jobs)
        done = sum(job.count("done") for job in self.jobs)
        early = [f"{name} of {job.id}" for job in self.jobs for name in job.too_early()]
        requests = sum(job.count("dispatched") for job in self.jobs)
        expired = sum(job.count("expired") for job in self.jobs)
        say(f"{requests} requests, {expired} leases expired")
        check(good == len(self.jobs), f"{good} of {len(self.jobs)} jobs are done")
        check(done == self.steps, f"{done} of {self.steps} steps are done, each once")
        check(not early, ", ".join(["no step was begun before what it waits for", *early]))


def run(files, scale):
    settings = {"agent": {"agent": {"concurrency": SLOTS, "actors": [cluster.BUILTIN]}}}
    drover = stage.start(stage.folder(), settings)
    recorded = Recorded(drover, files, scale)
    recorded.submit()
    recorded.follow()
    recorded.verify()
    return stage.end(drover)
