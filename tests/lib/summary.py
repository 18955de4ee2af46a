# SPDX-License-Identifier: Apache-2.0
"""Adds up the counts of meson's test runs, and prints "N passed, N failed, N skipped" last

    summary.py LOG.json...

Each log is one run. Each point of a TAP test counts, and each other test counts once. A log that is
missing or empty, and a TAP plan that was not completed, count as failures.
"""

import json
import re
import sys

PLAN = re.compile(r"^1\.\.(\d+)", re.M)
POINT = re.compile(r"^(not )?ok\b([^\n]*)$", re.M)
SKIP = re.compile(r"#\s*skip", re.I)
GOOD = ("OK", "EXPECTEDFAIL")


class Count:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_points(stdout):
    """Returns the counts of a TAP text, or None if it is none."""
    plans = PLAN.findall(stdout)
    if not plans:
        return None
    count = Count()
    for negated, rest in POINT.findall(stdout):
        if negated:
            count.failed += 1
        elif SKIP.search(rest):
            count.skipped += 1
        else:
            count.passed += 1
    missing = sum(map(int, plans)) - count.passed - count.failed - count.skipped
    count.failed += max(missing, 0)
    return count


def count_test(test):
    """Returns the counts of one of meson's records: those of its points, or its own verdict."""
    if test["result"] == "EXPECTEDFAIL":
        return Count(passed=1)
    count = count_points(test.get("stdout") or "")
    if count is None or (test["result"] == "SKIP" and not count.failed):
        return Count(
            passed=int(test["result"] in GOOD),
            skipped=int(test["result"] == "SKIP"),
            failed=int(test["result"] not in GOOD + ("SKIP",)),
        )
    if test["result"] not in GOOD and count.failed == 0:
        count.failed = 1
    return count


def count_log(path):
    """Returns the counts of one run, and prints what did not pass."""
    total = Count()
    try:
        with open(path, encoding="utf-8") as log:
            tests = [json.loads(line) for line in log if line.strip()]
    except OSError:
        tests = []
    if not tests:
        print(f"{path}: nothing ran")
        return Count(failed=1)
    for test in tests:
        count = count_test(test)
        total.add(count)
        if count.failed:
            print(f"failed: {test['name']} ({test['result']}), see {path[:-5]}.txt")
    return total


def main(paths):
    total = Count()
    for path in paths:
        total.add(count_log(path))
    print(total)
    return 1 if total.failed or total.passed + total.skipped == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
