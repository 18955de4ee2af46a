# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a build until one of them catches the mutant in its copy of the sources

meson says which tests there are, what each needs, and how it is run.
"""

import collections
import hashlib
import json
import os
import pathlib
import re
import shlex
import time

import alone
import run

PURE = re.compile(r"drover-(\w+-machine|model)")  # the libraries whose sources are changed
FUNCTIONS = "common/store"  # the folder of the store functions
SEEDS = "1..300"
CLEAN_S = 1800  # how long a test may take without a mutant
SLOWER, SLACK_S = 10, 20  # with a mutant it may take 10 times as long, and 20 s more
Test = collections.namedtuple("Test", "name suites command variables programs")


class Broken(Exception):
    """A test fails without a mutant, or meson does not say what is needed."""


class Build:
    """The build of a copy."""

    def __init__(self, copy, jobs):
        self.copy, self.jobs = copy, jobs
        _, out, err = self.run(run.LONGEST_S, ["meson", "introspect", "--tests", "--targets", "."])
        try:
            found = json.loads(out)
        except ValueError:
            raise Broken(err or out) from None
        self.targets = {target["id"]: target for target in found["targets"]}
        files = [file for target in found["targets"] if target["type"] == "custom"
                 for file in target["filename"]]
        self.library = [self.path(file) for file in files if file.endswith(".lua")]
        self.tests = [self.test(test) for test in found["tests"]]

    def path(self, file):
        return os.path.relpath(file, self.copy.build)

    def test(self, found):
        programs = [self.path(file) for target in found["depends"]
                    for file in self.targets[target]["filename"]]
        command = [str(self.jobs) if before == "--jobs" else word
                   for before, word in zip([""] + found["cmd"], found["cmd"])]
        suites = [suite.partition(":")[2] for suite in found["suite"]]
        if "tools" in suites or "unit" in suites and found["protocol"] != "tap":
            suites = []  # it is about the tests themselves, or about how programs are linked
        return Test(found["name"], suites, command, found["env"], programs)

    def of(self, *suites):
        return [test for test in self.tests if set(suites) & set(test.suites)]

    def sources(self):
        """The paths of the sources that are changed."""
        found = list((self.copy.folder / FUNCTIONS).glob("*.lua"))
        for target in self.targets.values():
            if PURE.fullmatch(target["name"]):
                found += [path for group in target["target_sources"]
                          for path in group.get("sources", ())]
        return sorted(os.path.relpath(path, self.copy.folder) for path in found)

    def compiler(self, path):
        """The command that compiles a source, and the object that it writes."""
        for entry in json.loads((self.copy.build / "compile_commands.json").read_text()):
            if os.path.normpath(self.copy.build / entry["file"]) == str(self.copy.folder / path):
                return shlex.split(entry["command"]), entry["output"]
        raise Broken(f"nothing compiles {path}")

    def run(self, longest_s, command, variables=None):
        """Runs it where meson does, in the folder of the build."""
        command = ["env", "-C", str(self.copy.build), *command]
        return self.copy.programs.run(longest_s, command, variables)

    def make(self, test):
        """Builds what a test runs and reads."""
        self.copy.make(*test.programs, *self.library)

    def failure(self, test, longest_s, variables=None):
        """Runs a test that is built. Return: what fails; None if nothing does."""
        code, out, err = self.run(longest_s, test.command, {**test.variables, **(variables or {})})
        if code == 0:
            return None
        if code == alone.LATE:
            return f"{test.name}: did not end in {longest_s:.0f} s"
        found = re.search(
            r"^(seed \d+(?:: .*| ends its process))|^not ok \d+ (?:- )?(\S+)", out, re.M)
        if found:
            return f"{test.name}: {found.group(1) or found.group(2)}"
        end = " ".join((err or out).split())[-200:]
        return f"{test.name}: ended with {code}: {end}"

    def environment(self, test):
        """The environment of an integration test, which is built here."""
        self.copy.make(*test.programs)
        script = next((word for word in test.command if word.endswith(".py")), "/")
        return {"DROVER_TEST_PATIENCE_S": str(run.PATIENCE_S),
                **self.copy.variables(os.path.relpath(script, self.copy.folder))}

    def digests(self, test):
        files = [self.copy.build / program for program in test.programs]
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


class UnitAndSim:
    """The suites unit and sim. @ledger keeps how each test ends without a mutant."""

    def __init__(self, build, ledger):
        self.build = build
        self.tests = build.of("unit", "sim")
        worlds = next(test for test in self.tests if test.name == "worlds")
        command = [worlds.command[0], "--seeds", SEEDS, "--jobs", str(build.jobs)]
        self.tests.append(worlds._replace(name="seeds", command=command))
        self.clean = {}  # name -> seconds, and the digests of its programs
        for test in self.tests:
            self.clean[test.name] = ledger.get(["clean", test.name])
            if not self.clean[test.name]:
                self.clean[test.name] = self.try_clean(test)
                ledger.add(["clean", test.name], self.clean[test.name])

    def try_clean(self, test):
        self.build.make(test)
        began = time.monotonic()
        fails = self.build.failure(test, CLEAN_S)
        took = round(time.monotonic() - began, 1)
        print(f"without a mutant: {test.name} {'fails' if fails else 'passes'} ({took} s)",
              flush=True)
        if fails:
            raise Broken(f"without a mutant: {fails}")
        return [took, self.build.digests(test)]

    def in_order(self, path):
        """The tests that are likely to catch a mutant of this file quickly come first."""
        first = ["narratives", f"test_{pathlib.Path(path).stem}",
                 "functions" if path.endswith(".lua") else f"test_{path.partition('/')[0]}",
                 "seeds"]
        rank = {name: i for i, name in enumerate(first)}
        return sorted(self.tests, key=lambda test: (
            rank.get(test.name, len(first)), self.clean[test.name][0]))

    def catch(self, path):
        """Return: the suite that catches the mutant in this file, and what fails; or two None."""
        for test in self.in_order(path):
            self.build.make(test)
            took, digests = self.clean[test.name]
            reads_it = path.endswith(".lua") and "sim" in test.suites
            if not reads_it and self.build.digests(test) == digests:
                continue
            fails = self.build.failure(test, SLOWER * took + SLACK_S)
            if fails:
                return "unit" if "unit" in test.suites else "sim", fails
        return None, None


class Integration:
    """The suite integration. @lines: the Lines of its tests."""

    def __init__(self, build, lines):
        self.build, self.lines = build, lines

    def catch(self, path, first, last):
        """Return: as UnitAndSim.catch(), for a mutant in these lines."""
        for test in self.lines.tests_that_run(path, first, last):
            longest_s = SLOWER * self.lines.took(test) + SLACK_S
            fails = self.build.failure(test, longest_s, self.build.environment(test))
            if fails:
                return "integration", fails
        return None, None
