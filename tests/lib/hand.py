# SPDX-License-Identifier: Apache-2.0
"""Test cases that act as the agent: the test serves the actor "hand", request by request."""

import cluster
import wire

SOON = wire.Policy(initial_interval_ms=20, maximum_attempts=5, park_interval_ms=-1, jitter=-1)


def error(message, verdict=wire.VERDICT_TRANSIENT, **fields):
    return wire.Error(**{"class": "BROKEN"}, message=message, verdict=verdict, **fields)


def permanent(message, **fields):
    return error(message, wire.VERDICT_PERMANENT, **fields)


def step(name, after=(), revert=True, **fields):
    """Returns a step whose forward action and undo the test answers."""
    if revert:
        fields["revert"] = wire.Revert(action=f"undo-{name}") if revert is True else revert
    fields.setdefault("retry", SOON)
    return wire.step(name, "hand", action=f"do-{name}", after=after, **fields)


class Case(cluster.TestCase):
    def begin(self, **more):
        self.c = self.cluster(**more)
        self.seen = []
        return self.c

    def take(self, actor="hand", expires=False):
        """Returns the next request, and notes its action. With expires=True an agent begins it, and
        never answers."""
        request = self.c.client.consume_step(actor)
        self.seen.append(request.action)
        if expires:
            self.c.client.begin(request)
        return request

    def do(self, *actions, **fields):
        """Takes one request for each action, in any order, and reports success; returns them in the
        order of the actions."""
        requests = {}
        for _ in actions:
            request = self.take()
            requests[request.action] = request
            self.c.client.reply(request, **fields)
        self.assertEqual(set(actions), set(requests))
        return [requests[action] for action in actions]

    def end(self, job, outcome, n=1):
        """Returns the n-th terminal event of a job."""
        events = self.c.client.until(
            lambda: len(self.c.client.events.get(job, [])) >= n and self.c.client.events[job],
            f"end {n} of {job}",
        )
        self.assertEqual(outcome, events[n - 1].outcome, events[n - 1])
        return events[n - 1]

    def steer(self, job, **command):
        return self.c.client.control(job, **command).code

    def states(self, job):
        return {s.name: wire.StepState.Name(s.state)[len("STEP_STATE_"):]
                for s in self.c.client.status(job).steps}
