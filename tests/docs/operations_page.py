#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps docs/OPERATIONS.md true: its table of settings, and that it knows every log event

    operations_page.py check [ROOT]     fails where the page differs from the sources
    operations_page.py write [ROOT]     puts the table of settings into the page

The settings come from the table in common/io/config.c. A log event of a daemon must stand in the
page as `event` at the beginning of a table row, and each such row must be one that a daemon logs.
"""

import pathlib
import re
import sys

PAGE = "docs/OPERATIONS.md"
CONFIG = "common/io/config.c"
DAEMONS = ("common/io", "scheduler", "agent", "supervisor")

SETTINGS = re.compile(r"(<!-- settings -->\n).*?(<!-- end -->)", re.DOTALL)
EVENTS = re.compile(r"<!-- events -->\n(.*?)<!-- end -->", re.DOTALL)
SETTING = re.compile(r'\{"([\w.]+)", (\w+), (\w+),(.*?)\.text = "([^"]*)"\}', re.DOTALL)
WORDS = re.compile(r"static const char \*const (\w+)\[\] = \{([^}]*), NULL\};")
LOGGED = re.compile(r'\blog_(?:debug|info|warn|error)\(\s*(?:[^",()]*\? )?"(\w+)"(?: : "(\w+)")?')
ROW = re.compile(r"^\| `(\w+)`", re.MULTILINE)

ROLES = {
    "CONFIG_SCHEDULER": "scheduler",
    "CONFIG_AGENT": "agent",
    "CONFIG_SUPERVISOR": "supervisor",
    "STORE_USERS": "scheduler, supervisor",
    "DAEMONS": "daemons",
    "ALL": "all",
}
LIMITS = {"SECOND": "1s", "MINUTE": "1m", "HOUR": "1h", "DAY": "1d"}
LIMITS |= {"UINT16_MAX": "65535", "INT_MAX": "2147483647"}


def limit(text, kind):
    """A bound as a person would write it."""
    days = re.fullmatch(r"(\d+) \* DAY", text)
    if days:
        return days.group(1) + "d"
    return LIMITS.get(text) or text + ("ms" if kind == "DURATION" else "")


def kind_text(kind, rest, words):
    """What a value may be; @rest: what stands in the table between the roles and the text."""
    given = re.search(r'"[^"]*",\s+([^,.]+),\s+([^,.]+)', rest)
    if kind in ("INTEGER", "DURATION"):
        if not given:
            raise ValueError(f"{CONFIG}: no range in {rest}")
        low, high = (limit(text.strip(), kind) for text in given.groups())
        return f"{low} to {high}"
    if kind == "WORD":
        return words[re.search(r"\.words = (\w+)", rest).group(1)]
    return {"TEXT": "text", "SECRET": "secret", "BOOLEAN": "true, false", "TREE": "list"}[kind]


def settings_table(source):
    words = {name: list_.replace('"', "") for name, list_ in WORDS.findall(source)}
    rows = ["| setting | default | may be | who | |", "|---|---|---|---|---|"]
    for path, kind, roles, rest, text in SETTING.findall(source):
        otherwise = re.search(r'"([^"]*)"', rest)
        default = f"`{otherwise.group(1)}`" if otherwise and otherwise.group(1) else ""
        text = text.replace("<", "&lt;")
        rows.append(
            f"| `{path}` | {default} | {kind_text(kind, rest, words)} | {ROLES[roles]} | {text} |"
        )
    return "\n".join(rows) + "\n"


def logged_events(root):
    found = set()
    for folder in DAEMONS:
        for path in (root / folder).glob("*.c"):
            for names in LOGGED.findall(path.read_text(encoding="utf-8")):
                found.update(name for name in names if name)
    return found


def problems(root, page, wanted):
    if page != wanted:
        yield f"the table of settings is out of date: run {sys.argv[0]} write"
    described = set(ROW.findall(EVENTS.search(page).group(1)))
    logged = logged_events(root)
    for event in sorted(logged - described):
        yield f"the log event {event} is not described"
    for event in sorted(described - logged):
        yield f"no daemon logs {event}"


def main(argv):
    root = pathlib.Path(argv[2] if len(argv) > 2 else ".")
    page = (root / PAGE).read_text(encoding="utf-8")
    table = settings_table((root / CONFIG).read_text(encoding="utf-8"))
    wanted = SETTINGS.sub(lambda found: found.group(1) + table + found.group(2), page)
    if argv[1] == "write":
        (root / PAGE).write_text(wanted, encoding="utf-8")
        page = wanted
    found = list(problems(root, page, wanted))
    for problem in found:
        print(f"{PAGE}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv))
