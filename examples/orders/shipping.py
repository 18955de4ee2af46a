#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shipping: sends a parcel, or calls it back; it wants to see what was reserved and charged"""

import book


class Shipping(book.Service):
    do, undo = "ship", "recall"

    def content(self, document):
        results = document["results"]
        return {
            "to": document["input"]["customer"],
            "reservation": results["reserve"]["reserve"],
            "charge": results["charge"]["charge"],
        }


if __name__ == "__main__":
    book.serve(Shipping, book.parser("shipping", 8003, __doc__).parse_args())
