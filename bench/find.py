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
from store_library import schema

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


def name_of(number):
    return f"job-{number:06d}"


def submission(number, start_at=0):
    """Returns the arguments of drover1_submit. One job in ten has work to do, not before
    start_at."""
    return schema.arguments(
        "submit", job_id=name_of(number), digest=f"digest{number}", workflow="hello",
        redelivered=0, nonce=f"{number:016x}", by="bench",
        desired="A" if number % 10 == 0 else "D", start_at=start_at, complete_by=0, events="job",
        priority=0, labels="8:rare=yes" if number % 1000 == 0 else "", horizon=0, jobs=0, bytes=0,
        fields=[
            ("input", "x" * 100), ("labels", ""), ("traceparent", ""), ("submitter", ""),
            ("format", ""),
        ],
    )


def preload(port, first, jobs, start_at=0):
    """Stores the jobs from number `first` to `jobs`, with their notifications confirmed. Returns
    the bytes of the store that each takes."""
    server = redis.Redis("127.0.0.1", port, decode_responses=True)
    before = server.info("memory")["used_memory"]
    for begin in range(first, jobs, BATCH):
        pipeline = server.pipeline(transaction=False)
        for number in range(begin, min(begin + BATCH, jobs)):
            pipeline.fcall(
                "drover1_submit", 1, partition(name_of(number)), *submission(number, start_at)
            )
        answers = [schema.answer("submit", answer) for answer in pipeline.execute()]
        codes = {answer.code for answer in answers}
        assert codes == {"CREATED"}, codes
        for number, answer in enumerate(answers, begin):
            if answer.settled != "0":
                job = name_of(number)
                pipeline.fcall(
                    "drover1_settle_owed", 1, partition(job),
                    *schema.arguments("settle_owed", job_id=job, seq=answer.settled,
                                      at=answer.now),
                )
        pipeline.execute()
    return (server.info("memory")["used_memory"] - before) / (jobs - first)


def need_attention(port, jobs):
    """Lets one job in two hundred fail for good at its first step."""
    server = redis.Redis("127.0.0.1", port, decode_responses=True)
    for number in range(0, jobs, 200):
        job = name_of(number)
        token = schema.words("step_record", server.hget(f"{partition(job)}job:{job}", "0")).token
        report = schema.values(
            "report", kind="P", job_id=job, token=token, redelivered=0, nonce=f"{number:016x}",
            fraction=0, result="", error="", error_class=f"CLASS_{number % 3}", retry_after=0,
            effect="", step="", actor="", agent="agent",
        )
        answer = server.fcall(
            "drover1_record", 1, partition(job),
            *schema.arguments("record", by="bench", reports=[report]),
        )
        (transition,) = schema.answer("record", answer).transitions
        assert transition.code == "RECORDED", answer


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
