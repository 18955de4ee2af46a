#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if an #include points up or sideways through the layers.

    layering.py [ROOT]

Base uses libc, libmd and uthash. The model adds base, jansson and protobuf-c, and is pure: no file
descriptor, clock or log. Io may use any library. The client library adds io, but not io/daemon. In
a role's folder, the machine is as pure as the model, but may log; *_io.c, main.c, handler_*.c and
files used only by these drive it, and may use everything but another role and the client library.
The command line has no machine, is the only role that may use the client library, and does not use
io/daemon. Indirect includes need no check: every header in between is checked by its own layer.
"""

import os
import re
import sys

ROLES = ("scheduler", "agent", "supervisor", "cli")
DRIVER = re.compile(
    r"(?:.*_io|main|handler.*|keep|orphans|a(?:gent|ccess)_config|http_.*|template)\.[ch]"
)

# Of libc, what computes and stores: nothing that opens, waits, or knows what time it is.
LIBC_PURE = set(
    """
    alloca.h assert.h byteswap.h complex.h ctype.h endian.h errno.h fenv.h float.h inttypes.h
    iso646.h limits.h locale.h malloc.h math.h search.h setjmp.h stdalign.h stdarg.h stdatomic.h
    stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h strings.h sys/types.h
    tgmath.h uchar.h wchar.h wctype.h
    """.split()
)
LIBC_OTHER = set(
    """
    dirent.h dlfcn.h fcntl.h fnmatch.h getopt.h glob.h grp.h ifaddrs.h netdb.h poll.h pthread.h
    pwd.h regex.h sched.h semaphore.h signal.h spawn.h syslog.h termios.h threads.h time.h
    ucontext.h unistd.h
    """.split()
)
LIBC_FOLDERS = ("sys/", "arpa/", "netinet/", "net/")

# Of base, what has no place in a pure layer.
BASE_BARRED = {
    "model": ("common/base/clock.h", "common/base/log.h"),
    "machine": ("common/base/clock.h",),
}
DAEMON = "common/io/daemon/"
WIRE = re.compile(r"drover/v1/\w+\.pb-c\.h")

# A comment or a literal, whichever begins first: a "/*" in a string opens no comment.
COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S
)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?\b[ \t]*(.*?)[ \t]*$", re.M)
OPERAND = re.compile(r"""<([^>]+)>|"([^"]+)\"""")


def includes(text):
    """Yields (line number, operand) of every #include, commented ones left out."""

    def blank(match):
        s = match.group()
        return re.sub(r"[^\n]", " ", s) if s.startswith("/") else s

    text = COMMENT_OR_LITERAL.sub(blank, text)
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def layer_of(path):
    """(layer, role) of a project file by its path; (None, None) for one that has no layer."""
    parts = path.split("/")
    if parts[0] == "common" and len(parts) > 2 and parts[1] in ("base", "model", "io", "client"):
        return parts[1], None
    if parts[0] in ROLES and len(parts) > 1:
        driver = parts[0] == "cli" or DRIVER.fullmatch(parts[-1])
        return ("driver" if driver else "machine"), parts[0]
    return None, None


def resolve(root, includer, target):
    """The project file that an operand means, or None: a library's, libc's or generated."""
    near = os.path.normpath(os.path.join(os.path.dirname(includer), target))
    named = [os.path.normpath(os.path.join("common", target)), os.path.normpath(target)]
    for path in [near] + named:
        if os.path.isfile(os.path.join(root, path)):
            return path
    # Where there is no such file, what the name says still counts.
    if target.startswith("../"):
        named = [near]
    return next((path for path in named if layer_of(path)[0]), None)


def libc(target):
    return target in LIBC_PURE or target in LIBC_OTHER or target.startswith(LIBC_FOLDERS)


def outside_allowed(layer, target):
    """May @layer include @target, which is no file of the project?"""
    if layer in ("io", "client", "driver"):
        return True
    if layer == "base":
        return libc(target) or target in ("sha1.h", "sha2.h", "uthash.h")
    if target in LIBC_PURE or WIRE.fullmatch(target):
        return True
    return layer == "model" and (target == "jansson.h" or target.startswith("protobuf-c/"))


def inside_allowed(layer, role, path):
    """May a file of @layer and @role include the project's file @path?"""
    other, other_role = layer_of(path)
    if other_role:
        return other_role == role and (layer == "driver" or other == "machine")
    if other == "client":
        return layer == "client" or role == "cli"
    if other == "io":
        if path.startswith(DAEMON):
            return layer in ("io", "driver") and role != "cli"
        return layer in ("io", "client", "driver")
    if other == "model":
        return layer != "base"
    if other == "base":
        return path not in BASE_BARRED.get(layer, ())
    return layer in ("io", "client", "driver")


def check_file(root, path):
    """Yields what is wrong in one file, as "path:line: why"."""
    layer, role = layer_of(path)
    if not layer:
        yield f"{path}:1: lies in no layer"
        return
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        text = f.read()
    who = f"{role} {layer}" if role else layer
    for line, operand in includes(text):
        match = OPERAND.fullmatch(operand)
        if not match:
            yield f"{path}:{line}: cannot tell what {operand} includes"
            continue
        target = match.group(1) or match.group(2)
        inside = resolve(root, path, target)
        if inside and not inside_allowed(layer, role, inside):
            yield f"{path}:{line}: {who} must not include {inside}"
        if not inside and not outside_allowed(layer, target):
            yield f"{path}:{line}: {who} must not include {target}"


def sources(root):
    for top in ("common",) + ROLES:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def main(argv):
    root = argv[1] if len(argv) > 1 else "."
    paths = list(sources(root))
    if not paths:
        print(f"{root}: no sources found", file=sys.stderr)
        return 1
    problems = [problem for path in paths for problem in check_file(root, path)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
