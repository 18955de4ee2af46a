#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a .c or .h file does not open, after the licence, with a comment that has a title

    titles.py [ROOT]

The title is the first line of the comment, in a line of its own:

    // SPDX-License-Identifier: Apache-2.0
    /*
     * Slots: how many runs work at a time
"""

import pathlib
import re
import sys

TOPS = ("agent", "bench", "cli", "common", "demo", "examples", "scheduler", "supervisor", "tests")
TITLE = re.compile(r"// SPDX-License-Identifier: .*\n/\*\n \* \S.*\n")


def main(argv):
    root = pathlib.Path(argv[1] if len(argv) > 1 else ".")
    wrong = 0
    for top in TOPS:
        for path in sorted((root / top).rglob("*.[ch]")):
            if not TITLE.match(path.read_text(encoding="utf-8")):
                print(f"{path.relative_to(root)}:2: must open with a comment that has a title")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv))
