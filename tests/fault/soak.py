#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long load, and a daemon killed each minute: nothing may grow

    soak.py [--minutes N] [--share N] [--seed N]

First jobs of all kinds are submitted until the schedulers keep as many definitions as they ever
will. Then the program finds out how many jobs a second this machine completes, and submits a share
of that (70 %) for N minutes (20). Jobs of the other kinds go on during both, and the checker checks
them. One daemon of each role is killed in turn, one a minute; the others run through the whole
time, and are measured: memory, descriptors, threads. So are the servers: keys in the store, which
forgets jobs after a minute, its memory, and messages in queues. A figure of the last quarter may be
only slightly above that of the second. Logs, samples and evidence stay in the build folder, in
soak/, and the output in soak/log. Exits with 0 if nothing has grown and nothing is wrong.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import checker
import cluster
import driver
import evidence
import servers
import wire
import workload

LOAD = wire.BUILD / "bench" / "load"
STEPS = 5
WINDOW = 200
RETENTION_S = 60
JUDGED_A_SECOND = 2
# jobs of other kinds, each with a definition of its own: more than a scheduler keeps in memory
FILLING = 2000
FILLING_A_SECOND = 20  # jobs a second, before anything is compared
SAMPLE_S = 5
KILL_S = 60
# jobs for measuring the speed, with a store that holds as much as in the long run
TRIAL_JOBS = 60_000
SHOWN = 50
# How far a figure may be above its earlier value: a share of it, and an absolute amount.
SLACK = {"rss_kib": (0.10, 1024), "fds": (0, 2), "threads": (0, 0), "keys": (0.15, 500),
         "store_mib": (0.20, 20),
         "waiting": (1.0, 2000)}
LEAST = ("fds", "threads")
QUEUES = ("drover.submit", "drover.replies", "drover.control", "drover.expired", "drover.dead",
          "drover.task.bench", "drover.task.effect")


def sample_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {line.split(":")[0]: line.split(":")[1].split()[0]
              for line in status if line.endswith("kB")
              or line.startswith("Threads")}
    return {"rss_kib": int(fields["RssAnon"]), "threads": int(fields["Threads"]),
            "fds": len(os.listdir(f"/proc/{pid}/fd"))}


class Load:
    """bench/load, in the cluster's own vhost."""

    def __init__(self, c, prefix, jobs, rate=0):
        environment = {**os.environ, "DROVER_TEST_AMQP_PORT": str(c.rabbit.port),
                       "DROVER_TEST_AMQP_VHOST": c.name}
        words = ["--jobs", jobs, "--window", WINDOW if not rate else 20 * WINDOW, "--steps", STEPS,
                 "--prefix", prefix]
        words += ["--rate", rate] if rate else []
        self._process = subprocess.Popen([LOAD, *map(str, words)], env=environment,
                                         stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)

    def over(self):
        return self._process.poll() is not None

    def result(self):
        """Return: its figures, or its complaint."""
        out, complaint = self._process.communicate()
        return json.loads(out) if self._process.returncode == 0 else complaint.strip()

    def end(self):
        if not self.over():
            self._process.kill()


class Soak:
    def __init__(self, directory, options, seed, say):
        self._directory, self._options, self._say = directory, options, say
        self._jobs = workload.Workload(random.Random(f"{seed} jobs"), strangers=False,
                                       steered=False)
        self._samples = []  # (seconds, name, figures)
        self._file = open(directory / "samples", "w", encoding="utf-8")

    def run(self):
        """Return: what is wrong, one text each."""
        with servers.Rabbit() as rabbit, servers.Redis() as store:
            where = self._directory / "evidence"
            settings = evidence.settings(where, concurrency=64)
            settings["agent"]["agent"]["actors"].append({"name": "bench", "handler": "builtin"})
            settings["supervisor"] = {"supervisor": {"retention": f"{RETENTION_S}s"}}
            c = cluster.Cluster(rabbit, store, self._directory, settings, "effect")
            c.start(schedulers=2, agents=2, supervisors=2)
            try:
                return self._run(c, where)
            finally:
                c.stop()

    def _run(self, c, where):
        collector = evidence.Collector(c, where, {
            "forgets": True, "scan_ms": 100, "lease_ms": 1000,
            "settle_within_ms": workload.SETTLE_WITHIN_MS,
        }, trace=False, alone=False)
        client = driver.Driver(c)
        self._fill(client)
        figures, _ = self._during(Load(c, "trial", TRIAL_JOBS), c, client)
        if isinstance(figures, str):
            return [f"the trial: {figures}"]
        rate = max(int(figures["steps_per_second"] / STEPS * self._options.share / 100), 1)
        seconds = int(self._options.minutes * 60)
        self._say(f"at most {figures['steps_per_second']:.0f} steps a second; "
                  f"{rate} jobs of {STEPS} from now on")
        figures, killed = self._during(Load(c, "load", rate * seconds, rate), c, client, collector)
        client.await_rest()
        client.note_ends()
        self._say(f"load: {figures}; {killed} kills")
        for line in client.summary():
            self._say(line)
        wrong = [f"load: {figures}"] if isinstance(figures, str) else []
        wrong += self._forgotten(c) + self._growth(c)
        collector.finish()
        return wrong + client.wrong() + [str(v) for v in checker.judge(where)]

    def _fill(self, client):
        """Lets everything that grows up to a limit of its own reach it."""
        began, due_sample = time.monotonic(), 0
        while len(client.jobs) < FILLING:
            passed = time.monotonic() - began
            if passed >= due_sample:
                due_sample += SAMPLE_S
                client.note_ends()
            if len(client.jobs) < passed * FILLING_A_SECOND:
                client.submit(self._jobs.job(len(client.jobs)))
            else:
                client.tick()
                time.sleep(0.01)

    def _during(self, load, c, client, collector=None):
        """What goes on besides a load; with a collector, which records the kills, and samples.

        Return: the figures of the load, and the number of kills.
        """
        victims = itertools.cycle([c.schedulers[0], c.agents[0], c.supervisors[0]])
        began, had, killed, sampled, due_report = time.monotonic(), len(client.jobs), 0, 0, 0
        try:
            while not load.over():
                passed = time.monotonic() - began
                while len(client.jobs) - had < passed * JUDGED_A_SECOND:
                    client.submit(self._jobs.job(len(client.jobs)))
                client.tick()
                if passed >= sampled:
                    sampled += SAMPLE_S
                    client.note_ends()
                    if collector:
                        self._sample(c, passed)
                if collector and passed >= (killed + 1) * KILL_S:
                    killed += 1
                    victim = next(victims)
                    collector.fault("killed", victim.name)
                    victim.kill()
                    victim.start()
                    collector.fault("again", victim.name)
                if collector and passed >= due_report:
                    due_report += 60
                    self._say(f"{passed:.0f} s: {self._last()}")
                time.sleep(0.05)
        finally:
            load.end()
        return load.result(), killed

    # --- growth ---

    def _sample(self, c, passed):
        info = c.store.redis.info("memory")
        waiting = {queue: c.client.queue(queue)[0] for queue in QUEUES}
        now = {daemon.name: sample_of(daemon.pid) for daemon in self._lasting(c)}
        now["store"] = {"keys": c.store.redis.dbsize(), "store_mib": info["used_memory"] >> 20}
        now["queues"] = {"waiting": sum(waiting.values())}
        for name, figures in now.items():
            self._samples.append((passed, name, figures))
        self._file.write(json.dumps({"at": round(passed, 1), **now, "queues": waiting}) + "\n")
        self._file.flush()

    @staticmethod
    def _lasting(c):
        return c.schedulers[1:] + c.agents[1:] + c.supervisors[1:]

    def _last(self):
        end = self._samples[-1][0]
        return ", ".join(f"{name} {' '.join(f'{key} {value}' for key, value in figures.items())}"
                         for at, name, figures in self._samples if at == end)

    def _growth(self, c):
        """Each figure in the second and in the last quarter."""
        end = self._samples[-1][0]
        wrong = []
        for name in dict.fromkeys(name for _, name, _ in self._samples):
            mine = [(at, figures) for at, n, figures in self._samples if n == name]
            for key in mine[0][1]:
                early = sorted(f[key] for at, f in mine if end / 4 <= at < end / 2)
                late = sorted(f[key] for at, f in mine if at >= end * 3 / 4)
                # a busy process has more or fewer descriptors and threads; a leak raises even the
                # lowest figure
                before, after = early[len(early) // 2], late[len(late) // 2]
                if key in LEAST:
                    before, after = early[0], late[0]
                share, more = SLACK[key]
                grown = after > before * (1 + share) + more
                self._say(f"{name} {key}: {before}, later {after}{' GROWN' if grown else ''}")
                if grown:
                    wrong.append(f"{name}: {key} has grown from {before} to {after}")
        return wrong

    def _forgotten(self, c):
        """After its retention nothing of the load is left, and no message waits."""
        wrong = []
        for what, condition in (
            ("jobs of the load are left",
             lambda: not any(j.startswith(("load-", "trial-")) for j in c.store.jobs())),
            ("messages wait", lambda: not any(c.client.queue(queue)[0] for queue in QUEUES)),
        ):
            try:
                servers.wait_for(condition, f"an end: {what}", 4 * RETENTION_S)
            except servers.ServerError as error:
                wrong.append(str(error))
        return wrong


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20, help="of load (20)")
    parser.add_argument("--share", type=float, default=70,
                        help="of what the machine takes, in percent (70)")
    parser.add_argument("--seed", type=int, help="of the jobs that are judged (any)")
    options = parser.parse_args(arguments)
    if options.minutes < 2:
        parser.error(
            "--minutes: at least 2, or nothing can be compared; "
            "and it takes 5 until the store has to forget"
        )
    return options


def main(arguments):
    options = parse(arguments)
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    directory = driver.empty_folder(wire.BUILD / "soak")
    say = driver.reporter("soak", directory)
    say(f"seed {seed}, {options.minutes:g} minutes at {options.share:g} %; logs in {directory}")
    wrong = Soak(directory, options, seed, say).run()
    for text in wrong[:SHOWN]:
        say(text)
    say(f"{len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
