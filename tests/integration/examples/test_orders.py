# SPDX-License-Identifier: Apache-2.0
"""examples/orders: its services, and a shop that is killed at the worst moments. Each order becomes
exactly one job and completes, and the ledgers of the services agree with the orders."""

import contextlib
import copy
import functools
import json
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import orders
import servers
import tap

ORDERS = 20
TIMEOUT_S = 120 * cluster.SLOW


class Services(unittest.TestCase):
    """The services, called directly."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="drover-orders-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def service(self, name, *arguments):
        service = orders.Service(self.directory, name, *arguments)
        self.addCleanup(service.kill)
        service.start()
        service.await_up()
        return service

    def call(self, service, path, key, document):
        """Returns (status, answer)."""
        request = urllib.request.Request(f"{service.url}/{path}", json.dumps(document).encode())
        if key:
            request.add_header("Idempotency-Key", key)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def charge(self, service, key="o1/charge/1", amount=100):
        document = {"input": {"amount": amount}, "arguments": {"currency": "EUR"}}
        return self.call(service, "charge/o1", key, document)

    def refund(self, service, key="o1/charge/2", forward_key="o1/charge/1"):
        return self.call(service, "refund/o1", key, {"forward_key": forward_key})

    def test_same_key_same_answer(self):
        payment = self.service("payment")
        first = self.charge(payment)
        self.assertEqual((200, {"charge": 1, "amount": 100, "currency": "EUR"}), first)
        self.assertEqual(first, self.charge(payment))
        payment.kill()
        payment.start()
        payment.await_up()
        self.assertEqual(first, self.charge(payment))
        self.assertEqual(409, self.charge(payment, amount=99)[0])
        self.assertEqual(409, self.refund(payment, "o1/charge/1")[0])
        self.assertEqual(["o1/charge/1"], [row["key"] for row in payment.read()["rows"]])

    def test_taken_back(self):
        payment = self.service("payment")
        self.charge(payment)
        answer = self.refund(payment)
        self.assertEqual((200, {"refund": 2}), answer)
        self.assertEqual(answer, self.refund(payment))
        self.assertEqual(409, self.charge(payment)[0])
        self.assertEqual(200, self.charge(payment, "o1/charge/3")[0])

    def test_undo_overtakes_do(self):
        payment = self.service("payment")
        self.assertEqual(200, self.refund(payment)[0])
        self.assertEqual(409, self.charge(payment)[0])
        self.assertEqual(1, len(payment.read()["rows"]))

    def test_bad_calls(self):
        payment = self.service("payment")
        self.assertEqual(400, self.charge(payment, key=None)[0])
        self.assertEqual(400, self.call(payment, "charge/o1", "k", {})[0])
        self.assertEqual(400, self.call(payment, "charge/o1", "k", [])[0])
        self.assertEqual(404, self.call(payment, "reserve/o1", "k", {})[0])
        self.assertEqual(404, self.call(payment, "charge", "k", {})[0])
        self.assertEqual(409, self.charge(payment, amount=0)[0])
        self.assertEqual([], payment.read()["rows"])

    def test_declined(self):
        payment = self.service("payment", "--limit", "100")
        self.assertEqual(402, self.charge(payment, amount=101)[0])
        self.assertEqual([], payment.read()["rows"])
        self.assertEqual(200, self.charge(payment, amount=100)[0])

    def test_booked_and_not_answered(self):
        payment = self.service("payment", "--mute", "1")
        with self.assertRaises((urllib.error.URLError, ConnectionError)):
            self.charge(payment)
        self.assertEqual(["o1/charge/1"], [row["key"] for row in payment.read()["rows"]])

    def test_finishes_a_call_before_it_ends(self):
        payment = self.service("payment", "--slow", "1", "--delay", "1")
        command = [*orders.PYTHON, "-c", CALL, f"{payment.url}/charge/o1"]
        caller = servers.Process.spawn(command, self.directory / "caller.log")
        servers.wait_for(lambda: payment.read()["calls"], "the call to be in progress")
        payment.end()
        servers.wait_for(lambda: not caller.alive(), "the caller to end")
        self.assertIn('"charge": 1', (self.directory / "caller.log").read_text())

    def test_ends_while_it_accepts_a_call(self):
        log = self.directory / "server.log"
        options = ["--port", "0", "--book", self.directory / "ledger.db"]
        server = servers.Process.spawn([*orders.PYTHON, "-c", STOPS_ITSELF, *options], log)
        self.addCleanup(server.end, signal.SIGKILL)
        find = functools.partial(re.search, r"(http://\S+),")
        url = servers.wait_for(lambda: find(log.read_text()), f"the service, see {log}")[1]
        with urllib.request.urlopen(f"{url}/book", timeout=30) as answer:
            self.assertEqual([], json.load(answer)["rows"])
        servers.wait_for(lambda: not server.alive(), "the service to end")


CALL = """
import sys, urllib.request as u
body = b'{"input": {"amount": 1}, "arguments": {"currency": "EUR"}}'
print(u.urlopen(u.Request(sys.argv[1], body, {"Idempotency-Key": "k"})).read().decode())
"""

STOPS_ITSELF = f"""
import os, signal, sys
sys.path.insert(0, {str(orders.EXAMPLE)!r})
import ledger, payment

class Server(ledger.Server):
    def process_request(self, *call):
        os.kill(os.getpid(), signal.SIGTERM)
        super().process_request(*call)

ledger.Server = Server
payment.main()
"""


class Audit(unittest.TestCase):
    """The audit finds each error: each row of the ledgers is left out, doubled and changed."""

    ORDER = {"id": "o", "customer": "Ada", "item": "atlas", "quantity": 1, "amount": 4900}
    CONTENTS = {
        "inventory": {"item": "atlas", "quantity": 1},
        "payment": {"amount": 4900, "currency": "EUR"},
        "shipping": {"to": "Ada", "reservation": 1, "charge": 1},
    }

    def row(self, name, number=1, order_id="o", **more):
        action = orders.audit.SERVICES[name]
        key = f"{order_id}/{action}/{number}"
        row = {"number": number, "key": key, "order_id": order_id, "at": number}
        return {**row, "action": action, "content": self.CONTENTS[name], "undoes": None, **more}

    def problems(self, state="completed", **ledgers):
        """Returns the problems of one order. ledgers: other rows than the right ones."""
        rows = {name: ledgers.get(name, [self.row(name)]) for name in orders.audit.SERVICES}
        read = {name: {"rows": rows[name], "calls": 1, "repeated": 0} for name in rows}
        audit = orders.audit.Audit({"o": {**self.ORDER, "state": state}}, copy.deepcopy(read))
        self.assertEqual(5, len(audit.table().splitlines()))
        return audit.problems

    def test_balanced(self):
        self.assertEqual([], self.problems())
        for name in orders.audit.SERVICES:
            self.assertEqual([], self.problems(state="received", **{name: []}))

    def test_twice_in_a_ledger(self):
        for name in orders.audit.SERVICES:
            right = self.row(name)
            back = self.row(name, 2, undoes=right["key"])
            for state in ("placed", "received", "completed", "refused", *orders.audit.UNDONE):
                with self.subTest(name, state=state):
                    wrong = self.problems(state, **{name: [right, self.row(name, 2)]})
                    self.assertIn(f"o: 2 times in the ledger of {name}", wrong)
            once = self.problems("received", **{name: [right, back, self.row(name, 3)]})
            self.assertEqual([], once)

    def test_undone(self):
        ledgers = {}
        for name in orders.audit.SERVICES:
            right = self.row(name)
            ledgers[name] = [right, self.row(name, 2, undoes=right["key"])]
        for state in orders.audit.UNDONE:
            self.assertEqual([], self.problems(state, **ledgers))
            for name, (right, _) in ledgers.items():
                with self.subTest(name, state=state):
                    wrong = self.problems(state, **{**ledgers, name: [right]})
                    self.assertEqual([f"o: 1 times in the ledger of {name}"], wrong)

    def test_every_fault(self):
        for name in orders.audit.SERVICES:
            right = self.row(name)
            back = self.row(name, 2, undoes=right["key"])
            for rows in (
                [],
                [right, self.row(name, 2)],
                [right, back],
                [right, self.row(name, 2, "another")],
                [{**right, "content": {}}],
            ):
                with self.subTest(name, rows=rows):
                    self.assertEqual(1, len(self.problems(**{name: rows})))
            # Done, undone, done again is correct, except for the parcel, which names the first
            # attempt.
            wrong = self.problems(**{name: [right, back, self.row(name, 3)]})
            self.assertEqual(0 if name == "shipping" else 1, len(wrong))


class Outbox(unittest.TestCase):
    def test_one_transaction(self):
        with tempfile.TemporaryDirectory(prefix="drover-orders-") as directory:
            path = pathlib.Path(directory) / "shop.db"
            shop = [*orders.PYTHON, orders.EXAMPLE / "shop.py", "--db", path]
            subprocess.run([*shop, "place", "1"], stdout=subprocess.DEVNULL, check=True)
            for table in ("orders", "outbox"):
                with self.subTest(table), contextlib.closing(sqlite3.connect(path)) as db:
                    full = "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
                    db.executescript(f"CREATE TRIGGER full BEFORE INSERT ON {table} {full}")
                    failed = subprocess.run([*shop, "place", "1"], stderr=subprocess.PIPE)
                    db.executescript("DROP TRIGGER full")
                    self.assertIn(b"disk full", failed.stderr)
                    counts = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox)"
                    self.assertEqual((1, 1), db.execute(counts).fetchone())


class ShopCase(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.placed = []

    def start(self, schedulers=1, **services):
        """Returns a world, and a cluster whose agents call its services."""
        world = orders.World(self.directory, **services)
        self.addCleanup(world.close)
        c = self.cluster(schedulers=schedulers, settings=world.settings(), actor=orders.ACTOR)
        return world, c

    def place(self, world, count=ORDERS):
        self.placed += world.place(count)
        self.assertEqual(len(self.placed), len(set(self.placed)))

    def await_receipts(self, world, code):
        servers.wait_for(
            lambda: world.receipts() == {code: len(self.placed)}, f"{code} of all", TIMEOUT_S
        )

    def check(self, world, c):
        """Checks that each order has ended, as one job."""
        world.await_ended(TIMEOUT_S)
        self.assertEqual({"completed": len(self.placed)}, world.states())
        self.assertEqual(sorted(self.placed), sorted(c.store.jobs()))
        audit = world.audit()
        self.assertEqual([], audit.problems)
        self.assertEqual(len(self.placed), len(audit.completed))
        calls = {name: ledger["calls"] for name, ledger in audit.ledgers.items()}
        tap.narrate(f"receipts {world.receipts()}, calls {calls}")


class Shop(ShopCase):
    def test_services_in_trouble(self):
        trouble = ["--unavailable", "0.15", "--mute", "0.2", "--slow", "0.1", "--delay", "0.5"]
        world, c = self.start(schedulers=2, payment=trouble)
        self.place(world)
        world.start_shop(c)
        self.check(world, c)
        payment = world.services["payment"].read()
        for kind in ("unavailable", "slow", "mute"):
            self.assertGreater(payment[kind], 0)
        self.assertGreaterEqual(payment["repeated"], payment["mute"])

    def test_killed_between_publish_and_receipt(self):
        world, c = self.start()
        c.schedulers[0].stop()
        self.place(world)
        world.start_shop(c)
        servers.wait_for(lambda: c.client.queue("drover.submit")[0] >= ORDERS, "all to be sent")
        world.shop.kill()
        self.assertEqual({None: ORDERS}, world.receipts())
        c.schedulers[0].start()
        servers.wait_for(lambda: len(c.store.jobs()) == ORDERS, "the jobs to be recorded")
        world.start_shop(c)
        self.check(world, c)
        self.assertEqual({"ALREADY": ORDERS}, world.receipts())

    def recorded(self):
        """Waits until the shop has its receipts, while no agent runs."""
        world, c = self.start()
        c.agents[0].stop()
        self.place(world)
        world.start_shop(c)
        self.await_receipts(world, "CREATED")
        return world, c

    def test_ended_while_the_shop_was_away(self):
        world, c = self.recorded()
        world.shop.kill()
        c.agents[0].start()
        servers.wait_for(lambda: c.store.total("settled") == ORDERS, "the jobs to end", TIMEOUT_S)
        self.assertEqual({"received": ORDERS}, world.states())
        world.start_shop(c)
        self.check(world, c)

    def test_killed_with_events_unread(self):
        """The terminal events are in the shop's queue, confirmed, and are lost with the queue: the
        shop must ask."""
        world, c = self.recorded()
        world.shop.pause()
        c.agents[0].start()
        servers.wait_for(lambda: c.store.total("settled") == ORDERS, "the jobs to end", TIMEOUT_S)
        servers.wait_for(
            lambda: c.store.total("owed") == 0, "the events to be confirmed", TIMEOUT_S
        )
        world.shop.kill()
        self.assertEqual({"received": ORDERS}, world.states())
        world.start_shop(c)
        self.check(world, c)

    def test_ended_after_the_shop_came_back(self):
        world, c = self.recorded()
        world.shop.kill()
        world.start_shop(c)
        self.await_receipts(world, "ALREADY")
        self.assertEqual({"received": ORDERS}, world.states())
        c.agents[0].start()
        self.check(world, c)

    def test_killed_repeatedly(self):
        world, c = self.start()
        for _ in range(6):
            self.place(world, 5)
            before = world.receipts()[None]
            world.start_shop(c)
            servers.wait_for(lambda n=before: world.receipts().get(None, 0) < n, "a receipt")
            world.shop.kill()
        world.start_shop(c)
        self.check(world, c)

    def test_refused_without_the_workflow(self):
        world = orders.World(self.directory)
        self.addCleanup(world.close)
        settings = world.settings()
        workflows = settings.pop("scheduler")
        c = self.cluster(settings=settings, actor=orders.ACTOR)
        self.place(world, 3)
        world.start_shop(c)
        servers.wait_for(lambda: world.states() == {"refused": 3}, "the orders to be refused")
        self.assertIn("REJECTED workflow", world.shop.text())
        world.shop.end()
        c.add_scheduler(workflows)
        c.await_ready()
        world.start_shop(c)
        servers.wait_for(lambda: "refused" not in world.states(), "the orders to be taken")
        self.check(world, c)


class Broker(ShopCase):
    """The broker is away, or is restarted."""

    own_servers = True

    def test_killed_between_commit_and_publish(self):
        world, c = self.start()
        self.rabbit.stop()
        world.start_shop(c)
        servers.wait_for(lambda: "no broker" in world.shop.text(), "the shop to miss its broker")
        self.place(world)
        world.shop.kill()
        self.rabbit.start()
        self.assertEqual({None: ORDERS}, world.receipts())
        self.assertEqual([], c.store.jobs())
        world.start_shop(c)
        self.check(world, c)

    def test_broker_restarted(self):
        world, c = self.start(payment=["--slow", "0.5", "--delay", "0.5"])
        for hard in (False, True):
            self.place(world)
            if not hard:
                world.start_shop(c)
            some = world.states().get("completed", 0) + 2
            servers.wait_for(lambda n=some: world.states().get("completed", 0) >= n, "some")
            self.rabbit.restart(hard)
        self.place(world)
        self.check(world, c)


if __name__ == "__main__":
    tap.main()
