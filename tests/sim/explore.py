#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explores tiny worlds, and shows that drover-explore finds what it is there for.

    explore.py BUILD [--all] [--seconds N] [--jobs N]

Without --all: worlds of some thousand states, and mutants of tests/mutants, each in a world where the explorer
must find it. With it: larger worlds, each left off after N seconds (600) where it has not come to an end; what
was explored to its end, by this build, is kept in BUILD/tests/sim/explored, and not explored again. The last
line tells how many worlds came to their end, how many were left off, in how many something was violated, and
how many could not be explored, as a process crashed.
"""

import argparse
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = "common/store/drover.lua"

sys.path.insert(0, str(ROOT / "tests/mutants"))
import rules  # noqa: E402

ONE = "--schedulers 1 --agents 1 --supervisors 1"  # of each; two where nothing is said

SMALL = [
    "--steps 3",
    f"--steps 3 {ONE}",
    f"--steps 1 {ONE}",
    f"--steps 3 {ONE} --flips 1",
    f"--steps 3 {ONE} --budget lost=1",
    f"--steps 1 {ONE} --budget doubled=1",
    f"--steps 3 {ONE} --budget store=1",
    f"--steps 3 {ONE} --budget failure=1",
    f"--steps 3 {ONE} --budget permanent=1",
    f"--steps 3 {ONE} --budget crash=1 --struck agent",
    f"--steps 1 {ONE} --budget cut=1 --struck agent",
    "--steps 1 --budget crash=1 --struck agent-1",
    f"--steps 1 {ONE} --budget refused=1",
    f"--steps 1 {ONE} --budget store=1",
    f"--steps 1 {ONE} --budget crash=1 --struck agent",
]

LARGE = [
    f"--steps 3 {ONE} --budget doubled=1",
    "--steps 1 --budget doubled=1",
    f"--steps 3 {ONE} --budget refused=1",
    "--steps 1 --budget permanent=1",
    "--steps 1 --budget lost=1",
    "--steps 1 --budget failure=1",
    "--steps 1 --budget store=1",
    "--steps 1 --flips 1",
    f"--steps 1 {ONE} --budget crash=1",
    f"--steps 1 {ONE} --budget time=1",
    f"--steps 1 {ONE} --budget cut=1",
    f"--steps 1 {ONE} --flips 2",
    f"--steps 3 {ONE} --flips 1 --budget lost=1",
    f"--steps 3 {ONE} --flips 1 --budget permanent=1",
    f"--steps 2 {ONE} --budget lost=1,doubled=1",
    f"--steps 2 {ONE} --budget failure=1,lost=1",
    f"--steps 1 {ONE} --budget failure=1,doubled=1",
    f"--steps 2 {ONE} --budget failure=1,store=1",
    f"--steps 2 {ONE} --budget permanent=1,store=1",
    f"--steps 3 {ONE} --budget cut=1 --struck agent",
    f"--steps 2 {ONE} --budget crash=1",
    f"--steps 3 {ONE} --budget crash=1",
    f"--steps 3 {ONE} --budget time=1",
    "--steps 3 --budget doubled=1",
    "--steps 3 --budget lost=1",
    "--steps 3 --flips 1",
    "--steps 1 --budget crash=1",
    "--steps 3 --flips 1 --budget crash=1,lost=1,doubled=1,time=1",
]

# Name in tests/mutants/rules.py, and the world in which it must show.
FOUND = [
    ("a redelivered reply does not send its follow-ups again", f"--steps 2 {ONE} --budget store=1"),
    ("a reply's token is not compared", f"--steps 1 {ONE} --budget time=1"),
    # by a call that is late: one that was made again has been answered, and the next attempt is in flight
    ("a reply's token is not compared", f"--steps 1 {ONE} --budget failure=1,store=1"),
    ("a Submit is made again each time that it comes", f"--steps 1 {ONE} --budget doubled=1"),
    ("expire does not withdraw the token", f"--steps 1 {ONE} --budget time=1"),
    ("what is not known is not undone", f"--steps 2 {ONE} --budget failure=1"),
    ("a lease that ended is taken for one in which nothing was done", f"--steps 2 {ONE} --budget lost=1"),
    ("a permanent failure is tried again", f"--steps 2 {ONE} --budget permanent=1"),
]


class Explorer:
    def __init__(self, build, jobs):
        self.program = build / "tests/sim/drover-explore"
        self.jobs = jobs
        self.tests = self.failed = self.left_off = self.violations = self.crashed = 0
        self.whole = []  # what was said of each world that was explored to its end

    def explore(self, world, *more):
        """Return: the exit code, and what was said."""
        command = ["setpriv", "--pdeathsig", "KILL", self.program, *world.split(), "--jobs", str(self.jobs), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).strip()

    def tell(self, good, name, said):
        self.tests += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.tests} - {name}")
        for line in said.splitlines():
            print(f"# {line}", flush=True)

    def clean(self, world, *more):
        """Nothing is violated there. Return: what was said; None where it was not explored to its end."""
        code, said = self.explore(world, *more)
        left_off = code == 0 and ("left off" in said or "full" in said)
        self.tell(code == 0, f"{world} # left off" if left_off else world, said)
        self.left_off += left_off
        self.violations += code == 1
        self.crashed += code not in (0, 1)
        if code or left_off:
            return None
        self.whole.append(said)
        return said

    def summary(self):
        states, events = (sum(column) for column in zip((0, 0), *map(numbers, self.whole)))
        return (
            f"{len(self.whole)} worlds explored to their end ({states} states, {events} events), "
            f"{self.left_off} left off, {self.violations} violations, {self.crashed} crashed"
        )

    def finds(self, mutant, world):
        file, old, new, *_ = next(of_rule[mutant] for of_rule in rules.RULES.values() if mutant in of_rule)
        text = (ROOT / file).read_text()
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as functions:
            functions.write(text.replace(old, new))
            functions.flush()
            code, said = self.explore(world, "--functions", functions.name)
        planted = file == FUNCTIONS and text.count(old) == 1
        self.tell(planted and code == 1, f"finds: {mutant}, {world}", said if planted else "it cannot be planted")

    def key(self, world):
        """Of this world, in this build."""
        parts = [self.program.read_bytes(), (ROOT / FUNCTIONS).read_bytes(), world.encode()]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def numbers(said):
    """Of states and of events."""
    return [int(number) for number in re.findall(r"(\d+) (?:states|events)", said)]


def explore_all(explorer, ledger, seconds):
    known = dict(line.split(" ", 1) for line in ledger.read_text().splitlines()) if ledger.exists() else {}
    for world in SMALL + LARGE:
        key = explorer.key(world)
        if key in known:
            explorer.tell(True, world, known[key])
            explorer.whole.append(known[key])
        elif said := explorer.clean(world, "--seconds", str(seconds)):
            with ledger.open("a") as file:
                print(key, re.sub(r"\s+", " ", said), file=file)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    explorer = Explorer(options.build, options.jobs)
    if options.all:
        explore_all(explorer, options.build / "tests/sim/explored", options.seconds)
    else:
        for world in SMALL:
            explorer.clean(world)
        for mutant, world in FOUND:
            explorer.finds(mutant, world)
    print(f"1..{explorer.tests}\n# {explorer.summary()}")
    return int(explorer.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
