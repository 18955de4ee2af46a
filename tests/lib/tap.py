# SPDX-License-Identifier: Apache-2.0
"""Runs the unittest cases of a module and prints TAP, which meson and summary.py count

    if __name__ == "__main__":
        tap.main()

Only a test that ran to its end is "ok"; a skipped one gives its reason. Diagnostics go to stderr,
where narrate() prints what a test has measured.
"""

import sys
import time
import traceback
import unittest


def narrate(text):
    print(f"# {text}", file=sys.stderr, flush=True)


class TapResult(unittest.TestResult):
    """Prints one line for each case; failed subtests count for their case."""

    def __init__(self, out):
        super().__init__()
        self._out = out
        self._points = 0
        self._verdict = "ok"
        self._note = ""
        self._began = 0.0

    def _say(self, text):
        print(text, file=self._out, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self._verdict, self._note, self._began = "ok", "", time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        narrate(f"{test.id()}: {time.monotonic() - self._began:.1f} s")
        self._point(test)

    def _point(self, test):
        self._points += 1
        self._say(f"{self._verdict} {self._points} - {test.id().replace('#', '')}{self._note}")

    def _fail(self, test, error):
        self._verdict = "not ok"
        for line in "".join(traceback.format_exception(*error)).splitlines():
            narrate(f"{test.id()}: {line}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._note = ""
        self._fail(test, err)
        self._point_of_fixture(test)

    def _point_of_fixture(self, test):
        """A failure of setUpModule or setUpClass gets a line of its own, because no case
        follows."""
        if not isinstance(test, unittest.TestCase):
            self._point(test)
            self._verdict, self._note = "ok", ""

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._fail(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note = f" # SKIP {reason}"
        self._point_of_fixture(test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._verdict = "not ok"

    def plan(self):
        self._say(f"1..{self._points}")

    def good(self):
        """Whether at least one test ran, or was skipped with a reason, and none failed."""
        return self.wasSuccessful() and self._points > 0


def main(module="__main__", argv=None):
    """Runs all cases of a module, or those named on the command line."""
    names = (sys.argv if argv is None else argv)[1:]
    loader = unittest.defaultTestLoader
    where = sys.modules[module]
    suite = (
        loader.loadTestsFromNames(names, where) if names else loader.loadTestsFromModule(where)
    )
    result = TapResult(sys.stdout)
    suite.run(result)
    result.plan()
    sys.exit(0 if result.good() else 1)
