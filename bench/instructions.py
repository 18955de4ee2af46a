# SPDX-License-Identifier: Apache-2.0
"""Instructions that the machines take for a step, counted by callgrind

The count is the same on every machine with the same compiler, whatever else it does: if it grows, a
step costs more. Counted is what runs within the step function of each machine, in a chain of steps
with no other work, as the difference between a long chain and a short one.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

MACHINES = ("scheduler_step", "agent_step", "supervisor_step")
SHORT, LONG = 10, 60


def counted(build, machine, steps):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                        "--collect-atstart=no", f"--toggle-collect={machine}",
                        build / "bench/core", str(steps)], check=True, capture_output=True)
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M).group(1))


def measure(options):
    """Instructions of each machine for a step"""
    if not shutil.which("valgrind"):
        return []
    lines = []
    for machine in MACHINES:
        taken = (counted(options.build, machine, LONG) - counted(options.build, machine, SHORT))
        value = round(taken / (LONG - SHORT))
        lines.append({"name": f"instructions-{machine.removesuffix('_step')}", "value": value,
                      "unit": "a step", "min": value, "max": value})
    return lines
