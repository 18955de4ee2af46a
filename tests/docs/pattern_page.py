#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/PATTERN.md: the files in the last column of its tables exist, and have the functions
that are named after them

    pattern_page.py check [ROOT]

*Lua* stands for the library of the store functions.
"""

import pathlib
import re
import sys

PAGE = "docs/PATTERN.md"
LUA = "common/store"  # the parts of the library
NAME = re.compile(r"\bLua\b|`([^`]+)`")


def defines(text, name):
    """Whether a source in C or Lua has a function of this name."""
    name = re.escape(name)
    lua = rf"^ *(?:local )?function {name}\(|^{name} = function"
    return re.search(rf"{lua}|^[^\s#].*\b{name}\([^;]*$", text, re.MULTILINE)


def texts(place):
    """Returns the texts in which a name after this place may be defined."""
    files = [place] if place.is_file() else place.glob("*.lua")
    return [path.read_text(encoding="utf-8") for path in files]


def problems(root, page):
    found = 0
    for row in re.findall(r"^\|.*\|$", page, re.MULTILINE):
        place = None
        for name in NAME.finditer(row.split("|")[-2]):
            found += 1
            word = name[1] or LUA
            if not word.endswith("()"):
                place = root / word
                if not place.exists():
                    yield f"{word} does not exist"
            elif not place or not texts(place):
                yield f"{word} follows no file"
            elif not any(defines(text, word[:-2]) for text in texts(place)):
                yield f"{place.relative_to(root)} has no {word}"
    if not found:
        yield "its tables name no code"


def main(argv):
    root = pathlib.Path(argv[2] if len(argv) > 2 else ".")
    found = list(problems(root, (root / PAGE).read_text(encoding="utf-8")))
    for problem in found:
        print(f"{PAGE}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] != "check":
        sys.exit(__doc__)
    sys.exit(main(sys.argv))
