# SPDX-License-Identifier: Apache-2.0
"""Checks that the parts of the library agree with schema.txt, and with the list in head.lua."""

import re

import generate
import schema

FUNCTION = re.compile(r"((?:^--.*\n)*)^function functions\.(\w+)\(([^)]*)\)", re.MULTILINE)
COMMAND = re.compile(r"^function commands\.(\w+)\(job, command, ([^)]*)\)", re.MULTILINE)
PART = re.compile(r"^-- ([\w.]+\.(?:lua|txt)): .*\n(?:local ([\w,\s]+?)\n\n)?", re.MULTILINE)
BY_WORD = {function.word: function for function in schema.functions.values()}


def names(text):
    return re.findall(r"[\w.]+", text)


def of_functions(text):
    """A store function must have the parameters that schema.txt gives it, and the first line of its
    comment must be its answer."""
    for comment, name, parameters in FUNCTION.findall(text):
        function = BY_WORD.get(name)
        if not function:
            yield f"functions.{name} is not in schema.txt"
            continue
        wanted, head = generate.parameters(function), f"-- {function.name} -> {function.texts[1]}"
        if names(parameters) != wanted:
            yield f"functions.{name} should have the parameters {', '.join(wanted)}"
        if comment.partition("\n")[0] != head:
            yield f'the comment of functions.{name} should begin with "{head}"'


def of_commands(text):
    for name, parameters in COMMAND.findall(text):
        values = schema.lists.get(name, ())
        wanted = ["..." if value.count else value.name for value in values]
        if wanted and names(parameters) != wanted:
            yield f"commands.{name} should have the parameters job, command, {', '.join(wanted)}"


def of_loops(text):
    """A loop over repeated arguments must have one variable for each value, or one for all."""
    loops = generate.LOOP.findall(text)
    if len(re.findall(r"^ .* in each\.", text, re.MULTILINE)) != len(loops):
        yield "a loop over repeated arguments is to be: for _, … in each.<list>(list, first) do"
    for variables, name in loops:
        wanted = [value.name for value in schema.lists.get(name, ())]
        if variables != name and names(variables) != wanted:
            yield f"the variables of each.{name} should be {', '.join(wanted)}; or {name}"


def names_of(head):
    """Returns part -> the names that it gives to other parts, in the order of joining."""
    return {part: names(given) for part, given in PART.findall(head + "\n")}


def gives(text, name):
    """Returns whether a part defines this name for other parts."""
    return re.search(rf"^function {name}\(|^{name} = ", text, re.MULTILINE)


def of_parts(texts):
    """A part must give the names that the head lists below it, and no name of another part."""
    head = next(iter(texts))
    listed = names_of(texts[head])
    for part, own in listed.items():
        for name in own:
            if not gives(texts[part], name):
                yield part, f"{name} is missing, which {head} lists as given"
            for other in texts:
                if other not in (head, part) and gives(texts[other], name):
                    yield other, f"{name} belongs to {part}"


def complaints(texts):
    """Yields (part, or part:line, what is wrong). texts: part -> text; the head comes first."""
    for part, text in texts.items():
        for check in (of_functions, of_commands, of_loops):
            yield from ((part, wrong) for wrong in check(text))
        for line, name in generate.unknown_letters(text):
            yield f"{part}:{line}", f"schema.txt has no letter {name}"
    yield from of_parts(texts)
    defined = {name for text in texts.values() for _, name, _ in FUNCTION.findall(text)}
    missing = [name for name in BY_WORD if name not in defined]
    yield from (("schema.txt", f"no part has functions.{name}") for name in missing)
