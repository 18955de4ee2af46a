# SPDX-License-Identifier: Apache-2.0
"""The orders of examples/orders, in chapters: a shop and three services, and what goes wrong there

Each chapter ends with a check, and the last one is an audit of the services' ledgers.
"""

import time

import silence
import stage
from stage import check, say, typed

import cluster
import orders
import servers

TROUBLE = {"unavailable": 0.1, "slow": 0.15, "delay": 1.5, "mute": 0.15}
GIVE_UP_S = 120
REPORTS = 4  # how often the progress of the orders is reported
AT_A_TIME = 4  # customers at the same time
OUTAGE_S = 3  # at least
OUTAGE_ORDERS = 8


class Story:
    """world: its services are running, and its shop after the first chapter. drover: a cluster.
    receiver: of its alerts."""

    def __init__(self, world, drover, receiver):
        self.world, self.drover, self.receiver = world, drover, receiver
        self._chapter = 0

    def run(self, count):
        self.kills(count)
        self.declined()
        self.taken_back()
        self.outage()
        self.silence()
        self.audit()

    def _begin(self, title):
        self._chapter += 1
        print(f"\n{self._chapter}. {title}", flush=True)

    def _command(self, *words):
        typed("drover", *words)
        return stage.drover(self.drover.url, *words)

    def _place(self, *words):
        typed("shop.py", "place", *words)
        return self.world.place(*words)

    def _await(self, state, placed):
        """Waits until the shop has received that these orders are in that state."""
        servers.wait_for(
            lambda: self.world.states(placed) == {state: len(placed)},
            f"{', '.join(placed)} to be {state}",
            GIVE_UP_S,
        )
        say(f"the shop receives: {placed[0] if len(placed) == 1 else len(placed)} {state}")

    def _effects(self, order):
        """Returns what the ledgers have of an order, in time order: action/turn of each row."""
        effects = self.world.audit().effects_of(order)
        say(f"the services' ledgers: {', '.join(effects)}")
        return effects

    def kills(self, count):
        self._begin(f"{count} orders, an unreliable payment service, two kills")
        say(
            f"payment refuses {TROUBLE['unavailable']:.0%} of its calls,"
            f" answers {TROUBLE['slow']:.0%} {TROUBLE['delay']} s late,"
            f" and writes {TROUBLE['mute']:.0%} without an answer"
        )
        typed("shop.py", "place", count)
        typed("shop.py", "run")
        self.world.start_shop(self.drover)
        kills = stage.Kills(self.drover, "orders are completed")
        placed = reported = 0

        def ended():
            nonlocal placed, reported
            if placed < count:
                placed += len(self.world.place(min(AT_A_TIME, count - placed)))
            states = self.world.states()
            completed = states.get("completed", 0)
            kills.advance(completed, count)
            if completed >= reported + count / REPORTS:
                reported = completed
                say(f"{completed} completed")
            return placed == count and orders.all_ended(states)

        servers.wait_for(ended, f"{count} orders to end", GIVE_UP_S)
        payment = self.world.services["payment"].read()
        say(
            f"payment was called {payment['calls']} times:"
            f" {payment.get('unavailable', 0)} refused, {payment.get('slow', 0)} late,"
            f" {payment.get('mute', 0)} without an answer"
        )
        check(
            self.world.states() == {"completed": count} and not self.world.audit().problems,
            f"all {count} are completed, each reserved, charged and sent once",
        )

    def declined(self):
        self._begin("A payment declined for good")
        [order] = placed = self._place(1, "--item", "atlas", "--quantity", "40")
        self._await("failed", placed)
        check(
            self._effects(order) == ["reserve/1", "refund/2", "release/2"]
            and not self.world.audit().problems,
            "undone in reverse, and nothing is left of it in the ledgers",
        )

    def taken_back(self):
        self._begin("An order taken back after its end, and brought forward again")
        order = self.world.query("SELECT id FROM orders WHERE state = 'completed'")[0][0]
        self._command("set-desired", order, "disabled", "--reason", "the customer returns it")
        self._await("taken back", [order])
        done = ["reserve/1", "charge/1", "ship/1"]
        undone = ["recall/2", "refund/2", "release/2"]
        check(self._effects(order) == done + undone, "undone in reverse, nothing is left of it")
        self._command("set-desired", order, "active", "--reason", "and wants it after all")
        self._await("completed", [order])
        again = ["reserve/3", "charge/3", "ship/3"]
        check(self._effects(order) == done + undone + again, "done again, under new keys")

    def outage(self):
        self._begin("An outage")
        store, payment = self.drover.store, self.world.services["payment"]
        typed("kill", "-9", payment.pid, comment="payment")
        payment.kill()
        over = time.monotonic() + OUTAGE_S
        placed = self._place(OUTAGE_ORDERS)

        def happened(order, *events):
            return any(store.events(order, event) for event in events)

        def noticed():
            if any(happened(order, "parked") for order in placed):
                raise stage.CheckFailed("an outage parks nothing")
            return time.monotonic() > over and all(
                happened(order, "failed", "deferred") for order in placed
            )

        servers.wait_for(noticed, "all orders to miss payment", GIVE_UP_S)
        for line in self._command("why", placed[0]).splitlines():
            say(line)
        typed("payment.py", comment="it is back")
        payment.start()
        self._await("completed", placed)
        check(
            not any(happened(order, "parked") for order in placed),
            "nothing was parked, and no person had to act",
        )

    def silence(self):
        self._begin("An agent stops answering, and the supervisor recovers its step")
        silence.Silence(self.drover, self.receiver).run()

    def audit(self):
        self._begin("The audit")
        audit = self.world.audit()
        print(audit.table())
        check(
            not audit.problems,
            "ledgers and orders agree" + "".join(f"\n    {p}" for p in audit.problems),
        )


def run(count):
    directory = stage.folder()
    options = [word for kind, value in TROUBLE.items() for word in (f"--{kind}", str(value))]
    world = orders.World(directory, payment=options)
    say("services: " + ", ".join(f"{name} on {s.url}" for name, s in world.services.items()))
    receiver = silence.Receiver(directory)
    drover = stage.start(
        directory, cluster.merged(world.settings(), silence.settings(receiver)), orders.ACTOR
    )
    Story(world, drover, receiver).run(count)
    receiver.close()
    world.close()
    return stage.end(drover)
