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


def _fetch(to):
    """Unpacks promtool from Debian's package. True where that worked."""
    with tempfile.TemporaryDirectory(dir=wire.BUILD) as directory:
        unpacked = pathlib.Path(directory) / "unpacked"
        try:
            subprocess.run(
                ["apt-get", "download", "prometheus"],
                cwd=directory,
                check=True,
                capture_output=True,
                timeout=FETCH_TIMEOUT_S,
            )
            (package,) = pathlib.Path(directory).glob("prometheus_*.deb")
            subprocess.run(["dpkg", "-x", package, unpacked], check=True, capture_output=True)
        except (OSError, ValueError, subprocess.SubprocessError):
            return False
        shutil.move(unpacked / "usr/bin/promtool", to)
        return True


def find():
    """Its path, or None where there is none to be had."""
    on_path = shutil.which("promtool")
    if on_path:
        return on_path
    ours = wire.BUILD / "promtool"
    return str(ours) if ours.exists() or _fetch(ours) else None


def complaints(program, metrics):
    """What it says of a page of metrics, "" for nothing."""
    done = subprocess.run([program, "check", "metrics"], input=metrics, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode != 0 else ""
