#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explores tiny worlds, and shows that drover-explore finds planted bugs.

    explore.py BUILD [--all] [--seconds N] [--jobs N]

Without --all: worlds of some thousand states, and mutants of tests/mutants, each in a world in
which the explorer must find it. With --all: larger worlds; each is stopped after N seconds (600) if
it is not finished. Worlds that this build has explored completely are listed in
BUILD/tests/sim/explored and are not explored again. The last line says how many worlds were
explored completely, how many were stopped, how many violated an invariant, and how many could not
be explored because a process crashed.
"""

import argparse
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
STORE = "common/store/"  # where the parts of the library are

sys.path.insert(0, str(ROOT / "tests/mutants"))
sys.path.insert(0, str(ROOT / STORE))
import library  # noqa: E402
import rules  # noqa: E402

ONE = "--schedulers 1 --agents 1 --supervisors 1"  # of each; two if nothing is said

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
    f"--steps 1 {ONE} --budget restart=1",
    f"--steps 2 {ONE} --budget crash=1",
    f"--steps 3 {ONE} --budget crash=1",
    f"--steps 3 {ONE} --budget time=1",
    "--steps 3 --budget doubled=1",
    "--steps 3 --budget lost=1",
    "--steps 3 --flips 1",
    "--steps 1 --budget crash=1",
    "--steps 3 --flips 1 --budget crash=1,lost=1,doubled=1,time=1",
]

# A mutant of tests/mutants/rules.py, and the world in which it must be found.
FOUND = [
    (
        "a redelivered reply does not send its follow-up requests again",
        f"--steps 2 {ONE} --budget store=1",
    ),
    ("a reply's token is not compared", f"--steps 1 {ONE} --budget time=1"),
    # By a late call: the call was repeated and answered, and the next attempt is in flight.
    ("a reply's token is not compared", f"--steps 1 {ONE} --budget failure=1,store=1"),
    ("a repeated Submit makes its job again", f"--steps 1 {ONE} --budget doubled=1"),
    ("an expiry does not withdraw the token", f"--steps 1 {ONE} --budget time=1"),
    ("a step with an unknown effect is not undone", f"--steps 2 {ONE} --budget failure=1"),
    ("a lease that has ended proves that nothing was done", f"--steps 2 {ONE} --budget lost=1"),
    ("a permanent failure is tried again", f"--steps 2 {ONE} --budget permanent=1"),
]


class Explorer:
    def __init__(self, build, jobs):
        self.program = build / "tests/sim/drover-explore"
        self.jobs = jobs
        self.tests = self.failed = self.left_off = self.violations = self.crashed = 0
        self.whole = []  # the output for each world that was explored completely

    def explore(self, world, *more):
        """Return: the exit code and the output."""
        command = [
            "setpriv", "--pdeathsig", "KILL",
            self.program, *world.split(), "--jobs", str(self.jobs), *more,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).strip()

    def report(self, good, name, output):
        self.tests += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.tests} - {name}")
        for line in output.splitlines():
            print(f"# {line}", flush=True)

    def clean(self, world, *more):
        """Checks that no invariant is violated. Return: the output; None if the world was not
        explored completely."""
        code, output = self.explore(world, *more)
        left_off = code == 0 and ("left off" in output or "full" in output)
        self.report(code == 0, f"{world} # left off" if left_off else world, output)
        self.left_off += left_off
        self.violations += code == 1
        self.crashed += code not in (0, 1)
        if code or left_off:
            return None
        self.whole.append(output)
        return output

    def summary(self):
        states, events = (sum(column) for column in zip((0, 0), *map(numbers, self.whole)))
        return (
            f"{len(self.whole)} worlds explored to their end ({states} states, {events} events), "
            f"{self.left_off} left off, {self.violations} violations, {self.crashed} crashed"
        )

    def finds(self, mutant, world):
        file, old, new, *_ = next(
            of_rule[mutant] for of_rule in rules.RULES.values() if mutant in of_rule
        )
        text, part = (ROOT / file).read_text(), file.removeprefix(STORE)
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as functions:
            functions.write(library.join({part: text.replace(old, new)}))
            functions.flush()
            code, output = self.explore(world, "--functions", functions.name)
        planted = part in library.PARTS and text.count(old) == 1
        self.report(
            planted and code == 1,
            f"finds: {mutant}, {world}",
            output if planted else "the mutant cannot be applied",
        )

    def key(self, world):
        """Of this world in this build."""
        parts = [self.program.read_bytes(), library.join().encode(), world.encode()]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def numbers(output):
    """The numbers of states and of events."""
    return [int(number) for number in re.findall(r"(\d+) (?:states|events)", output)]


def explore_all(explorer, ledger, seconds):
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    known = dict(line.split(" ", 1) for line in lines)
    for world in SMALL + LARGE:
        key = explorer.key(world)
        if key in known:
            explorer.report(True, world, known[key])
            explorer.whole.append(known[key])
        elif output := explorer.clean(world, "--seconds", str(seconds)):
            with ledger.open("a") as file:
                print(key, re.sub(r"\s+", " ", output), file=file)


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
