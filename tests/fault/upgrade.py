#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From an earlier build to this one, with jobs in flight

    upgrade.py [--from COMMIT]

Builds that commit (d810004) from this repository, starts all its daemons on real servers, and
submits jobs: some run, some wait in the queue of an actor without agents, one is held by a foreign
agent, some begin later, some are parked. Then it follows docs/OPERATIONS.md: checks that this build
refuses their configurations, were the servers on another machine, until these allow clear text;
stops the schedulers and supervisors, starts those of this build, and replaces the agents last,
while the jobs go on and more are submitted. All have to succeed, there may be no dead letter, and
no daemon may log an error. The output stays in the build folder, in upgrade/log. Exits with 0 if
nothing is wrong.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cluster
import servers
import wire

RUNNING, QUEUED = 20, 10
ELSEWHERE = "192.0.2.1"  # for examples (RFC 5737): no machine has it
PARKS = wire.Policy(on_permanent=wire.RECOURSE_PARK)


def built(commit, directory, say, more=()):
    """The build folder of that commit, made if it does not exist. @more: programs besides the
    daemons."""
    source, folder = directory / "source", directory / "build"
    programs = ["scheduler/drover-scheduler", "agent/drover-agent", "supervisor/drover-supervisor",
                *more]
    if not all((folder / program).exists() for program in programs):
        say(f"builds {commit}")
        shutil.rmtree(source, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        source.mkdir(parents=True)
        archive = subprocess.run(["git", "-C", wire.ROOT, "archive", commit], check=True,
                                 capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
        with open(directory / "build.log", "wb") as log:
            for command in (["meson", "setup", folder, source],
                            ["ninja", "-C", folder, *programs]):
                subprocess.run(command, check=True, stdout=log, stderr=log)
    return folder


class Earlier(cluster.Daemon):
    """A daemon of that build, which does not know all settings of this one."""

    folder = None

    def _command(self):
        program = self.folder / self.role / f"drover-{self.role}"
        return ["env", "-u", "DROVER_SECURITY__DUMPABLE", program, "--config", self.config]


def checked(daemon, text):
    """What this build says of a configuration: its exit status and its errors."""
    path = daemon.config.with_suffix(".elsewhere")
    path.write_text(text)
    program = wire.BUILD / daemon.role / f"drover-{daemon.role}"
    done = subprocess.run([program, "--check-config", "--config", path], capture_output=True,
                          text=True, env=cluster.own_environment())
    return done.returncode, done.stderr


def clear_text_refused(daemon):
    """The configuration of a daemon, as if the servers were on another machine, is refused until
    each of the groups has what the refusal says. Yields what is wrong."""
    text = daemon.config.read_text().replace(f'"{servers.HOST}"', f'"{ELSEWHERE}"')
    for group in re.findall(r"^(rabbitmq|redis) = ", text, re.MULTILINE):
        status, why = checked(daemon, text)
        line = f"add the line insecure = true; to the group {group}"
        if status != 2 or line not in why:
            yield f"{daemon.name} without {group}.insecure: {status} {why}"
        text = text.replace(f"{group} = {{\n", f"{group} = {{\n    insecure = true;\n")
    status, why = checked(daemon, text)
    if status != 0:
        yield f"{daemon.name} with insecure: {status} {why}"


class Upgrade:
    def __init__(self, c, say):
        self.c, self.say, self.jobs, self.refusals = c, say, [], []

    def submit(self, job, steps):
        self.jobs.append(job)
        self.c.client.submit(wire.submit(job, steps))
        self.c.client.receipt(job)

    def work(self, name, n, milliseconds=500):
        """Jobs that take a while in the agents of actor demo, two of which do eight steps at a
        time."""
        for i in range(n):
            arguments = wire.payload(str(milliseconds).encode(), "application/json")
            self.submit(f"{name}-{i}", wire.chain(5, action="sleep", arguments=arguments))

    def begin(self):
        c = self.c
        c.start(schedulers=2, agents=2, supervisors=2)
        c.await_ready()
        self.work("running", RUNNING)
        self.submit("held", [wire.step("a", "hand"), wire.step("b", "demo", after=["a"])])
        self.held = c.client.consume_step("hand")
        for i in range(QUEUED):
            self.submit(f"queued-{i}",
                        [wire.step("a", "hand"), wire.step("b", "demo", after=["a"])])
        self.jobs.append("later")
        submit = wire.submit("later", wire.chain(2))
        submit.start_at = int(time.time() * 1000) + 20000
        c.client.submit(submit)
        self.submit("parked", [wire.step("a", "demo", action="nothing-like-it", retry=PARKS)])
        servers.wait_for(lambda: c.client.status("parked").steps[0].state == wire.STEP_STATE_PARKED,
                         "a parked step")
        servers.wait_for(lambda: c.client.queue("drover.task.hand")[0] == QUEUED,
                         "requests in the queue")

    def replace(self, group):
        """Replaces daemons by those of this build, under the same names; all stop first."""
        for daemon in group:
            daemon.begin_stop()
        for daemon in group:
            daemon.await_stop()
        for daemon in group:
            daemon.__class__ = cluster.Daemon
            daemon.start()
        for daemon in group:
            servers.wait_for(daemon.up, f"{daemon.name} to be up", 60)

    def reply_as_before(self, request):
        """Replies by the exchange that agents used then."""
        reply = wire.StepReply(job_id=request.job_id, step=request.step, token=request.token,
                               achieved=request.desired)
        self.c.client.publish("drover.replies", "reply", wire.Replies(replies=[reply]))

    def run(self):
        c = self.c
        self.say(f"{len(self.jobs)} jobs of before, {len(c.store.jobs())} in the store")
        if not c.rabbit.tls:
            for daemon in (c.schedulers[0], c.supervisors[0], c.agents[0]):
                self.refusals += clear_text_refused(daemon)
            self.say("this build wants to be told that clear text may leave the machine")
        self.replace(c.schedulers + c.supervisors)
        self.say("schedulers and supervisors are of this build")
        self.reply_as_before(self.held)
        self.work("between", RUNNING)
        for _ in range(QUEUED // 2):
            self.reply_as_before(c.client.consume_step("hand"))
        self.replace(c.agents)
        self.say("agents are of this build")
        self.work("after", RUNNING)
        for _ in range(QUEUED - QUEUED // 2):
            self.reply_as_before(c.client.consume_step("hand"))
        resolve = wire.Resolve(step="a", state=wire.STATE_ACTIVE)
        assert c.client.control("parked", resolve=resolve).code == wire.ANSWER_CODE_DONE
        return self.wrong()

    def wrong(self):
        out = [*self.refusals]
        for job in self.jobs:
            event = self.c.client.settled(job, 120)
            if event.outcome != wire.OUTCOME_SUCCEEDED:
                out.append(f"{job}: {wire.Outcome.Name(event.outcome)}")
        if (dead := self.c.client.queue("drover.dead")[0]) > 0:
            out.append(f"{dead} dead letters, the first: {self.c.client.dead_letter()}")
        for job in self.jobs:
            if expired := self.c.store.events(job, "expired"):
                out.append(f"{job}: {expired}")
        out += [f"{daemon.name}: {text}" for daemon in self.c.daemons
                for text in daemon.complaints()]
        self.say(f"{len(self.jobs)} jobs, {len(out)} wrong")
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--from", dest="commit", default="d810004",
                        help="the commit to begin with (d810004)")
    options = parser.parse_args()
    directory = wire.BUILD / "upgrade"
    directory.mkdir(exist_ok=True)
    log = open(directory / "log", "w", encoding="utf-8")

    def say(text):
        print(text, flush=True)
        print(text, file=log, flush=True)

    Earlier.folder = built(options.commit, directory / options.commit, say)
    cluster.Daemon, this = Earlier, cluster.Daemon
    with servers.Rabbit() as rabbit, servers.Redis() as store:
        shutil.rmtree(directory / "daemons", ignore_errors=True)
        (directory / "daemons").mkdir()
        c = cluster.Cluster(rabbit, store, directory / "daemons")
        try:
            upgrade = Upgrade(c, say)
            upgrade.begin()
            cluster.Daemon = this
            wrong = upgrade.run()
        finally:
            c.stop()
    for text in wrong:
        say(f"WRONG {text}")
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
