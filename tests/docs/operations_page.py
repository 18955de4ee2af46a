#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/OPERATIONS.md: its tables of settings and metrics, that its alert rules name metrics
of the table, and that it describes every log event

    operations_page.py check [ROOT]     fails if the page differs from the sources
    operations_page.py write [ROOT]     writes the tables of settings and metrics into the page

The settings come from the table in common/io/config/config_table.c, the metrics from the files in
METRICS. A log event of a daemon must be in the page as `event` at the beginning of a table row, and
each such row must be an event that a daemon logs.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import alert_rules

PAGE = "docs/OPERATIONS.md"
CONFIG = "common/io/config/config_table.c"
DAEMONS = ("common/base", "common/io", "common/model", "scheduler", "agent", "supervisor")
METRICS = {  # file -> the prefix of its metrics, and which processes have them
    "common/io/daemon/metrics.c": ("", "all"),
    "common/io/daemon/vitals.c": ("drover_", "all"),
    "scheduler/scheduler_io.c": ("drover_scheduler_", "scheduler"),
    "agent/agent_io.c": ("drover_agent_", "agent"),
    "supervisor/supervisor_io.c": ("drover_supervisor_", "supervisor"),
}

SETTINGS = re.compile(r"(<!-- settings -->\n).*?(<!-- end -->)", re.DOTALL)
METRICS_TABLE = re.compile(r"(<!-- metrics -->\n).*?(<!-- end -->)", re.DOTALL)
EVENTS = re.compile(r"<!-- events -->\n(.*?)<!-- end -->", re.DOTALL)
LITERALS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'  # of C: adjacent ones are one text
SETTING = re.compile(
    r'\{"([\w.]+)", SETTING_(\w+), (\w+),([^{}]*)\.text = ' + LITERALS + r"\}"
)
ENTRY = re.compile(r'^ +\{"([\w.]+)", (?=SETTING_)', re.MULTILINE)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
WORDS = re.compile(r"static const char \*const (\w+)\[\] = \{([^}]*), NULL\};")
LOGGED = re.compile(
    r'\b(?:log_(?:debug|info|warn|error)|log_often|trace_event|trace_run)'
    r'\(\s*(?:LOG_\w+, )?(?:[^",()]*\? )?"(\w+)"(?: : "(\w+)")?'
)
METRIC = re.compile(r'\{"(\w+)", METRIC_(\w+), AT\([\w.]+\),\s*' + LITERALS + r"\}")
PROCESS_METRIC = re.compile(r'\(out, "((?:drover|process)_\w+)", "(\w+)",\s*' + LITERALS)
METRIC_SET = re.compile(r'struct metric_set\b[^;{]*\{\s*"(\w+)"')
ROW = re.compile(r"^\| `(\w+)`", re.MULTILINE)

ROLES = {
    "CONFIG_SCHEDULER": "scheduler",
    "CONFIG_AGENT": "agent",
    "CONFIG_SUPERVISOR": "supervisor",
    "STEP_WORKERS": "scheduler, agent",
    "STORE_USERS": "scheduler, supervisor",
    "STORE_READERS": "scheduler, supervisor, drover",
    "DAEMONS": "daemons",
    "ALL": "all",
}
LIMITS = {"SECOND": "1s", "MINUTE": "1m", "HOUR": "1h", "DAY": "1d"}
LIMITS |= {"UINT16_MAX": "65535", "INT_MAX": "2147483647"}


def text_of(literals):
    """The text of adjacent C literals."""
    return "".join(re.sub(r"\\(.)", r"\1", part) for part in LITERAL.findall(literals))


def limit(text, kind):
    """A limit as a person would write it."""
    days = re.fullmatch(r"(\d+) \* DAY", text)
    if days:
        return days.group(1) + "d"
    return LIMITS.get(text) or text + ("ms" if kind == "DURATION" and text != "0" else "")


def kind_text(kind, rest, words):
    """The values allowed; @rest: the table's text between the roles and the description."""
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
    found = SETTING.findall(source)
    missed = set(ENTRY.findall(source)) - {path for path, *_ in found}
    if missed:
        raise ValueError(f"{CONFIG}: not understood: {', '.join(sorted(missed))}")
    for path, kind, roles, rest, literals in found:
        otherwise = re.search(r'"([^"]*)"', rest)
        default = f"`{otherwise.group(1)}`" if otherwise and otherwise.group(1) else ""
        text = text_of(literals).replace("<", "&lt;")
        rows.append(
            f"| `{path}` | {default} | {kind_text(kind, rest, words)} | {ROLES[roles]} | {text} |"
        )
    return "\n".join(rows) + "\n"


def metric_name(name, kind):
    """As metrics_print() makes it from a name in the table."""
    for unit in ("_us", "_ms"):
        if name.endswith(unit):
            name = name.removesuffix(unit) + "_seconds"
    return name + ("_total" if kind == "counter" else "")


def metrics_table(root):
    rows = ["| metric | kind | who | |", "|---|---|---|---|"]
    for file, (prefix, who) in METRICS.items():
        source = (root / file).read_text(encoding="utf-8")
        found = [
            (prefix + metric_name(name, kind.lower()), kind.lower(), text)
            for name, kind, text in METRIC.findall(source)
        ] + PROCESS_METRIC.findall(source)
        if len(METRIC.findall(source)) < source.count(", METRIC_"):
            raise ValueError(f"{file}: a metric is not understood")
        if not found:
            raise ValueError(f"{file}: no metrics")
        for name, kind, text in found:
            whose = ROLES["STORE_USERS"] if name.startswith("drover_store_") else who
            rows.append(f"| `{name}` | {kind} | {whose} | {text_of(text)} |")
    return "\n".join(rows) + "\n"


def logged_events(root):
    found = set()
    for folder in DAEMONS:
        for path in sorted((root / folder).rglob("*.c")):
            source = path.read_text(encoding="utf-8")
            for names in LOGGED.findall(source):
                found.update(name for name in names if name)
            found.update(METRIC_SET.findall(source))
    return found


def problems(root, page, wanted):
    if page != wanted:
        yield f"the tables of settings and metrics are out of date: run {sys.argv[0]} write"
    listed = set(ROW.findall(METRICS_TABLE.search(page).group()))
    for metric in sorted(alert_rules.metrics(page) - listed):
        yield f"an alert rule names {metric}, which is no metric"
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
    metrics = metrics_table(root)
    wanted = SETTINGS.sub(lambda found: found.group(1) + table + found.group(2), page)
    wanted = METRICS_TABLE.sub(lambda found: found.group(1) + metrics + found.group(2), wanted)
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
