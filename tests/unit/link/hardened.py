# SPDX-License-Identifier: Apache-2.0
"""Checks in the ELF file that a program was built with the hardening that makes exploits harder.

    hardened.py PROGRAM...
    hardened.py --lacking N PROGRAM    a program without hardening: each of the N checks must fail

Exits with 0 if nothing is missing, with 1 if something is missing, which it names, and with 99 if
it cannot tell.
"""

import os
import re
import subprocess
import sys

LANDINGS = 50  # functions that begin with endbr64, at least


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def missing(program):
    """Yields the name of each protection that the program lacks."""
    header = output_of("readelf", "-hW", program)
    segments = output_of("readelf", "-lW", program)
    dynamic = output_of("readelf", "-dW", program)
    symbols = output_of("readelf", "--dyn-syms", "-W", program)
    if not re.search(r"Type:\s+DYN", header) or "PIE" not in dynamic:
        yield "position independent code (PIE)"
    if "GNU_RELRO" not in segments or not re.search(r"BIND_NOW|Flags:.*\bNOW\b", dynamic):
        yield "tables that are read-only once it runs (full RELRO)"
    if not re.search(r"GNU_STACK\s.*\bRW\s", segments):
        yield "a stack that cannot be executed"
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        yield "independence of a search path of its own for libraries"
    if "__stack_chk_fail" not in symbols:
        yield "stack protector"
    if not re.search(r"\b__\w+_chk\b(?<!__stack_chk)", symbols):
        yield "bounds in calls of libc (_FORTIFY_SOURCE)"
    if "X86-64" in header:
        code = output_of("objdump", "-d", "--no-show-raw-insn", program)
        if code.count("endbr64") < LANDINGS:
            yield "places where an indirect jump may land (CET)"


def main(programs):
    problems = wanted = 0
    if programs[0] == "--lacking":
        wanted, programs = int(programs[1]), programs[2:]
    try:
        for program in programs:
            for what in missing(program):
                print(f"{program}: lacks {what}")
                problems += 1
    except (OSError, subprocess.CalledProcessError) as e:
        print(e, file=sys.stderr)
        return 99
    return 0 if problems == wanted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
