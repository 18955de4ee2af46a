#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons of an earlier build and of this one, side by side on one broker and one store

    beside.py [--from COMMIT] [--seed N]

Builds that commit from this repository; without the option it is the first one whose store
functions answer as those of this build do. Of each build a scheduler, a supervisor and an
agent work at the same time, in two runs on new servers: the earlier build loads the store functions
in the first run, this build in the second. A run is one of chaos.py without harm to the servers,
with commands that the `drover` of either build sends in turn, and with jobs that wait for a person
and jobs of a registered workflow as well. It fails for all that chaos fails for, and if

- a daemon logs an error, such as an answer of the store that it cannot read;
- the `drover` of one build says something else about a job than that of the other;
- a build has not called each store function (but RARE), or has done none of the work;
- no daemon of a build was killed, or the store functions were replaced.

Evidence and logs stay in the build folder, in beside/, and the output in beside/log. Exits with 0
if nothing is wrong.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import itertools
import pathlib
import random
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from google.protobuf import json_format

import chaos
import cluster
import driver
import evidence
import upgrade
import wire
import workload
from store_library import schema

EARLIER = "884d02f0"  # the first commit of build 50 of the store functions
MINUTES, JOBS = 1, 240  # of a run
BUILDS = {"earlier": upgrade.Earlier, "this": cluster.Daemon}
BUILD = re.compile(r"^local BUILD = (\d+)$", re.MULTILINE)
# `version` is called before failpoints are, and `look` by a dry run only.
FUNCTIONS = {name.split()[0] for name in schema.functions} - {"version", "look"}
# They are about requests that have waited for long in a scheduler, messages that a killed one has
# left, queues that are gone, and lost messages: in one run a build may have none.
RARE = {"unsent", "suspect", "defer_owed", "lost"}
CALLED = "\n".join(f"store.{name}.after=1*print(called)" for name in sorted(FUNCTIONS))
EXPECTED_ERRORS = ("poison", "stalled")
OTHER_QUEUE = "queue drover.task.fickle: 406 "  # the foreign agent declares it in its own way
COMMAND_AFTER_MS = 5000  # then a step that waits for a person is parked
WORKFLOW = """name = "beside"; version = %d; lock = "5s"; retry = { on_permanent = "park"; };
steps = (
    { name = "first"; actor = "effect"; revert = { action = "undo"; }; },
    { name = "second"; actor = "effect"; after = ["first"]; arguments = { deny = %s; };
      revert = { action = "undo"; arguments = { ms = 1; }; }; }
);
"""


class Workload(workload.Workload):
    """Includes jobs that wait for a person, and jobs of the registered workflow."""

    def __init__(self, seed):
        super().__init__(random.Random(f"{seed} jobs"), deadly=True)
        self._kinds.update({
            self.retried: 1, self.edited: 1, self.resolved: 1, self.migrated: 1,
            self.acknowledged: 1, self.quiet: 2, self.watched: 2,
        })

    def _parked(self, submit, **command):
        return workload.Job(submit, {"SUCCEEDED", workload.PARKED}, [(COMMAND_AFTER_MS, command)])

    def _parks(self, name, **how):
        """A job whose last step parks."""
        policy = wire.Policy()
        policy.CopyFrom(workload.POLICY)
        policy.on_permanent, policy.maximum_attempts = wire.RECOURSE_PARK, 2
        return wire.submit(name, self._steps(3, how=how, retry=policy))

    def retried(self, name):
        return self._parked(self._parks(name, fail=2), retry=wire.Retry())

    def edited(self, name):
        retry = wire.Retry(steps=["s2"], arguments=evidence.arguments(ms=5))
        return self._parked(self._parks(name, deny=True), retry=retry)

    def resolved(self, name):
        resolve = wire.Resolve(step="s2", state=wire.STATE_ACTIVE)
        return self._parked(self._parks(name, deny=True), resolve=resolve)

    def migrated(self, name):
        submit = wire.Submit(job_id=name, workflow="beside@1")
        return self._parked(submit, migrate=wire.Migrate(workflow="beside@2"))

    def acknowledged(self, name):
        job = self.saga(name)
        job.commands.append((COMMAND_AFTER_MS, {"acknowledge": wire.Acknowledge()}))
        return job

    def quiet(self, name):
        """The foreign agent has its request, and says nothing: the scheduler inspects the queue."""
        return workload.Job(wire.submit(name, [
            self._step("a", actor="fickle", how={"hang": 3}, lock_ms=1000, wait_ms=500)
        ]), {"SUCCEEDED"})

    def watched(self, name):
        """Begins later, and its client gets an event of each step."""
        job = self.chain(name)
        job.submit.start_at = int(time.time() * 1000) + 2000
        job.submit.events = wire.EVENTS_STEP_REPLY
        job.submit.labels.add(name="kind", value="watched")
        return job


def words_of(job_id, name, command):
    """The words that give `drover` a command."""
    words = [name.replace("_", "-"), job_id]
    if name == "set_desired":
        words.append("active" if command.desired == wire.STATE_ACTIVE else "disabled")
    elif name == "resolve":
        words += [command.step, "active"]
    elif name == "migrate":
        words.append(command.workflow)
    elif name == "retry":
        words += command.steps
        if command.HasField("arguments"):
            words += ["--input", command.arguments.data.decode()]
    return words


class Driver(driver.Driver):
    """Sends commands by the `drover` of either build in turn."""

    together = False  # the earlier build does not know Submits

    def __init__(self, c, folders):
        super().__init__(c)
        self._c, self._folders = c, itertools.cycle(folders)
        self._pool = concurrent.futures.ThreadPoolExecutor(8)
        self._sent, self._failed = itertools.count(1), []

    def _command(self, job, fields):
        if job.letters:  # it has no answer
            return super()._command(job, fields)
        number = f"drover-{next(self._sent)}"
        self._pool.submit(self._drover, number, next(self._folders), job.submit.job_id, fields)
        return number

    def _drover(self, number, folder, job_id, fields):
        began = evidence.now_ms()
        ((name, command),) = fields.items()
        done = self._c.drover(*words_of(job_id, name, command), "-o", "json", build=folder)
        answer = None
        try:
            answer = json_format.Parse(done.stdout, wire.Answer())
            control = wire.Control(job_id=job_id, command_id=answer.command_id, **fields)
            self._client.watch(control, began)
            self._client.watch(answer)
        except json_format.ParseError:
            self._failed.append(f"{job_id}: {name} by {folder}: {done.returncode} {done.stderr}")
        self._client.answers[number] = answer

    def wrong(self):
        return super().wrong() + self._failed


class Beside(chaos.Chaos):
    """One run. @first: the build that loads the store functions."""

    FAILPOINTS = {
        "agent": workload.FAILPOINTS["agent"],
        "scheduler": f"{workload.FAILPOINTS['scheduler']}\n{CALLED}",
        "supervisor": CALLED,
    }
    HARMS_SERVERS = False

    def __init__(self, directory, first, seed, say):
        super().__init__(directory, MINUTES, JOBS, seed, say)
        self._folders = [upgrade.Earlier.folder, wire.BUILD]
        self._builds = sorted(BUILDS, key=lambda name: name != first)
        self._libraries = []

    # --- the cluster ---

    def _settings(self, where):
        workflows = self.directory / "workflows"
        workflows.mkdir()
        for version, deny in ((1, "true"), (2, "false")):
            (workflows / f"beside{version}.cfg").write_text(WORKFLOW % (version, deny))
        return cluster.merged(super()._settings(where), {
            "scheduler": {"scheduler": {"workflows": str(workflows)}},
            "supervisor": {"supervisor": {"sweep": "5s"}},
        })

    def _start(self, c):
        c.start(0, 0, 0)
        for build in self._builds:
            cluster.Daemon = BUILDS[build]
            c.add_scheduler()
            c.add_agent()
            c.add_supervisor()
            c.await_ready()
            self._libraries.append(self._library(c))

    @staticmethod
    def _library(c):
        (library,) = c.store.redis.function_list(library="drover1", withcode=True)
        return dict(zip(library[::2], library[1::2]))["library_code"]

    def _driver(self, c):
        return Driver(c, self._folders)

    def _workload(self):
        return Workload(self._seed)

    # --- at rest ---

    def _wrong(self, c, client, victims):
        return (self._replaced(c) + self._unused(c, victims) + self._errors(c)
                + self._differences(c, client.jobs))

    def _replaced(self, c):
        """Only a newer build replaces the store functions, and at its start."""
        expected = max(self._libraries, key=lambda text: int(BUILD.search(text)[1]))
        digest = hashlib.sha1(expected.encode()).hexdigest()[:8]
        self._say(f"store functions: build {BUILD.search(expected)[1]}, digest {digest}")
        same = expected == self._libraries[-1] == self._library(c)
        return [] if same else ["the store functions were replaced"]

    def _unused(self, c, victims):
        """What a build has not done."""
        entries = (self.directory / "evidence" / "history.log").read_text().splitlines()
        ended_by = collections.Counter(entry.rpartition(" ")[2] for entry in entries)
        wrong = []
        for name, build in BUILDS.items():
            daemons = [daemon for daemon in c.daemons if type(daemon) is build]
            called = {function for function in FUNCTIONS
                      if any(daemon.hits(f"store.{function}.after") for daemon in daemons)}
            done = {
                "jobs created": sum(len(daemon.records("job_created")) for daemon in daemons),
                "steps ended": sum(ended_by[daemon.name] for daemon in daemons),
                "kills": sum(victim.counts["killed"] for victim in victims
                             if victim.process in daemons),
            }
            figures = ", ".join(f"{count} {what}" for what, count in done.items())
            self._say(f"{name} build: {figures}, {len(called)} store functions called")
            wrong += [f"{name} build: no {what}" for what, count in done.items() if not count]
            wrong += [f"{name} build: {function} was not called"
                      for function in sorted(FUNCTIONS - RARE - called)]
        return wrong

    @staticmethod
    def _errors(c):
        return [f"{daemon.name}: {record}" for daemon in c.daemons for record in daemon.records()
                if record["severity_text"] == "ERROR"
                and record["event.name"] not in EXPECTED_ERRORS
                and not record.get("why", "").startswith(OTHER_QUEUE)]

    def _differences(self, c, jobs):
        """What the builds do not say alike: `drover`, with the answer of a scheduler and with that
        of the store, and a dry run of a supervisor."""
        of_kinds = {job.kind: job_id for job_id, job in reversed(jobs.items())}.values()
        questions = [("list",), ("list", "--needs", "attention"), ("list", "-l", "kind=watched")]
        questions += [(word, job_id) for job_id in of_kinds for word in ("get", "history", "why")]
        questions += [(*question, "--from-store") for question in questions]
        questions += [("get", job_id, "--data") for job_id in of_kinds]
        questions += [("workflow", "list"), ("workflow", "show", "beside@1")]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            wrong = [text for text in pool.map(lambda words: self._asked(c, words), questions)
                     if text]
        self._say(f"{len(questions)} questions, {len(wrong)} with different answers")
        dry_runs = [self._dry_run(c, build) for build in BUILDS.values()]
        if dry_runs[0] != dry_runs[1] or dry_runs[0][0] != 0:
            wrong.append(f"dry runs: {dry_runs[0]} OR {dry_runs[1]}")
        return wrong

    @staticmethod
    def _dry_run(c, build):
        cluster.Daemon = build
        return c.once("--once", "--dry-run")

    def _asked(self, c, words):
        """Asks twice, because either scheduler may answer. Return: the difference, or None."""
        said = []
        for folder in self._folders * 2:
            done = c.drover(*words, "-o", "json", build=folder)
            text = re.sub(r'"now":"?\d+"?,?', "", done.stdout)
            said.append((done.returncode, text))
        if len(set(said)) == 1:
            return None
        return f"{' '.join(words)}: " + " OR ".join(f"{code} {text}" for code, text in set(said))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="commit", default=EARLIER,
                        help=f"the commit of the earlier build ({EARLIER})")
    parser.add_argument("--seed", type=int, help="of jobs and faults (any)")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    directory = driver.empty_folder(wire.BUILD / "beside")
    say = driver.reporter("beside", directory)
    say(f"seed {seed}, from {options.commit}, two runs of {JOBS} jobs; logs in {directory}")
    upgrade.Earlier.folder = upgrade.built(
        options.commit, wire.BUILD / "upgrade" / options.commit, say,
        ["agent/drover-keep", "cli/drover"])
    total = 0
    for first in BUILDS:
        say(f"{first} build loads the store functions")
        where, began = directory / first, time.monotonic()
        where.mkdir()
        wrong = Beside(where, first, seed, say).run()
        for text in wrong[:chaos.SHOWN]:
            say(text)
        say(f"{len(wrong)} violations in {time.monotonic() - began:.0f} s")
        total += len(wrong)
    say(f"{2 * JOBS} jobs, {total} violations")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
