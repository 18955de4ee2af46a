#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that the simulator, and the tests, catch what they are there for.

    sabotage.py [--seeds N] [--only WORDS]

Plants the bugs of planted.py, one after the other, into a copy of the sources, and builds and runs there
what is to catch them: up to N seeds of the simulator (default 1000), of which one must fail, or the test
that is named with the bug. Without a bug none may. --only takes the bugs in whose name, or rule, the WORDS
stand. As many copies as there are processors work side by side, a rule at a time.

Exits with 1 where a bug got through, with 2 where one can no longer be planted because the code has
changed, or what is to catch it fails without it.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import planted

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ["/usr/bin/python3", "-B"]
SIMULATOR = "tests/sim/drover-sim"
SEEDS_S, PROGRAM_S, SERVERS_S = 1200, 120, 300  # what may be taken to catch a bug


class Useless(Exception):
    """What the compiler says of a planted bug, or why a test said nothing of it."""


class Copy:
    """The sources in a folder of their own, and what is built of them."""

    def __init__(self, folder):
        self.folder = folder / "drover"
        self.build = self.folder / "build"
        left_out = shutil.ignore_patterns("build", "build-*", ".git", "__pycache__")
        shutil.copytree(ROOT, self.folder, ignore=left_out)
        subprocess.run(["meson", "setup", self.build, self.folder], check=True, capture_output=True)

    def make(self, *targets):
        done = subprocess.run(["ninja", "-C", self.build, *targets], capture_output=True, text=True)
        if done.returncode != 0:
            raise Useless(re.search(r"^.*error: .*$|\Z", done.stdout, re.M).group() or done.stdout)

    def run(self, longest_s, *command):
        """Its exit code, None where it did not end, and what it said."""
        env = {**os.environ, "DROVER_BUILD": str(self.build), "CMOCKA_MESSAGE_OUTPUT": "TAP"}
        with subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                out, err = process.communicate(timeout=longest_s)
                return process.returncode, out, err
            except subprocess.TimeoutExpired:
                process.terminate()
                return None, *process.communicate()

    def failure(self, catcher, seeds):
        """What fails of the seeds, or of the test that is named; None where nothing does."""
        if catcher.startswith("tests/integration/"):
            self.make()
            test, *cases = catcher.split()
            servers = [*PYTHON, self.folder / "tests/lib/servers.py", "run", "--"]
            code, out, err = self.run(SERVERS_S, *servers, *PYTHON, self.folder / test, *cases)
        elif catcher.startswith("tests/"):
            self.make(catcher)
            code, out, err = self.run(PROGRAM_S, self.build / catcher)
        else:
            self.make(SIMULATOR)
            program = self.build / SIMULATOR
            code, out, err = self.run(SEEDS_S, program, "--seeds", f"1..{seeds}", *catcher.split())
        found = re.search(r"^seed \d+: .*$", out, re.M) or re.search(r"(?<=^not ok )\d+ - (\S+)", out, re.M)
        if code == 0:
            return None
        name = pathlib.Path(catcher.split()[0]).name + ": " if catcher.startswith("tests/") else ""
        if found:
            return name + (found[found.lastindex or 0]).removeprefix("__main__.")
        if code and catcher.startswith("tests/integration/"):
            raise Useless(f"{name}no case failed, yet {(err or out).strip()[-200:]}")
        end = f"ended with {code}: {(err or out).strip()[-200:]}" if code else "did not end"
        return name + end


def kind_of(catcher):
    kinds = {"tests/integration/": "an integration test", "tests/": "a unit test", "": "a seed"}
    return next(kind for prefix, kind in kinds.items() if catcher.startswith(prefix))


class Trial:
    def __init__(self, folder, seeds, catchers):
        self.folder = folder
        self.seeds = seeds
        self.together = {}  # a test -> it and all of its cases that are to catch a bug
        for test, _, cases in (catcher.partition(" ") for catcher in sorted(catchers)):
            self.together[test] = f"{self.together.get(test, test)} {cases}".strip()
        self.clean = {}  # the same -> what fails without a bug
        self.controls = threading.Lock()
        self.own = threading.local()  # copy: the thread's

    def set_up(self):
        self.own.copy = Copy(pathlib.Path(tempfile.mkdtemp(dir=self.folder)))

    def control(self, catcher):
        catcher = self.together[catcher.partition(" ")[0]]
        with self.controls:
            if catcher not in self.clean:
                self.clean[catcher] = self.own.copy.failure(catcher, self.seeds)
            return self.clean[catcher]

    def plant(self, file, old, new, catcher=""):
        """Whether that was caught, and by what, or why not."""
        path = self.own.copy.folder / file
        text = path.read_text()
        if text.count(old) != 1:
            return None, f"CANNOT BE PLANTED: stands {text.count(old)} times in {file}"
        try:
            fails = self.control(catcher)
            if fails:
                return None, f"CANNOT BE JUDGED: without a bug, {fails}"
            path.write_text(text.replace(old, new))
            caught = self.own.copy.failure(catcher, self.seeds)
            return bool(caught), caught or f"GOT THROUGH: {catcher or 'seeds'}"
        except Useless as error:
            return None, f"CANNOT BE JUDGED: {error}"
        finally:
            path.write_text(text)

    def try_rule(self, bugs):
        """Of each: its name, how it is to be caught, and what plant() says."""
        return [(name, "".join(bug[3:]), *self.plant(*bug)) for name, bug in bugs.items()]


def chosen(words):
    """Rules and their bugs."""
    for rule, bugs in planted.RULES.items():
        some = {name: bug for name, bug in bugs.items() if words in name or words in rule}
        if some:
            yield rule, some


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rules = dict(chosen(options.only))
    catchers = {"".join(bug[3:]) for bugs in rules.values() for bug in bugs.values()}
    began, status, counts = time.monotonic(), 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(folder, options.seeds, catchers)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count(), initializer=trial.set_up) as copies:
            for rule, tried in zip(rules, copies.map(trial.try_rule, rules.values())):
                print(f"\n{rule}", flush=True)
                for name, catcher, caught, what in tried:
                    print(f"  {name}\n      {what}", flush=True)
                    counts[kind_of(catcher) if caught else "nothing"] += 1
                    status = max(status, {True: 0, False: 1, None: 2}[caught])
    by = ", ".join(f"{n} by {kind}" for kind, n in counts.items())
    minutes = (time.monotonic() - began) / 60
    print(f"\n{len(rules)} rules, {counts.total()} bugs: caught {by}; {minutes:.0f} minutes")
    return status


if __name__ == "__main__":
    sys.exit(main())
