# SPDX-License-Identifier: Apache-2.0
"""Celery under the load of bench/load.c: its application, and a client that submits and waits

    python3 -m celery -A celery_app worker
    python3 celery_app.py [--jobs N] [--window N] [--steps N] [--fan]

With CELERY_CONFIRM in the environment neither a message nor a task is lost with a connection or a
worker.

A chain is a chain of tasks: its message carries the tasks that follow, and the worker sends the
next one. A fan is a task, a chord of the others, and its callback. What each task gets and returns
is a text of a hundred bytes. The figures are those of bench_print() in bench/peer.c.
"""

import argparse
import collections
import json
import os
import time

import celery
import celery.signals

TEXT = "x" * 100
PATIENCE_S = 60  # for the end of a job

app = celery.Celery(
    "peers",
    broker=f"amqp://guest:guest@127.0.0.1:{os.environ['DROVER_TEST_AMQP_PORT']}//",
    backend=f"redis://127.0.0.1:{os.environ['DROVER_TEST_REDIS_PORT']}/0",
)
app.conf.worker_prefetch_multiplier = 64  # by default 4; the guide advises more for short tasks
if os.environ.get("CELERY_CONFIRM"):
    app.conf.update(
        broker_transport_options={"confirm_publish": True},
        task_acks_late=True,  # a task whose worker dies is delivered again
        task_reject_on_worker_lost=True,
    )


@celery.signals.worker_ready.connect
def tell(**_about):
    print("ready", flush=True)


@app.task(name="step")
def step(text):
    return text


@app.task(name="join")
def join(texts):
    return texts[0]


def job(options):
    if options.fan:
        branches = celery.group(step.si(TEXT) for _ in range(options.steps - 2))
        return celery.chain(step.si(TEXT), celery.chord(branches, join.s()))
    return celery.chain(step.si(TEXT), *(step.s() for _ in range(options.steps - 1)))


def load(options):
    """Waits for the oldest job first. One that ends before it counts as ended with it, so only the
    latencies of jobs alone are exact."""
    waiting, latency = collections.deque(), []
    step.delay(TEXT).get(timeout=PATIENCE_S)  # connects
    start = time.monotonic()
    for begun in range(options.jobs):
        if begun >= options.window:
            latency.append(end_of(*waiting.popleft()))
        waiting.append((time.monotonic(), job(options).apply_async()))
    latency += [end_of(*each) for each in waiting]
    return time.monotonic() - start, sorted(latency)


def end_of(began, result):
    result.get(timeout=PATIENCE_S)
    return 1000 * (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--window", type=int, default=50)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--fan", action="store_true")
    options = parser.parse_args()
    seconds, latency = load(options)
    steps = options.jobs * options.steps
    print(json.dumps({
        "jobs": options.jobs, "steps": steps, "seconds": seconds,
        "steps_per_second": steps / seconds, "p50_ms": latency[options.jobs // 2],
        "p99_ms": latency[options.jobs * 99 // 100],
    }))


if __name__ == "__main__":
    main()
