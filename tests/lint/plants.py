#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where a bug of tests/sim/planted.py can no longer be planted, or its test is gone.

    plants.py [ROOT]
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests" / "sim"))

import planted


def complaint(file, old, new, catcher=""):
    """What is wrong with a bug; None where nothing is."""
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
    return None


def main():
    wrong = 0
    for bugs in planted.RULES.values():
        for name, bug in bugs.items():
            why = complaint(*bug)
            if why:
                print(f"{name}: {why}")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
