#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/FAULTS.md: which test covers which cell of the grid

    faults_page.py check [ROOT]     fails if the page is not up to date, or a test names no cell
    faults_page.py write [ROOT]

It has three sources: cells.AROUND, from which test_cells.py makes its tests; the docstrings of
tests and their classes, in tests/fault and tests/integration, which name cells such as B7.F6; and
the table in tests/sim/world/feature.c, which lists the cells that `drover-sim --features` must
have seen.
"""

import ast
import collections
import pathlib
import re
import sys
import textwrap

import cells

PAGE = "docs/FAULTS.md"
WIDTH = 100
FEATURES = "tests/sim/world/feature.c"
SIMULATED = re.compile(r'\[(\d+)\] = \{"([^"]+)",\s*"([\d ]+)"\}')
CELL = re.compile(r"\bB\d+\.F\d+\b")
FOLDERS = ("tests/fault", "tests/integration")
ALONE = "test_cells.py"

HEAD = """\
# Faults

<!-- made by tests/fault/faults_page.py -->

This page shows which fault was tested at which place. The columns of the grid are twenty-one
faults. The rows are fourteen boundaries between what the store has recorded, what the broker has,
and what was done. {required} cells of the grid are possible. **{real} are covered by tests on real
processes and servers**, {both} of them by simulation as well; **{simulated} by simulation only**;
{open} by no test.

`./dev test fault` runs the tests in `tests/fault`. An independent checker
(`tests/fault/checker.py`) judges each run by what was seen from outside. The tests in
`tests/integration` are part of `./dev test`, and so are a few cells (suite `fault-smoke`).

The simulator draws its faults at random in every world, and checks its own invariants after every
step. Where a fault strikes, it notes the boundary. `build/tests/sim/drover-sim --seeds 1..5000
--features` counts the worlds that have shown each cell marked S, and fails if no world has shown
one; so does `./dev test`. Some cells share an event, which counts for each of them. F20 is F1 or
F2. An agent takes up a request (B5) and begins its run (B6) at once. The store records a reply (B8)
and in the same call lets the job go on; that is B9 only if the answer says that the job has settled
or that steps were dispatched.

R: real processes · S: simulation · RS: both · o: no test · -: impossible
"""


def docstrings(root):
    """(file, Class.test or test, docstring) of all tests."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("test_*.py"), key=lambda path: path.name):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in tree.body:
                if not isinstance(node, ast.ClassDef):
                    continue
                for test in node.body:
                    if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                        texts = [ast.get_docstring(each) or "" for each in (node, test)]
                        yield path.name, f"{node.name}.{test.name}", " ".join(texts)


def real(root):
    """cell -> tests, as "file Class.test"."""
    out = collections.defaultdict(list)
    for fault, places in cells.AROUND.items():
        for place in places:
            out[f"{cells.boundary_of(place)}.{fault}"].append(f"{ALONE} {fault}.test_{place}")
    for file, test, text in docstrings(root):
        for cell in CELL.findall(text):
            out[cell].append(f"{file} {test}")
    return out


def simulated(root):
    """fault -> how a world shows it; the cells that worlds show"""
    table = SIMULATED.findall((root / FEATURES).read_text(encoding="utf-8"))
    shown = {f"B{n}.F{fault}" for fault, _, boundaries in table for n in boundaries.split()}
    return {f"F{fault}": what for fault, what, _ in table}, shown


def order(cell):
    return [int(number) for number in re.findall(r"\d+", cell)]


def mark(cell, required, by_tests, by_worlds):
    if cell not in required:
        return "-"
    return ("R" if cell in by_tests else "") + ("S" if cell in by_worlds else "") or "o"


def page(required, by_tests, by_worlds, whats):
    covered = set(by_tests) & set(required)
    worlds = set(by_worlds) & set(required)
    lines = [
        HEAD.format(
            required=len(required),
            real=len(covered),
            both=len(covered & worlds),
            simulated=len(worlds - covered),
            open=len(set(required) - covered - worlds),
        ),
        "| | " + " | ".join(cells.FAULTS) + " |",
        "|---" * (len(cells.FAULTS) + 1) + "|",
    ]
    for boundary in cells.BOUNDARIES:
        marks = [mark(f"{boundary}.{f}", required, by_tests, by_worlds) for f in cells.FAULTS]
        lines.append(f"| {boundary} | " + " | ".join(marks) + " |")
    lines += ["", "| boundary | |", "|---|---|"]
    lines += [f"| {name} | {what} |" for name, what in cells.BOUNDARIES.items()]
    lines += ["", "| fault | | in the simulator |", "|---|---|---|"]
    for name, what in cells.FAULTS.items():
        lines.append(f"| {name} | {what} | {whats.get(name, '')} |")
    lines += ["", "## On real processes", "", cells.MUST, "| cell | must | test |", "|---|---|---|"]
    for cell in sorted(covered, key=order):
        tests = "<br>".join(f"`{test}`" for test in by_tests[cell])
        lines.append(f"| {cell} | {required[cell]} | {tests} |")
    lines += ["", "## Departures", "", "| cell | demanded | Drover |", "|---|---|---|"]
    for cell in sorted(cells.DEPARTURES, key=order):
        lines.append(f"| {cell} | {required[cell]} | {cells.DEPARTURES[cell]} |")
    missing = sorted(set(required) - covered - worlds, key=order)
    lines += ["", "## Without a test", "", " ".join(missing) or "No cell.", ""]
    lines += [textwrap.fill(f"- {what}", WIDTH, subsequent_indent="  ") for what in cells.NOT_SHOWN]
    return "\n".join(lines) + "\n"


def strange(required, by_tests, by_worlds):
    """Cells that a test covers although they are not in the grid."""
    for cell in sorted((set(by_tests) | set(by_worlds)) - set(required), key=order):
        who = by_tests.get(cell) or [FEATURES]
        yield f"{cell}, which {who[0]} names, is no cell of the grid"


def main(argv):
    root = pathlib.Path(argv[2] if len(argv) > 2 else ".")
    required, by_tests = cells.required(), real(root)
    whats, by_worlds = simulated(root)
    wanted = page(required, by_tests, by_worlds, whats)
    found = list(strange(required, by_tests, by_worlds))
    if argv[1] == "write":
        (root / PAGE).write_text(wanted, encoding="utf-8")
    elif not (root / PAGE).exists() or (root / PAGE).read_text(encoding="utf-8") != wanted:
        found.append(f"{PAGE} is not up to date: run tests/fault/faults_page.py write")
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv))
