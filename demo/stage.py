# SPDX-License-Identifier: Apache-2.0
"""What both demos stand on: a private RabbitMQ and Redis, a whole Drover on them, and a clock"""

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


class NotSo(Exception):
    """Something that the demo shows is not as it says."""


def say(text):
    print(f"[{time.monotonic() - START:5.1f} s] {text}", flush=True)


def typed(*words, comment=""):
    """Tells what a person would type to have done what is done next."""
    say("$ " + shlex.join(map(str, words)) + (f"    # {comment}" if comment else ""))


def check(good, text):
    """The demo ends here where @text is not so."""
    if not good:
        raise NotSo(text)
    say(f"checked: {text}")


def drover(url, *words, text=None):
    """Runs the command line. @text: its input. Return: what it says."""
    done = subprocess.run(
        [str(wire.BUILD / "cli" / "drover"), *map(str, words)],
        env={**cluster.own_environment(), "DROVER_URL": url},
        input=text,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NotSo(f"drover {words[0]} succeeds (it exits with {done.returncode})")
    return done.stdout


def folder():
    """An empty one for logs and data; it stays until the next demo."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    return FOLDER


def say_logs():
    say(f"logs are in {os.path.relpath(FOLDER)}")


def start(directory, settings, actor="demo"):
    """Two of each daemon, each connected and consuming; all of it ends with this process."""
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


class Murders:
    """An agent, and later a scheduler, are ended with SIGKILL and never come back."""

    def __init__(self, drover, what):
        """@what: what progress is counted in."""
        self.drover, self.what = drover, what
        self._to_come = [
            (0.25, drover.agents[0], "what it was doing, the broker gives to agent-2"),
            (0.5, drover.schedulers[0], "scheduler-2 knows as much as it did: all is in Redis"),
        ]

    def look(self, done, total):
        while self._to_come and done >= self._to_come[0][0] * total:
            _, victim, comfort = self._to_come.pop(0)
            typed("kill", "-9", victim.pid, comment=f"{victim.name}; {done} of {total} {self.what}")
            victim.kill()
            say(comfort)


def end(drover):
    """Stops the daemons as an operator would. Return: whether all went well."""
    complaints = drover.stop()
    for complaint in complaints:
        say(complaint)
    say_logs()
    return not complaints
