# SPDX-License-Identifier: Apache-2.0
"""promtool of Prometheus, which judges metrics: the one on PATH, else Debian's, unpacked into the build folder

Installing the package would start a server on the machine.
"""

import pathlib
import shutil
import subprocess
import tempfile

import wire

FETCH_TIMEOUT_S = 180


def _fetch(to, package):
    """Unpacks promtool from one of Debian's packages. True where that worked."""
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
    """Its path, or None where there is none to be had."""
    on_path = shutil.which("promtool")
    if on_path:
        return on_path
    ours = wire.BUILD / "promtool"
    # Debian 12 has it in the one, Debian 13 in the other
    there = ours.exists() or _fetch(ours, "prometheus") or _fetch(ours, "promtool")
    return str(ours) if there else None


def complaints(program, metrics):
    """What it says of a page of metrics, "" for nothing."""
    done = subprocess.run([program, "check", "metrics"], input=metrics, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode != 0 else ""
