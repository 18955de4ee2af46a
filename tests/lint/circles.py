#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where the files of a library call each other in a circle, or two files define one name.

    circles.py LIBRARY.a...

A file calls another one if its object needs a symbol that the other one defines. What lies lower
reports upwards by function pointers, which a caller has given it: these are no symbols. Where two
libraries define one name, the linker takes the first without a word.
"""

import collections
import subprocess
import sys

DEFINED = "TDBRVW"


def symbols(library):
    """Returns, by file of the library, the symbols that it defines and those that it needs."""
    defines, needs = collections.defaultdict(set), collections.defaultdict(set)
    lines = subprocess.run(
        ["nm", "--extern-only", library], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    file = None
    for line in lines:
        words = line.split()
        if line.endswith(":"):
            file = line.rsplit("/", 1)[-1].removesuffix(":").removesuffix(".o")
        elif words and words[-2] == "U":
            needs[file].add(words[-1])
        elif words and words[-2] in DEFINED:
            defines[file].add(words[-1])
    return defines, needs


def calls(defines, needs):
    """Returns, by file, the files that it calls."""
    definer = {symbol: file for file, symbols in defines.items() for symbol in symbols}
    return {
        file: {definer[symbol] for symbol in needs[file] if symbol in definer} - {file}
        for file in set(defines) | set(needs)
    }


def circles(graph):
    """Returns the sets of files that can reach each other (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in sorted(graph[file]):
            if other not in index:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == index[file]:
            circle = stack[stack.index(file) :]
            del stack[stack.index(file) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for file in sorted(graph):
        if file not in index:
            visit(file)
    return found


def defined_twice(libraries):
    """Returns, by name, the files that define it, if there are several. @libraries: what symbols()
    has returned."""
    files = collections.defaultdict(list)
    for defines, _ in libraries:
        for file, names in defines.items():
            for name in names:
                files[name].append(file)
    return {name: sorted(where) for name, where in files.items() if len(where) > 1}


def main():
    failed = False
    libraries = {library: symbols(library) for library in sys.argv[1:]}
    for name, files in sorted(defined_twice(libraries.values()).items()):
        failed = True
        print(f"{name} is defined by {' and '.join(files)}")
    for library, found in libraries.items():
        graph = calls(*found)
        for circle in circles(graph):
            failed = True
            print(f"{library}: {' '.join(circle)} call each other in a circle:")
            for file in circle:
                for other in sorted(graph[file] & set(circle)):
                    print(f"    {file} → {other}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
