# SPDX-License-Identifier: Apache-2.0
"""The processes of examples/orders, for tests and for the demo

    world = orders.World(directory)         # the three services are up, on ports of their own
    c = cluster.Cluster(..., world.directory, world.settings(), orders.ACTOR)
    world.place(40)
    world.start_shop(c)
    world.await_ended()
    world.audit().problems                  # must be []
    world.close()
"""

import atexit
import collections
import contextlib
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.error

import servers
import wire

EXAMPLE = wire.ROOT / "examples" / "orders"
PYTHON = ["/usr/bin/python3", "-B"]
ACTOR = "payments"  # all agents serve it

sys.path.insert(0, str(EXAMPLE))
import audit  # noqa: E402


def all_ended(states):
    """states: state -> number of orders."""
    return not {"placed", "received"} & set(states)


class Program:
    """A program of the example as a process, with its log. After its end it can be started
    again."""

    def __init__(self, directory, name, *arguments):
        self.name, self.log = name, directory / f"{name}.log"
        self._command = [*PYTHON, EXAMPLE / f"{name}.py", *arguments]
        self._process = None

    def start(self):
        self._process = servers.Process.spawn(self._command, self.log)

    @property
    def pid(self):
        return self._process.pid

    def alive(self):
        return self._process is not None and self._process.alive()

    def end(self, number=signal.SIGTERM):
        if self._process:
            self._process.end(number)
            self._process = None

    def kill(self):
        self.end(signal.SIGKILL)

    def pause(self):
        self._process.signal(signal.SIGSTOP)

    def text(self):
        return self.log.read_text(errors="replace")


class Service(Program):
    """inventory, payment or shipping. It keeps its port and its ledger when it is started again."""

    def __init__(self, directory, name, *arguments):
        self.port = servers.free_ports(1)[0]
        self.url = f"http://{servers.HOST}:{self.port}"
        ledger = directory / f"{name}.db"
        super().__init__(directory, name, "--port", self.port, "--book", ledger, *arguments)

    def read(self):
        """Returns its rows and counters; None if it is not running."""
        with contextlib.suppress(urllib.error.URLError):
            return audit.read_ledger(self.url)
        return None

    def await_up(self):
        servers.wait_for(self.read, f"{self.name}, see {self.log}")


class World:
    """The services, running, and the shop, not running."""

    def __init__(self, directory, payment=(), breaker=None, without=()):
        """payment: further arguments of its command line. breaker: replaces that of the example.
        without: names of services that are not started."""
        self.directory = directory
        self.database = directory / "shop.db"
        self.services = {
            name: Service(directory, name, *(payment if name == "payment" else ()))
            for name in audit.SERVICES
        }
        self.shop = None
        (directory / "services.cfg").write_text(self._agent_config(breaker))
        atexit.register(self.close)
        started = [service for name, service in self.services.items() if name not in without]
        for service in started:
            service.start()
        for service in started:
            service.await_up()

    def close(self):
        for program in [self.shop, *self.services.values()]:
            if program:
                program.kill()

    def _agent_config(self, breaker):
        """Returns the configuration of the example, with the ports that the services have here."""
        text = (EXAMPLE / "agent.cfg").read_text()
        for name, service in self.services.items():
            text, n = re.subn(rf"127\.0\.0\.1:{audit.PORTS[name]}\b", service.url[7:], text)
            assert n, f"agent.cfg does not name the port of {name}"
        if breaker:
            text, n = re.subn(r"\bbreaker = {[^}]*}", f"breaker = {breaker}", text)
            assert n, "agent.cfg configures no breaker"
        return text

    def settings(self):
        """Returns settings for a cluster in the same folder."""
        return {
            "scheduler": {"scheduler": {"workflows": str(wire.ROOT / "workflows")}},
            "agent": {"agent": None, "@include": "services.cfg"},
        }

    # --- the shop ---

    def place(self, count, *more):
        """Places orders and returns their ids. more: options of the command line."""
        command = [*PYTHON, EXAMPLE / "shop.py", "--db", self.database, "place", str(count), *more]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()

    def start_shop(self, c):
        if not self.shop:
            self.shop = Program(self.directory, "shop", "--db", self.database, "--url", c.url,
                                *c.client_options(), "run")
        self.shop.start()

    def query(self, sql):
        """Returns rows of the shop's database."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as db:
            return db.execute(sql).fetchall()

    def states(self, placed=None):
        """Returns state -> number of orders; with `placed`: of these orders only."""
        rows = self.query("SELECT id, state FROM orders")
        return dict(collections.Counter(s for i, s in rows if placed is None or i in placed))

    def receipts(self):
        """Returns code -> number of orders with such a receipt; None: without one."""
        return dict(self.query("SELECT receipt, count(*) FROM outbox GROUP BY receipt"))

    def await_ended(self, timeout=120):
        def ended():
            assert self.shop.alive(), f"the shop has ended, see {self.shop.log}"
            return all_ended(self.states())

        servers.wait_for(ended, "all orders to end", timeout)

    def audit(self):
        ledgers = {name: service.read() for name, service in self.services.items()}
        return audit.Audit(audit.read_orders(self.database), ledgers)
