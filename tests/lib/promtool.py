# SPDX-License-Identifier: Apache-2.0
"""promtool of Prometheus, which checks metrics and alert rules: the one on PATH, or Debian's,
unpacked in the build folder

Installing the package would start a server on the machine.
"""

import pathlib
import shutil
import subprocess
import tempfile

import wire

FETCH_TIMEOUT_S = 180


def _fetch(to, package):
    """Unpacks promtool from one of Debian's packages. Returns whether that worked."""
    with tempfile.TemporaryDirectory(dir=wire.BUILD) as directory:
        unpacked = pathlib.Path(directory) / "unpacked"
        try:
            subprocess.run(
                ["apt-get", "download", package],
                cwd=directory,
                check=True,
                capture_output=True,
                timeout=FETCH_TIMEOUT_S,
            )
            (file,) = pathlib.Path(directory).glob(f"{package}_*.deb")
            subprocess.run(["dpkg", "-x", file, unpacked], check=True, capture_output=True)
            shutil.move(unpacked / "usr/bin/promtool", to)
        except (OSError, ValueError, subprocess.SubprocessError):
            return False
        return True


def find():
    """Returns its path, or None if it cannot be had."""
    on_path = shutil.which("promtool")
    if on_path:
        return on_path
    ours = wire.BUILD / "promtool"
    # Debian 12 has it in the first package, Debian 13 in the second.
    there = ours.exists() or _fetch(ours, "prometheus") or _fetch(ours, "promtool")
    return str(ours) if there else None


def _complaints(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode != 0 else ""


def complaints(program, metrics):
    """Returns its complaints about a page of metrics, or ""."""
    return _complaints([program, "check", "metrics"], metrics)


def rule_complaints(program, rules):
    """Returns its complaints about a file of rules, or ""."""
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(rules)
        file.flush()
        return _complaints([program, "check", "rules", file.name])
