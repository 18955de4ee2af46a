#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inventory: sets copies of a book aside, or puts them back"""

import book


class Inventory(book.Service):
    do, undo = "reserve", "release"

    def content(self, document):
        order = document["input"]
        if order["quantity"] < 1:
            raise book.Refused("nothing to reserve")
        return {"item": order["item"], "quantity": order["quantity"]}


if __name__ == "__main__":
    book.serve(Inventory, book.parser("inventory", 8001, __doc__).parse_args())
