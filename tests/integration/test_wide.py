# SPDX-License-Identifier: Apache-2.0
"""Wide and large jobs: they complete, and no store call takes more than 25 ms."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cluster
import tap
import wire

LIMIT_MS = 25


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
    redis_options = ("--slowlog-log-slower-than", "1000", "--slowlog-max-len", "100000")

    def run_job(self, steps, timeout):
        c = self.cluster(schedulers=2)
        c.store.redis.slowlog_reset()
        c.client.submit(wire.submit("wide", steps))
        self.assertEqual(wire.RECEIPT_CODE_CREATED, c.client.receipt("wide").code)
        event, seconds = self.timed(lambda: c.client.settled("wide", timeout * cluster.SLOW))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual(len(steps), event.steps_total)
        calls = c.store.redis.slowlog_get(100000)
        slowest = sorted(((call["duration"] / 1000, name(call)) for call in calls), reverse=True)
        tap.narrate(
            f"{len(steps)} steps in {seconds:.1f} s; {len(calls)} store calls over 1 ms,"
            f" the slowest took {slowest[:5]} ms"
        )
        self.assertEqual([], [call for call in slowest if call[0] > LIMIT_MS], "ms, of SLOWLOG")

    def test_fan_of_1000(self):
        self.run_job(wire.fan(1000), 120)

    def test_10000_steps(self):
        self.run_job(wire.fan(9998), 240)

    def test_100000_edges(self):
        self.run_job(layers(width=1000, depth=10, joins=11), 240)


if __name__ == "__main__":
    tap.main()
