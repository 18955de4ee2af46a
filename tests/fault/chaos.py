#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills, stops and ends every process at random, servers included, while jobs of all kinds run

    chaos.py [--minutes N] [--jobs N] [--seed N]
    chaos.py --judge DIRECTORY          checks the evidence of an earlier run again

The jobs are submitted during N minutes of faults; some of them kill the processes that read them.
Then all must end in time, each as its kind may, no process may have ended by itself except for a
documented reason, and the checker must find nothing. Evidence and logs stay in the build folder, in
chaos/, and the output in chaos/log. Exits with 0 if nothing is wrong.
"""

import argparse
import collections
import pathlib
import random
import signal
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

SHOWN = 200
FICKLE = pathlib.Path(__file__).resolve().parent / "fickle.py"


INSPECT_S = 0.2
# What a daemon that ends by itself must have logged: exit code -> event (OPERATIONS, Health;
# workload.FAILPOINTS).
EXCUSES = {1: "stalled", cluster.CRASHED: "failpoint"}


class Fickle(cluster.Daemon):
    """The process of fickle.py."""

    def __init__(self, c, directory, number):
        super().__init__("fickle", f"fickle-{number}", c.directory, {})
        self._arguments = [str(c.rabbit.port), c.name, directory]

    def _command(self):
        return [sys.executable, "-B", FICKLE, *self._arguments]


class Victim(threading.Thread):
    """The faults of one process or server until over() is called. The process is started again
    until done(), as a service manager would do."""

    def __init__(self, process, collector, seed, every_s, stop_s):
        super().__init__(daemon=True)
        self.process, self._collector = process, collector
        self._random = random.Random(f"{seed} {process.name}")
        self._every_s, self._stop_s = every_s, stop_s
        self._over, self._done = threading.Event(), threading.Event()
        self.spared = threading.Event()  # no further fault strikes it
        self.counts = collections.Counter()
        self.wrong = []
        self.start()

    def run(self):
        try:
            self._harm()
            self.spared.set()
            while not self._done.wait(INSPECT_S):
                self._inspect()
            self._inspect()
        except Exception as error:
            self.wrong.append(f"{self.process.name}: {error!r}")
        finally:
            self.spared.set()

    def over(self):
        self._over.set()

    def done(self):
        self._over.set()  # an interrupted run has not called over()
        self._done.set()
        self.join()

    def _harm(self):
        due = self._next()
        while not self._over.wait(INSPECT_S):
            self._inspect()
            if time.monotonic() >= due:
                act = self._random.choices([self._killed, self._stopped, self._ended], [5, 3, 2])[0]
                self.counts[act.__name__[1:]] += 1
                self._collector.fault(act.__name__[1:], self.process.name)
                act()
                self._collector.fault("again", self.process.name)
                due = self._next()

    def _next(self):
        return time.monotonic() + self._random.expovariate(1 / self._every_s)

    def _inspect(self):
        """Restarts the process if it has ended by itself."""
        raise NotImplementedError

    def _judge(self, asked=()):
        """Checks how it ended, if it was not killed; @asked: the exit codes that are expected."""

    def _pause(self):
        self._over.wait(self._random.choice([0, 0.2, 1]))

    def _killed(self):
        self.process.kill()
        self._judge()
        self._pause()
        self.process.start()

    def _ended(self):
        self.process.stop()
        self._judge((0, -signal.SIGTERM))  # the latter before it has installed its handler
        self._pause()
        self.process.start()

    def _stopped(self):
        self.process.pause()
        self._over.wait(self._random.uniform(0.1, self._stop_s))
        self.process.resume()


class VictimDaemon(Victim):
    def __init__(self, *args):
        # event -> how many logged events of this kind have excused an end
        self._excused = collections.Counter()
        super().__init__(*args)

    def _inspect(self):
        if not self.process.alive():
            self.process.await_stop()
            self._judge()
            self.process.start()

    def _judge(self, asked=()):
        for code in self.process.exit_codes:
            event = EXCUSES.get(code)
            if code in asked:
                continue
            if event and len(self.process.records(event)) > self._excused[event]:
                self._excused[event] += 1
                self.counts[event] += 1
            else:
                self.wrong.append(
                    f"{self.process.name} ended by itself, with {code}: see {self.process.log}"
                )
        self.process.exit_codes.clear()


class VictimServer(Victim):
    def _inspect(self):
        if not self.process.process.alive():
            self.wrong.append(f"{self.process.name} ended by itself:\n{self.process.log_tail()}")
            self.process.kill()
            self.process.start()


class Chaos:
    FAILPOINTS = workload.FAILPOINTS
    HARMS_SERVERS = True

    def __init__(self, directory, minutes, jobs, seed, say):
        self.directory = directory
        self._minutes, self._n_jobs, self._seed, self._say = minutes, jobs, seed, say

    def run(self):
        """Return: what is wrong, one text each."""
        with servers.Rabbit() as rabbit, servers.Redis() as store:
            where = self.directory / "evidence"
            c = cluster.Cluster(rabbit, store, self.directory, self._settings(where), "effect",
                                self.FAILPOINTS)
            self._start(c)
            try:
                return self._run(c, where)
            finally:
                c.stop()

    # --- what a test of this class may do in another way ---

    def _settings(self, where):
        return evidence.settings(where, concurrency=16)

    def _start(self, c):
        c.start(schedulers=2, agents=2, supervisors=2)

    def _driver(self, c):
        return driver.Driver(c)

    def _workload(self):
        return workload.Workload(random.Random(f"{self._seed} jobs"), deadly=True)

    def _wrong(self, c, client, victims):
        """What else is wrong when all is at rest, one text each."""
        return []

    # --- a run ---

    def _run(self, c, where):
        collector = evidence.Collector(c, where, {
            "journaled": ["effect", "fickle"], "scan_ms": 100, "lease_ms": 1000,
            "settle_within_ms": workload.SETTLE_WITHIN_MS,
        })
        fickle = [Fickle(c, where, number) for number in (1, 2)]
        try:
            for process in fickle:
                process.start()
            # they declare their queue, before a scheduler does it in another way
            servers.wait_for(lambda: c.client.queue("drover.task.fickle")[1] == len(fickle),
                             "the foreign agents")
            client = self._driver(c)
            victims = [VictimDaemon(p, collector, self._seed, 12, 8) for p in [*c.daemons, *fickle]]
            if self.HARMS_SERVERS:
                victims += [VictimServer(p, collector, self._seed, 25, 4)
                            for p in (c.rabbit, c.redis)]
            try:
                self._submit_all(client)
                over = self._calm(victims, collector)
                client.await_rest()
            finally:
                for victim in victims:
                    victim.done()
            self._report(victims, client, over)
            wrong = self._wrong(c, client, victims)
            collector.finish()
        finally:
            for process in fickle:
                process.kill()
        wrong += [text for victim in victims for text in victim.wrong]
        return wrong + client.wrong() + self._complaints(c) + [str(v) for v in checker.judge(where)]

    @staticmethod
    def _calm(victims, collector):
        """Return: when the last fault was over, in unix ms."""
        for victim in victims:
            victim.over()
        for victim in victims:
            victim.spared.wait()
        collector.fault("over")
        return evidence.now_ms()

    def _report(self, victims, client, over):
        for victim in victims:
            self._say(f"{victim.process.name}: {dict(victim.counts)}")
        for line in client.summary():
            self._say(line)
        at, job_id = client.last_to_rest()
        self._say(
            f"the last job came to rest {max(at - over, 0) / 1000:.1f} s "
            f"after the last fault: {job_id}"
        )

    def _complaints(self, c):
        for daemon in c.daemons:
            daemon.begin_stop()
        for daemon in c.daemons:
            daemon.await_stop()
        return [complaint for daemon in c.daemons for complaint in daemon.complaints()]

    def _submit_all(self, client):
        """Submits the jobs over the whole time, each with its commands."""
        jobs = self._workload()
        began, length = time.monotonic(), self._minutes * 60
        due_report = passed = 0
        while passed < length:
            passed = time.monotonic() - began
            due = min(int(self._n_jobs * passed / (length * 0.9)), self._n_jobs)
            while len(client.jobs) < due:
                client.submit(jobs.job(len(client.jobs)))
            client.tick()
            if passed > due_report:
                due_report += 30
                self._say(
                    f"{passed:.0f} s: {len(client.jobs)} jobs submitted, {client.ended()} ended"
                )
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
    directory = driver.empty_folder(wire.BUILD / "chaos")
    say = driver.reporter("chaos", directory)
    say(f"seed {seed}, {options.jobs} jobs, {options.minutes:g} minutes; logs in {directory}")
    wrong = Chaos(directory, options.minutes, options.jobs, seed, say).run()
    for text in wrong[:SHOWN]:
        say(text)
    say(f"{len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
