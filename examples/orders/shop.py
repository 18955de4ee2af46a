#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A shop that has Drover carry out its orders, and loses none

    shop.py place 3                     puts three orders into the database; needs no broker
    shop.py --url amqp://... run        hands them to Drover, and notes how they end
    shop.py list                        shows what is known of each

An order and its message are written in one transaction, the message into a table of outgoing
messages (the outbox), so neither exists without the other. `run` publishes what is in the outbox
until a Receipt says that Drover has recorded it. The job id is the order's id, so a repeated
message makes no second job. Any of these may be killed at any moment and started again: all that it
needs is in the database.
"""

import argparse
import json
import random
import secrets
import signal
import sqlite3
import ssl
import sys
import time

import pika
import pika.exceptions

CHECK_S = 0.2  # the longest time between two checks of the outbox
REPEAT_S = 5  # after this time without a Receipt a message is published again
RECONNECT_S = 1
BUSY_S = 30  # how long another process may lock the database

CUSTOMERS = ("Ada", "Barbara", "Edsger", "Grace", "Leslie", "Tony")
PRICES = {"atlas": 4900, "comic": 895, "cookbook": 2450, "novel": 1290}  # in cents
ENDS = {  # of jobs; other outcomes keep their names
    ("SUCCEEDED", ""): "completed",
    ("COMPENSATED", "FAILURE"): "failed",
    ("COMPENSATED", "REQUESTED"): "taken back",
}
SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY, customer TEXT, item TEXT, quantity INTEGER, amount INTEGER,
    state TEXT DEFAULT 'placed',        -- then received, and completed; or failed, refused, ...
    seq INTEGER DEFAULT 0);             -- of the last end received; older ones are ignored
CREATE TABLE IF NOT EXISTS outbox (
    order_id TEXT PRIMARY KEY REFERENCES orders,
    submit TEXT NOT NULL,               -- made once and kept: a repetition must be the same
    receipt TEXT);                      -- NULL: still to be handed over
CREATE TABLE IF NOT EXISTS reasons (
    order_id TEXT PRIMARY KEY REFERENCES orders,
    why TEXT);                          -- for the customer: which step has failed, and its error
"""


class Shop:
    """The database. Each function is one transaction."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=BUSY_S)
        self.db.row_factory = sqlite3.Row
        self._write_ahead()
        self.db.executescript(SCHEMA)

    def _write_ahead(self):
        """Lets one process write while others read. For this statement SQLite does not wait for a
        lock by itself."""
        give_up = time.monotonic() + BUSY_S
        while True:
            try:
                self.db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def place(self, customer, item, quantity):
        order_id = f"order-{secrets.token_hex(6)}"
        amount = quantity * PRICES[item]
        order = {"customer": customer, "item": item, "quantity": quantity, "amount": amount}
        submit = {"jobId": order_id, "workflow": "order", "input": {"json": order}}
        with self.db:
            self.db.execute(
                "INSERT INTO orders (id, customer, item, quantity, amount) VALUES (?, ?, ?, ?, ?)",
                [order_id, customer, item, quantity, amount],
            )
            self.db.execute(
                "INSERT INTO outbox (order_id, submit) VALUES (?, ?)",
                [order_id, json.dumps(submit)],
            )
        return order_id

    def outgoing(self):
        query = "SELECT order_id, submit FROM outbox WHERE receipt IS NULL"
        return self.db.execute(query).fetchall()

    def forget_receipts(self):
        """Forgets those of all orders that have not ended, so these are handed over again."""
        which = "(SELECT id FROM orders WHERE seq = 0)"
        with self.db:
            self.db.execute(f"UPDATE outbox SET receipt = NULL WHERE order_id IN {which}")

    def receipt(self, order_id, code):
        state = "received" if code in ("CREATED", "ALREADY") else "refused"
        with self.db:
            self.db.execute("UPDATE outbox SET receipt = ? WHERE order_id = ?", [code, order_id])
            self._advance(order_id, state, 0, "seq = 0 AND state != :state")

    def end(self, order_id, outcome, reason, seq, why):
        """A job that goes back, or forward again, ends once more: the latest end counts."""
        outcome = outcome.removeprefix("OUTCOME_")
        state = ENDS.get((outcome, reason), outcome.lower())
        with self.db:
            self._advance(order_id, state, seq, "seq < :seq", why)

    def _advance(self, order_id, state, seq, condition, why=""):
        values = {"id": order_id, "state": state, "seq": seq}
        update = f"UPDATE orders SET state = :state, seq = :seq WHERE id = :id AND {condition}"
        if self.db.execute(update, values).rowcount:
            self.db.execute("INSERT OR REPLACE INTO reasons VALUES (?, ?)", [order_id, why])
            print(order_id, state, *([f"because {why}"] if why else []), flush=True)

    def all_ended(self):
        query = "SELECT 1 FROM orders WHERE state IN ('placed', 'received') LIMIT 1"
        return not self.db.execute(query).fetchone()


def reason_of(report):
    """Returns why a job has ended so, as the event or the status says it; "" if nothing has
    failed."""
    error = report.get("error", {})
    words = report.get("step", report.get("failedStep")), error.get("class"), error.get("message")
    return ": ".join(filter(None, words))


class Session:
    """One connection to the broker, with a reply queue that exists as long.

    The events of jobs whose Receipts came to an earlier queue must now come to this one. So the
    shop hands over again all orders that have not ended: this moves their notifications here, and
    is answered ALREADY. Such a job may have ended meanwhile, when there was no queue for the event;
    so after ALREADY the shop queries it.
    """

    def __init__(self, shop, connection, user):
        self.shop = shop
        self.user = user  # the owner of the jobs; the broker refuses another name than the login
        self.sent = {}  # order -> when it was published
        self.channel = connection.channel()
        self.channel.confirm_delivery()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        shop.forget_receipts()

    def publish(self, exchange, key, body):
        """Returns whether the broker has the message in a queue."""
        kept = pika.BasicProperties(
            delivery_mode=2, content_type="application/json", reply_to=self.queue, user_id=self.user
        )
        try:
            self.channel.basic_publish(exchange, key, body, kept, mandatory=True)
            return True
        except (pika.exceptions.UnroutableError, pika.exceptions.NackError):
            return False  # it is published again later

    def relay(self):
        """A confirm says only that the broker has the message; the Receipt says that Drover has
        it."""
        for order_id, submit in self.shop.outgoing():
            if time.monotonic() >= self.sent.get(order_id, -REPEAT_S) + REPEAT_S:
                self.publish("drover.submit", "submit", submit)
                self.sent[order_id] = time.monotonic()

    def on_receipt(self, order_id, receipt):
        code = receipt["code"].removeprefix("RECEIPT_CODE_")
        if "reason" in receipt:
            print(order_id, code, receipt.get("field", ""), receipt["reason"], flush=True)
        if code == "RETRY_LATER":
            return  # the relay sends it again
        if code == "ALREADY":
            question = {"jobId": order_id, "commandId": order_id, "query": {"maxSteps": 1}}
            if not self.publish("drover.control", "control", json.dumps(question)):
                return  # without a receipt the order is handed over, and queried, again
        self.shop.receipt(order_id, code)
        self.sent.pop(order_id, None)

    def on_message(self, kind, message):
        order_id = message.get("jobId")
        if kind == "drover.v1.Receipt":
            self.on_receipt(order_id, message)
        elif kind in ("drover.v1.JobEvent", "drover.v1.Answer"):
            report = message.get("status", message)
            if report.get("outcome"):
                reason = report.get("reason", "")
                self.shop.end(
                    order_id, report["outcome"], reason, int(report["seq"]), reason_of(report)
                )

    def run(self, until_done):
        """Returns when all is done; raises an exception if the connection ends before."""
        next_check = 0
        inbox = self.channel.consume(self.queue, auto_ack=True, inactivity_timeout=CHECK_S)
        for method, properties, body in inbox:
            if method:
                self.on_message(properties.type, json.loads(body))
            if time.monotonic() >= next_check:
                self.relay()
                next_check = time.monotonic() + CHECK_S
                if until_done and self.shop.all_ended():
                    return
        raise pika.exceptions.ConsumerCancelled("the reply queue is gone")


def broker(url, options):
    parameters = pika.URLParameters(url)
    parameters.heartbeat, parameters.blocked_connection_timeout = 10, 30
    if options.password_file:
        with open(options.password_file, encoding="utf-8") as file:
            user = parameters.credentials.username
            parameters.credentials = pika.PlainCredentials(user, file.readline().strip())
    if parameters.ssl_options:  # amqps://
        context = ssl.create_default_context(cafile=options.ca_file)  # verifies chain and host
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file)
        parameters.ssl_options = pika.SSLOptions(context)
    return parameters


def run(shop, brokers, until_done):
    user = brokers[0].credentials.username
    while True:
        try:
            with pika.BlockingConnection(random.sample(brokers, len(brokers))) as connection:
                print("connected", flush=True)
                return Session(shop, connection, user).run(until_done)
        except (pika.exceptions.AMQPError, OSError) as problem:
            print(f"no broker: {problem!r}", flush=True)
            time.sleep(RECONNECT_S)


def place(shop, options):
    for _ in range(options.count):
        customer, item = random.choice(CUSTOMERS), options.item or random.choice(list(PRICES))
        print(shop.place(customer, item, options.quantity or random.randint(1, 3)), flush=True)


def show(shop):
    query = "SELECT * FROM orders LEFT JOIN reasons ON order_id = id ORDER BY orders.rowid"
    for row in shop.db.execute(query):
        what = f"{row['quantity']} x {row['item']} for {row['customer']}"
        why = f", because {row['why']}" if row["why"] else ""
        print(f"{row['id']}  {row['state']:10} {row['amount'] / 100:8.2f} EUR  {what}{why}")


def main():
    parser = argparse.ArgumentParser(prog="shop.py", description=__doc__.splitlines()[0])
    parser.add_argument("--db", default="shop.db", help="SQLite file (%(default)s)")
    parser.add_argument("--url", action="append", help="of the broker; one for each of its nodes")
    parser.add_argument("--password-file", help="has the password, so that no command line does")
    parser.add_argument("--ca-file", help="for amqps://: authorities (PEM); else the system's")
    parser.add_argument("--cert-file", help="its certificate (PEM), if the broker wants one")
    parser.add_argument("--key-file", help="its private key (PEM)")
    verbs = parser.add_subparsers(dest="verb", required=True)
    placer = verbs.add_parser("place", help="place orders")
    placer.add_argument("count", type=int)
    placer.add_argument("--item", choices=list(PRICES), help="any, unless given")
    placer.add_argument("--quantity", type=int, help="of each order; 1 to 3, unless given")
    runner = verbs.add_parser("run", help="hand orders to Drover and listen, until SIGTERM")
    runner.add_argument("--until-done", action="store_true", help="end when every order has")
    verbs.add_parser("list", help="show all orders")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    shop = Shop(options.db)
    if options.verb == "place":
        place(shop, options)
    elif options.verb == "run":
        urls = options.url or ["amqp://guest:guest@127.0.0.1/%2F"]
        run(shop, [broker(url, options) for url in urls], options.until_done)
    else:
        show(shop)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
