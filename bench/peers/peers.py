# SPDX-License-Identifier: Apache-2.0
"""Drover beside BullMQ and Celery: the same jobs, in turns, each with servers of its own

README.md says how each system is set up. In a round each system has one turn: its servers start, a
load warms it up, then come many jobs at a time, single jobs, and a fan.
"""

import contextlib
import functools
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import measures
from stack import ROOT, Stack, peak_mib

HERE = pathlib.Path(__file__).resolve().parent
SERVERS = ("redis", "rabbitmq")
PYTHON_AGENTS = 2
ALONE = 300  # jobs, one at a time
WIDTH = 1000  # of the fan
UNITS = {"speed": "steps/s", "p50": "ms", "p99": "ms", "fanout": "s", "cpu": "s/1000 steps",
         "cpu-all": "s/1000 steps", "memory": "MiB"}


# --- the systems: each yields its stack, and a function like measures.load() ---------------------


@contextlib.contextmanager
def drover(options, python=False, batch=0, **more):
    with measures.drover(options, **more) as stack:
        if python:
            start_python_agents(stack)
        yield stack, functools.partial(measures.load, stack, batch=batch)


def start_python_agents(stack):
    """Starts them in the place of drover-agent, which has served the load that warms up."""
    modules = stack.build / "peers/python"
    modules.mkdir(parents=True, exist_ok=True)
    subprocess.run(["protoc", "-I", ROOT / "proto", f"--python_out={modules}",
                    *(ROOT / "proto/drover/v1").glob("*.proto")], check=True)
    port = stack.env["DROVER_TEST_AMQP_PORT"]
    stack.env |= {"PYTHONPATH": str(modules),
                  "AMQP_URL": f"amqp://guest:guest@127.0.0.1:{port}/%2F"}
    stack.stop("agent")
    for number in range(PYTHON_AGENTS):
        stack.start(f"agent{number or ''}", sys.executable, "-B", HERE / "agent.py", "bench",
                    ready="ready")


@contextlib.contextmanager
def bullmq(options):
    program = options.build / "peers/bullmq.mjs"
    with Stack(options, redis=[], rabbit=False) as stack:
        stack.start("worker", "node", program, "worker", ready="ready")
        yield stack, functools.partial(submit, stack, "node", program, "load")


@contextlib.contextmanager
def celery(options, confirm=False):
    python = options.celery
    with Stack(options, redis=[]) as stack:
        stack.env |= {"CELERY_CONFIRM": "1"} if confirm else {}
        stack.start("worker", python, "-B", "-m", "celery", "--workdir", HERE, "-A", "celery_app",
                    "worker", ready="ready")
        yield stack, functools.partial(submit, stack, python, "-B", HERE / "celery_app.py")


def submit(stack, *client, jobs, window=measures.WINDOW, steps=5, fan=False):
    return stack.measured(*client, "--jobs", jobs, "--window", window, "--steps", steps,
                          *(["--fan"] if fan else []))


# And how many jobs at a time each gets, for a few seconds of work.
SYSTEMS = {
    "drover": (drover, 4000),
    "drover-batches": (functools.partial(drover, batch=measures.CLIENT_BATCH), 4000),
    "drover-quorum": (functools.partial(drover, replication="quorum"), 4000),
    "drover-python": (functools.partial(drover, python=True), 2000),
    "bullmq": (bullmq, 2000),
    "celery": (celery, 400),
    "celery-confirm": (functools.partial(celery, confirm=True), 400),
}


# --- what they need ------------------------------------------------------------------------------


def prepare(options):
    """Installs what BullMQ needs below the build folder, and checks that Celery is there. Returns
    the versions of both."""
    folder = options.build / "peers"
    folder.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json", "bullmq.mjs"):
        shutil.copy(HERE / name, folder)
    said(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier",
          "--prefer-offline", "--cache=cache"],
         "npm cannot install BullMQ, for which it needs a registry", cwd=folder)
    bullmq_is = said(["node", "-p", "`BullMQ ${require('bullmq/package.json').version}, "
                      "Node ${process.version}`"], "Node does not find BullMQ", cwd=folder)
    celery_is = said([options.celery, "-c", "import celery, redis, sys; print(f'Celery "
                      "{celery.__version__}, Python {sys.version.split()[0]}')"],
                     "Celery is missing: install the Debian package python3-celery, or name with "
                     "--celery the Python of an environment that has celery[redis]")
    return [bullmq_is, celery_is]


def said(command, problem, **more):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)
    if done.returncode:
        sys.exit(f"bench: {problem}:\n{done.stderr}")
    return done.stdout.strip()


# --- the measure ---------------------------------------------------------------------------------


def turn(options, system):
    """A job of another system that never ends must not spoil the sitting: the turn is run once
    more, and that is said."""
    try:
        return one_turn(options, system)
    except SystemExit as failure:
        if system.startswith("drover"):
            raise
        why = str(failure).strip().splitlines()[-1]
        print(f"# {system}: run again, because of {why}", file=sys.stderr)
        return one_turn(options, system)


def one_turn(options, system):
    start, jobs = SYSTEMS[system]
    with start(options) as (stack, run):
        run(jobs=jobs // 4)
        many = run(jobs=jobs)
        alone = run(jobs=ALONE, window=1)
        run(jobs=1, window=1, steps=WIDTH // 10, fan=True)
        fan = run(jobs=1, window=1, steps=WIDTH + 2, fan=True)
        peaks = stack.by_role(peak_mib)
    cpu = {role: us / 1000 for role, us in many["cpu_us_per_step"].items()}  # s for 1000 steps
    return {"speed": many["steps_per_second"], "p50": alone["p50_ms"], "p99": alone["p99_ms"],
            "fanout": fan["seconds"], "cpu-all": sum(cpu.values()),
            "cpu": sum(taken for role, taken in cpu.items() if role not in SERVERS),
            "memory": sum(peaks.values())}


def sync_ms():
    """Returns how long the disk takes for a write that must not be lost, as the median: a message
    of a quorum queue waits for one."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(100):
            os.write(file.fileno(), b"x" * 500)
            began = time.monotonic()
            os.fdatasync(file.fileno())
            taken.append(1000 * (time.monotonic() - began))
    return statistics.median(taken)


def measure(options):
    """Drover beside BullMQ and Celery, which it needs; only by name"""
    if options.tls:
        sys.exit("bench: peers: all of them connect in clear text")
    versions = ", ".join(prepare(options))
    print(f"# {versions}; load {os.getloadavg()[0]:.1f}; {sync_ms():.1f} ms for a sync",
          file=sys.stderr)
    turns = measures.in_turn(options, *(functools.partial(turn, options, each)
                                        for each in SYSTEMS))
    results = dict(zip(SYSTEMS, turns))
    return [figure_line(figure, system, results) for figure in UNITS for system in SYSTEMS]


def figure_line(figure, system, results):
    """The ratio is that of Drover to the best of the others."""
    others = [statistics.median(turn[figure] for turn in turns)
              for name, turns in results.items() if not name.startswith("drover")]
    base = max(others) if figure == "speed" else min(others)
    return measures.line(f"{system}/{figure}", [turn[figure] for turn in results[system]],
                         UNITS[figure], base if system.startswith("drover") else None)
