# SPDX-License-Identifier: Apache-2.0
"""Which integration tests lines.py chooses for a mutant, and what it makes of the library"""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("tests/lib", "tests/mutants", "common/store"):
    sys.path.insert(0, str(ROOT / folder))

import library
import lines
import suites
import tap

SCHEDULER, PART, OTHER = "scheduler/op.c", "common/store/save.lua", "common/store/steer.lua"
KNOWN = {
    "test_functions": {"took": 30, "lines": {}},
    "test_slow": {"took": 20, "lines": {
        SCHEDULER: {"5": True, "6": False, "9": False},
        PART: {"5": False, "7": True}, OTHER: {"5": False}}},
    "test_own_redis": {"took": 10, "lines": {SCHEDULER: {"5": False, "6": True, "9": False}}},
    "test_agent": {"took": 1, "lines": {"agent/run.c": {"5": True}}},
    "test_fails": {"took": 1, "lines": {SCHEDULER: {"5": True}}, "fails": "test_case"},
}


class Ledger:
    def get(self, key):
        return {"fails": None, **KNOWN[key[1]]}


class Lines(unittest.TestCase):
    def chosen(self, path, first, last):
        tests = [suites.Test(name, ["integration"], [], {}, []) for name in KNOWN]
        found = lines.Lines(tests, Ledger(), None).tests_that_run(path, first, last)
        return [test.name for test in found]

    def test_tests_that_run_a_line(self):
        self.assertEqual(["test_slow"], self.chosen(SCHEDULER, 5, 5))
        self.assertEqual(["test_own_redis"], self.chosen(SCHEDULER, 6, 6))
        self.assertEqual(["test_own_redis", "test_slow"], self.chosen(SCHEDULER, 5, 6))
        self.assertEqual([], self.chosen(SCHEDULER, 9, 9))

    def test_a_line_without_code(self):
        self.assertEqual(["test_own_redis", "test_slow"], self.chosen(SCHEDULER, 1, 1))

    def test_a_line_of_a_store_function(self):
        self.assertEqual(["test_functions", "test_own_redis"], self.chosen(PART, 5, 5))
        self.assertEqual(["test_functions", "test_own_redis", "test_slow"], self.chosen(PART, 7, 7))
        self.assertEqual(["test_functions", "test_own_redis"], self.chosen(OTHER, 1, 1))

    def test_parts_that_log(self):
        """They have the same lines as before, and are a library that says its build."""
        changed, logging = {}, []
        for path in (ROOT / suites.FUNCTIONS).glob("*.lua"):
            text = path.read_text()
            name = str(path.relative_to(ROOT))
            changed[path.name], found = lines.logging(name, text)
            self.assertEqual(text.count("\n"), changed[path.name].count("\n"))
            logging += [f"'{name}:{line}'" for line in found]
        joined = library.join(changed)
        self.assertIn("\nlocal BUILD = ", joined)
        self.assertGreater(len(logging), 1000)
        for place in logging:
            self.assertIn(f"ran({place})", joined)


if __name__ == "__main__":
    tap.main()
