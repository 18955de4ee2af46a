#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a mutant of tests/mutants/rules.py cannot be applied, or its test does not exist.

    mutants.py [ROOT]
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import rules


def source_of(test):
    """The script of a test, or the source of a test program, which is in or below the folder
    in which the program is built."""
    return test if test.suffix else next(test.parent.rglob(f"{test.name}.c"), test)


def has_case(text, case):
    """test_x, Class, Class.test_x; or story/failure, which a program combines."""
    if "/" in case:
        return all(f'"{word}"' in text for word in case.split("/"))
    return bool(re.search(rf"(def|class|void) {case.rpartition('.')[2]}\(", text))


def complaint(file, old, new, catcher=""):
    """What is wrong with a mutant; None if nothing is."""
    times = (ROOT / file).read_text().count(old)
    if times != 1 or old == new:
        return f"the text that it changes occurs {times} times in {file}"
    test, *cases = catcher.split() or [""]
    if not test.startswith("tests/"):
        return None
    path = source_of(ROOT / test)
    if not path.exists() or not cases:
        return f"{catcher} is no case of an existing test"
    missing = [case for case in cases if not has_case(path.read_text(), case)]
    return f"{test} has no {', '.join(missing)}" if missing else None


def main():
    wrong = 0
    for mutants in rules.RULES.values():
        for name, mutant in mutants.items():
            why = complaint(*mutant)
            if why:
                print(f"{name}: {why}")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
