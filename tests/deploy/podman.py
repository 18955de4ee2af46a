# SPDX-License-Identifier: Apache-2.0
"""Podman in namespaces of its own, which leaves nothing behind

    with podman.Podman() as p:
        p.import_base(tar)
        p.build("localhost/x:dev", "deploy/Containerfile", target="agent")
        p("run", "-d", ...)                 # arguments of podman; returns its output
        p.compose("drover", "up", "-d", AGENTS="4")

Networks, firewall rules, IP forwarding, mounts, shared memory and processes are in namespaces that
one process holds; images and volumes are in a temporary folder. When that process ends, for
whatever reason, the kernel removes all but the folder. Other containers of the machine are not
visible.

No systemd is needed, and no registry: debootstrap makes the base image of Debian packages. Building
uses the network of the machine, running does not.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import servers
import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECTS = {"drover": "compose.yaml", "drover-ha": "compose.ha.yaml"}  # its files in deploy/
BASE = "docker.io/library/debian"
TOOLS = ("podman", "podman-compose", "runc", "conmon", "iptables", "debootstrap", "catatonit", "ip",
         "unshare", "nsenter", "setpriv")

# crun fails with hybrid cgroups; ulimits must not exceed those of a small machine.
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "{directory}/networks"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{directory}/storage"
runroot = "/run/containers/storage"
"""
# Private copies of the folders that podman must not share with others.
PREPARE = """\
resolver=$(readlink -f /etc/resolv.conf)
cp "$resolver" "$0/resolv.conf"
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /var/lib/containers
mkdir -p "$(dirname "$resolver")"
[ -e "$resolver" ] || cp "$0/resolv.conf" "$resolver"
ip link set lo up
exec catatonit -P
"""
# Debian's own image "slim" also lacks the folders of documentation.
NOT_IN_BASE = ("usr/share/doc/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/man/*",
               "var/cache/apt/*", "var/lib/apt/lists/*", "etc/resolv.conf", "etc/hostname")


def missing():
    """Why podman cannot be used here; None if it can."""
    absent = [tool for tool in TOOLS if not shutil.which(tool)]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "needs root"
    probe = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "true"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        return "namespaces cannot be made here"
    return None


def make_base(tar):
    """Makes a tar file of Debian's base system, once; False if no archive of Debian can be reached.
    """
    if tar.exists():
        return True
    tar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tar.parent) as folder:
        rootfs, new = pathlib.Path(folder, "rootfs"), pathlib.Path(folder, "base.tar")
        done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", rootfs],
                              capture_output=True, text=True)
        if done.returncode != 0:
            tap.narrate(f"debootstrap: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            return False
        slim = "".join(f"path-exclude /{path}\n" for path in NOT_IN_BASE[:4])
        (rootfs / "etc/dpkg/dpkg.cfg.d/slim").write_text(slim)
        exclude = [f"--exclude=./{path}" for path in NOT_IN_BASE]
        subprocess.run(["tar", "-C", rootfs, "-cf", new, *exclude, "."], check=True)
        new.rename(tar)
    return True


def control_groups():
    """Folders of the kernel that podman makes and does not remove."""
    return {path for path in pathlib.Path("/sys/fs/cgroup").glob("**/libpod_parent/**")}


class Podman(servers.Scope):
    def __init__(self):
        self._groups = control_groups()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="drover-podman-"))
        (self.directory / "tmp").mkdir()
        (self.directory / "networks").mkdir()
        self._made = None  # the folder that had to be made for a mount
        self._holder = None
        self._pid = None  # of the first process in the namespaces
        for name, text in (("containers.conf", CONTAINERS_CONF), ("storage.conf", STORAGE_CONF)):
            (self.directory / name).write_text(text.format(directory=self.directory))
        self._env = {
            **os.environ,
            "CONTAINERS_CONF": str(self.directory / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.directory / "storage.conf"),
            "BUILDAH_FORMAT": "docker",  # the other format has no HEALTHCHECK
            "TMPDIR": str(self.directory / "tmp"),
        }

    def start(self):
        mount = pathlib.Path("/var/lib/containers")
        if not mount.exists():
            mount.mkdir()
            self._made = mount
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork",
             "--kill-child", "--mount-proc", "sh", "-ec", PREPARE, self.directory],
            stdin=subprocess.DEVNULL, env=self._env)
        servers.wait_for(self._held, "namespaces")

    def _held(self):
        """The holder's child has become catatonit: everything is mounted."""
        if self._holder.poll() is not None:
            raise servers.ServerError("namespaces cannot be made here")
        children = pathlib.Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        for pid in children.read_text().split():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "catatonit":
                self._pid = pid
        return self._pid

    def close(self):
        """Ends all processes in the namespaces, and removes the folder; a second call does nothing.
        """
        if self._holder:
            self._holder.kill()
            self._holder.wait()
            self._holder = None
        if self._pid:
            gone = pathlib.Path(f"/proc/{self._pid}/ns")
            servers.wait_for(lambda: not gone.exists(), "the namespaces to be gone")
        for group in sorted(control_groups() - self._groups, reverse=True):
            with contextlib.suppress(OSError):  # in use by another process
                group.rmdir()
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._made:
            self._made.rmdir()
            self._made = None

    def alive(self):
        return self._holder is not None

    # --- commands ---

    def within(self, *words, network=True, text=None, check=True, timeout=300, **variables):
        """Runs a command in the namespaces; returns the completed process."""
        enter = ["nsenter", f"--target={self._pid}", "--mount", "--pid"]
        done = subprocess.run(
            [*enter, *(["--net"] if network else []), "--", *map(str, words)],
            input=text, capture_output=True, text=True, timeout=timeout,
            env={**self._env, **variables})
        if check and done.returncode != 0:
            raise servers.ServerError(
                f"{' '.join(map(str, words))}: exit {done.returncode}\n"
                f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done

    def __call__(self, *words, **how):
        return self.within("podman", *words, **how).stdout

    def compose(self, project, *words, **variables):
        """Its exit code says little: the caller must check the result."""
        command = ["podman-compose", "-p", project, "-f", ROOT / "deploy" / PROJECTS[project]]
        return self.within(*command, *words, **variables).stdout

    # --- images ---

    def import_base(self, tar):
        self("import", tar, f"{BASE}:bookworm-slim")
        self("tag", f"{BASE}:bookworm-slim", f"{BASE}:bookworm")

    def build(self, name, file, target=None, **arguments):
        words = ["--target", target] if target else []
        words += [f"--build-arg={key}={value}" for key, value in arguments.items()]
        self("build", "--network", "host", *words, "-t", name, "-f", ROOT / file, ROOT,
             network=False, timeout=900)

    def size(self, name):
        """Bytes of an image, including shared layers."""
        return int(self("image", "inspect", "--format", "{{.Size}}", name))

    # --- containers ---

    def make_network(self, name):
        """A network whose bridge keeps its address. Without udev a bridge takes the lowest address
        of its ports: a container that is added may change it, and the others do not find it for
        half a minute."""
        self("network", "create", name)
        facts = json.loads(self("network", "inspect", name))[0]
        bridge, subnet = facts["network_interface"], facts["subnets"][0]
        gateway = f"{subnet['gateway']}/{subnet['subnet'].partition('/')[2]}"
        for words in (f"link add {bridge} address 02:00:00:00:00:01 type bridge",
                      f"address add {gateway} dev {bridge}", f"link set {bridge} up"):
            self.within("ip", *words.split())

    def names(self, service):
        """Running containers of a service, in the order of their numbers."""
        found = self("ps", "--format", "{{.Names}}",
                     "--filter", f"label=com.docker.compose.service={service}").split()
        return sorted(found)

    def inspect(self, name, what):
        return self("inspect", "--format", what, name).strip()
