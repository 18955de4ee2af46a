#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the decoders, one after the other, and prints how far each has come

    fuzz.py [--build DIR] [--minutes N] [--until-quiet N] [TARGET...]
    fuzz.py [--build DIR] --vary N [--seed N] [TARGET...]
    fuzz.py [--build DIR] --keep [TARGET...]

Each target runs for N minutes (1), or until N minutes have brought no new edge, and continues where
the same code stopped before: its inputs are in DIR/found/TARGET, its figures in
DIR/found/TARGET.json. A minute is a minute of processor time, so a busy machine makes a run longer
but not less thorough. Only edges of the code compiled here count; libraries are not instrumented.
An input that crashes, hangs, leaks or causes a sanitizer report is kept, and printed with the
command that replays it; the exit code is then 1. --vary tries about N variations of the named
inputs (vary.py), others with each seed, about 1000 a second; those that reach new edges are kept
for later runs; leaks are not detected. --keep copies the smallest set of inputs that reaches all
edges found into tests/fuzz/corpus, and the figures into tests/fuzz/figures.json, for other clones.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

import vary

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
KEPT = HERE / "figures.json"
STATUS = re.compile(rb"^#(\d+)\s.*\bcov: (\d+) ft: (\d+) corp: (\d+)/")
MADE = re.compile(r"[0-9a-f]{40}$")  # names that libFuzzer gives; people use words
INPUT_MAX = 2048  # bytes: larger inputs are not kept
LIMITS = ("-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=256")
ENVIRONMENT = {
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "LSAN_OPTIONS": f"suppressions={os.path.relpath(HERE)}/leaks.supp:print_suppressions=0",
}


class Target:
    def __init__(self, build, name):
        self.name = name
        self.binary = build / "tests/fuzz" / f"fuzz_{name}"
        self.found = build / "found" / name
        self.figures_file = build / "found" / f"{name}.json"
        self.corpus = CORPUS / name
        self.found.mkdir(parents=True, exist_ok=True)

    def command(self, *arguments):
        environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        kept = f"-artifact_prefix={self.found}-"
        return ["env", *environment, str(self.binary), *LIMITS, kept, *map(str, arguments)]

    def merge(self, into, *others):
        """Adds to @into the smallest set of inputs of @others that reaches new edges. Return: their
        paths."""
        before = {path.name for path in into.iterdir()}
        subprocess.run(
            self.command("-merge=1", "-use_counters=0", into, *others),
            check=True,
            stderr=subprocess.DEVNULL,
        )
        return [path for path in into.iterdir() if path.name not in before]

    def named(self):
        """The inputs that people have written, or that show a bug."""
        return [path for path in sorted(self.corpus.iterdir()) if not MADE.match(path.name)]

    def findings(self):
        """The files that libFuzzer has kept, and when: crash-*, leak-*, oom-*, timeout-*"""
        kept = self.found.parent.glob(f"{self.name}-*-*")
        return {
            (path, path.stat().st_mtime_ns)
            for path in kept
            if not path.name.startswith(f"{self.name}-slow-unit")
        }

    def report(self, known):
        """Prints the findings that are not in @known. Return: whether there are none."""
        new = sorted(self.findings() - known)
        for path, _ in new:
            print(f"replay with: {' '.join(self.command(path))}", flush=True)
        return not new


def code_of(binary):
    """A digest of the code: the same for clones that build the same sources, whatever their folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        code = pathlib.Path(folder, "code")
        command = ["objcopy", "-O", "binary", "--only-section=.text", binary, code]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
        return hashlib.sha256((code if code.exists() else binary).read_bytes()).hexdigest()


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


def write_json(path, values):
    """Writes the file atomically."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")
    new.replace(path)


class Figures:
    """How far the code has come, over all its runs. Other code has other edges, so its figures
    begin at 0."""

    def __init__(self, target):
        self.target = target
        self.code = code_of(target.binary)
        self.executions = self.edges = self.features = self.corpus = 0
        self.minutes = self.quiet = 0.0
        for known in read_json(KEPT).get(target.name, {}), read_json(target.figures_file):
            if known.get("code") == self.code and known["minutes"] >= self.minutes:
                vars(self).update(known)

    def values(self):
        return {name: value for name, value in vars(self).items() if name != "target"}

    def save(self):
        write_json(self.target.figures_file, self.values())

    def keep(self):
        if self.minutes > 0:
            write_json(KEPT, {**read_json(KEPT), self.target.name: self.values()})


class Run:
    """One run of a fuzzer, which adds to the figures."""

    def __init__(self, target, figures):
        self.target, self.figures = target, figures
        self.before = figures.executions
        self.last_inspection = 0.0
        # it has read the inputs found before, which may reach edges of other runs
        self.begun = False
        self.output = []  # its last lines
        self.rest = b""
        self.process = subprocess.Popen(
            target.command("-print_final_stats=1", target.found, target.corpus),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    def take(self, line):
        self.output = self.output[-200:] + [line]
        status = STATUS.match(line)
        if not status:
            return
        self.begun = True
        executions, edges, features, corpus = map(int, status.groups())
        f = self.figures
        f.executions = self.before + executions
        f.features, f.corpus = max(f.features, features), corpus
        if edges > f.edges:
            f.edges, f.quiet = edges, 0.0

    def read(self):
        """Reads output, waiting at most a second. Return: whether there will be more."""
        if select.select([self.process.stderr], [], [], 1)[0]:
            data = os.read(self.process.stderr.fileno(), 65536)
            *lines, self.rest = (self.rest + data).split(b"\n")
            for line in lines:
                self.take(line)
            if not data:
                return False
        now = self.worked()
        self.figures.minutes += now - self.last_inspection
        self.figures.quiet += now - self.last_inspection
        # a run that is killed loses at most a second
        if int(now * 60) > int(self.last_inspection * 60):
            self.figures.save()
        self.last_inspection = now
        return True

    def worked(self):
        """Return: the minutes of processor time."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        after_name = stat.rpartition(")")[2].split()
        utime, stime = map(int, after_name[11:13])  # fields 14 and 15 of proc(5)
        return (utime + stime) / os.sysconf("SC_CLK_TCK") / 60

    def end(self):
        """Return: whether it ended as requested."""
        killed = self.process.poll() is None
        if killed:
            # its findings are in files; at SIGTERM it may hang in its own handler
            self.process.kill()
        while self.read():
            pass
        self.process.wait()
        self.figures.save()
        return self.process.returncode == 0 or (killed
                                                and self.process.returncode == -signal.SIGKILL)


def fuzz(target, options):
    """Return: whether there is no finding and no failure."""
    figures = Figures(target)
    known = target.findings()
    run = Run(target, figures)
    end = figures.minutes + options.minutes if options.minutes else float("inf")
    try:
        while run.read():
            quiet = options.until_quiet and figures.quiet >= options.until_quiet
            if run.begun and (quiet or figures.minutes >= end):
                break
    finally:
        good = run.end()
    print(
        f"{target.name:<10} {figures.executions:>12,} {figures.edges:>8} {figures.features:>10}"
        f" {figures.corpus:>8} {figures.minutes:>9.1f} {figures.quiet:>8.1f}",
        flush=True,
    )
    if not good:
        sys.stderr.buffer.write(b"\n".join(run.output[-60:]) + b"\n")
    return target.report(known) and good


def copied(paths, folder):
    """Return: the folder, which is created with copies of the files."""
    folder.mkdir()
    for path in paths:
        shutil.copy(path, folder)
    return folder


def try_variations(target, about, seed):
    """Tries about so many variations. Return: as fuzz()."""
    known = target.findings()
    tried = 0
    with tempfile.TemporaryDirectory() as folder:
        there = copied([*target.corpus.iterdir(), *target.found.iterdir()],
                       pathlib.Path(folder, "there"))
        varied = copied([], pathlib.Path(folder, "varied"))
        inputs = [path.read_bytes() for path in target.named()]
        for tried, data in enumerate(vary.variations(inputs, about, seed), start=1):
            (varied / hashlib.sha1(data).hexdigest()).write_bytes(data)
        new = target.merge(there, varied)
        for path in new:
            shutil.copy(path, target.found)
    print(f"{target.name:<10} {tried} variations, {len(new)} inputs found", flush=True)
    return target.report(known)


def keep(target):
    """Keeps the named inputs, and the smallest set of others that adds edges. Return: as fuzz()."""
    known = target.findings()
    made = [path for path in target.corpus.iterdir() if MADE.match(path.name)]
    with tempfile.TemporaryDirectory() as folder:
        named = copied(target.named(), pathlib.Path(folder, "named"))
        small = [path
                 for path in [*made, *target.found.iterdir()] if path.stat().st_size <= INPUT_MAX]
        others = copied(small, pathlib.Path(folder, "others"))
        kept = target.merge(named, others)
        for path in made:
            path.unlink()
        for path in kept:
            shutil.copy(path, target.corpus)
    Figures(target).keep()
    sizes = [path.stat().st_size for path in target.corpus.iterdir()]
    print(f"{target.name:<10} {len(sizes)} inputs, {sum(sizes)} bytes", flush=True)
    return target.report(known)


def on_term(number, frame):
    raise KeyboardInterrupt  # the figures so far are saved


def main():
    signal.signal(signal.SIGTERM, on_term)
    known = sorted(path.name for path in CORPUS.iterdir())
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build-fuzz")
    parser.add_argument("--minutes", type=float, help="of each target; with --until-quiet at most")
    parser.add_argument("--until-quiet", type=float, metavar="MINUTES", help="without a new edge")
    parser.add_argument("--seed", type=int, default=1, help="of the variations (1)")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--vary", type=int, metavar="N",
                       help="try about N variations of inputs with names")
    other.add_argument("--keep", action="store_true",
                       help="take what was found into tests/fuzz/corpus")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=" ".join(known))
    options = parser.parse_args()
    for name in options.targets:
        if name not in known:
            parser.error(f"{name}? there are {' '.join(known)}")
    if not options.minutes and not options.until_quiet:
        options.minutes = 1
    targets = [Target(pathlib.Path(os.path.relpath(options.build)), name)
               for name in options.targets or known]
    if options.vary is not None:
        return 0 if all([try_variations(t, options.vary, options.seed) for t in targets]) else 1
    if options.keep:
        return 0 if all([keep(target) for target in targets]) else 1
    print("target       executions    edges   features   corpus   minutes    quiet", flush=True)
    return 0 if all([fuzz(target, options) for target in targets]) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
