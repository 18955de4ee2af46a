#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that the simulator and the tests catch planted bugs.

    run.py [--only TEXT] [--jobs N]

Applies each mutant of rules.py to a copy of the sources, and builds and runs there what must catch
it: the first thousand seeds of the simulator, of which one must fail, or the test that is named
with the mutant. Without a mutant none of these may fail, which is tried first. Only a seed, or a
named case, catches a mutant: if its test fails elsewhere, or does not end, the mutant cannot be
tried. --only takes the mutants whose name or rule contains the TEXT. N mutants are tried at a time
(as many as there are processors), and N more on integration tests, which wait more than they
compute.

The copies stay in build/mutants for the next run; so does a ledger of what was caught, which is not
tried again until the sources or the mutant change.

Exits with 1 if a mutant survives, with 2 if one cannot be tried, for example because the code has
changed or its test fails without it.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import alone
import redis
import rules
import servers

FOLDER = ROOT / "build" / "mutants"
PYTHON = ["/usr/bin/python3", "-B"]
SIMULATOR = "tests/sim/drover-sim"
SEEDS = "1..1000"
ASSERTION = re.compile(r": Assertion `.*' failed\.$", re.M)  # of the product, which ends a program
KEEPER = "agent/drover-keep"  # used by unit tests, too
DAEMONS = ["scheduler/drover-scheduler", "agent/drover-agent", KEEPER,
           "supervisor/drover-supervisor", "cli/drover"]
PRELOADED = "tests/lib/synced.so"
EFFECT = "tests/fault/effect"  # the handler of the fault tests
# It needs no programs, and has its own Redis.
NO_DAEMON = "tests/integration/store/test_functions.py"
PROGRAMS = {  # test programs -> whether they need shared servers
    "tests/integration/test_bus_publish": True,
    "tests/integration/test_bus_consume": True,
    "tests/integration/test_bus_queues": True,
    "tests/integration/test_bus_broker": True,
    "tests/integration/test_bus_confirms": True,
    "tests/integration/test_bus_pulse": True,
    "tests/integration/test_store": False,
}
ALONE = pathlib.Path(__file__).with_name("alone.py")
# limits of a unit test, of other tests, and of the compiler
UNIT_S, LONGEST_S, BUILD_S = 60, 300, 1800
PLACES = ["alone", "served"]  # where mutants are tried: the latter have servers
AGAIN_S = 1  # pause before a process is told again to end
PATIENCE_S = 30  # how long a test may wait for something; enough without a mutant, too


class Useless(Exception):
    """Why a mutant or a test could not be tried: output of the compiler or the test."""


class Stopped(Exception):
    """The run was stopped."""


def sources():
    """Path below ROOT -> content."""
    found = {}
    for folder, folders, files in os.walk(ROOT):
        top = folder == str(ROOT)
        folders[:] = [name for name in folders
                      if name not in (".git", "__pycache__")
                      and not (top and name.startswith("build"))]
        for name in files:
            path = pathlib.Path(folder, name)
            found[path.relative_to(ROOT)] = path.read_bytes()
    return found


def digest_of(files):
    """A digest of all files that may affect what is caught."""
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        if path.parts[0] != "docs" and path.parts[:2] != ("tests",
                                                          "mutants") and path.suffix != ".md":
            digest.update(b"%d %d " % (len(bytes(path)), len(content)) + bytes(path) + content)
    return digest.hexdigest()


class Ledger:
    """Mutants that these sources have caught before. Only one run at a time can have it open."""

    def __init__(self, path, sources_digest):
        self.digest = sources_digest
        self.file = path.open("a+")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run has {path} open")
        self.file.seek(0)
        self.entries = dict(json.loads(line) for line in self.file if line.endswith("\n"))

    def key(self, tried):
        return hashlib.sha256(json.dumps([self.digest, tried]).encode()).hexdigest()

    def get(self, tried):
        return self.entries.get(self.key(tried))

    def add(self, tried, what):
        self.file.write(json.dumps([self.key(tried), what]) + "\n")
        self.file.flush()


class Programs:
    """The running programs, each of which leaves nothing behind; they can be ended together."""

    def __init__(self, folder):
        self.folder = folder  # for files that they do not remove
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False

    def run(self, longest_s, command, variables=None):
        """Its exit code and output."""
        with self.lock:
            if self.stopped:
                raise Stopped
            process = subprocess.Popen(
                [*PYTHON, ALONE, str(longest_s), *command], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                env={**os.environ, "TMPDIR": str(self.folder), **(variables or {})})
            self.running.add(process)
        with process:
            try:
                out, err = process.communicate()
                return process.returncode, out, err
            finally:
                with self.lock:
                    self.running.remove(process)
                    if self.stopped:
                        raise Stopped

    def stop(self):
        self.stopped = True
        while True:
            with self.lock:
                for process in self.running:
                    process.terminate()
                if not self.running:
                    return
            time.sleep(AGAIN_S)


class Servers:
    """A RabbitMQ and a Redis for the tests of one copy."""

    def __init__(self, folder):
        self.folder = folder
        self.rabbit, self.redis = servers.Rabbit(folder / "rabbitmq"), servers.Redis(
            folder / "redis"
        )
        for server in (self.rabbit, self.redis):
            server.begin()
        for server in (self.rabbit, self.redis):
            server.await_start()

    def close(self):
        self.rabbit.close()
        self.redis.close()

    def variables(self):
        """The environment of a test that shares them. The store is emptied, also of functions,
        because a daemon replaces only older ones."""
        with contextlib.closing(redis.Redis(servers.HOST, self.redis.port)) as store:
            store.flushall()
            store.function_flush()
        return servers.share(self.folder, [self.rabbit, self.redis])


class Copy:
    """The sources in a folder of their own, their build, and the servers for its tests.

    @settings: arguments of meson. @jobs: how many compilers run at a time; 0: as ninja chooses."""

    def __init__(self, folder, files, programs, servers_folder, settings=(), jobs=0):
        self.folder = folder
        self.build = self.folder / "build"
        self.programs = programs
        self.servers_folder = servers_folder
        self.parallel = ["-j", str(jobs)] if jobs else []
        self.servers = None
        self.mirror(files)
        if not (self.build / "build.ninja").exists():
            code, out, err = self.programs.run(
                LONGEST_S, ["meson", "setup", *settings, self.build, self.folder])
            if code != 0:
                raise Useless(err or out)

    def close(self):
        if self.servers:
            self.servers.close()
            self.servers = None

    def mirror(self, files):
        """Writes only files that differ: the rest need not be built again."""
        for folder, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if pathlib.Path(folder, name) != self.build]
            for path in (pathlib.Path(folder, name) for name in names):
                if path.relative_to(self.folder) not in files:
                    path.unlink()
        for path, content in files.items():
            there = self.folder / path
            if not there.exists() or there.read_bytes() != content:
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, there)

    def make(self, *targets):
        code, out, _ = self.programs.run(
            BUILD_S, ["ninja", *self.parallel, "-C", self.build, *targets])
        if code != 0:
            raise Useless(re.search(r"^.*error: .*$|\Z", out, re.M).group() or out[-500:])

    def variables(self, test):
        """The environment of an integration test, with its programs built and servers started."""
        if test == NO_DAEMON:
            return {}
        self.make(*DAEMONS, PRELOADED, EFFECT)
        return self.shared()

    def shared(self):
        """The environment that names its servers."""
        if not self.servers:
            self.servers = Servers(self.servers_folder)
        return self.servers.variables()

    def failures(self, catcher):
        """The failures of the seeds, or of the named test: seeds with their violations, or cases.
        """
        test, *cases = catcher.split() or [""]
        variables = {"DROVER_BUILD": str(self.build), "CMOCKA_MESSAGE_OUTPUT": "TAP"}
        longest_s = LONGEST_S
        if test in PROGRAMS:
            self.make(test)
            variables |= {"DROVER_TEST_PATIENCE_S": str(PATIENCE_S),
                          **(self.shared() if PROGRAMS[test] else {})}
            command = [self.build / test, *cases]
        elif test.endswith(".py"):
            variables |= {"DROVER_TEST_PATIENCE_S": str(PATIENCE_S), **self.variables(test)}
            command = [*PYTHON, self.folder / test, *cases]
        elif test.startswith("tests/"):
            self.make(test, KEEPER)
            # of test_failures, which runs only these
            loops = [case for case in cases if "/" in case]
            command, longest_s = [self.build / test, *loops], UNIT_S
        else:
            self.make(SIMULATOR)
            command = [self.build / SIMULATOR, "--seeds", SEEDS]
        code, out, err = self.programs.run(longest_s, command, variables)
        for left in re.findall(r"^left behind, .*$", err, re.M):
            print(f"{catcher or 'a seed'}: {left}", flush=True)
        found = re.findall(r"^(seed \d+(?:: .*| ends its process))|^not ok \d+ - (\S+)", out, re.M)
        if not found and cases and ASSERTION.search(err):
            return [cases[0]]  # no case is reported after that
        if code != 0 and (code == alone.LATE or not found):
            raise Useless(f"{test or 'the simulator'} " + (
                "did not end" if code == alone.LATE
                else f"ended with {code}: {(err or out).strip()[-200:]}"))
        return [seed or case.removeprefix("__main__.") for seed, case in found]

    def failure(self, catcher):
        """The first failure; None if there is none."""
        fails = self.failures(catcher)
        return named_failure(catcher, fails[0]) if fails else None

    def catch(self, file, old, new, catcher=""):
        """What has caught a mutant; None if nothing has. The failure of a case that is not named is
        an error."""
        path = self.folder / file
        text = path.read_text()
        if text.count(old) != 1:
            raise Useless(f"the text that it changes occurs {text.count(old)} times in {file}")
        try:
            path.write_text(text.replace(old, new))
            fails = self.failures(catcher)
        finally:
            path.write_text(text)
        if not catcher.startswith("tests/"):
            named = fails
        else:
            named = [fail for fail in fails
                     for case in catcher.split()[1:] if f"{fail}.".startswith(f"{case}.")]
        if fails and not named:
            raise Useless(f"{named_failure(catcher, fails[0])} fails, which is not named")
        return named_failure(catcher, named[0]) if named else None


def catcher_of(tried):
    """The catcher of a mutant, or of an entry without one; "" means seeds."""
    return tried[0] if len(tried) == 1 else "".join(tried[3:])


def kind_of(tried):
    kinds = {"tests/integration/": "an integration test", "tests/fault/": "an integration test",
             "tests/": "a unit test", "": "a seed"}
    return next(kind for prefix, kind in kinds.items() if catcher_of(tried).startswith(prefix))


def place_of(tried):
    """Where it is tried, so that copies of one kind build the same targets."""
    return "served" if kind_of(tried) == "an integration test" else "alone"


def named_failure(catcher, fails):
    """A failure with the name of its program."""
    return f"{pathlib.Path(catcher.split()[0]).name}: {fails}" if catcher.startswith(
        "tests/"
    ) else fails


class Workers:
    """Threads that try mutants, each on a copy of its own."""

    def __init__(self, jobs, ledger, files, programs, servers_folder):
        self.ledger, self.files, self.programs = ledger, files, programs
        self.servers_folder = servers_folder
        self.lock = threading.Lock()
        self.copies = {place: [] for place in PLACES}
        self.own = threading.local()  # copy: the thread's
        self.threads = {place: concurrent.futures.ThreadPoolExecutor(jobs) for place in PLACES}

    def copy(self, place):
        if not hasattr(self.own, "copy"):
            with self.lock:
                copies = self.copies[place]
                name = f"{place}-{len(copies)}"
                self.own.copy = Copy(FOLDER / name, self.files, self.programs,
                                     self.servers_folder / name)
                copies.append(self.own.copy)
        return self.own.copy

    def try_one(self, tried):
        """@tried: a mutant, or only a catcher. Returns the failure, None if there is none; and how
        long it took, None if it was known before."""
        began = time.monotonic()
        known = self.ledger.get(tried)
        if known is not None:
            return known or None, None
        copy = self.copy(place_of(tried))
        fails = copy.failure(*tried) if len(tried) == 1 else copy.catch(*tried)
        if bool(fails) == (len(tried) > 1):
            with self.lock:
                self.ledger.add(tried, fails or "")
        return fails, time.monotonic() - began

    def try_all(self, all_tried):
        """The futures of try_one()."""
        return [self.threads[place_of(tried)].submit(self.try_one, tried) for tried in all_tried]

    def stop(self):
        """Ends what is running; nothing new begins."""
        self.programs.stop()
        for threads in self.threads.values():
            threads.shutdown(cancel_futures=True)
        for copies in self.copies.values():
            for copy in copies:
                copy.close()


def chosen(text):
    """Rules and their mutants."""
    for rule, mutants in rules.RULES.items():
        some = {name: mutant for name, mutant in mutants.items() if text in name or text in rule}
        if some:
            yield rule, some


def catchers_of(mutants):
    """Each once; a test with all of its cases that must catch a mutant."""
    cases = collections.defaultdict(set)
    for mutant in mutants:
        test, *some = catcher_of(mutant).split() or [""]
        cases[test].update(some)
    return [[" ".join([test, *sorted(some)])] for test, some in sorted(cases.items())]


def try_catchers(workers, catchers):
    """0, or 2 if some fail without a mutant."""
    status = 0
    for catcher, future in zip(catchers, workers.try_all(catchers)):
        try:
            fails, _ = future.result()
        except Useless as error:
            fails = error
        if fails:
            print(f"without any mutant: {fails}", flush=True)
            status = 2
    return status


def try_mutants(workers, chosen_rules):
    """Prints what caught each mutant, then how many of each rule were caught. Returns the exit
    code."""
    status, by, lines = 0, collections.Counter(), []
    all_tried = [list(mutant) for mutants in chosen_rules.values() for mutant in mutants.values()]
    futures = iter(workers.try_all(all_tried))
    for rule, mutants in chosen_rules.items():
        print(f"\n{rule}", flush=True)
        caught = 0
        for name, mutant in mutants.items():
            took = None
            try:
                what, took = next(futures).result()
                status = max(status, 0 if what else 1)
            except Useless as error:
                what, status = None, 2
                print(f"  {name}\n      CANNOT BE TRIED: {error}", flush=True)
            else:
                when = "before" if took is None else f"{took:.1f} s"
                print(f"  {name}\n      {what or 'SURVIVED'} ({when})", flush=True)
            caught += bool(what)
            by[kind_of(mutant) if what else "nothing"] += 1
        lines.append(f"{caught:5} of {len(mutants):2}  {rule}")
    print("\ncaught", *lines, sep="\n")
    caught_by = ", ".join(f"{n} by {kind}" for kind, n in by.items())
    print(f"{len(lines)} rules, {by.total()} mutants: caught {caught_by}")
    return status


def remove_others(folder):
    """Copies of earlier versions of this program."""
    for copy in folder.iterdir():
        if copy.is_dir() and copy.name.partition("-")[0] not in PLACES:
            shutil.rmtree(copy)


def leave(number, _frame):
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    chosen_rules = dict(chosen(options.only))
    if not chosen_rules:
        parser.error(f"no mutant, and no rule, has {options.only!r} in its name")
    began, files = time.monotonic(), sources()
    FOLDER.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(FOLDER / "ledger", digest_of(files))
    remove_others(FOLDER)
    with tempfile.TemporaryDirectory(prefix="drover-mutants-") as folder:
        folder = pathlib.Path(folder)
        workers = Workers(options.jobs, ledger, files, Programs(folder), folder)
        try:
            catchers = catchers_of(mutant for mutants in chosen_rules.values()
                                   for mutant in mutants.values())
            status = try_catchers(workers, catchers) or try_mutants(workers, chosen_rules)
        finally:
            workers.stop()
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    return status


if __name__ == "__main__":
    sys.exit(main())
