# SPDX-License-Identifier: Apache-2.0
"""The orders of examples/orders: a shop, three services, one of them unreliable, and two murders

The end is a check: every order is completed, and the books of the services balance.
"""

import stage
from stage import say

import orders
import servers

TROUBLE = {"unavailable": 0.1, "slow": 0.15, "delay": 1.5, "mute": 0.15}
GIVE_UP_S = 120
TOLD = 8  # times, how far the orders are
AT_A_TIME = 4  # customers
STATES = {"placed": 0, "received": 1}  # in this order; what has ended comes last


class Story:
    def __init__(self, world, drover, count):
        self.world, self.drover, self.count = world, drover, count
        self.murders = stage.Murders(drover, "orders")
        self._placed = 0
        self._told = 0

    def _tell(self, states):
        done = states.get("completed", 0)
        if done >= self._told + self.count / TOLD or done == self.count:
            self._told = done
            names = sorted(states, key=lambda name: STATES.get(name, len(STATES)))
            say("    " + ", ".join(f"{states[name]} {name}" for name in names))

    def _look(self):
        """More customers, and how far they all are. Return: whether all orders have ended."""
        if self._placed < self.count:
            self._placed += len(self.world.place(min(AT_A_TIME, self.count - self._placed)))
        states = self.world.states()
        self._tell(states)
        self.murders.look(states.get("completed", 0), self.count)
        return self._placed == self.count and orders.all_ended(states)

    def play(self):
        say(f"{self.count} customers come, and order: each order is one transaction of the shop's")
        say("database, with the message that the shop then sends until it has a receipt")
        self.world.start_shop(self.drover.url)
        servers.wait_for(self._look, f"{self.count} orders to end", GIVE_UP_S)

    def balance(self):
        """Prints what came of it. Return: whether all is well."""
        audit = self.world.audit()
        calls = sum(book["calls"] for book in audit.books.values())
        repeated = sum(book["repeated"] for book in audit.books.values())
        trouble = {kind: audit.books["payment"].get(kind, 0) for kind in TROUBLE}
        print(f"\n{audit.table()}\n")
        print(f"  orders completed     {len(audit.completed)} of {self.count}")
        print(f"  HTTP calls           {calls}; {repeated} repeated a key, and changed nothing")
        print(f"  payment turned away  {trouble['unavailable']} of its calls")
        print(f"  ... answered late    {trouble['slow']}")
        print(f"  ... not at all       {trouble['mute']}, having charged")
        print("  killed               agent-1, scheduler-1")
        print(f"  the books            {'do not balance' if audit.problems else 'balance'}")
        for problem in audit.problems:
            print(f"    {problem}")
        complete = len(audit.completed) == len(audit.orders) == self.count
        return complete and not audit.problems


def run(count):
    directory = stage.folder()
    options = [word for kind, value in TROUBLE.items() for word in (f"--{kind}", str(value))]
    world = orders.World(directory, payment=options)
    say("services: " + ", ".join(f"{name} on {s.url}" for name, s in world.services.items()))
    say(
        f"of the calls to payment it turns away {TROUBLE['unavailable']:.0%},"
        f" answers {TROUBLE['slow']:.0%} {TROUBLE['delay']} s late, and books {TROUBLE['mute']:.0%}"
        " without an answer"
    )
    drover = stage.start(directory, world.settings(), orders.ACTOR)
    story = Story(world, drover, count)
    story.play()
    good = story.balance()
    world.close()
    return 0 if stage.end(drover) and good else 1
