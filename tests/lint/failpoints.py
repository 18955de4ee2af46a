#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a store function has no failpoint, or no test in which it fires.

    failpoints.py [ROOT]

Compares the functions that common/store/registration.lua registers with the table FUNCTIONS in
common/io/failpoint.c, and that with the table in tests/integration/operation/test_failpoints.py.
"""

import pathlib
import re
import sys

LIBRARY = "common/store/registration.lua"
TABLE = "common/io/failpoint.c"
TEST = "tests/integration/operation/test_failpoints.py"
NOT_OF_ROLES = {"version"}  # called by the store check


def problems(root):
    registered = set(re.findall(r"^register\('(\w+)'", (root / LIBRARY).read_text(), re.MULTILINE))
    table = re.search(r"FUNCTIONS\[\] = \{(.*?)\};", (root / TABLE).read_text(), re.DOTALL).group(1)
    known = set(re.findall(r'"(\w+)"', table))
    tested = set(re.findall(r'"store\.(\w+)": ', (root / TEST).read_text()))
    if not registered - NOT_OF_ROLES or not tested:
        yield f"{LIBRARY} registers nothing, or {TEST} has no table: was their format changed?"
    for name in sorted(registered - NOT_OF_ROLES - known):
        yield f"{LIBRARY} registers {name}: add it to FUNCTIONS in {TABLE}"
    for name in sorted(known - registered):
        yield f"{TABLE}: FUNCTIONS has {name}, which {LIBRARY} does not register"
    for name in sorted(known - tested):
        yield f'{TEST}: POINTS lacks "store.{name}": say which daemon calls it, and have it called'


def main(argv):
    found = list(problems(pathlib.Path(argv[1] if len(argv) > 1 else ".")))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
