# SPDX-License-Identifier: Apache-2.0
"""Finding jobs: `drover list` and `get` as whole processes, on a store with a hundred thousand jobs

The jobs are put into the store by the function that a scheduler calls, without the messages. Nine
of ten have ended, one in a thousand has a label of its own, one in two hundred needs attention.
`of_empty` is the ratio to the same command on the empty store of the same run, which is the cost of
a process, a connection and a round trip.
"""

import statistics
import subprocess
import time

import redis

from stack import Stack

WORKFLOWS = {"name": "hello", "steps": 3}
PARTITIONS = 16
BATCH = 2000

COMMANDS = {
    "get": ["get", "job-050000"],
    "list": ["list"],
    "list processing": ["list", "-p", "processing"],
    "list error": ["list", "-p", "error"],
    "list workflow": ["list", "-w", "hello"],
    "list label": ["list", "-l", "rare=yes"],
    "list workflow label phase": ["list", "-w", "hello@1", "-l", "rare=yes", "-p", "processed"],
    "list since": ["list", "--since", "-1h", "-o", "id"],
    "list 200": ["list", "-n", "200"],
    "list attention": ["list", "--needs", "attention"],
    "list attention group": ["list", "--needs", "attention", "--group"],
    "history": ["history", "job-050000"],
}


def partition(job):
    value = 2166136261
    for byte in job.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return f"drover:{{p{value % PARTITIONS}}}:"


def submission(number, start_at=0):
    """Returns the arguments of drover1_submit, in order. One job in ten has work to do, not before
    start_at."""
    rare = number % 1000 == 0
    return [
        f"job-{number:06d}", f"digest{number}", "", "hello", "0", f"{number:016x}", "bench",
        "A" if number % 10 == 0 else "D", str(start_at), "0", "job", "0", "", "",
        "8:rare=yes" if rare else "", "", "0", "0", "0", "input", "x" * 100, "labels", "",
        "traceparent", "", "submitter", "", "format", "",
    ]


def preload(port, first, jobs, start_at=0):
    """Stores the jobs from number `first` to `jobs`, with their notifications confirmed. Returns
    the bytes of the store that each takes."""
    server = redis.Redis("127.0.0.1", port)
    before = server.info("memory")["used_memory"]
    for begin in range(first, jobs, BATCH):
        pipeline = server.pipeline(transaction=False)
        for number in range(begin, min(begin + BATCH, jobs)):
            words = submission(number, start_at)
            pipeline.fcall("drover1_submit", 1, partition(words[0]), *words)
        answers = pipeline.execute()
        codes = {answer[0] for answer in answers}
        assert codes == {b"CREATED"}, codes
        for number, answer in enumerate(answers, begin):
            _now, _seq, settled, *_ = answer[2].split()
            if settled != b"0":
                job = submission(number)[0]
                pipeline.fcall("drover1_settle_owed", 1, partition(job), job, settled)
        pipeline.execute()
    return (server.info("memory")["used_memory"] - before) / (jobs - first)


def need_attention(port, jobs):
    """Lets one job in two hundred fail for good at its first step."""
    server = redis.Redis("127.0.0.1", port)
    for number in range(0, jobs, 200):
        job = submission(number)[0]
        token = server.hget(f"{partition(job)}job:{job}", "0").split()[5]
        answer = server.fcall(
            "drover1_record", 1, partition(job), "bench", "P", job, token, "0", f"{number:016x}",
            "0", "", "", f"CLASS_{number % 3}", "0", "", "", "", "agent",
        )
        assert answer[0] == b"RECORDED", answer


def timed(stack, words, repeat):
    """Returns the wall-clock ms of the command, for each run."""
    taken = []
    for _ in range(repeat):
        began = time.monotonic()
        done = subprocess.run([stack.build / "cli/drover", *words], env=stack.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append(1000 * (time.monotonic() - began))
        assert done.returncode in (0, 5), done
    return taken


def measure(options):
    """What people ask, on a store with a hundred thousand jobs"""
    with Stack(options) as stack:
        stack.start_daemon("scheduler")
        empty = {name: timed(stack, words, options.repeat * 5) for name, words in COMMANDS.items()}
        bytes_per_job = preload(stack.redis.port, 0, options.find_jobs)
        need_attention(stack.redis.port, options.find_jobs)
        return [line(stack, options, name, empty[name], bytes_per_job) for name in COMMANDS]


def line(stack, options, name, empty, bytes_per_job):
    taken = timed(stack, COMMANDS[name], options.repeat * 10)
    value, base = statistics.median(taken), statistics.median(empty)
    return {
        "name": f"find-{name.replace(' ', '-')}", "value": round(value, 1), "unit": "ms",
        "min": round(min(taken), 1), "max": round(max(taken), 1), "empty": round(base, 1),
        "of_empty": round(value / base, 2), "jobs": options.find_jobs,
        "bytes_per_job": round(bytes_per_job),
    }
