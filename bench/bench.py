# SPDX-License-Identifier: Apache-2.0
"""./dev bench: how fast Drover is, as ratios to the bare loop of the same run

Each measure starts a RabbitMQ and a Redis of its own. The load on Drover takes turns with the bare
loop (bench/limit.c), so that other load on the machine slows both. A figure is the median of the
repetitions, with the least and the most. Each measure leaves a record for `./dev results`.
"""

import argparse
import json
import pathlib
import sys
import time

import measures
import results
import stack
from peers import peers

BY_NAME = {"peers": peers.measure}
MEASURES = {**measures.MEASURES, **BY_NAME}


def arguments():
    text = "\n".join(f"  {name:<14} {measure.__doc__.splitlines()[0]}"
                     for name, measure in MEASURES.items())
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=f"measures, all but peers where none is named:\n{text}")
    parser.add_argument("measures", nargs="*", metavar="MEASURE")
    parser.add_argument("--build", type=pathlib.Path, default=stack.ROOT / "build-bench")
    parser.add_argument("--replication", choices=("none", "quorum"), default="none",
                        help="rabbitmq.replication of the daemons, and the same of the bare loop "
                             "(none)")
    parser.add_argument("--tls", action="store_true",
                        help="the daemons connect to RabbitMQ and Redis by TLS")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions (3)")
    parser.add_argument("--backlog", type=int, default=100_000, help="jobs of backlog (100000)")
    parser.add_argument("--find-jobs", type=int, default=100_000,
                        help="jobs in the store of find (100000)")
    parser.add_argument("--growth", type=int, nargs="*", default=[], metavar="JOBS",
                        help="further numbers of jobs in the store of growth, such as 1000000")
    parser.add_argument("--idle", type=float, default=10, help="seconds of idle (10)")
    parser.add_argument("--celery", metavar="PYTHON", default=sys.executable,
                        help="of peers: the Python that has Celery (Debian's)")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each figure")
    options = parser.parse_args()
    options.build = options.build.absolute()
    unknown = set(options.measures) - set(MEASURES)
    if unknown:
        parser.error(f"no such measure: {' '.join(sorted(unknown))}")
    return options


def show(line):
    ratio = f"ratio {line['ratio']:<7.3g}" if "ratio" in line else " " * 13
    print(f"{line['name']:<24}{line['value']:>11,.4g} {line['unit']:<12}"
          f"({line['min']:,.4g} to {line['max']:,.4g})".ljust(74), ratio, end="")
    more = {k: v for k, v in line.items() if k not in
            ("name", "value", "unit", "min", "max", "ratio", "cpu_us_per_step", "rss_anon_mib")}
    print(" ".join(f"{k} {v}" for k, v in more.items()))
    for key, unit in (("cpu_us_per_step", "us/step"), ("rss_anon_mib", "MiB")):
        if key in line:
            print(" " * 24, unit, "  ".join(f"{k} {v}" for k, v in line[key].items()))


def command(name, words):
    """That yields this measure again. @words: the command line, with ./dev's build folder."""
    if "--build" in words:
        at = words.index("--build")
        words = words[:at] + words[at + 2:]
    hidden = {"--json", *MEASURES}
    return " ".join(["./dev bench", name, *(word for word in words if word not in hidden)])


def main():
    options = arguments()
    for name in options.measures or measures.MEASURES:
        began = time.monotonic()
        lines = MEASURES[name](options)
        for line in lines:
            if options.json:
                print(json.dumps(line), flush=True)
            else:
                show(line)
        seconds = round(time.monotonic() - began)
        results.record(options.build / "results", name, command(name, sys.argv[1:]),
                       seconds=seconds, lines=lines)
        print(f"# {name}: {seconds} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
