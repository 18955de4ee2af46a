#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a line of code or prose is longer than 100 columns

    columns.py [ROOT]

In Markdown, tables and blocks of code are left out, and lines that are one word.
"""

import pathlib
import sys

MOST = 100
TOPS = ("agent", "bench", "cli", "common", "demo", "deploy", "examples", "proto", "scheduler",
        "supervisor", "tests", "workflows", "docs")
LEFT_OUT = ("docs/results", "tests/coverage.cfg", "tests/fuzz/corpus")
ENDINGS = {".build", ".c", ".cfg", ".h", ".lua", ".md", ".proto", ".py", ".sh"}


def sources(root):
    yield from (root / "dev", root / "meson.build", root / "common/store/schema.txt")
    yield from sorted(root.glob("*.md"))
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            within = str(path.relative_to(root))
            if path.suffix in ENDINGS and not within.startswith(LEFT_OUT):
                yield path


def lines_of(path):
    """Yields (number, line) of what must fit."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if path.suffix == ".md":
            fence = line.lstrip().startswith("```")
            fenced ^= fence
            if fenced or fence or line.startswith("    ") or line.lstrip().startswith("|"):
                continue
            if " " not in line.strip():
                continue
        yield number, line


def main(argv):
    root = pathlib.Path(argv[1] if len(argv) > 1 else ".")
    wrong = 0
    for path in sources(root):
        if not path.is_file():
            continue
        for number, line in lines_of(path):
            if len(line) > MOST:
                print(f"{path.relative_to(root)}:{number}: {len(line)} columns")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv))
