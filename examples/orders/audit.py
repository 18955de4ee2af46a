#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the ledgers of the three services with the orders of the shop

    audit.py --db shop.db [--inventory URL] [--payment URL] [--shipping URL] [--ca-file FILE]

For each completed order there is exactly one reservation of what was ordered, one charge of its
amount, and one parcel to its customer, which refers to these two. For an order that failed, was
cancelled or taken back, all was undone. For each other order there is at most one of each. No
ledger has a row without an order. Exit status 0: all is right.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import sqlite3
import ssl
import sys
import urllib.request

SERVICES = {"inventory": "reserve", "payment": "charge", "shipping": "ship"}
UNDONE = ("failed", "cancelled", "taken back")  # states of orders
PORTS = {"inventory": 8001, "payment": 8002, "shipping": 8003}


def read_orders(path):
    """Returns all orders of the shop: id -> row."""
    file = pathlib.Path(path).absolute().as_uri()
    with contextlib.closing(sqlite3.connect(f"{file}?mode=ro", timeout=30, uri=True)) as db:
        db.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in db.execute("SELECT * FROM orders")}


def read_ledger(url, ca_file=None):
    """Returns the rows of a service, and how often it was called."""
    context = ssl.create_default_context(cafile=ca_file)
    with urllib.request.urlopen(f"{url}/book", timeout=30, context=context) as answer:
        return json.load(answer)


def in_force(rows):
    """Returns order -> its rows that are not undos, and were not undone."""
    undone = {row["undoes"] for row in rows}
    found = collections.defaultdict(list)
    for row in rows:
        if row["undoes"] is None and row["key"] not in undone:
            found[row["order_id"]].append(row)
    return found


def expected(order, numbers):
    """Returns what the ledgers should have of an order. numbers: service -> number of its row."""
    return {
        "inventory": {"item": order["item"], "quantity": order["quantity"]},
        "payment": {"amount": order["amount"], "currency": "EUR"},
        "shipping": {
            "to": order["customer"],
            "reservation": numbers["inventory"],
            "charge": numbers["payment"],
        },
    }


def check_order(order, rows):
    """Returns what is wrong with an order. rows: service -> its rows in force."""
    completed, limit = order["state"] == "completed", 0 if order["state"] in UNDONE else 1
    wrong = [
        f"{len(found)} times in the ledger of {name}"
        for name, found in rows.items()
        if len(found) > limit or completed and not found
    ]
    if completed and not wrong:
        right = expected(order, {name: rows[name][0]["number"] for name in SERVICES})
        for name in SERVICES:
            content = rows[name][0]["content"]
            if content != right[name]:
                wrong.append(f"the ledger of {name} says {content}, not {right[name]}")
    return [f"{order['id']}: {text}" for text in wrong]


class Audit:
    """orders: as returned by read_orders(). ledgers: service -> what read_ledger() returned."""

    def __init__(self, orders, ledgers):
        self.completed = [order for order in orders.values() if order["state"] == "completed"]
        self.orders, self.ledgers = orders, ledgers
        self.effects = {name: in_force(ledger["rows"]) for name, ledger in ledgers.items()}
        self.problems = []
        for order in orders.values():
            rows = {name: self.effects[name][order["id"]] for name in SERVICES}
            self.problems += check_order(order, rows)
        for name, ledger in ledgers.items():
            self.problems += [
                f"the ledger of {name} has {row['key']}, of an order that was not placed"
                for row in ledger["rows"]
                if row["order_id"] not in orders
            ]

    def effects_of(self, order_id):
        """Returns what was done for an order, and undone, in time order: action/turn of each."""
        rows = [row for ledger in self.ledgers.values() for row in ledger["rows"]]
        mine = [row for row in rows if row["order_id"] == order_id]
        mine.sort(key=lambda row: row["at"])
        return [f"{row['action']}/{row['key'].rpartition('/')[2]}" for row in mine]

    def table(self):
        amount = sum(order["amount"] for order in self.completed)
        lines = [
            f"{'':10}{'in force':>9}{'EUR':>11}{'done':>7}{'undone':>8}",
            f"{'shop':10}{len(self.completed):>9}{amount / 100:>11.2f}{'':15}"
            f"  orders completed, of {len(self.orders)}",
        ]
        for name, action in SERVICES.items():
            rows = [row for rows in self.effects[name].values() for row in rows]
            money = sum(row["content"].get("amount", 0) for row in rows) / 100
            done = sum(row["undoes"] is None for row in self.ledgers[name]["rows"])
            lines.append(
                f"{name:10}{len(rows):>9}{f'{money:.2f}' if money else '':>11}"
                f"{done:>7}{done - len(rows):>8}  {action}"
            )
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="audit.py", description=__doc__.splitlines()[0])
    parser.add_argument("--db", default="shop.db", help="the shop's database (%(default)s)")
    for name, port in PORTS.items():
        parser.add_argument(f"--{name}", default=f"http://127.0.0.1:{port}", help="(%(default)s)")
    parser.add_argument("--ca-file", help="for https://: authorities (PEM); else the system's")
    options = parser.parse_args()
    ledgers = {name: read_ledger(getattr(options, name), options.ca_file) for name in SERVICES}
    audit = Audit(read_orders(options.db), ledgers)
    print(audit.table())
    for problem in audit.problems:
        print(f"wrong: {problem}")
    print("ledgers and orders differ" if audit.problems else "ledgers and orders agree")
    return 1 if audit.problems else 0


if __name__ == "__main__":
    sys.exit(main())
