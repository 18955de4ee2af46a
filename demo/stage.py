# SPDX-License-Identifier: Apache-2.0
"""What both demos use: a private RabbitMQ and Redis, a complete Drover on them, and a clock"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import cluster  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

FOLDER = wire.BUILD / "demo"
START = time.monotonic()


class CheckFailed(Exception):
    """A check of the demo has failed."""


def say(text):
    print(f"[{time.monotonic() - START:5.1f} s] {text}", flush=True)


def typed(*words, comment=""):
    """Prints the command that a person would type to do what follows."""
    say("$ " + shlex.join(map(str, words)) + (f"    # {comment}" if comment else ""))


def check(good, text):
    """Ends the demo if the check has failed."""
    if not good:
        raise CheckFailed(text)
    say(f"checked: {text}")


def drover(url, *words, text=None):
    """Runs the command `drover` with this text as input; returns its output."""
    done = subprocess.run(
        [str(wire.BUILD / "cli" / "drover"), *map(str, words)],
        env={**cluster.command_environment(), "DROVER_URL": url},
        input=text,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CheckFailed(f"drover {words[0]} succeeds (it exits with {done.returncode})")
    return done.stdout


def folder():
    """Makes an empty folder for logs and data; it is kept until the next demo."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    return FOLDER


def say_logs():
    say(f"logs are in {os.path.relpath(FOLDER)}")


def start(directory, settings, actor="demo"):
    """Starts two of each daemon, and waits until all consume. All of them end with this process."""
    rabbit, redis = servers.Rabbit(), servers.Redis()
    say("starting a private RabbitMQ and Redis")
    for server in (rabbit, redis):
        server.begin()
    for server in (rabbit, redis):
        server.await_start()
    fast = {"supervisor": {"supervisor": {"period": "200ms", "lease": "2s"}}}
    drover = cluster.Cluster(rabbit, redis, directory, {**fast, **settings}, actor)
    drover.start(schedulers=2, agents=2, supervisors=2)
    say("up: " + ", ".join(f"{d.name} ({d.pid})" for d in reversed(drover.daemons)))
    return drover


class Kills:
    """Ends an agent, and later a scheduler, with SIGKILL, for good."""

    def __init__(self, drover, what):
        """what: the unit of progress."""
        self.drover, self.what = drover, what
        self._planned = [
            (0.25, drover.agents[0], "the broker delivers its requests to agent-2"),
            (0.5, drover.schedulers[0], "scheduler-2 goes on without it: all state is in Redis"),
        ]

    def advance(self, done, total):
        while self._planned and done >= self._planned[0][0] * total:
            _, victim, explanation = self._planned.pop(0)
            typed("kill", "-9", victim.pid, comment=f"{victim.name}; {done} of {total} {self.what}")
            victim.kill()
            say(explanation)


def end(drover):
    """Stops the daemons as an operator would. Returns whether all went well."""
    complaints = drover.stop()
    for complaint in complaints:
        say(complaint)
    say_logs()
    return not complaints
