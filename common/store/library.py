#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the library of the store functions, the text that Redis loads, from the parts in this
folder, which head.lua lists

    library.py join OUT [DEPFILE]    writes the library and, for ninja, a list of its sources
    library.py header OUT            writes model/store_schema.h
    library.py place LINE            prints where a line of the library comes from, such as line 123
                                     for the error "user_function:123: ..." of Redis
"""

import pathlib
import re
import sys

import check
import generate
import schema
import scopes

FOLDER = pathlib.Path(__file__).parent
HEAD = "head.lua"
SCHEMA = schema.FILE.name  # stands for the part that is generated from it
PARTS = [HEAD, *check.names_of((FOLDER / HEAD).read_text(encoding="utf-8"))]
BEGIN = re.compile(r"do ---- ([\w.]+) ----")  # of a part, which ends with "end"


class Wrong(Exception):
    """The parts disagree with schema.txt or head.lua, or are no Lua. The text says how."""


def block(part, text):
    """Returns the block of a part in the library."""
    return f"\ndo ---- {part} ----\n{text}end\n"


def join(changed=None):
    """Returns the library. changed: part -> text, instead of the text in the folder."""
    texts = {part: (FOLDER / part).read_text(encoding="utf-8") for part in PARTS if part != SCHEMA}
    texts.update(changed or {})
    wrong = [f"common/store/{part}: {why}" for part, why in check.complaints(texts)]
    texts = {
        part: generate.letters(generate.LOOP.sub(generate.loop, text))
        for part, text in texts.items()
    }
    texts[SCHEMA] = generate.calls()
    library = texts.pop(HEAD) + "".join(block(part, texts[part]) for part in PARTS[1:])
    found = places(library)
    lua = "--" + library[2:]  # "#!" is a comment for Redis only
    wrong += [f"{found[line - 1]}: {why}" for line, why in scopes.complaints(lua)]
    if wrong:
        raise Wrong("\n".join(wrong))
    return library


def places(library):
    """Returns for each line of the library where it comes from, as file:line."""
    file, number, out = f"common/store/{HEAD}", 0, []
    for line in library.splitlines():
        number += 1
        match = BEGIN.fullmatch(line)
        if match:
            file, number = f"common/store/{match[1]}", 0
            file = f"the part generated from {file}" if match[1] == SCHEMA else file
        out.append(f"{file}:{number}")
    return out


def with_places(error, library):
    """Returns an error of Redis with places in the parts instead of lines of the library."""
    found = places(library)
    return re.sub(r"\buser_function:(\d+)", lambda match: found[int(match[1]) - 1], error)


def sources():
    """Returns the files that the library is made from."""
    programs = (module.__file__ for module in (check, generate, schema, scopes))
    return [*(FOLDER / part for part in PARTS), __file__, *programs]


def main(command="", *arguments):
    if command == "join" and arguments:
        out, *depfile = map(pathlib.Path, arguments)
        out.write_text(join(), encoding="utf-8")
        for path in depfile:
            path.write_text(f"{out}: {' '.join(map(str, sources()))}\n", encoding="utf-8")
    elif command == "header" and len(arguments) == 1:
        pathlib.Path(arguments[0]).write_text(generate.header(), encoding="utf-8")
    elif command == "place" and len(arguments) == 1:
        print(places(join())[int(arguments[0]) - 1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Wrong as wrong:
        sys.exit(str(wrong))
