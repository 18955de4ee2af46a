#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/STORE.md from common/store/schema.txt: the calls of the store functions, their
answers, and the letters in them

    store_page.py check [ROOT]     fails if the page is not up to date
    store_page.py write [ROOT]

What a function does is the first sentence of its comment.
"""

import pathlib
import re
import sys

PAGE = "docs/STORE.md"
STORE = "common/store"

HEAD = """\
# Calls of the store functions

<!-- made by tests/docs/store_page.py from common/store/schema.txt -->

A store function *x* is called as `FCALL drover1_x 1 <prefix> <argument>…`. The prefix is that of
the keys of a partition, such as `drover:{p3}:`. Arguments and answers are flat lists of texts, here
called values. The function `inspect` has several forms; its first argument is the word that follows
`inspect` in the table. The comments of the functions in `common/store` say what the arguments mean
and what the codes in the answers say. `common/model/store_ops.h` is the same for callers in C.

| in the tables | is |
|---|---|
| `name` | one value |
| `name{a b}` | one value: the words a and b, with a space between them |
| `name=field` | one value: this field of a hash in Redis |
| `<list>` | the values of a list, see [Lists](#lists) |
| `x...` | any number of x, up to the end |
| `n*x` | as many x as the value, or word, n says |
| `x?n` | x is there only if n is, and is not 0 |
| `x?` | x may be missing at the end |

An answer whose first value says that there is nothing to answer ends there.
"""

COMMANDS = """\
`retry`, `resolve`, `change` and `migrate` are the arguments of the commands of these names, in the
place of `argument` of `steer`. `step_record`, `history_entry` and `step_entry` are the words of
texts that the store keeps: the record of a step, the beginning of an entry of the history, and an
entry about a dispatch.
"""

LETTERS = """\
The store keeps these letters, and calls and answers have them. In Lua `STEP.AT_REST` stands for
`W`; in C `STEP_AT_REST` of `enum step_state` is `W`.
"""


def table(*rows):
    head, *others = rows
    lines = [f"| {' | '.join(row)} |" for row in (head, *others)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def letters(alphabets):
    """Yields a row for each letter."""
    for alphabet in alphabets:
        for one in alphabet.letters:
            letter = f"`{one.letter}`" if one.letter else "none"
            yield letter, f"`{alphabet.prefix}.{one.name}`", one.meaning


def purposes(texts, functions):
    """Returns function -> the first sentence of its comment."""
    found = {}
    for comment, word, _ in functions.findall("\n".join(texts)):
        _, *lines = (line.strip().removeprefix("--").strip() for line in comment.splitlines())
        found[word] = re.match(r".*?\.(?=\s|$)", " ".join(lines))[0].replace("|", "\\|")
    return found


def page(store):
    sys.path.insert(0, str(store))
    import check
    import library
    import schema

    texts = [
        (store / part).read_text(encoding="utf-8")
        for part in library.PARTS
        if part != library.SCHEMA
    ]
    does = purposes(texts, check.FUNCTION)
    functions, alphabets = schema.functions.values(), schema.alphabets.values()
    return "\n".join(
        [
            HEAD,
            "## Functions\n",
            table(
                ("function", "arguments", "answer", "what it does"),
                *(
                    (
                        f"`{f.name}`", *(f"`{text}`" if text else "" for text in f.texts),
                        does[f.word],
                    )
                    for f in functions
                ),
            ),
            "## Lists\n",
            table(
                ("list", "values"),
                *((f"`{name}`", f"`{text}`") for name, text in schema.lists_text.items()),
            ),
            COMMANDS,
            "## Letters\n",
            LETTERS,
            table(
                ("enum", "names", "values that have these letters"),
                *((f"`{a.name}`", f"`{a.prefix}.…`", a.values) for a in alphabets),
            ),
            table(("letter", "name", "meaning"), *letters(alphabets)),
        ]
    )


def main(argv):
    root = pathlib.Path(argv[2] if len(argv) > 2 else ".").resolve()
    text = page(root / STORE)
    if argv[1] == "write":
        (root / PAGE).write_text(text, encoding="utf-8")
    elif (root / PAGE).read_text(encoding="utf-8") != text:
        print(
            f"{PAGE} is not what {STORE}/schema.txt says: run tests/docs/store_page.py write",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv))
