# SPDX-License-Identifier: Apache-2.0
"""./dev demo: a whole Drover on private servers, and a job that survives two murders

A RabbitMQ and a Redis on loopback, two schedulers, two agents, two supervisors. Recorded workflows are
imported and submitted with the command line; while they run, an agent and a scheduler are ended with
SIGKILL and never come back. The end is a check: every job done, no step begun before what it waits for.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import cluster  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

SCALE = 0.004  # of the runtimes of real workloads, which take up to an hour
SLOTS = 64  # steps that an agent works on at a time; they only sleep
AGENT_DIES_AT = 0.25  # of all steps done
SCHEDULER_DIES_AT = 0.5
GIVE_UP_S = 600

START = time.monotonic()


def say(text=""):
    print(f"[{time.monotonic() - START:5.1f} s] {text}" if text else "", flush=True)


class Job:
    """One job, as its submission describes it and as the store tells."""

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
        self.told = 0  # entries of the history

    def outcome(self):
        return next((entry[3] for entry in self.history if entry[2] == "settled"), "unfinished")

    def count(self, event):
        return sum(entry[2] == event for entry in self.history)

    def seconds(self):
        return (int(self.history[-1][1]) - int(self.history[0][1])) / 1000

    def too_early(self):
        """Steps that were dispatched before all that they wait for was done."""
        done, found = set(), []
        for entry in self.history:
            if entry[2] == "done":
                done.add(self.names[int(entry[3])])
            elif entry[2] == "dispatched":
                name = self.names[int(entry[3])]
                if not done.issuperset(self.after[name]):
                    found.append(name)
        return found


class Demo:
    def __init__(self, drover, files, scale):
        self.drover, self.scale = drover, scale
        self.jobs = self._import(files)
        self.steps = sum(len(job.names) for job in self.jobs)
        self.murders = [
            (AGENT_DIES_AT, drover.agents[0], "what it was working on goes to the other agent"),
            (SCHEDULER_DIES_AT, drover.schedulers[0], "the other knows as much as it did"),
        ]

    def _command(self, *arguments, text=None):
        done = subprocess.run(
            [str(wire.BUILD / "cli" / "drover"), *map(str, arguments)],
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"drover {arguments[0]} failed with {done.returncode}")
        return done.stdout

    def _import(self, files):
        """Has the files turned into submissions, and gives each an id that a person can read."""
        lines = self._command("import", "--actor", "demo", "--scale", self.scale, *files)
        jobs = []
        for number, line in enumerate(lines.splitlines(), 1):
            submission = json.loads(line)
            name = submission["labels"][0]["value"] if submission["labels"] else "job"
            submission["jobId"] = re.sub(r"[^A-Za-z0-9._-]", "-", f"{name}.{number}")
            jobs.append(Job(submission))
        return jobs

    def submit(self):
        url = (
            f"amqp://{self.drover.rabbit.user}:{self.drover.rabbit.password}"
            f"@{servers.HOST}:{self.drover.rabbit.port}/{self.drover.name}"
        )
        edges = sum(job.edges for job in self.jobs)
        say(f"drover submit: {len(self.jobs)} jobs, {self.steps} steps, {edges} edges")
        submissions = "\n".join(json.dumps(job.submission) for job in self.jobs)
        self._command("submit", "--url", url, "-o", "id", "-", text=submissions)
        say("all are recorded in Redis: whatever happens now, they will be done")

    def _tell_steps(self, job):
        for entry in job.history[job.told :]:
            if entry[2] in ("dispatched", "done", "expired", "unstarted"):
                sign = {"dispatched": "→", "done": "✓"}.get(entry[2], f"! {entry[2]}")
                again = f", attempt {entry[4]}" if entry[4] != "1" else ""
                say(f"    {sign} {job.names[int(entry[3])]}{again}")
        job.told = len(job.history)

    def _murder(self):
        done = sum(job.done for job in self.jobs)
        if self.murders and done >= self.murders[0][0] * self.steps:
            _, victim, comfort = self.murders.pop(0)
            victim.kill()
            say(f"SIGKILL {victim.name}: {comfort} ({done} of {self.steps} steps are done)")

    def _look(self):
        running = [job for job in self.jobs if not job.settled]
        store = self.drover.store
        for job, (steps, phase) in zip(running, store.progress([job.id for job in running])):
            job.done = len(job.names) - steps
            job.settled = phase in ("PROCESSED", "ERROR")
            if job.settled or len(self.jobs) == 1:
                job.history = store.history(job.id)
            if len(self.jobs) == 1:
                self._tell_steps(job)
            if job.settled:
                say(f"{job.outcome()} {job.id}: {len(job.names)} steps in {job.seconds():.1f} s")
        self._murder()
        return all(job.settled for job in self.jobs)

    def follow(self):
        servers.wait_for(self._look, "the jobs to end", GIVE_UP_S)

    def summary(self):
        """Prints what came of it. Return: whether all is well."""
        good = [job for job in self.jobs if job.outcome() == "SUCCEEDED"]
        early = sum(len(job.too_early()) for job in self.jobs)
        requests = sum(job.count("dispatched") for job in self.jobs)
        expired = sum(job.count("expired") for job in self.jobs)
        unanswered = self.steps - sum(job.count("done") for job in self.jobs)
        say()
        print(f"  jobs done            {len(good)} of {len(self.jobs)}")
        print(f"  steps done           {self.steps - unanswered} of {self.steps}, each once")
        print(f"  begun too early      {early}")
        print(f"  requests             {requests}, leases expired {expired}")
        print("  killed               agent-1, scheduler-1")
        print(f"  logs                 {os.path.relpath(self.drover.directory)}")
        return len(good) == len(self.jobs) and early == 0 and unanswered == 0 and not self.murders


def settings():
    return {
        "agent": {"agent": {"concurrency": SLOTS, "actors": [cluster.BUILTIN]}},
        "supervisor": {"supervisor": {"period": "200ms", "lease": "2s"}},
    }


def run(files, scale):
    directory = wire.BUILD / "demo"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rabbit, redis = servers.Rabbit(), servers.Redis()
    say("starting a private RabbitMQ and Redis")
    for server in (rabbit, redis):
        server.begin()
    for server in (rabbit, redis):
        server.await_start()
    say(f"RabbitMQ on {servers.HOST}:{rabbit.port}, Redis on {servers.HOST}:{redis.port}")
    drover = cluster.Cluster(rabbit, redis, directory, settings())
    drover.start(schedulers=2, agents=2, supervisors=2)
    say("up: " + ", ".join(f"{d.name} ({d.pid})" for d in reversed(drover.daemons)))
    demo = Demo(drover, files, scale)
    demo.submit()
    demo.follow()
    good = demo.summary()
    complaints = drover.stop()
    for complaint in complaints:
        say(complaint)
    return 0 if good and not complaints else 1


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--workloads", help="run every dag/*.json below this folder")
    parser.add_argument("--scale", type=float, help="times each step's recorded runtime")
    options = parser.parse_args()
    folder = pathlib.Path(options.workloads) / "dag" if options.workloads else ROOT / "demo"
    files = sorted(folder.glob("*.json"))
    if not files:
        parser.error(f"there is no {folder}/*.json")
    default = SCALE if options.workloads else 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(files, default if options.scale is None else options.scale)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
