#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the commands of a page, and compares the output with that on the page

    typed_page.py PAGE

A bash runs the blocks marked sh, one after the other, in a folder that looks like a clone but has a
./dev of its own, which builds nothing and uses private servers. No command may fail. The block
marked text that follows, if there is one, must be the output, except for numbers, times and the
order of lines of parallel steps. A workflow in a block without a mark must be the same in
workflows/.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import cluster  # noqa: E402
import wire  # noqa: E402

BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.M | re.S)
WORKFLOW = re.compile(r"^```\n(name = .*?)^```$", re.M | re.S)
NOT_HERE = "./dev demo\n./dev test\n"  # this test is part of the second
EXTRA = re.compile(r"^amqp-\w+", re.M)  # tools that not every machine has
FAILED = "--- failed: "
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


def blocks(page):
    """[(commands, output or None)]"""
    found = []
    for kind, text in BLOCK.findall(page):
        if text == NOT_HERE:
            continue
        if kind == "sh":
            found.append([text, None])
        else:
            found[-1][1] = text
    return found


def unknown_workflows(page):
    """The workflows on the page that are not in workflows/."""
    files = [file.read_text() for file in (ROOT / "workflows").glob("*.cfg")]
    return [text for text in WORKFLOW.findall(page) if not any(text in file for file in files)]


def missing(commands):
    return [tool for tool in EXTRA.findall(commands) if not shutil.which(tool)]


def bare(text):
    """The lines without what changes from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)?m?s\b", "SPAN", text)
    return sorted(re.sub(r" +", " ", line.rstrip()) for line in text.strip().splitlines())


def clone(folder):
    """A folder like the source tree, with a ./dev of its own."""
    for entry in ROOT.iterdir():
        if entry.name not in ("dev", "mine") and not entry.name.startswith("build"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(wire.BUILD)
    dev = folder / "dev"
    dev.write_text(DEV.format(root=ROOT, folder=folder))
    dev.chmod(0o755)


class Shell:
    """A bash that keeps its variables and jobs from block to block, like that of a person."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env=cluster.own_environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.type(f"trap 'echo \"{FAILED}$BASH_COMMAND\"' ERR")

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


def run(page, folder):
    shell, points = Shell(folder), []

    def point(good, text):
        points.append(good)
        print(f"{'ok' if good else 'not ok'} {len(points)} - {text}", flush=True)
        return good

    began = time.monotonic()
    try:
        for commands, wanted in blocks(page):
            title = commands.splitlines()[0]
            if missing(commands):
                point(True, f"{title} # SKIP no {', '.join(missing(commands))}")
                continue
            seen = shell.type(commands)
            fits = FAILED not in seen if wanted is None else bare(seen) == bare(wanted)
            if not point(fits, title):
                print("".join(f"# seen: {line}\n" for line in seen.splitlines()), end="")
    finally:
        shell.type("kill $(jobs -p) 2>/dev/null; wait; ./dev down >/dev/null 2>&1")
        shell.close()
    took = time.monotonic() - began
    for text in unknown_workflows(page):
        point(False, f"in workflows/: {text.splitlines()[0]}")
    point(took < LIMIT_S, "five minutes at most")
    print(f"1..{len(points)}\n# {took:.0f} s")
    return 0 if all(points) else 1


if __name__ == "__main__":
    os.environ.setdefault("DROVER_BUILD", str(wire.BUILD))
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        clone(directory)
        sys.exit(run((ROOT / sys.argv[1]).read_text(), directory))
