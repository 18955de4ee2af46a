#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Payment: charges a customer, declines large amounts, or refunds; on request it is unreliable

Each rate is a share of the calls, from 0 to 1. The fate of the n-th call depends only on the seed
and n.
"""

import random
import time

import ledger

RETRY_AFTER_S = 1


class Declined(ledger.Refused):
    status = 402  # Payment Required


class Payment(ledger.Service):
    do, undo = "charge", "refund"
    chance = random.Random()

    def content(self, document):
        amount = document["input"]["amount"]
        if amount < 1:
            raise ledger.Refused("nothing to charge")
        if amount > self.server.options.limit:
            raise Declined(f"more than {self.server.options.limit}")
        return {"amount": amount, "currency": document["arguments"]["currency"]}

    def trouble(self):
        """Returns what goes wrong with this call: "unavailable", "slow", "mute" or None."""
        dice = self.chance.random()
        for kind in ("unavailable", "slow", "mute"):
            dice -= getattr(self.server.options, kind)
            if dice < 0:
                self.server.count(kind)
                return kind
        return None

    def respond(self, action, order_id, key, document):
        trouble = self.trouble()
        if trouble == "unavailable":
            return 503, {"error": "try again later"}, {"Retry-After": str(RETRY_AFTER_S)}
        if trouble == "slow":
            time.sleep(self.server.options.delay)
        answer = super().respond(action, order_id, key, document)
        # the ledger has it, but the caller gets no answer
        return None if trouble == "mute" else answer


def main():
    parser = ledger.parser("payment", 8002, __doc__)
    parser.add_argument(
        "--limit", type=int, default=100000, help="declines charges above, in cents (%(default)s)"
    )
    parser.add_argument("--unavailable", type=float, default=0, help="rate of 503 with Retry-After")
    parser.add_argument("--slow", type=float, default=0, help="rate of answers after --delay")
    parser.add_argument("--delay", type=float, default=2, help="seconds (%(default)s)")
    parser.add_argument("--mute", type=float, default=0, help="rate of charges without an answer")
    parser.add_argument("--seed", type=int, default=1, help="of all chance (%(default)s)")
    options = parser.parse_args()
    Payment.chance.seed(options.seed)
    ledger.serve(Payment, options)


if __name__ == "__main__":
    main()
