# SPDX-License-Identifier: Apache-2.0
"""Everything in deploy/ together: images, the compose file with one user per role, the orders
example across containers, more agents under load, every process replaced under load; then the one
with three nodes of each server, of which one of each is killed under load; and nothing left behind.
"""

import concurrent.futures
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import podman
import servers
import tap
import wire

ROLES = ("scheduler", "supervisor", "agent")
STORES = ("rabbitmq", "redis")
SERVICES = ("inventory", "payment", "shipping")
ACTORS = ("demo", "inventory", "payments", "shipping")
RUNNING = (*ROLES, *STORES, *SERVICES, "shop")
NODES = (1, 2, 3)  # of RabbitMQ, Redis and Sentinel, in compose.ha.yaml
CERTIFICATES = {  # as deploy/README.md makes them
    "rabbitmq": "rabbitmq1,rabbitmq2,rabbitmq3,localhost",
    "redis": "redis1,redis2,redis3,sentinel1,sentinel2,sentinel3,localhost",
    "services": "inventory,payment,shipping",
}
STOP_S = 40  # more than the longest drain_timeout

IMAGES = {  # name -> (Containerfile, target)
    **{role: ("deploy/Containerfile", role) for role in (*ROLES, "cli")},
    **{name: (f"deploy/{name}/Containerfile", None) for name in (*STORES, "orders")},
}


def image(name):
    return f"localhost/drover-{name}:dev"


def timed(function, *arguments, **how):
    began = time.monotonic()
    function(*arguments, **how)
    return time.monotonic() - began


def state_of_the_machine():
    """What containers change outside of their own files."""
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True).stdout
    chains = sorted(set(re.findall(r"^(?::|-N |-A )\S*(?:NETAVARK|CNI)\S*", rules, re.MULTILINE)))
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    traces = ("/run/libpod", "/run/containers", "/run/netns", "/dev/shm/libpod_lock",
              "/etc/containers/networks", "/var/lib/containers")
    return {
        "forwarding": pathlib.Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "chains": chains,
        "links": sorted(line.split()[1] for line in links.splitlines()),
        "mounts": len(mounts),
        "control groups": podman.control_groups(),
        "folders": {path for path in traces if pathlib.Path(path).exists()},
        "temporary": {path.name
                      for path in pathlib.Path(podman.tempfile.gettempdir()).glob("*podman*")},
    }


class Deploy(unittest.TestCase):
    """The tests depend on each other, in the order of their names."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        why = podman.missing()
        if why:
            raise unittest.SkipTest(why)
        base = wire.BUILD / "deploy" / "bookworm-slim.tar"
        took = timed(podman.make_base, base)
        if not base.exists():
            raise unittest.SkipTest("no archive of Debian can be reached")
        tap.narrate(f"base image: {base.stat().st_size / 1e6:.0f} MB, {took:.0f} s")
        cls.before = state_of_the_machine()
        cls.podman = podman.Podman()
        cls.addClassCleanup(cls.podman.close)
        cls.podman.start()
        cls.addClassCleanup(lambda: cls.podman.alive() and cls.keep_logs())
        cls.podman.import_base(base)
        cls.secrets = cls.podman.directory / "secrets"
        ports = ("AMQP_PORT", "AMQPS_PORT", "MANAGEMENT_PORT")
        cls.ports = dict(zip(ports, map(str, servers.free_ports(len(ports)))))
        cls.make_accounts("--replication=none")
        cls.begin_project("drover", "drover_rabbitmq_1")

    @classmethod
    def make_accounts(cls, *more):
        subprocess.run(
            [sys.executable, "-B", podman.ROOT / "deploy" / "accounts.py", "--dir", cls.secrets,
             f"--agent=orders={','.join(ACTORS)}", *more], check=True)

    @classmethod
    def begin_project(cls, project, broker, scheme="http", audit=()):
        """broker: the container that is asked about queues. audit: more options of audit.py."""
        cls.project, cls.broker, cls.scheme, cls.audit = project, broker, scheme, audit
        cls.podman.make_network(f"{project}_default")
        cls.placed = 0

    @classmethod
    def keep_logs(cls):
        """Keeps the logs of the last run, also if a test has failed."""
        folder = wire.BUILD / "deploy" / "logs"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in cls.podman("ps", "-a", "--format", "{{.Names}}").split():
            done = cls.podman.within("podman", "logs", name, check=False)
            (folder / f"{name}.log").write_text(done.stdout + done.stderr)

    # --- helpers ---

    def compose(self, *words, agents=4):
        return self.podman.compose(self.project, *words, SECRETS=str(self.secrets),
                                   AGENTS=str(agents), timeout=600, **self.ports)

    def drover(self, *words):
        """The output lines of the command, run as the client in a container of its own besides
        those of compose."""
        return self.compose("run", "-T", "--rm", "--no-deps", "cli", *words).splitlines()

    def shop(self, *words):
        (name,) = self.podman.names("shop")
        return self.podman("exec", name, "shop.py", *words)

    def place(self, count):
        self.shop("place", str(count))
        type(self).placed += count

    def orders(self):
        """State -> number of orders."""
        states = [line.split()[1] for line in self.shop("list").splitlines()]
        return {state: states.count(state) for state in set(states)}

    def await_completed(self, timeout=300):
        def ended():
            states = self.orders()
            return states if not {"placed", "received"} & set(states) else None

        self.assertEqual({"completed": self.placed}, servers.wait_for(ended, "all orders", timeout))

    @contextlib.contextmanager
    def load(self):
        """Customers who order during the whole block."""
        done = threading.Event()

        def order():
            while not done.is_set():
                self.place(5)

        began, completed = time.monotonic(), self.orders().get("completed", 0)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            customers = pool.submit(order)
            try:
                servers.wait_for(lambda: self.orders().get("completed", 0) > completed, "orders")
                yield
            finally:
                done.set()
            customers.result()
        self.await_completed()
        took, placed = time.monotonic() - began, self.placed - completed
        tap.narrate(f"{placed} orders placed and completed meanwhile, in {took:.0f} s")
        self.assert_balanced()

    def assert_balanced(self):
        (name,) = self.podman.names("shop")
        services = [f"--{service}={self.scheme}://{service}:{8001 + i}"
                    for i, service in enumerate(SERVICES)]
        done = self.podman.within("podman", "exec", name, "audit.py", *self.audit, *services,
                                  check=False)
        for line in done.stdout.splitlines():
            tap.narrate(line)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def queues(self):
        """Queue -> (messages, consumers); empty while the broker is away."""
        asked = ("rabbitmqctl", "-q", "-p", "drover", "list_queues", "name", "messages",
                 "consumers", "--no-table-headers")
        done = self.podman.within("podman", "exec", self.broker, *asked, check=False)
        rows = [line.split() for line in done.stdout.splitlines()] if done.returncode == 0 else []
        return {name: (int(messages), int(consumers)) for name, messages, consumers in rows}

    def await_consumers(self, **wanted):
        def there():
            queues = self.queues()
            return all(queues.get(f"drover.{name}", (0, 0))[1] == count
                       for name, count in wanted.items())

        servers.wait_for(there, f"consumers {wanted}", 120)

    def logged(self, name, event):
        done = self.podman.within("podman", "logs", name)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line[:1] == "{"]
        return [record for record in map(json.loads, lines) if record["event.name"] == event]

    # --- the tests ---

    def test_1_images(self):
        for name, (file, target) in IMAGES.items():
            took = timed(self.podman.build, image(name), file, target,
                         VERSION="0.0.0-test", REVISION="test")
            size = self.podman.size(image(name))
            tap.narrate(f"image {name}: {size / 1e6:.0f} MB, {took:.0f} s")
        base = self.podman.size(f"{podman.BASE}:bookworm-slim")
        tap.narrate(f"of which the base: {base / 1e6:.0f} MB")
        for name in IMAGES:
            with self.subTest(name):
                self.check_image(json.loads(self.podman("image", "inspect", image(name)))[0], name)

    def check_image(self, facts, name):
        config = facts["Config"]
        self.assertEqual("10001:10001", config["User"])
        self.assertEqual("SIGTERM", config.get("StopSignal"))
        if name in (*ROLES, "cli"):
            labels = config["Labels"]
            self.assertEqual("0.0.0-test", labels["org.opencontainers.image.version"])
            self.assertEqual("Apache-2.0", labels["org.opencontainers.image.licenses"])
            self.assertLess(facts["Size"], 150e6)
        if name in ROLES:
            self.assertEqual(["CMD", f"/usr/bin/drover-{name}", "--healthcheck"],
                             facts["Healthcheck"]["Test"])
        if name in STORES:
            self.assertTrue(facts["Healthcheck"]["Test"])

    def test_2_orders(self):
        took = timed(self.compose, "up", "-d", "--no-build", agents=1)
        self.await_consumers(**{"submit": 2, "replies": 2, "task.payments": 1})
        tap.narrate(f"composed up in {took:.0f} s, with 1 agent")
        for service in RUNNING:
            self.assertTrue(self.podman.names(service), service)
        self.place(20)
        self.await_completed()
        self.assert_balanced()

    def test_3_confinement(self):
        for service in RUNNING:
            for name in self.podman.names(service):
                with self.subTest(name):
                    self.assertEqual("10001", self.podman("exec", name, "id", "-u").strip())
                    self.assertNotEqual(0, self.podman.within(
                        "podman", "exec", name, "touch", "/usr/x", check=False).returncode)
                    status = self.podman("exec", name, "cat", "/proc/1/status")
                    self.assertRegex(status, r"CapBnd:\s+0+\n")
                    self.assertRegex(status, r"NoNewPrivs:\s+1\n")
                    self.assert_no_password_in(self.podman("inspect", name))
                    logs = self.podman.within("podman", "logs", name)
                    self.assert_no_password_in(logs.stdout + logs.stderr)
                    self.assert_no_password_in(self.podman(
                        "exec", name, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))

    def assert_no_password_in(self, text):
        for path in self.secrets.iterdir():
            if "drover-" in path.name:
                self.assertNotIn(path.read_text().strip(), text, path.name)

    def test_4_ports(self):
        """Published on loopback only."""
        listening = self.podman("ps", "--format", "{{.Ports}}").split(",")
        published = [port.strip() for line in listening
                     for port in line.split("\n") if "->" in port]
        self.assertEqual(2, len(published), published)
        for port in published:
            self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_5_more_agents_under_load(self):
        with self.load():
            self.compose("up", "-d", "--no-build", "agent", agents=4)
            self.await_consumers(**{"task.payments": 4})
            self.place(40)
        agents = self.podman.names("agent")
        self.assertEqual(4, len(agents))
        for name in agents:
            self.podman("kill", "--signal", "USR1", name)
            found = servers.wait_for(lambda n=name: self.logged(n, "agent"), f"counters of {name}")
            tap.narrate(f"{name}: {counters(found[-1])}")
            self.assertGreater(found[-1]["drover.succeeded"], 0, f"{name} has done nothing")

    def replace(self, name):
        """Stops a container as an operator would, and starts it again."""
        ups = len(self.logged(name, "bus_up"))
        self.podman("stop", "-t", STOP_S, name)
        self.assertEqual("0", self.podman.inspect(name, "{{.State.ExitCode}}"), name)
        self.podman("start", name)
        servers.wait_for(lambda: len(self.logged(name, "bus_up")) > ups, f"{name} to be up")

    def test_6_rolling_restart(self):
        with self.load():
            for role in ROLES:
                for name in self.podman.names(role):
                    self.replace(name)

    def test_7_broker_and_store_restarted(self):
        with self.load():
            for name in ("drover_rabbitmq_1", "drover_redis_1"):
                self.podman("restart", "-t", STOP_S, name)
            self.await_consumers(**{"submit": 2, "replies": 2, "task.payments": 4})

    def test_8_all_known_and_none_dead(self):
        self.assertEqual((0, 0), self.queues()["drover.dead"])
        said = self.drover("list", "--workflow", "order", "--limit", "100000", "-o", "id")
        self.assertEqual(self.placed, len({line for line in said if line.startswith("order-")}))
        for name in self.podman("ps", "--format", "{{.Names}}").split():
            if not any(f"_{role}_" in name for role in ROLES):
                continue
            for event in ("store_refused", "bus_refused", "publish_refused", "dead_letter"):
                self.assertEqual([], self.logged(name, event), name)

    def is_healthy(self, name):
        """By its own check, which may take too long on a busy machine."""
        return self.podman.within("podman", "healthcheck", "run", name, check=False).returncode == 0

    def test_8_health(self):
        """Containers are healthy by their own check, and a role that hangs is not."""
        for service in (*ROLES, *STORES):
            for name in self.podman.names(service):
                self.podman("healthcheck", "run", name)
        name = self.podman.names("scheduler")[0]
        self.podman("kill", "--signal", "STOP", name)
        check = self.podman.within("podman", "healthcheck", "run", name, check=False)
        self.podman("kill", "--signal", "CONT", name)
        self.assertNotEqual(0, check.returncode)
        self.podman("healthcheck", "run", name)

    def down(self):
        self.keep_logs()
        took = timed(self.compose, "down", "-v", "-t", str(STOP_S))
        tap.narrate(f"down in {took:.0f} s")
        self.assertEqual("", self.podman("ps", "-aq"))
        self.assertEqual("", self.podman("volume", "ls", "-q"))

    def test_9_down(self):
        self.down()

    # --- three nodes of each server ---

    def sentinel(self, number):
        """Returns what a Sentinel knows of the group, by name; {} if it does not answer."""
        word = (self.secrets / "redis-drover-daemon").read_text().strip()
        done = self.podman.within(
            "podman", "exec", "-e", f"REDISCLI_AUTH={word}", f"drover-ha_sentinel{number}_1",
            "redis-cli", "--tls", "--cacert", "/run/secrets/ca", "--user", "drover-daemon",
            "-p", "26379", "sentinel", "master", "drover", check=False)
        lines = done.stdout.splitlines()
        return dict(zip(lines[::2], lines[1::2]))

    def primary(self):
        """Returns the server that all Sentinels name; None if they differ."""
        named = {self.sentinel(number).get("ip") for number in NODES}
        return named.pop() if len(named) == 1 else None

    def is_whole(self):
        """Whether all that can fail over is there to do so."""
        seen = [self.sentinel(number) for number in NODES]
        return self.members() == {3} and all(
            s.get("num-slaves") == "2" and s.get("num-other-sentinels") == "2"
            and s.get("flags") == "master" for s in seen)

    def members(self):
        """Returns the numbers of nodes that queues have members on."""
        asked = ("rabbitmqctl", "-q", "-p", "drover", "list_queues", "type", "members",
                 "--no-table-headers")
        done = self.podman.within("podman", "exec", self.broker, *asked, check=False)
        return {line.count("rabbit@") for line in done.stdout.splitlines()
                if line.startswith("quorum")}

    def await_more_orders(self):
        """Waits until orders are completed that were not before this call."""
        before = self.orders().get("completed", 0)
        servers.wait_for(lambda: self.orders().get("completed", 0) > before + 5, "orders")

    def lose(self, name, while_gone):
        """Kills a container under load, lets while_gone() wait for what follows, and starts it
        again."""
        began = time.monotonic()
        self.podman("kill", name)
        while_gone()
        self.await_more_orders()
        took = time.monotonic() - began
        tap.narrate(f"{name}: more orders were completed {took:.0f} s after its death")
        self.podman("start", name)

    def test_a_high_availability(self):
        self.make_accounts("--cluster")
        subprocess.run(
            [sys.executable, "-B", podman.ROOT / "deploy" / "authority.py", self.secrets,
             "--readable", *(f"--server={name}={hosts}" for name, hosts in CERTIFICATES.items())],
            check=True, stdout=subprocess.DEVNULL)
        self.begin_project("drover-ha", "drover-ha_rabbitmq2_1", "https",
                           ["--ca-file", "/run/secrets/ca"])
        took = timed(self.compose, "up", "-d", "--no-build", agents=2)
        self.await_consumers(**{"submit": 2, "replies": 2, "task.payments": 2})
        servers.wait_for(self.is_whole, "all nodes to be part of it", 300)
        tap.narrate(f"composed up in {took:.0f} s")
        self.place(20)
        self.await_completed()
        with self.load():
            self.lose("drover-ha_rabbitmq1_1", lambda: None)
            old = servers.wait_for(self.primary, "a primary")
            self.lose(f"drover-ha_{old}_1", lambda: servers.wait_for(
                lambda: self.primary() not in (None, old), "another primary"))
            servers.wait_for(self.is_whole, "all nodes to be back", 300)
        said = self.drover("list", "--workflow", "order", "--limit", "100000", "-o", "id")
        self.assertEqual(self.placed, len({line for line in said if line.startswith("order-")}))
        for name in ("drover-ha_rabbitmq1_1", "drover-ha_redis1_1", "drover-ha_sentinel1_1"):
            servers.wait_for(lambda n=name: self.is_healthy(n), f"{name} to be healthy")
            self.assert_no_password_in(self.podman(
                "exec", name, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
        self.assertEqual((0, 0), self.queues()["drover.dead"])
        for role in ROLES:
            for name in self.podman.names(role):
                for event in ("bus_refused", "dead_letter"):
                    self.assertEqual([], self.logged(name, event), name)
                # A new primary takes no writes until it has a replica.
                refusals = {r["drover.why"] for r in self.logged(name, "store_refused")}
                self.assertEqual([], [why for why in refusals if "NOREPLICAS" not in why], name)
        self.down()

    def test_b_nothing_left_behind(self):
        if self.podman("ps", "-aq"):
            self.keep_logs()
        self.podman.close()
        self.assertEqual(self.before, state_of_the_machine())


def counters(record):
    return ", ".join(f"{key.removeprefix('drover.')} {value}" for key, value in record.items()
                     if key.startswith("drover.") and isinstance(value, int) and value)


if __name__ == "__main__":
    tap.main()
