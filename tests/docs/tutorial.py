#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types what docs/TUTORIAL.md tells to type, and compares what it tells to see

A bash runs the blocks marked sh, one after the other, in a folder that looks like a clone but for a
./dev of its own: it builds nothing, and its servers are private to this test. After each block comes
the block marked text, if there is one: the same lines, but for numbers, times and the order of lines
that come from steps side by side.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import cluster  # noqa: E402
import wire  # noqa: E402

PAGE = ROOT / "docs" / "TUTORIAL.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.M | re.S)
END = "--- the block has ended ---"
LIMIT_S = 300
DEV = """#!/bin/sh
servers="/usr/bin/python3 -B {root}/tests/lib/servers.py"
case $1 in
build) ;;
up) $servers up --dir {folder}/servers >&2 && $servers env --dir {folder}/servers ;;
down) $servers down --dir {folder}/servers --wipe ;;
*) exit 2 ;;
esac
"""


def blocks():
    """[(commands, what is seen or None)]"""
    found = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "sh":
            found.append([text, None])
        else:
            found[-1][1] = text
    return found


def bare(text):
    """Lines without what differs from time to time."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)?m?s\b", "SPAN", text)
    return sorted(re.sub(r" +", " ", line.rstrip()) for line in text.strip().splitlines())


def clone(folder):
    """What looks like the source tree, with a ./dev of its own."""
    for entry in ROOT.iterdir():
        if entry.name not in ("dev", "mine") and not entry.name.startswith("build"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(wire.BUILD)
    dev = folder / "dev"
    dev.write_text(DEV.format(root=ROOT, folder=folder))
    dev.chmod(0o755)


class Shell:
    """A bash that keeps its variables and jobs from block to block, as a person's does."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env=cluster.own_environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def type(self, commands):
        self.process.stdin.write(f"{commands}\necho '{END}'\n")
        self.process.stdin.flush()
        seen = []
        for line in self.process.stdout:
            if line.rstrip("\n") == END:
                return "".join(seen)
            seen.append(line)
        raise SystemExit(f"not ok - the shell has ended: {''.join(seen)}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def run(folder):
    shell, good = Shell(folder), True
    began = time.monotonic()
    steps = blocks()
    print(f"1..{len(steps) + 1}")
    try:
        for number, (commands, wanted) in enumerate(steps, 1):
            seen = shell.type(commands)
            fits = wanted is None or bare(seen) == bare(wanted)
            good = good and fits
            print(f"{'ok' if fits else 'not ok'} {number} - {commands.splitlines()[0]}", flush=True)
            if not fits:
                print("".join(f"# seen: {line}\n" for line in seen.splitlines()), end="")
    finally:
        shell.type("kill $(jobs -p) 2>/dev/null; wait; ./dev down >/dev/null 2>&1")
        shell.close()
    took = time.monotonic() - began
    print(f"{'ok' if took < LIMIT_S else 'not ok'} {len(steps) + 1} - five minutes at most")
    print(f"# {took:.0f} s")
    return 0 if good and took < LIMIT_S else 1


if __name__ == "__main__":
    os.environ.setdefault("DROVER_BUILD", str(wire.BUILD))
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        clone(directory)
        sys.exit(run(directory))
