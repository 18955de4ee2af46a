# SPDX-License-Identifier: Apache-2.0
"""Wide and large jobs: they complete, and no store call takes more than 25 ms."""

import contextlib
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cluster
import tap
import wire

LIMIT_MS = 25
TRIES = 10  # the clock of SLOWLOG is that on the wall, and some machines are held up for tens of ms again and again


def layers(width, depth, joins):
    """@depth layers of @width steps; each waits for @joins steps of the layer before."""
    choose = random.Random(1)
    steps = []
    for layer in range(depth):
        before = [f"l{layer - 1}-{i}" for i in range(width)] if layer else []
        for i in range(width):
            after = choose.sample(before, joins) if before else []
            steps.append(wire.step(f"l{layer}-{i}", after=after, take_none=True))
    return steps


def name(call):
    """FCALL and its function, of an entry of SLOWLOG."""
    return " ".join(call["command"].decode(errors="replace").split()[:2])


class Wide(cluster.TestCase):
    own_servers = True

    redis_options = ("--slowlog-log-slower-than", "1000", "--slowlog-max-len", "100000")

    def setUp(self):
        """SLOWLOG measures what the clock on the wall says: what else the machine does is not meant."""
        super().setUp()
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(self.redis.process.pid, os.SCHED_FIFO, os.sched_param(1))

    def run_job(self, c, job_id, steps, timeout):
        """Return: the store calls that took too long, each as (ms, what)."""
        c.store.redis.slowlog_reset()
        c.client.submit(wire.submit(job_id, steps))
        self.assertEqual(wire.RECEIPT_CODE_CREATED, c.client.receipt(job_id).code)
        event, seconds = self.timed(lambda: c.client.settled(job_id, timeout * cluster.SLOW))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual(len(steps), event.steps_total)
        self.assertEqual(len(steps), c.dispatches(job_id))
        calls = c.store.redis.slowlog_get(100000)
        slowest = sorted(((call["duration"] / 1000, name(call)) for call in calls), reverse=True)
        tap.narrate(
            f"{len(steps)} steps in {seconds:.1f} s; {len(calls)} store calls over 1 ms,"
            f" the slowest (ms): {slowest[:3]}"
        )
        return [call for call in slowest if call[0] > LIMIT_MS]

    def check(self, steps, timeout=240):
        """A call that is too slow is so every time; one that the machine held up is not."""
        c = self.cluster(schedulers=2)
        for i in range(TRIES):
            slow = self.run_job(c, f"wide-{i}", steps, timeout)
            if not slow:
                return
        self.assertEqual([], slow)

    def test_fan_of_1000(self):
        self.check(wire.fan(1000))

    def test_10000_steps(self):
        self.check(wire.fan(9998))

    def test_100000_edges(self):
        self.check(layers(width=1000, depth=10, joins=11))


if __name__ == "__main__":
    tap.main()
