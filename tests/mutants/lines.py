# SPDX-License-Identifier: Apache-2.0
"""Records which lines of the sources each integration test runs

A copy of the sources is built so that gcov counts the lines of C; a process that is killed records
nothing. In the same copy each statement of a store function logs that it runs, in the log of the
Redis that the tests share.
"""

import json
import pathlib
import re
import time

import draw
import run
import suites

FUNCTIONS_TEST = pathlib.Path(run.NO_DAEMON).stem  # it has a Redis of its own
CALLERS = ("scheduler/", "supervisor/")  # the sources of the daemons that call store functions
COUNTING = ("-Dbuildtype=debug", "-Db_coverage=true")
HEAD = f"{suites.FUNCTIONS}/head.lua"
BEFORE = "local functions, "  # the daemons look for `local BUILD` at the beginning of a line
RAN = ("local places = {} local function ran(place) if not places[place] then "
       "places[place] = true redis.log(redis.LOG_WARNING, 'ran ' .. place) end end ")
LOGGED = re.compile(rf" ran ({suites.FUNCTIONS}/\w+\.lua):(\d+)$", re.M)


def logging(path, text):
    """Return: a part of the library in which each statement within a function logs its place; and
    the lines of these statements. All lines keep their numbers."""
    if path == HEAD:
        return text.replace(BEFORE, RAN + BEFORE, 1), []
    source, made, lines = draw.Source(path, text), text, []
    for line, start in reversed(list(source.lua_first_statements())):
        if text[start - 1] == " ":
            # Two blanks, as library.py expects before a loop over repeated arguments.
            made = f"{made[:start]}ran('{path}:{line}')  {made[start:]}"
            lines.append(line)
    return made, lines


class Lines:
    """What is known of each test: what fails without a mutant; how long it takes; and {path: {line
    of code: whether it ran}}. @ledger keeps that; @make makes a build with the given settings of
    meson, if something is not known."""

    def __init__(self, tests, ledger, make):
        self.tests = tests
        self.known = {test.name: ledger.get(["lines", test.name]) for test in tests}
        if not all(self.known.values()):
            self.build = make(COUNTING)
            self.parts = self.change_parts()
            for test in self.build.of("integration"):
                if not self.known[test.name]:
                    self.known[test.name] = self.record(test)
                    ledger.add(["lines", test.name], self.known[test.name])
            self.build.copy.close()

    def change_parts(self):
        """Return: path -> lines that log."""
        found = {}
        for path in self.build.sources():
            if path.endswith(".lua"):
                there = self.build.copy.folder / path
                text, found[path] = logging(path, there.read_text())
                there.write_text(text)
        return found

    def record(self, test):
        environment = self.build.environment(test)
        for old in self.build.copy.build.rglob("*.gcda"):
            old.unlink()
        before, began = len(self.store_log()), time.monotonic()
        fails = self.build.failure(test, suites.CLEAN_S, environment)
        took = round(time.monotonic() - began, 1)
        print(f"lines of {test.name}: {fails or 'recorded'} ({took} s)", flush=True)
        lines = {**self.counted(), **self.logged(self.store_log()[before:])}
        return {"fails": fails, "took": took, "lines": lines}

    def store_log(self):
        servers = self.build.copy.servers
        return servers.redis.log.read_text(errors="replace") if servers else ""

    def counted(self):
        lines = {}
        for path in self.build.sources():
            if path.endswith(".lua"):
                continue
            counts = pathlib.Path(self.build.compiler(path)[1]).with_suffix(".gcda")
            if (self.build.copy.build / counts).exists():
                command = ["gcov", "--json-format", "--stdout", str(counts)]
                _, out, _ = self.build.run(run.LONGEST_S, command)
                lines[path] = {str(line["line_number"]): line["count"] > 0
                               for file in json.loads(out)["files"] if file["file"].endswith(path)
                               for line in file["lines"]}
        return lines

    def logged(self, log):
        ran = set(LOGGED.findall(log))
        return {path: {str(line): (path, str(line)) in ran for line in lines}
                for path, lines in self.parts.items() if lines} if ran else {}

    def took(self, test):
        return self.known[test.name]["took"]

    def runs(self, test, path, first, last):
        """Whether a test runs one of these lines; or any line of the file, if these lines are no
        code. A test whose Redis is its own may run all lines of the store functions."""
        lines = self.known[test.name]["lines"]
        if path.endswith(".lua") and path not in lines:
            return test.name == FUNCTIONS_TEST or any(file.startswith(CALLERS) for file in lines)
        of_file = lines.get(path, {})
        ran = [of_file[str(line)] for line in range(first, last + 1) if str(line) in of_file]
        return any(ran) if ran else any(of_file.values())

    def tests_that_run(self, path, first, last):
        """Without those that fail without a mutant. test_functions, which takes seconds, is first,
        then the shortest."""
        return [test for test in sorted(self.tests, key=lambda test: (
                    test.name != FUNCTIONS_TEST, self.took(test)))
                if not self.known[test.name]["fails"] and self.runs(test, path, first, last)]
