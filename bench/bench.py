# SPDX-License-Identifier: Apache-2.0
"""./dev bench: figures as ratios to the bare loop of the same run

    bench.py --build DIR [throughput] [limit] [find] [--jobs N] [--window W] [--repeat R] [--json]

A fresh private RabbitMQ and Redis for each measure; bare loop and Drover take turns, so that what
the machine does meanwhile hits both. Each figure is the median of the repetitions, with the least
and the most; `ratio` is to the bare loop of the same run.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import find  # noqa: E402
import servers  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")

AGENT_CONFIG = """
agent = { concurrency = 64; actors = ( { name = "bench"; handler = "builtin"; } ); };
"""


def cpu_seconds(pid):
    """User and system time of a process, its threads included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def group_cpu_seconds(group):
    """The same for all processes of a process group: a server and what it started."""
    total = 0.0
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group:
                    total += cpu_seconds(int(entry.name))
            except (OSError, IndexError):
                pass  # ended meanwhile
    return total


def private_mib(pid):
    """What the process has allocated for itself, libraries not counted."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Stack:
    """Servers, and processes that are stopped with them."""

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.processes = {}

    def __enter__(self):
        self.rabbit = servers.Rabbit().__enter__()
        self.redis = servers.Redis().__enter__()
        self.folder = tempfile.TemporaryDirectory(prefix="drover-bench-")
        self.env = dict(
            os.environ,
            DROVER_TEST_AMQP_PORT=str(self.rabbit.port),
            DROVER_TEST_REDIS_PORT=str(self.redis.port),
            DROVER_RABBITMQ__PORT=str(self.rabbit.port),
            DROVER_REDIS__PORT=str(self.redis.port),
            DROVER_LOG__LEVEL="info",
        )
        return self

    def __exit__(self, *error):
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        self.redis.__exit__(None, None, None)
        self.rabbit.__exit__(None, None, None)
        self.folder.cleanup()

    def start(self, name, *command, ready):
        """Starts a process and waits until it has logged a word."""
        path = pathlib.Path(self.folder.name) / f"{name}.log"
        with open(path, "wb") as log:
            self.processes[name] = subprocess.Popen(
                [str(word) for word in command], env=self.env, stdout=log, stderr=log
            )
        servers.wait_for(lambda: ready in path.read_text(), f"{name} to be ready", 30)

    def run(self, *command):
        done = subprocess.run(
            [str(word) for word in command], env=self.env, capture_output=True, text=True
        )
        if done.returncode:
            for name in self.processes:
                text = (pathlib.Path(self.folder.name) / f"{name}.log").read_text()
                sys.stderr.write(f"--- {name}\n{text[-2000:]}\n")
            sys.exit(f"bench: {command[0]} failed: {done.stderr}")
        return json.loads(done.stdout)

    def cpu(self):
        """CPU seconds by role, servers included."""
        taken = {name: cpu_seconds(p.pid) for name, p in self.processes.items()}
        taken["redis"] = group_cpu_seconds(self.redis.process.pid)
        taken["rabbitmq"] = group_cpu_seconds(self.rabbit.process.pid)
        return taken


def measured(stack, *command):
    """One measure: its figures, and the CPU each process took for a step of it."""
    before = stack.cpu()
    result = stack.run(*command)
    after = stack.cpu()
    result["cpu_us_per_step"] = {
        name: round(1e6 * (after[name] - before[name]) / result["steps"], 1) for name in after
    }
    result["rss_anon_mib"] = {
        name: round(private_mib(process.pid), 1) for name, process in stack.processes.items()
    }
    return result


def limit(stack, options):
    if "agent" not in stack.processes:
        stack.start("agent", stack.build / "bench/limit", "agent", ready="ready")
    return measured(stack, stack.build / "bench/limit", "run", "--jobs", options.jobs, "--window",
                    options.window)


def throughput(stack, options, turn):
    if "scheduler" not in stack.processes:
        config = pathlib.Path(stack.folder.name) / "agent.cfg"
        config.write_text(AGENT_CONFIG)
        for role in ("scheduler", "supervisor", "agent"):
            stack.start(role, stack.build / role / f"drover-{role}", "--config", config,
                        ready="bus_up")
        stack.run(stack.build / "bench/load", "--jobs", 100, "--prefix", "warm")
    return measured(stack, stack.build / "bench/load", "--jobs", options.jobs, "--window",
                    options.window, "--prefix", f"load{turn}")


def calls_per_step(stack, options):
    """redis.call()s that one more step of a chain costs, from the server's own counters."""

    def calls(steps, prefix):
        before = commands(stack)
        stack.run(stack.build / "bench/load", "--jobs", 200, "--window", 1, "--steps", steps,
                  "--prefix", prefix)
        after = commands(stack)
        return {name: after.get(name, 0) - before.get(name, 0) for name in after}

    short, long = calls(5, "short"), calls(25, "long")
    return {name: round((long[name] - short.get(name, 0)) / (200 * 20), 2)
            for name in long if long[name] - short.get(name, 0) > 200}


def commands(stack):
    text = subprocess.run(
        ["redis-cli", "-h", "127.0.0.1", "-p", str(stack.redis.port), "INFO", "commandstats"],
        capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        if line.startswith("cmdstat_"):
            name, figures = line[len("cmdstat_"):].split(":")
            found[name] = int(figures.split(",")[0].split("=")[1])
    return found


def summary(name, results, base):
    rates = [result["steps_per_second"] for result in results]
    middle = sorted(results, key=lambda r: r["steps_per_second"])[len(results) // 2]
    return {
        "name": name,
        "value": round(statistics.median(rates), 1),
        "unit": "steps/s",
        "min": min(rates),
        "max": max(rates),
        "ratio": round(statistics.median(rates) / base, 2) if base else 1.0,
        "p50_ms": middle["p50_ms"],
        "p99_ms": middle["p99_ms"],
        "cpu_us_per_step": middle["cpu_us_per_step"],
        "rss_anon_mib": middle["rss_anon_mib"],
    }


def show(line):
    print(f"{line['name']:<12} {line['value']:>9.0f} {line['unit']}  ({line['min']:.0f} to "
          f"{line['max']:.0f})  ratio {line['ratio']:.2f}  p50 {line['p50_ms']:.1f} ms  "
          f"p99 {line['p99_ms']:.1f} ms")
    print("             CPU us/step: " + "  ".join(
        f"{name} {value}" for name, value in line["cpu_us_per_step"].items()))


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n")[0])
    parser.add_argument("measures", nargs="*", default=["throughput", "limit"],
                        help="throughput, limit (measured with it: the ratio needs it), find")
    parser.add_argument("--build", default=str(ROOT / "build"), help="build folder")
    parser.add_argument("--jobs", type=int, default=2000, help="jobs of 5 steps in a repetition")
    parser.add_argument("--window", type=int, default=200, help="jobs in flight")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each measure")
    parser.add_argument("--find-jobs", type=int, default=100_000, help="jobs in the store of find")
    parser.add_argument("--json", action="store_true", help="one line of JSON a measure")
    options = parser.parse_args()
    options.root = ROOT
    unknown = set(options.measures) - {"throughput", "limit", "find"}
    if unknown:
        parser.error("no such measure: " + " ".join(sorted(unknown)))
    if {"throughput", "limit"} & set(options.measures):
        loops(options)
    if "find" in options.measures:
        with Stack(options.build) as stack:
            lines = find.measure(stack, options)
        for line in lines:
            print(json.dumps(line)) if options.json else find.show(line)
        print(f"{lines[0]['jobs']} jobs, {lines[0]['bytes_per_job']} bytes of Redis each")


def loops(options):
    """The bare loop, and Drover where that is asked for."""
    bare, drover = [], []
    with Stack(options.build) as one, Stack(options.build) as other:
        for turn in range(options.repeat):
            bare.append(limit(one, options))
            if "throughput" in options.measures:
                drover.append(throughput(other, options, turn))
        calls = calls_per_step(other, options) if drover else {}
    lines = [summary("limit", bare, 0)]
    if drover:
        lines.append(summary("throughput", drover, lines[0]["value"]))
        lines[-1]["redis_calls_per_step"] = calls
    for line in lines:
        print(json.dumps(line)) if options.json else show(line)
    if calls and not options.json:
        print("             redis calls/step: " + "  ".join(
            f"{name} {value}" for name, value in sorted(calls.items())))


if __name__ == "__main__":
    main()
