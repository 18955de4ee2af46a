#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where a mutant of tests/mutants/rules.py can no longer be applied, or its test is gone.

    mutants.py [ROOT]
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import rules


def complaint(file, old, new, catcher=""):
    """What is wrong with a mutant; None where nothing is."""
    times = (ROOT / file).read_text().count(old)
    if times != 1 or old == new:
        return f"what it changes stands {times} times in {file}"
    test, _, cases = catcher.partition(" ")
    if test.startswith("tests/integration/"):
        text = (ROOT / test).read_text() if (ROOT / test).exists() else ""
        missing = [case for case in cases.split()
                   if not re.search(rf"(def|class) {case.rpartition('.')[2]}\(", text)]
        if not text or missing:
            return f"{test} has no {', '.join(missing) or 'text'}"
    elif test.startswith("tests/") and not (ROOT / f"{test}.c").exists():
        return f"there is no {test}.c"
    return None


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
