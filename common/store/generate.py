# SPDX-License-Identifier: Apache-2.0
"""Generates code from schema.txt: for C, the places of the values, and the letters; for the
library, the part in Lua that hands the store functions their arguments, the heads of loops over
repeated arguments, and the letters in place of their names."""

import re

import schema

MADE = "Generated from common/store/schema.txt by generate.py"
SET_UP = "  if not call then\n    set_up()\n  end\n"
LOOP = re.compile(r"(?<=  )for _, ([\w, ]+) in each\.(\w+)\(list, first\) do$", re.MULTILINE)
LETTER = re.compile(
    r"--.*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\""  # is passed over
    rf"|(?<![\w.:])({'|'.join(schema.alphabets)})\.(\w+)"
)


def enum(alphabet):
    """Returns the letters of a value as an enum in C."""
    yield f"enum {alphabet.name} {{ /* {alphabet.values} */"
    for one in alphabet.letters:
        comment = f" /* {one.meaning} */" if one.meaning else ""
        yield f"    {alphabet.prefix}_{one.name} = '{one.letter or ' '}',{comment}"
    yield "};\n"


def header():
    """Returns the header in C."""
    out = [
        f"""// SPDX-License-Identifier: Apache-2.0
/*
 * {MADE}: which value stands where, and letters
 *
 * AT_<function>_<argument>, AT_<list>_<value> and AT_<value>_<word>. AT_…_VALUES is the number of
 * values before the first whose place is not always the same.
 */
#pragma once
"""
    ]
    known = set()
    for name, places in schema.all_places():
        lines = [f"AT_{name}_{value}".upper() for value, _ in places]
        twice = known.intersection(lines)
        assert not twice, f"schema.txt has two lists for {', '.join(twice)}"
        known.update(lines)
        places = [f"    {line} = {place}," for line, (_, place) in zip(lines, places)]
        out += ["enum {", *places, "};", ""]
    for alphabet in schema.alphabets.values():
        out += enum(alphabet)
    return "\n".join(out)


def parameters(function):
    """Returns the parameters of a store function in Lua. list[first] is the first of its repeated
    arguments."""
    fixed = [value.name for value in function.arguments if value.has_its_place]
    return ["p", *fixed, *(["list", "first"] if len(fixed) < len(function.arguments) else [])]


def handed_over(function):
    """Returns what a call passes for these parameters."""
    first = len(function.kind) + 1
    n_fixed = sum(value.has_its_place for value in function.arguments)
    fixed = [f"a[{first + k}]" for k in range(n_fixed)]
    rest = ["a", str(first + n_fixed)] if n_fixed < len(function.arguments) else []
    return ", ".join(["keys[1]", *fixed, *rest])


def loop(match):
    """Returns the head of a loop in Lua over repeated arguments, each a list of values. A single
    variable with the name of the list gets the values as a table."""
    variables, name = match.groups()
    names = [value.name for value in schema.lists[name]]
    values = [f"list[k + {k}]" if k else "list[k]" for k in range(len(names))]
    if variables == name:
        fields = [f"{field} = {value}" for field, value in zip(names, values)]
        values = ["{" + ", ".join(fields) + "}"]
    return f"for k = first, #list, {len(names)} do local {variables} = {', '.join(values)}"


def letter_of(match):
    """Returns the letter that a name in Lua stands for, as a text in Lua; None if there is no such
    name. What is no name stays."""
    prefix, name = match.groups()
    if not prefix:
        return match[0]
    letter = vars(getattr(schema.letters, prefix)).get(name)
    return None if letter is None else f"'{letter}'"


def letters(text):
    """Returns a part of the library with letters for their names."""
    return LETTER.sub(lambda match: letter_of(match) or "nil", text)


def unknown_letters(text):
    """Yields (line, name) for each name that no letter has."""
    for match in LETTER.finditer(text):
        if not letter_of(match):
            yield text.count("\n", 0, match.start()) + 1, match[0]


def calls():
    """Returns the generated part of the library."""
    out = [
        f"""-- SPDX-License-Identifier: Apache-2.0
--
-- {MADE}: hands the store functions their arguments.
"""
    ]
    for name, values in schema.lists.items():
        if name.endswith("_fields"):
            fields = ", ".join(f"'{value.field}'" for value in values)
            out.append(f"schema.{name} = {{{fields}}}\n")
    tables = {}
    for function in schema.functions.values():
        name, *kind = function.name.split()
        table, head = (name, kind[0]) if kind else ("calls", name)
        tables.setdefault(table, []).append(
            f"function {table}.{head}(keys, a)\n{'' if kind else SET_UP}"
            f"  return functions.{function.word}({handed_over(function)})\nend\n"
        )
    for name, bodies in tables.items():
        if name != "calls":
            out.append(f"local {name} = {{}}\n")
            call = f"{SET_UP}  return {name}[a[1]](keys, a)\n"
            bodies.append(f"function calls.{name}(keys, a)\n{call}end\n")
        out += bodies
    return "\n".join(out)
