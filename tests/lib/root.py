# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian of another release, and a command in it

    root.py RELEASE [--fresh] -- COMMAND [ARGUMENT...]      such as: root.py trixie -- ./dev demo

Needs root rights. debootstrap makes the root once, in build/roots/RELEASE; --fresh makes it anew.
The root has a copy of the files that git tracks here, as they are in the working tree, in /drover.
The command runs there in mount, pid and host name namespaces of its own, so that all processes it
starts end with it. A folder of real workloads (DROVER_WORKLOADS) is mounted there. It uses the
network of the machine, as `./dev` installs packages; its servers bind loopback. What the command
installs and builds is kept for the next time.

Exits with the status of the command, or with 77 and the reason if such a root cannot be made here.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOTS = SOURCE / "build" / "roots"
TOOLS = ("debootstrap", "unshare", "chroot", "tar")
HOSTS = "127.0.0.1 localhost drover-root\n"
# /dev has only what a program needs. The devices are bind mounts of those of the machine.
ENTER = """\
mount -t proc proc "$0/proc"
mount -t tmpfs tmpfs "$0/dev"
mkdir "$0/dev/shm" "$0/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"
ln -s pts/ptmx "$0/dev/ptmx"
mount -t tmpfs tmpfs "$0/dev/shm"
for device in null zero full random urandom tty; do
    touch "$0/dev/$device"
    mount --bind "/dev/$device" "$0/dev/$device"
done
ln -s /proc/self/fd "$0/dev/fd"
ln -s /proc/self/fd/0 "$0/dev/stdin"
ln -s /proc/self/fd/1 "$0/dev/stdout"
ln -s /proc/self/fd/2 "$0/dev/stderr"
mount -t tmpfs tmpfs "$0/run"
if [ -n "$DROVER_WORKLOADS" ]; then
    mkdir "$0/run/workloads"
    mount -o bind,ro "$DROVER_WORKLOADS" "$0/run/workloads"
    export DROVER_WORKLOADS=/run/workloads
fi
hostname drover-root
exec chroot "$0" /bin/sh -c 'cd /drover && exec "$@"' sh "$@"
"""


def missing():
    """Returns why a root cannot be made here, or None."""
    absent = [tool for tool in TOOLS if not shutil.which(tool)]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "needs root rights"
    probe = ["unshare", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "true"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        return "namespaces cannot be made here"
    return None


def make(release):
    """Returns the root, or None if no archive of Debian can be reached, or none has this
    release."""
    root, new = ROOTS / release, ROOTS / f"{release}.new"
    if root.exists():
        return root
    shutil.rmtree(new, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", release, new], capture_output=True, text=True
    )
    if done.returncode != 0:
        print(f"debootstrap: {done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
        return None
    (new / "etc/hosts").write_text(HOSTS)
    new.rename(root)
    return root


def copy_source(root):
    """Copies what git tracks. Build folders in the root are kept, and meson rebuilds what has
    changed."""
    target = root / "drover"
    target.mkdir(exist_ok=True)
    tracked = subprocess.run(
        ["git", "-C", SOURCE, "ls-files", "-z"], capture_output=True, check=True
    ).stdout.split(b"\0")
    there = b"\0".join(name for name in tracked if name and (SOURCE / os.fsdecode(name)).exists())
    for entry in target.iterdir():
        if not entry.name.startswith("build"):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    pack = subprocess.Popen(
        ["tar", "-C", SOURCE, "--null", "-T", "-", "-cf", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    unpack = subprocess.Popen(["tar", "-C", target, "-xf", "-"], stdin=pack.stdout)
    pack.stdin.write(there)
    pack.stdin.close()
    if pack.wait() or unpack.wait():
        raise SystemExit("root.py: the sources could not be copied")


def environment():
    """Returns an environment with nothing of this machine but how packages are reached, and what
    continuous integration sets."""
    kept = ("http_proxy", "https_proxy", "no_proxy", "CI", "DROVER_WERROR", "DROVER_WORKLOADS")
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
            "DROVER_WORKLOADS": "",
            **{name: os.environ[name] for name in kept if name in os.environ}}


def run(root, command):
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    words = [
        "unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "sh", "-ec", ENTER, root,
        *command,
    ]
    return subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", *words], stdin=subprocess.DEVNULL, env=environment()
    ).returncode


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", metavar="RELEASE")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("command", metavar="COMMAND", nargs="+")
    options = parser.parse_args()
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    if options.fresh:
        shutil.rmtree(ROOTS / options.release, ignore_errors=True)
    root = make(options.release)
    if not root:
        print(f"skipped: no archive of Debian with {options.release} can be reached")
        return SKIPPED
    copy_source(root)
    return run(root, options.command)


if __name__ == "__main__":
    sys.exit(main())
