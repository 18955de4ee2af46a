#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if code that is meant to be pure uses the world outside.

    pure_link.py PROGRAM [ARCHIVE...]

The program must need no library that reads clocks, files or sockets. The archives (model, machines)
must call no function that opens, waits, tells the time or draws random numbers, however it is
declared. Exits with 99, which Meson shows as an error and not as a failure, if it cannot tell.
"""

import re
import subprocess
import sys

LIBRARIES = re.compile(r"lib(rabbitmq|hiredis|uv|curl|microhttpd)\.so")
FUNCTIONS = set(
    """
    accept accept4 bind close connect creat dup dup2 dup3 epoll_create1 epoll_wait eventfd fclose
    fcntl fdopen fopen fprintf fputs fread fwrite ioctl listen open openat perror pipe pipe2 poll
    popen ppoll pread printf putchar puts pwrite read recv recvfrom recvmsg select send sendmsg
    sendto socket vfprintf vprintf write writev

    clock clock_gettime clock_nanosleep gettimeofday nanosleep sleep time timerfd_create
    timespec_get usleep clock_monotonic_ms clock_unix_ms

    arc4random drand48 getentropy getrandom lrand48 rand random
    nonces_seed_system rng_seed_system

    execve execvp fork kill posix_spawn posix_spawnp pthread_create sigaction signal system
    thrd_create
    """.split()
)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(program):
    """The shared libraries that a program names."""
    libraries = re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-dW", program))
    if not any(library.startswith("libc.so") for library in libraries):
        raise ValueError(f"{program}: not even libc is needed")
    return libraries


def called(archive):
    """The functions that an archive calls but does not define, without the _FORTIFY_SOURCE
    wrapping."""
    symbols = re.findall(r" U (\w+)", output_of("nm", "-u", archive))
    if not symbols:
        raise ValueError(f"{archive}: calls nothing at all")
    return {re.sub(r"^__(.+)_chk$|^(\w+)64$", r"\1\2", symbol) for symbol in symbols}


def main(argv):
    problems = []
    try:
        for library in needed(argv[1]):
            if LIBRARIES.match(library):
                problems.append(f"{argv[1]}: needs {library}")
        for archive in argv[2:]:
            for function in FUNCTIONS.intersection(called(archive)):
                problems.append(f"{archive}: calls {function}()")
    except (OSError, ValueError, subprocess.CalledProcessError) as e:
        print(e, file=sys.stderr)
        return 99
    for problem in sorted(problems):
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
