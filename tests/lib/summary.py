# SPDX-License-Identifier: Apache-2.0
"""Sums what meson's test runs have counted, and closes with "N passed, N failed, N skipped"

    summary.py LOG.json...

Each log is one run. A test that speaks TAP counts with each of its points, any other as one. What
was to run and did not is a failure: a log that is missing or empty, a plan that was not kept.
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
    """What a TAP text counts; None where it is none."""
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
    """What one of meson's records counts: its own verdict, unless there are points."""
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
    """What one run counts; prints what did not pass."""
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
