# SPDX-License-Identifier: Apache-2.0
"""Wide and large jobs: they complete, and each store call does a bounded piece of the work, however
large the job is. The test checks the work and not the time, so it gives the same result on each
machine."""

import pathlib
import random
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

BUDGET = 250  # steps that one call may touch: BUDGET in common/store/head.lua
# the most commands of one call: unsent, which a slow machine needs, gives three for each step
COMMANDS = 4 * BUDGET
WORDS = 16 * BUDGET  # words in these commands


def layers(width, depth, joins):
    """Returns depth layers of width steps; each step depends on `joins` steps of the layer
    before."""
    choose = random.Random(1)
    steps = []
    for layer in range(depth):
        before = [f"l{layer - 1}-{i}" for i in range(width)] if layer else []
        for i in range(width):
            after = choose.sample(before, joins) if before else []
            steps.append(wire.step(f"l{layer}-{i}", after=after, take_none=True))
    return steps


class Monitor(threading.Thread):
    """Collects the commands that a Redis gets, until this is closed: MONITOR shows a call of a
    function, then the commands in it."""

    def __init__(self, redis):
        super().__init__()
        self.socket = socket.create_connection((servers.HOST, redis.port))
        self.socket.sendall(b"MONITOR\r\n")
        self.text = bytearray(self.socket.recv(1))  # the bytes of +OK: MONITOR has begun
        self.start()

    def run(self):
        while more := self.socket.recv(1 << 20):
            self.text += more

    def close(self):
        if self.is_alive():
            self.socket.shutdown(socket.SHUT_RDWR)
            self.join()
            self.socket.close()

    def calls(self):
        """Returns for each call of a function: its name, the number of its commands, and of the
        words in them."""
        calls = []
        for line in self.text.split(b"\r\n"):
            words = line.count(b'" "') + 1
            if b' lua] "' in line:
                calls[-1][1] += 1
                calls[-1][2] += words
            elif b'] "FCALL' in line:
                calls.append([line.split(b'"')[3].decode(), 0, 0])
        return calls


class Wide(cluster.TestCase):
    own_servers = True

    redis_options = ("--client-output-buffer-limit", "replica 0 0 0")  # the connection of MONITOR

    def check(self, steps):
        c = self.cluster(schedulers=2)
        monitor = Monitor(self.redis)
        self.addCleanup(monitor.close)
        c.client.submit(wire.submit("wide", steps))
        self.assertEqual(wire.RECEIPT_CODE_CREATED, c.client.receipt("wide").code)
        event, seconds = self.timed(lambda: c.client.settled("wide", 240 * cluster.SLOW))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual(len(steps), event.steps_total)
        self.assertEqual(len(steps), c.dispatches("wide"))
        monitor.close()
        calls = monitor.calls()
        commands = max((n, name) for name, n, _ in calls)
        words = max((n, name) for name, _, n in calls)
        tap.narrate(
            f"{len(steps)} steps in {seconds:.1f} s; {len(calls)} store calls, "
            f"at most {commands}, {words}"
        )
        self.assertLess(len(steps) / BUDGET, len(calls))
        self.assertLessEqual(commands[0], COMMANDS, commands)
        self.assertLessEqual(words[0], WORDS, words)

    def test_fan_of_1000(self):
        self.check(wire.fan(1000))

    def test_10000_steps(self):
        self.check(wire.fan(9998))

    def test_100000_edges(self):
        self.check(layers(width=1000, depth=10, joins=11))


if __name__ == "__main__":
    tap.main()
