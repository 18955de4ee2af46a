# SPDX-License-Identifier: Apache-2.0
"""Stops one thread of a process, and no other

    with frozen.without_a_lock(daemon, "bus-consume"):
        ...

It uses ptrace, because SIGSTOP stops all threads. The block must begin and end on the same thread
of the test.

The threads of connections are idle as long as the loop can drive the connections. This starts a
daemon whose loop leaves that to the threads:

    with frozen.threads_at_work():
        ... start the daemon ...
"""

import contextlib
import ctypes
import os
import pathlib
import resource

import health
import servers

# stack of the first thread; with less than 8 MiB it does not drive connections
SMALL_STACK = 4 << 20

PTRACE_DETACH = 17
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
WALL = 0x40000000  # for waitpid: include threads

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, tid):
    if _libc.ptrace(request, tid, None, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _thread_of(pid, name):
    for comm in pathlib.Path(f"/proc/{pid}/task").glob("*/comm"):
        if comm.read_text().strip() == name:
            return int(comm.parent.name)
    raise LookupError(f"process {pid} has no thread {name}")


@contextlib.contextmanager
def threads_at_work():
    limits = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (SMALL_STACK, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, limits)


class Thread:
    """Raises PermissionError on a machine that does not allow tracing."""

    def __init__(self, pid, name):
        self._tid = _thread_of(pid, name)
        _ptrace(PTRACE_SEIZE, self._tid)
        self._gone = False
        try:
            _ptrace(PTRACE_INTERRUPT, self._tid)
            os.waitpid(self._tid, WALL)
        except OSError:
            self.release()
            raise

    def gone(self):
        """Returns whether the thread has ended with its process, which does not end before this was
        asked."""
        if not self._gone:
            pid, status = os.waitpid(self._tid, WALL | os.WNOHANG)
            self._gone = pid == self._tid and not os.WIFSTOPPED(status)
        return self._gone

    def release(self):
        if not self._gone:
            with contextlib.suppress(OSError):
                _ptrace(PTRACE_DETACH, self._tid)
        self._gone = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def without_a_lock(daemon, name):
    """Returns a stopped Thread. It has no lock that the loop needs, such as that of malloc: the
    daemon still answers."""
    def stopped():
        with contextlib.ExitStack() as until_it_answers:
            thread = until_it_answers.enter_context(Thread(daemon.pid, name))
            with contextlib.suppress(TimeoutError):
                health.ask(daemon, "/livez", timeout=3)
                until_it_answers.pop_all()
                return thread

    return servers.wait_for(stopped, f"{name} to be stopped without a lock")
