#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shipping: sends a parcel, or recalls it; it needs the results of the reservation and the
charge"""

import ledger


class Shipping(ledger.Service):
    do, undo = "ship", "recall"

    def content(self, document):
        results = document["results"]
        return {
            "to": document["input"]["customer"],
            "reservation": results["reserve"]["reserve"],
            "charge": results["charge"]["charge"],
        }


if __name__ == "__main__":
    ledger.serve(Shipping, ledger.parser("shipping", 8003, __doc__).parse_args())
