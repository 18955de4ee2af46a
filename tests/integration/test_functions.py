# SPDX-License-Identifier: Apache-2.0
"""The functions of the store, called one by one: rules that show only in an order of calls which processes
seldom come to."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import redis
import servers
import tap
import wire

KEYS = "drover:{p0}:"
FRESH = [f"{n:016x}" for n in range(1, 10)]
JOB = "one"
# What a step goes by: a lease, one attempt and one death, then it is parked for good.
SHORT = "1 1 0 1 1 1 1 1 0 -1 PP|"
LONG = "60000 60000 0 1 1 1 1 1 0 -1 PP|"
FAILS = "60000 60000 0 1 1 1 1 1 0 -1 FP|"  # for good: so does the job


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = servers.Redis()
        cls.addClassCleanup(cls.server.close)
        cls.server.begin()
        cls.server.await_start()
        cls.redis = redis.Redis(servers.HOST, cls.server.port, decode_responses=True)
        cls.addClassCleanup(cls.redis.close)
        cls.redis.function_load((wire.ROOT / "common" / "store" / "drover.lua").read_text(), replace=True)

    def setUp(self):
        self.redis.flushall()

    def call(self, name, *arguments):
        return self.redis.fcall(f"drover1_{name}", 1, KEYS, *arguments)

    def submit(self, *steps):
        """A job of these steps, which do not depend on each other; all of them are out."""
        n = len(steps)
        roots = " ".join(map(str, range(n)))
        lines = ["r", f"0 0 0 0 0 0 0 0 0 0 PP||0 {n} 00|||{roots}"]
        for i, terms in enumerate(steps):
            lines += [str(i), f"{terms}|0 0 00|||"]
        self.assertEqual("DEFINED", self.call("define", "d", "", 0, n, "", 1, 0, "job", "P 1 0", *lines)[0])
        self.assertEqual("CREATED", self.call(
            "submit", JOB, "d", "d", "", 0, FRESH[0], "me", "A", 0, 0, "", 0, "", "", "")[0])
        self.assertEqual(["R"] * n, [self.step(i)[2] for i in range(n)])

    def record(self, kind, i=0):
        token = f"{i}.{FRESH[0]}"
        code = self.call("record", "me", kind, JOB, token, 0, FRESH[1], 0, "", "", "", 0, "")[0]
        self.assertEqual("RECORDED", code)

    def retry_all(self):
        return self.call("steer", JOB, "retry", "", 0, 0, "-", "me", FRESH[2], 0, "", "")[0]

    def step(self, i):
        """current asked state turn attempt token until failures expiries waiting unstarted ..."""
        return self.redis.hget(f"{KEYS}job:{JOB}", i).split()

    def events(self):
        return [entry.split()[2] for entry in self.redis.lrange(f"{KEYS}hist:{JOB}", 0, -1)]

    def die(self, i):
        """The lease of a step ends, and is noticed; what follows from that is not seen to."""
        servers.wait_for(lambda: self.call("expire", 0, 1, 0, 0, 1, 0, 0, 0) and self.step(i)[2] == "M",
                         "the lease to end")
        self.assertEqual("1", self.step(i)[8])

    def test_no_queue_took_it(self):
        """Nobody can have begun it ..."""
        self.submit(LONG)
        self.record("X")
        self.assertEqual(("D", "B"), (self.step(0)[0], self.step(0)[2]))
        self.assertIn("unroutable", self.events())

    def test_no_queue_took_one_copy(self):
        """... unless it was sent once more: that one may have found a queue."""
        self.submit(LONG)
        self.call("drive", JOB, FRESH[1], "me", 1, 0)
        self.record("X")
        self.assertEqual("U", self.step(0)[0])
        self.assertNotIn("unroutable", self.events())

    def test_the_broker_refused_it(self):
        """It answers for nothing; that it has nothing it does not say."""
        self.submit(LONG)
        self.record("K")
        self.assertEqual("U", self.step(0)[0])
        self.assertNotIn("unroutable", self.events())

    def test_retry_all_of_what_is_about_to_be_parked(self):
        """It died too often, and whoever is to park it has not come to that."""
        self.submit(SHORT)
        self.die(0)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["0", "0"], self.step(0)[7:9])

    def test_retry_all_of_what_the_end_laid_down(self):
        """A parked step waits for nothing once its job has ended; brought back, it begins anew."""
        self.submit(SHORT, FAILS)
        self.die(0)
        self.call("drive", JOB, FRESH[1], "me", 0, 0)
        self.assertEqual("P", self.step(0)[2])
        self.record("P", 1)
        self.assertIn("settled", self.events())
        self.assertEqual("DONE", self.retry_all())
        for i in range(2):
            self.assertEqual(["R", "0", "0"], [self.step(i)[2], *self.step(i)[7:9]])


if __name__ == "__main__":
    tap.main()
