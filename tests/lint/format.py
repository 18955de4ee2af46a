#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a C file is not formatted as .clang-format says

    format.py [--fix] [ROOT]

Each version of clang-format gives other results: without version 14 the check is skipped (exit 77).
"""

import os
import shutil
import subprocess
import sys

VERSION = "14"
SKIPPED = 77
TOPS = ("common", "scheduler", "agent", "supervisor", "cli", "tests", "bench")


def formatter():
    """The path of clang-format 14, or None."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path:
            output = subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True,
                                    check=True).stdout
            if f"version {VERSION}." in output:
                return path
    return None


def sources(root):
    for top in TOPS:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.join(folder, name)


def main(argv):
    fix = "--fix" in argv
    roots = [word for word in argv[1:] if word != "--fix"]
    path = formatter()
    if not path:
        print(f"clang-format {VERSION} is not installed")
        return 1 if fix else SKIPPED
    files = list(sources(roots[0] if roots else "."))
    if not files:
        print("no sources found", file=sys.stderr)
        return 1
    how = ["-i"] if fix else ["--dry-run", "-Werror"]
    return subprocess.run([path, *how, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv))
