#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers of several nodes, whose nodes die, freeze and are cut off from one another, under load

    reach.py [--runs N] [--from N] [--only TEXT]

A part is a kind of installation, with servers of its own; a story is what happens to it, and what
must hold. Each run tells the stories of all parts one after the other; a checker judges each from
outside. Logs, and the evidence of stories with something wrong, stay in the build folder, in
reach/, and the output in reach/log. Stories that cut nodes off need a network of this process alone
(partition.py); where that is impossible they are skipped. Exits with 0 if nothing is wrong.
"""

import argparse
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import driver
import partition
import reach_rabbit
import reach_sentinel
import reach_single
import wire

PARTS = [reach_single.Part, reach_rabbit.Part, reach_sentinel.Part]  # each as reach_rabbit.Part
SHOWN = 50


def wanted(part, only):
    """The stories of a part whose names contain one of these texts."""
    return [story for story in part.STORIES
            if any(text in f"{part.name} {story.__name__}" for text in only)]


def tell(part, story, where, say):
    """Return: the number of violations."""
    name, began = f"{part.name} {story.__name__}", time.monotonic()
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    try:
        wrong, figures = story(part, where)
    except Exception as error:
        wrong, figures = [f"{type(error).__name__}: {error}"], ""
    took = time.monotonic() - began
    say(f"{name}: {len(wrong)} violations in {took:.0f} s; {figures}")
    for text in wrong[:SHOWN]:
        say(f"  {text}")
    if wrong:
        part.keep_logs(where)
    else:
        shutil.rmtree(where / "evidence", ignore_errors=True)
    return len(wrong)


def run_part(kind, options, directory, say):
    """All runs of a part, on the same servers. Return: the number of violations."""
    total = 0
    stories = wanted(kind, options.only or [""])
    if not stories:
        return 0
    with kind() as part:
        for number in range(options.start, options.start + options.runs):
            for story in stories:
                if story in kind.CUTS and not partition.inside():
                    say(f"{kind.name} {story.__name__}: skipped, see above")
                    continue
                where = directory / f"run-{number}" / f"{kind.name}-{story.__name__}"
                wrong = tell(part, story, where, say)
                total += wrong
                part.mend()
            say(f"run {number} of {kind.name} is over, {total} violations so far")
    return total


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1, help="of all stories (1)")
    parser.add_argument("--from", type=int, default=1, dest="start", metavar="N",
                        help="number of the first run (1)")
    parser.add_argument("--only", action="append", metavar="TEXT",
                        help="stories whose part and name contain this; may be given several times")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    why = ""
    if partition.inside():
        partition.prepare()
    else:
        why = partition.enter()
    directory = wire.BUILD / "reach"
    if options.start == 1:
        driver.empty_folder(directory)
    directory.mkdir(parents=True, exist_ok=True)
    say = driver.reporter("reach", directory)
    if why:
        say(f"nothing can be cut off: {why}")
    total = sum(run_part(kind, options, directory, say) for kind in PARTS)
    say(f"{options.runs} runs, {total} violations")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
