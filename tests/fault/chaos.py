#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything is killed, stopped and ended at random, servers included, while jobs of all kinds run

    chaos.py [--minutes N] [--jobs N] [--seed N]
    chaos.py --judge DIRECTORY          judges the evidence of an earlier run again

The jobs are submitted while faults are done for N minutes; then all must end in time, and the checker must find
nothing. Evidence and logs stay in the build folder, in chaos/. Ends with 0 where nothing is wrong.
"""

import argparse
import collections
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
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

FICKLE = pathlib.Path(__file__).resolve().parent / "fickle.py"


def say(text):
    print(f"chaos: {text}", flush=True)


class Fickle:
    """The process of fickle.py, handled like a daemon."""

    def __init__(self, c, directory, number):
        self.name, self.exit_codes = f"fickle-{number}", []
        self._command = [sys.executable, "-B", FICKLE, str(c.rabbit.port), c.name, directory]
        self._log = c.directory / f"{self.name}.log"
        self._process = None

    def start(self):
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL)

    def alive(self):
        return self._process.poll() is None

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.terminate()
        self._process.wait()

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)


class Victim(threading.Thread):
    """What happens to one process, or server, until it is told to be over."""

    def __init__(self, process, collector, seed, every_s, stop_s, over):
        super().__init__(daemon=True)
        self.process, self._collector, self._over = process, collector, over
        self._random = random.Random(f"{seed} {process.name}")
        self._every_s, self._stop_s = every_s, stop_s
        self.counts = collections.Counter()
        self.problems = []  # ends that nobody has brought about
        self.start()

    def run(self):
        while not self._over.wait(self._random.expovariate(1 / self._every_s)):
            act = self._random.choices([self._killed, self._stopped, self._ended], [5, 3, 2])[0]
            self._look()
            self.counts[act.__name__[1:]] += 1
            self._collector.fault(act.__name__[1:], self.process.name)
            act()
            self._collector.fault("again", self.process.name)
        self._look()

    def _look(self):
        """What has given up by itself is started again, as whoever runs it would."""
        if isinstance(self.process, cluster.Daemon) and not self.process.alive():
            self.process.await_stop()
            code = self.process.exit_codes.pop()
            self.problems.append(f"{self.process.name} ended by itself, with {code}")
            self.process.start()

    def _pause(self):
        self._over.wait(self._random.choice([0, 0.2, 1]))

    def _killed(self):
        self.process.kill()
        self._pause()
        self.process.start()

    def _ended(self):
        self.process.stop()
        self._pause()
        self.process.start()

    def _stopped(self):
        self.process.pause()
        self._over.wait(self._random.uniform(0.1, self._stop_s))
        self.process.resume()


class Chaos:
    def __init__(self, directory, minutes, jobs, seed):
        self.directory = directory
        self._minutes, self._n_jobs, self._seed = minutes, jobs, seed

    def run(self):
        with servers.Rabbit() as rabbit, servers.Redis() as store:
            where = self.directory / "evidence"
            settings = evidence.settings(where, concurrency=16)
            c = cluster.Cluster(rabbit, store, self.directory, settings, actor="effect")
            c.start(schedulers=2, agents=2, supervisors=2)
            try:
                return self._run(c, where)
            finally:
                c.stop()

    def _run(self, c, where):
        collector = evidence.Collector(c, where, {
            "journaled": ["effect", "fickle"], "scan_ms": 100, "lease_ms": 1000,
            "settle_within_ms": workload.SETTLE_WITHIN_MS,
        })
        fickle = [Fickle(c, where, number) for number in (1, 2)]
        try:
            for process in fickle:
                process.start()
            client = driver.Driver(c)
            problems = self._harm(c, [*c.daemons, *fickle], client, collector)
            began = time.monotonic()
            client.await_rest()
            say(f"{time.monotonic() - began:.0f} s after the last fault: {client.summary()}")
            collector.finish()
        finally:
            for process in fickle:
                process.kill()
        return problems, self._complaints(c) + [str(v) for v in checker.judge(where)]

    def _harm(self, c, processes, client, collector):
        """Return: what has ended by itself meanwhile."""
        over = threading.Event()
        victims = [Victim(p, collector, self._seed, 12, 8, over) for p in processes]
        victims += [Victim(p, collector, self._seed, 25, 4, over) for p in (c.rabbit, c.redis)]
        try:
            self._submit_all(client)
        finally:
            over.set()
            for victim in victims:
                victim.join()
        collector.fault("over")
        for victim in victims:
            say(f"{victim.process.name}: {dict(victim.counts)}")
        return [problem for victim in victims for problem in victim.problems]

    def _complaints(self, c):
        for daemon in c.daemons:
            daemon.begin_stop()
        for daemon in c.daemons:
            daemon.await_stop()
        return [complaint for daemon in c.daemons for complaint in daemon.complaints()]

    def _submit_all(self, client):
        """Spread over the time, each with its commands."""
        jobs = workload.Workload(random.Random(f"{self._seed} jobs"))
        began, length = time.monotonic(), self._minutes * 60
        told = passed = 0
        while passed < length:
            passed = time.monotonic() - began
            due = min(int(self._n_jobs * passed / (length * 0.9)), self._n_jobs)
            while len(client.submits) < due:
                client.submit(jobs.job(len(client.submits)))
            client.tick()
            if passed > told:
                told += 30
                say(f"{passed:.0f} s: {len(client.submits)} jobs submitted, {client.ended()} ended")
            time.sleep(0.05)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="of faults (10)")
    parser.add_argument("--jobs", type=int, default=2000, help="in that time (2000)")
    parser.add_argument("--seed", type=int, help="of jobs and faults (any)")
    parser.add_argument("--judge", metavar="DIR", help="evidence to be judged again")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    if options.judge:
        return checker.main([options.judge])
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    directory = wire.BUILD / "chaos"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    say(f"seed {seed}, {options.jobs} jobs, {options.minutes:g} minutes; logs in {directory}")
    chaos = Chaos(directory, options.minutes, options.jobs, seed)
    noted, wrong = chaos.run()
    for text in noted:
        say(f"noted: {text}")
    say(f"{len(wrong)} violations")
    print("\n".join(wrong[:200]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
