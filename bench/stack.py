# SPDX-License-Identifier: Apache-2.0
"""A new RabbitMQ and Redis, daemons beside them, and what each of them uses: time, memory

A figure of time is the processor time of a process with all of its threads, and of a server with
all the processes that it has started.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import servers  # noqa: E402


def recommended():
    """Returns the options of Redis that deploy/ sets for the size of jobs, without those for its
    place and users."""
    lines = (ROOT / "deploy/redis/redis.conf").read_text().splitlines()
    words = [line.split() for line in lines if line.startswith("hash-max-")]
    return [word for name, value in words for word in (f"--{name}", value)]


CONFIG = f"""
scheduler = {{ workflows = "{ROOT}/workflows"; }};
agent = {{
    concurrency = 64;
    actors = ( {{ name = "bench"; handler = "builtin"; batch = %d; }} );
}};
"""


def cpu_seconds(pid):
    """Returns the processor time of a process with its threads that are there. The kernel measures
    it in ns; that in /proc/PID/stat is counted in ticks, which miss a process that wakes often and
    briefly."""
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def peak_mib(pid):
    """Returns the most memory that a process has had, with libraries."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def summed(figure):
    """Returns the figure of each process group, by its number: of a process or server and of all
    that it has started."""
    totals = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile
                pid = int(entry.name)
                group = os.getpgid(pid)
                totals[group] = totals.get(group, 0.0) + figure(pid)
    return totals


def private_mib(pid):
    """Returns what the process has allocated for itself, without libraries."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Stack:
    """Servers, and processes that are stopped with them. Processes of one role have the same name
    with a number: scheduler, scheduler2."""

    def __init__(self, options, redis=None, replication=None, rabbit=True):
        self.batch = 8  # of agents that start from now on
        self.build = options.build
        self.replication = replication or options.replication
        self.queue = {"none": "transient", "quorum": "quorum"}[self.replication]  # of the bare loop
        self.processes = {}
        self.redis = servers.Redis(options=recommended() if redis is None else redis,
                                   tls=options.tls)
        self.servers = [self.redis]
        if rabbit:
            self.servers.append(servers.Rabbit(tls=options.tls))

    def __enter__(self):
        for server in self.servers:
            server.begin()
        for server in self.servers:
            server.await_start()
        self.folder = tempfile.TemporaryDirectory(prefix="drover-bench-")
        self.env = dict(
            os.environ,
            DROVER_RABBITMQ__REPLICATION=self.replication,
            DROVER_LOG__LEVEL="info",
            DROVER_SECURITY__DUMPABLE="true",  # so that `dev` finds processes that were left behind
        )
        for server in self.servers:
            self.env |= server.environment() | self._way(server)
        return self

    @staticmethod
    def _way(server):
        """Returns the settings by which daemons connect to a server: by TLS if it has that. The
        load and the bare loop connect in clear text."""
        group = server.name.upper()
        if not server.tls:
            return {f"DROVER_{group}__PORT": str(server.port)}
        return {f"DROVER_{group}__PORT": str(server.tls.port), f"DROVER_{group}__TLS": "true",
                f"DROVER_{group}__CA_FILE": str(server.tls.ca)}

    def __exit__(self, *_error):
        self.stop(*self.processes)
        for server in self.servers:
            server.close()
        self.folder.cleanup()

    def log(self, name):
        return pathlib.Path(self.folder.name) / f"{name}.log"

    def start(self, name, *command, ready):
        """Starts a process and waits until it has logged a word. Returns the seconds that took."""
        began = time.monotonic()
        with open(self.log(name), "wb") as log:
            self.processes[name] = subprocess.Popen(
                [str(word) for word in command], env=self.env, stdout=log, stderr=log,
                start_new_session=True,
            )
        while ready not in self.log(name).read_text():
            if self.processes[name].poll() is not None or time.monotonic() > began + 30:
                sys.exit(f"bench: {name} does not start:\n{self.log(name).read_text()}")
            time.sleep(0.001)
        return time.monotonic() - began

    def stop(self, *names):
        for name in names:
            self.processes[name].send_signal(signal.SIGTERM)
        for name in names:
            try:
                self.processes[name].wait(30)
            except subprocess.TimeoutExpired:
                self.processes[name].kill()
                self.processes[name].wait()
            del self.processes[name]

    def start_daemon(self, role, number="", **settings):
        config = pathlib.Path(self.folder.name) / "drover.cfg"
        config.write_text(CONFIG % self.batch)
        words = [f"--set={name.replace('__', '.')}={value}" for name, value in settings.items()]
        return self.start(f"{role}{number}", self.build / role / f"drover-{role}", "--config",
                          config, *words, ready="bus_up")

    def run(self, *command):
        """Runs a program until it ends. Returns its output, which is JSON."""
        done = subprocess.run(
            [str(word) for word in command], env=self.env, capture_output=True, text=True
        )
        if done.returncode:
            for name in self.processes:
                sys.stderr.write(f"--- {name}\n{self.log(name).read_text()[-2000:]}\n")
            sys.exit(f"bench: {' '.join(map(str, command))} failed: {done.stderr}")
        return json.loads(done.stdout)

    def redis_cli(self, *words):
        return subprocess.run(["redis-cli", "-h", "127.0.0.1", "-p", str(self.redis.port), *words],
                              capture_output=True, text=True, check=True).stdout

    def store_bytes(self):
        """Returns the bytes that Redis has allocated for its data."""
        for line in self.redis_cli("INFO", "memory").splitlines():
            if line.startswith("used_memory:"):
                return int(line.split(":")[1])
        raise ValueError("INFO memory")

    def by_role(self, figure):
        """Returns the figure, such as cpu_seconds, of each role, servers included."""
        groups, totals = summed(figure), {}
        for name, process in self.processes.items():
            role = name.rstrip("0123456789")
            totals[role] = totals.get(role, 0.0) + groups.get(process.pid, 0.0)
        return totals | {server.name: groups[server.process.pid] for server in self.servers}

    def memory(self):
        """Returns MiB by role, those of the largest process."""
        most = {}
        for name, process in self.processes.items():
            role = name.rstrip("0123456789")
            most[role] = max(most.get(role, 0.0), round(private_mib(process.pid), 2))
        return most

    def measured(self, *command):
        """Runs a program. Returns its figures, and what each role used for a step of it."""
        before = self.by_role(cpu_seconds)
        result = self.run(*command)
        after = self.by_role(cpu_seconds)
        result["cpu_us_per_step"] = {
            name: 1e6 * (after[name] - before[name]) / result["steps"] for name in after
        }
        result["rss_anon_mib"] = self.memory()
        return result
