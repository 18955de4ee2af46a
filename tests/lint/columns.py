#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a line of code is longer than 100 columns

    columns.py [ROOT]
"""

import pathlib
import sys

MOST = 100
TOPS = ("agent", "bench", "cli", "common", "demo", "deploy", "examples", "proto", "scheduler",
        "supervisor", "tests")
ENDINGS = {".build", ".c", ".h", ".lua", ".proto", ".py", ".sh"}


def sources(root):
    yield from (root / "dev", root / "meson.build", root / "common/store/schema.txt")
    for top in TOPS:
        yield from (p for p in sorted((root / top).rglob("*")) if p.suffix in ENDINGS)


def main(argv):
    root = pathlib.Path(argv[1] if len(argv) > 1 else ".")
    wrong = 0
    for path in sources(root):
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > MOST:
                print(f"{path.relative_to(root)}:{number}: {len(line)} columns")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv))
