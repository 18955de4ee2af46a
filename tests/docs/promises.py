#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a promise of RELIABILITY has no check, or a bug of results/findings has no replay

    promises.py check [ROOT]

A promise that is "simulated" must be the number of some violation in tests/sim, one that is seen
from "outside" that of some in tests/fault, and the other way round. The mutant, the case of a test,
or the input of a fuzzer that a bug names must exist.
"""

import pathlib
import re
import sys

PAGE = "docs/RELIABILITY.md"
BUGS_PAGE = "docs/results/findings.md"
ROW = re.compile(r"^\| ([ILM]\d+) \| .* \| (.*) \|$", re.MULTILINE)
BUGS = "| bug | found by | replay | fix |\n|---|---|---|---|\n"
CHECKERS = {  # marker on the page -> the files, and how a violation begins in them
    "simulated": ("tests/sim", "**/*.c", re.compile(r'"([ILM]\d+) ')),
    "outside": ("tests/fault", "*.py", re.compile(r'"([ILM]\d+)"')),
}


def source_of(test):
    """The script of a test, or the source of a test program, which is in or below the folder
    in which the program is built."""
    return test if test.suffix else next(test.parent.rglob(f"{test.name}.c"), test)


def is_there(root, replay):
    """Whether what replays a bug exists."""
    kind, _, name = replay.partition(": ")
    if kind == "mutant":
        text = (root / "tests/mutants/rules.py").read_text(encoding="utf-8")
        return f'        "{name}": (\n' in text
    if kind == "fuzz":
        return (root / "tests/fuzz/corpus" / name).is_file()
    test, _, case = replay.partition(" ")
    path = source_of(root / "tests" / test)
    pattern = rf"(def|void) {re.escape(case.rpartition('.')[2])}\("
    return path.is_file() and bool(re.search(pattern, path.read_text(encoding="utf-8")))


def bugs_without_replay(root):
    page = (root / BUGS_PAGE).read_text(encoding="utf-8")
    rows = page.partition(BUGS)[2].partition("\n\n")[0].splitlines()
    if not rows:
        yield f"there is no table of bugs in {BUGS_PAGE}"
    for row in rows:
        cells = row.strip("| ").split(" | ")
        if len(cells) != 4 or not is_there(root, cells[2]):
            yield f"nothing replays: {row}"


def problems(root):
    page = (root / PAGE).read_text(encoding="utf-8")
    yield from bugs_without_replay(root)
    promised = dict(ROW.findall(page))
    for word, (folder, files, violation) in CHECKERS.items():
        paths = [p for p in sorted((root / folder).glob(files)) if not p.name.startswith("test_")]
        checked = set(violation.findall("".join(p.read_text(encoding="utf-8") for p in paths)))
        marked = {number for number, shown in promised.items() if word in shown}
        for number in sorted(marked - checked):
            yield f"{number} is marked {word}, and nothing in {folder} checks it"
        for number in sorted(checked - marked):
            yield f"{number} is checked in {folder}, and not marked {word}"


def main(argv):
    found = list(problems(pathlib.Path(argv[2] if len(argv) > 2 else ".")))
    for problem in found:
        print(f"{PAGE}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] != "check":
        sys.exit(__doc__)
    sys.exit(main(sys.argv))
