#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inventory: reserves copies, or releases them"""

import ledger


class Inventory(ledger.Service):
    do, undo = "reserve", "release"

    def content(self, document):
        order = document["input"]
        if order["quantity"] < 1:
            raise ledger.Refused("nothing to reserve")
        return {"item": order["item"], "quantity": order["quantity"]}


if __name__ == "__main__":
    ledger.serve(Inventory, ledger.parser("inventory", 8001, __doc__).parse_args())
