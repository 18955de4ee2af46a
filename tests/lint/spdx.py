#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a source file does not begin with the licence.

    spdx.py [ROOT]

The licence is in the first line, or in the second after a #! line.
"""

import os
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0"

# What begins a comment; files of other types (JSON, pictures, text) are not checked.
COMMENT_BY_SUFFIX = {
    **dict.fromkeys((".c", ".h", ".proto", ".js", ".mjs", ".ts", ".go"), "//"),
    **dict.fromkeys((".py", ".sh", ".build", ".options", ".yml", ".yaml", ".toml"), "#"),
    **dict.fromkeys((".cfg", ".conf", ".service", ".target", ".timer", ".socket"), "#"),
    ".lua": "--",
    ".scd": ";",
    ".css": "/*",
    ".html": "<!--",
}
COMMENT_BY_NAME = dict.fromkeys(("Dockerfile", "Makefile", "meson_options.txt"), "#")
SKIPPED_FOLDERS = ("__pycache__", "node_modules", "subprojects")


def comment_of(name):
    """What begins a comment in such a file; None if its type needs no licence line."""
    return COMMENT_BY_NAME.get(name, COMMENT_BY_SUFFIX.get(os.path.splitext(name)[1]))


def sources(root):
    for folder, folders, files in os.walk(root):
        if "meson-private" in folders:  # a build folder
            folders.clear()
            continue
        folders[:] = sorted(f for f in folders if f[0] != "." and f not in SKIPPED_FOLDERS)
        for name in sorted(files):
            if comment_of(name):
                yield os.path.relpath(os.path.join(folder, name), root)


def licensed(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        line = f.readline()
        if line.startswith("#!"):
            line = f.readline()
    return line.startswith(f"{comment_of(os.path.basename(path))} {LICENCE}")


def main(argv):
    root = argv[1] if len(argv) > 1 else "."
    paths = list(sources(root))
    if not paths:
        print(f"{root}: no sources found", file=sys.stderr)
        return 1
    problems = [path for path in paths if not licensed(root, path)]
    for path in problems:
        print(f"{path}:1: must begin with {LICENCE}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
