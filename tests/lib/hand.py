# SPDX-License-Identifier: Apache-2.0
"""Test cases that play the agent: actor "hand" is served by the test, request by request."""

import cluster
import wire

SOON = wire.Policy(initial_interval_ms=20, maximum_attempts=5, park_interval_ms=-1, jitter=-1)


def error(message, verdict=wire.VERDICT_TRANSIENT, **fields):
    return wire.Error(**{"class": "BROKEN"}, message=message, verdict=verdict, **fields)


def permanent(message, **fields):
    return error(message, wire.VERDICT_PERMANENT, **fields)


def step(name, after=(), revert=True, **fields):
    """A step that is done, and taken back, by hand."""
    if revert:
        fields["revert"] = wire.Revert(action=f"undo-{name}") if revert is True else revert
    fields.setdefault("retry", SOON)
    return wire.step(name, "hand", action=f"do-{name}", after=after, **fields)


class Case(cluster.TestCase):
    def begin(self, **more):
        self.c = self.cluster(**more)
        self.seen = []
        return self.c

    def take(self, actor="hand", dies=False):
        """The next request; its action is noted. @dies: whoever takes it begins, and is not heard of again."""
        request = self.c.client.consume_step(actor)
        self.seen.append(request.action)
        if dies:
            self.c.client.begin(request)
        return request

    def do(self, *actions, **fields):
        """Takes one request for each action, in any order, and says yes; returns them in that order."""
        requests = {}
        for _ in actions:
            request = self.take()
            requests[request.action] = request
            self.c.client.reply(request, **fields)
        self.assertEqual(set(actions), set(requests))
        return [requests[action] for action in actions]

    def end(self, job, outcome, n=1):
        """The n-th end of a job."""
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
