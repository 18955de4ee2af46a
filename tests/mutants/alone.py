#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command with limits of time and memory, and ends every process that it starts.

    alone.py SECONDS COMMAND...

Exits with the command's exit code, or with 124 if it did not end in time. It then gets SIGTERM, and
again each second, as a test may take the first for a failure of one of its cases. Every process
that is left, also one in a session of its own, is killed and named on stderr.
"""

import ctypes
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # orphans become children of this process
LATE = 124  # as timeout(1)
# of writable memory per process; an endless simulated world takes two thirds of that
MEMORY_MAX = 3 << 30
TERM_TIMES, AGAIN_S = 10, 1
POLL_S = 0.01
ENDING_S = 1  # how long a process that the command has told to end may take


class Bounds:
    """The limits: time, and a signal to end. A signal raises no exception, which could leave the
    command running."""

    def __init__(self, longest_s):
        self.deadline = time.monotonic() + longest_s
        self.stopped = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)

    def stop(self, _number, _frame):
        self.stopped = True

    def hold(self):
        return not self.stopped and time.monotonic() < self.deadline


def end(process):
    for _ in range(TERM_TIMES):
        process.terminate()
        try:
            process.wait(AGAIN_S)
            return
        except subprocess.TimeoutExpired:
            pass
    process.kill()
    process.wait()


def children():
    """Process id -> name."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has just ended
        if int(rest.split()[1]) == os.getpid():
            found[int(stat.parent.name)] = name
    return found


def reap():
    """False if no child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_the_rest():
    """Returns names. Children of killed processes become children of this one."""
    names, deadline = [], time.monotonic() + ENDING_S
    while reap():
        for pid, name in children().items() if time.monotonic() > deadline else ():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            names.append(name)
        time.sleep(POLL_S)
    return names


def main(longest_s, *command):
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    bounds = Bounds(float(longest_s))
    process = subprocess.Popen(command)
    while process.poll() is None and bounds.hold():
        time.sleep(POLL_S)
    code = process.returncode
    if code is None:
        code = LATE
        end(process)
    left = end_the_rest()
    if left:
        print("left behind, and killed:", *left, file=sys.stderr)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
