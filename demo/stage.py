# SPDX-License-Identifier: Apache-2.0
"""What both demos stand on: a private RabbitMQ and Redis, a whole Drover on them, and a clock"""

import os
import pathlib
import shutil
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import cluster  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

START = time.monotonic()


def say(text=""):
    print(f"[{time.monotonic() - START:5.1f} s] {text}" if text else "", flush=True)


def folder():
    """An empty one for logs and data; it stays until the next demo."""
    directory = wire.BUILD / "demo"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def start(directory, settings, actor="demo"):
    """Two of each daemon, each connected and consuming; all of it ends with this process."""
    rabbit, redis = servers.Rabbit(), servers.Redis()
    say("starting a private RabbitMQ and Redis")
    for server in (rabbit, redis):
        server.begin()
    for server in (rabbit, redis):
        server.await_start()
    say(f"RabbitMQ on {servers.HOST}:{rabbit.port}, Redis on {servers.HOST}:{redis.port}")
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

    def _under_way(self):
        """Steps that are with an agent, or in its queue."""
        store = self.drover.store
        records = [record for job in store.jobs() for record in store.steps(job).values()]
        return sum(record[2] == "R" for record in records)

    def look(self, done, total):
        while self._to_come and done >= self._to_come[0][0] * total:
            _, victim, comfort = self._to_come.pop(0)
            victim.kill()
            say(f"SIGKILL {victim.name}, after {done} of {total} {self.what}")
            say(f"    {self._under_way()} steps are under way; {comfort}")


def end(drover):
    """Stops the daemons as an operator would. Return: whether all went well."""
    complaints = drover.stop()
    for complaint in complaints:
        say(complaint)
    print(f"  logs                 {os.path.relpath(drover.directory)}")
    return not complaints
