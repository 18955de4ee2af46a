#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Balances the books of the three services against the orders of the shop

    audit.py --db shop.db [--inventory URL] [--payment URL] [--shipping URL]

For every completed order there is exactly one reservation of what was ordered, one charge of its
amount and one parcel to its customer, which refers to these two; for one that failed, was cancelled
or taken back there is nothing that was not undone; for every other order there is at most one of
each; and no book has a row without an order. Exit status 0: all is well.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import sqlite3
import sys
import urllib.request

SERVICES = {"inventory": "reserve", "payment": "charge", "shipping": "ship"}
UNDONE = ("failed", "cancelled", "taken back")  # states of orders
PORTS = {"inventory": 8001, "payment": 8002, "shipping": 8003}


def read_orders(path):
    """All orders of the shop: id -> row."""
    file = pathlib.Path(path).absolute().as_uri()
    with contextlib.closing(sqlite3.connect(f"{file}?mode=ro", timeout=30, uri=True)) as db:
        db.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in db.execute("SELECT * FROM orders")}


def read_book(url):
    """What a service tells of itself: its rows, and how often it was called."""
    with urllib.request.urlopen(f"{url}/book", timeout=30) as answer:
        return json.load(answer)


def in_force(rows):
    """Order -> its rows that are neither a taking back nor taken back."""
    undone = {row["undoes"] for row in rows}
    found = collections.defaultdict(list)
    for row in rows:
        if row["undoes"] is None and row["key"] not in undone:
            found[row["order_id"]].append(row)
    return found


def expected(order, numbers):
    """What the books should say of an order; @numbers: service -> number of its row."""
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
    """What is wrong with an order; @rows: service -> its rows in force."""
    completed, limit = order["state"] == "completed", 0 if order["state"] in UNDONE else 1
    wrong = [
        f"{len(found)} times in the book of {name}"
        for name, found in rows.items()
        if len(found) > limit or completed and not found
    ]
    if completed and not wrong:
        right = expected(order, {name: rows[name][0]["number"] for name in SERVICES})
        for name in SERVICES:
            content = rows[name][0]["content"]
            if content != right[name]:
                wrong.append(f"the book of {name} says {content}, not {right[name]}")
    return [f"{order['id']}: {text}" for text in wrong]


class Audit:
    """@orders: as read_orders() gives; @books: service -> what read_book() gives."""

    def __init__(self, orders, books):
        self.completed = [order for order in orders.values() if order["state"] == "completed"]
        self.orders, self.books = orders, books
        self.effects = {name: in_force(book["rows"]) for name, book in books.items()}
        self.problems = []
        for order in orders.values():
            rows = {name: self.effects[name][order["id"]] for name in SERVICES}
            self.problems += check_order(order, rows)
        for name, book in books.items():
            self.problems += [
                f"the book of {name} has {row['key']}, of an order that nobody placed"
                for row in book["rows"]
                if row["order_id"] not in orders
            ]

    def effects_of(self, order_id):
        """What was done for an order and what was undone, in that order: action/turn of each."""
        rows = [row for book in self.books.values() for row in book["rows"]]
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
            done = sum(row["undoes"] is None for row in self.books[name]["rows"])
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
    options = parser.parse_args()
    books = {name: read_book(getattr(options, name)) for name in SERVICES}
    audit = Audit(read_orders(options.db), books)
    print(audit.table())
    for problem in audit.problems:
        print(f"wrong: {problem}")
    print("the books do not balance" if audit.problems else "the books balance")
    return 1 if audit.problems else 0


if __name__ == "__main__":
    sys.exit(main())
