# SPDX-License-Identifier: Apache-2.0
"""./dev results: writes the figures of the last runs into the pages of docs/results

    results.py write [ROOT]
    results.py note NAME LOG COMMAND

Each run of `./dev bench`, and each run of `./dev test` that measures something, appends a record to
a file in the build folder: the command, the date, the commit, the machine and the figures. `note`
appends the record of a test run: the lines of its log that SAID names.

A page has tables between two comments, such as `<!-- runs -->` and `<!-- end of runs -->`. `write`
replaces the row of each figure that has a record and adds the rows that are new. It leaves all
other rows and all text as they are.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PERFORMANCE = "docs/results/performance.md"
RELIABILITY = "docs/results/reliability.md"
BENCHES = "build-bench/results"
TESTS = "build/results"
FUZZERS = "tests/fuzz/figures.json"
FIGURES = ("p50_ms", "p99_ms", "bare_ms", "of_few", "of_first", "of_empty", "width", "cpu_us",
           "scheduler_mib_before")
# Which lines of the log of a test run are its result; none: the run leaves no record.
SAID = {
    "chaos": r"^seed .*?(?=; logs)|^the last job .*|^\d+ violations",
    "race": r"^seeds .*?(?=; logs)|^\d+ runs, .*",
    "soak": r"^seed .*?(?=; logs)|^at most .*|^load: .*|^\S+ \w+: .*, later .*|^\d+ violations",
    "absence": r".+",
    "reach": r"^rabbit .*|^\d+ runs, .*",
    "hostile": r".+",
    "upgrade": r"^\d+ jobs, .*",
    "beside": r"^seed .*?(?=; logs)|^\d+ jobs, .*",
    "sim-worlds": r"^.+(?=\n?\Z)",
    "core-coverage": r"^(?:lines|branches): .*",
    "coverage-report": r"^lines: .*",
    "store-functions": r"^.+(?=\n?\Z)",
    "mutants": r"^\d+ rules, .*",
    "drawn-mutants": r"^seed \d+: .*|^killed: .*",
}


# --- records -------------------------------------------------------------------------------------


def commit():
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git here
        return "unknown"
    return done.stdout.strip() or "unknown"


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return f"{os.cpu_count()} × {model.group(1) if model else 'unknown'}"


def record(path, name, command, **figures):
    path.parent.mkdir(exist_ok=True)
    made = {"name": name, "command": command, "date": datetime.date.today().isoformat(),
            "commit": commit(), "machine": machine(), **figures}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(made) + "\n")


def note(path, name, log, command):
    if name in SAID:
        text = pathlib.Path(log).read_text(encoding="utf-8")
        record(path, name, command, said=re.findall(SAID[name], text, re.MULTILINE))


def last_records(path):
    """name -> its last record"""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {made["name"]: made for made in map(json.loads, lines)}


# --- rows ----------------------------------------------------------------------------------------


def row(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def figure_row(line, measure):
    """@line: one figure of a benchmark."""
    cpu = line.get("cpu_us_per_step", {})
    took = " · ".join(f"{name} {value:g}" for name, value in cpu.items() if value)
    spread = f"{line['min']:,.4g} – {line['max']:,.4g}"
    memory = " · ".join(f"{value:g}" for value in line.get("rss_anon_mib", {}).values())
    more = ", ".join(f"{key} {line[key]:g}" for key in FIGURES if key in line)
    return row(f"`{line['name']}`", f"{line['value']:,.4g} {line['unit']}", spread,
               line.get("ratio", ""), took, memory, more, measure)


def peer_rows(lines):
    """A row for each system; the name of a line is "system/figure"."""
    cells = {}
    for line in lines:
        ratio = f" × {line['ratio']:g}" if "ratio" in line else ""
        cells.setdefault(line["name"].split("/")[0], []).append(
            f"{line['value']:,.4g} ({line['min']:,.4g} – {line['max']:,.4g}){ratio}")
    return [row(f"`{system}`", *figures) for system, figures in cells.items()]


def run_row(made, result):
    return row(f"`{made['name']}`", result, f"`{made['command']}`", made["date"], made["commit"],
               made["machine"])


def fuzzer_row(name, figures):
    keys = ("executions", "edges", "minutes", "quiet")
    return row(f"`{name}`", *(f"{figures[key]:,.0f}" for key in keys))


# --- pages ---------------------------------------------------------------------------------------


def with_rows(page, table, rows):
    """The page with these rows in the table of this name. The first cell of a row is its key."""
    begin, end = f"<!-- {table} -->\n", f"<!-- end of {table} -->\n"
    before, _, rest = page.partition(begin)
    lines, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no table {begin.strip()}")
    title, rule, *old = lines.splitlines()
    rows_by_key = {text.split(" | ")[0]: text for text in [*old, *rows]}
    return before + begin + "\n".join([title, rule, *rows_by_key.values()]) + "\n" + end + after


def write(root):
    benches = last_records(root / BENCHES)
    tests = last_records(root / TESTS)
    fuzzers = json.loads((root / FUZZERS).read_text(encoding="utf-8"))
    tables = {
        PERFORMANCE: {
            "runs": [run_row(made, f"{made['seconds']} s") for made in benches.values()],
            "figures": [figure_row(line, name) for name, made in benches.items()
                        for line in made["lines"] if name != "peers"],
            "peers": peer_rows(benches["peers"]["lines"]) if "peers" in benches else [],
        },
        RELIABILITY: {
            "runs": [run_row(made, "<br>".join(made["said"])) for made in tests.values()],
            "fuzzers": [fuzzer_row(*item) for item in sorted(fuzzers.items())],
        },
    }
    for path, rows_of in tables.items():
        page = (root / path).read_text(encoding="utf-8")
        for table, rows in rows_of.items():
            page = with_rows(page, table, rows)
        (root / path).write_text(page, encoding="utf-8")


def main(argv):
    if argv[1:2] == ["write"]:
        write(pathlib.Path(argv[2]) if argv[2:] else ROOT)
    elif argv[1:2] == ["note"] and len(argv) == 5:
        note(ROOT / TESTS, *argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
