#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws mutants at random, and prints which of them the tests catch

    drawn.py --random N [--seed S] [--integration] [--jobs N]

Draws N mutants (see draw.py) from the machines, the model and the parts of the store functions, and
builds each in a copy of the sources. The seed decides the draw, and is printed. A mutant is
replaced by the next one if the compiler complains about it (except about what is unused), if
library.py refuses it, or if its object code is that of the original.

The suites unit and sim try a mutant until a test fails: first the narratives and the tests of the
changed file, then some hundred seeds, then the others, the shortest first. A test is left out if
its program is the same with the mutant. With --integration the tests of that suite that run a
changed line then try each mutant that is left; lines.py records once which lines each test runs. If
the changed lines are no code, such as those of a constant, the tests that run any line of the file
are taken.

All tests are first run without a mutant. Those of unit and sim must pass; an integration test that
fails is left out. build/mutants-random keeps the result of each mutant until a source or a test
changes: the same command goes on there.

Exits with 1 if a mutant survives that equivalent.py does not name, with 2 if a test fails without a
mutant.
"""

import argparse
import collections
import functools
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import draw
import equivalent
import lines
import run
import suites

FOLDER = run.ROOT / "build" / "mutants-random"
FLAGS = ["-Werror", "-Wno-unused"]


class Trial:
    """Tries one mutant after the other in the copy of a build. @integration: makes the
    suites.Integration for what unit and sim do not catch; or None."""

    def __init__(self, build, unit_and_sim, integration, temporary):
        self.build, self.unit_and_sim, self.integration = build, unit_and_sim, integration
        self.made = temporary / "made"
        self.originals = {}  # path -> code

    def code(self, path):
        """Return: the object code of a source in the copy, or the library with a part in the copy;
        None if the compiler, or library.py, complains."""
        if path.endswith(".lua"):
            library = self.build.copy.folder / suites.FUNCTIONS / "library.py"
            command = [*run.PYTHON, str(library), "join", str(self.made)]
        else:
            command, made = self.build.compiler(path)
            command = [str(self.made) if word == made else word for word in command if word != "-g"]
            command += FLAGS
        code, _, _ = self.build.run(run.BUILD_S, command)
        return self.made.read_bytes() if code == 0 else None

    def judge(self, mutant, text, known):
        """Return: the outcome, the suite that decided it, and what failed there. @known: an earlier
        result of the suites unit and sim, which then do not try it again."""
        there = self.build.copy.folder / mutant.path
        if mutant.path not in self.originals:
            self.originals[mutant.path] = self.code(mutant.path)
        try:
            there.write_text(draw.apply(mutant, text))
            code = self.code(mutant.path)
            if code is None or code == self.originals[mutant.path]:
                return "refused" if code is None else "same code", None, None
            suite, why = (None, None) if known else self.unit_and_sim.catch(mutant.path)
            if not suite and self.integration:
                last = mutant.line + text.count("\n", mutant.start, mutant.end)
                suite, why = self.integration().catch(mutant.path, mutant.line, last)
        except run.Useless:  # another target of the build refuses it
            return "refused", None, None
        finally:
            there.write_text(text)
        return "killed" if suite else "survived", suite, why


def try_drawn(options, trial, ledger, files):
    """Return: the results of the N mutants that were tried; how many others were drawn."""
    tried, others = [], collections.Counter()
    for mutant in draw.draw(files, options.seed):
        if len(tried) == options.random:
            break
        text, key = files[mutant.path], ["mutant", *mutant]
        known = ledger.get(key)
        is_left = known and known["outcome"] == "survived" and not known["integration"]
        if not known or is_left and options.integration:
            began = time.monotonic()
            outcome, suite, why = trial.judge(mutant, text, known)
            known = {"at": f"{mutant.path}:{mutant.line}", "operator": mutant.operator,
                     "changed": draw.changed(mutant, text), "diff": draw.diff(mutant, text),
                     "integration": options.integration, "outcome": outcome, "suite": suite,
                     "why": why, "took": round(time.monotonic() - began, 1)}
            ledger.add(key, known)
        if known["outcome"] in ("killed", "survived"):
            tried.append(known)
            by = f" by {known['suite']}, {known['why']}" if known["suite"] else ""
            print(f"{len(tried):3}/{options.random} {known['at']} {known['operator']}: "
                  f"{known['outcome']}{by} ({known['took']} s)", flush=True)
        else:
            others[known["outcome"]] += 1
    return tried, others


def summary(seed, tried, others):
    """Prints it. Return: the exit code."""
    by = collections.Counter(result["suite"] for result in tried)
    survivors = [result for result in tried if result["outcome"] == "survived"]
    unknown = 0
    for result in survivors:
        changed = tuple(result["changed"])
        reason = equivalent.EQUIVALENT.get(changed)
        unknown += not reason
        print(f"\nsurvived: {result['at']} {result['operator']}", changed, result["diff"],
              f"equivalent: {reason}" if reason else "not in equivalent.py", sep="\n")
    took = sum(result["took"] for result in tried) / max(len(tried), 1)
    print(f"\nseed {seed}: {len(tried)} mutants, {took:.1f} s each; besides, {others['refused']} "
          f"were not built, and {others['same code']} had the code of the original")
    print(f"killed: {by['unit']} by unit, {by['sim']} by sim, {by['integration']} by integration; "
          f"survived: {len(survivors)}, of which {len(survivors) - unknown} are equivalent")
    return 1 if unknown else 0


def work(options, programs, temporary):
    files, copies = run.sources(), []
    FOLDER.mkdir(parents=True, exist_ok=True)
    ledger = run.Ledger(FOLDER / "ledger", run.digest_of(files))

    def make(name, settings=()):
        copies.append(run.Copy(FOLDER / name, files, programs, temporary / name, settings,
                               options.jobs))
        return suites.Build(copies[-1], options.jobs)

    @functools.cache
    def integration():
        known = lines.Lines(build.of("integration"), ledger,
                            lambda settings: make("counting", settings))
        return suites.Integration(build, known)

    try:
        build = make("copy")
        unit_and_sim = suites.UnitAndSim(build, ledger)
        trial = Trial(build, unit_and_sim, integration if options.integration else None, temporary)
        texts = {path: files[pathlib.Path(path)].decode() for path in build.sources()}
        return summary(options.seed, *try_drawn(options, trial, ledger, texts))
    except (suites.Broken, run.Useless) as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        programs.stop()
        for copy in copies:
            copy.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, required=True, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(1000000), metavar="S")
    parser.add_argument("--integration", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="drover-mutants-") as temporary:
        programs = run.Programs(pathlib.Path(temporary))

        def leave(number, frame):
            for process in programs.running:  # this program waits for them
                process.terminate()
            run.leave(number, frame)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, leave)
        return work(options, programs, pathlib.Path(temporary))


if __name__ == "__main__":
    sys.exit(main())
