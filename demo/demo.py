# SPDX-License-Identifier: Apache-2.0
"""./dev demo: a complete Drover on private servers, at work while many things go wrong

Without options: the orders of examples/orders, with an audit at the end (story.py). With
--workloads: recorded workflows, whose steps only sleep (recorded.py).
"""

import argparse
import pathlib
import signal
import sys

import recorded
import stage
import story

import servers


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.splitlines()[0])
    parser.add_argument("--orders", type=int, default=40, help="how many (%(default)s)")
    parser.add_argument("--workloads", help="run every dag/*.json below this folder instead")
    parser.add_argument(
        "--scale", type=float, default=recorded.SCALE, help="of recorded runtimes (%(default)s)"
    )
    options = parser.parse_args()
    if options.orders < 4:
        parser.error("--orders: at least 4, so that work is in progress at each kill")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if not options.workloads:
            good = story.run(options.orders)
        else:
            files = sorted((pathlib.Path(options.workloads) / "dag").glob("*.json"))
            if not files:
                parser.error(f"there is no {options.workloads}/dag/*.json")
            good = recorded.run(files, options.scale)
        return 0 if good else 1
    except (stage.CheckFailed, servers.ServerError) as problem:
        stage.say(f"FAILED: {problem}")
        stage.say_logs()
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
