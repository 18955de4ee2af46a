# SPDX-License-Identifier: Apache-2.0
"""The terms of each step in a definition, derived from the client's messages and PROTOCOL.md alone
"""

import wire

WAIT_CAP_MS = 3600 * 1000
RESULT_MAX = 256 * 1024
TAKEN_BY_ITSELF = 16

DEFAULTS = {
    "initial_interval_ms": 1000,
    "backoff_coefficient": 2.0,
    "maximum_interval_ms": 100000,
    "maximum_attempts": 10,
    "maximum_expiries": 5,
    "jitter": 0.1,
    "park_interval_ms": 600000,
    "on_permanent": wire.RECOURSE_COMPENSATE,
    "on_exhausted": wire.RECOURSE_PARK,
}


class Terms:
    """One direction of a step, with all defaults filled in."""

    def __init__(self, workflow, step, revert=None):
        self.actor = revert and revert.actor or step.actor
        self.action = revert and revert.action or step.action or step.name
        self.lock_ms = revert and revert.lock_ms or step.lock_ms or workflow.lock_ms or 60000
        self.wait_ms = (revert and revert.wait_ms or step.wait_ms or workflow.wait_ms
                        or self.lock_ms)
        self.heartbeat_ms = step.heartbeat_ms
        self.own_arguments = bool(revert) and revert.HasField("arguments")  # of its undo
        self.arguments = revert.arguments if self.own_arguments else step.arguments
        policies = [p.retry for p in (revert, step, workflow) if p]
        for name, default in DEFAULTS.items():
            value = next((getattr(p, name) for p in policies if getattr(p, name)), default)
            setattr(self, name, value)
        self.non_retryable = next((list(p.non_retryable) for p in policies if p.non_retryable), [])
        self.maximum_interval_ms = max(self.maximum_interval_ms, self.initial_interval_ms)

    def longest_ms(self, wait_ms):
        """A wait with the maximum jitter."""
        return int(wait_ms * (1 + max(self.jitter, 0)))

    def unstarted_ms(self, unstarted):
        """The maximum wait of the next dispatch after so many in a row that no agent took."""
        return self.longest_ms(min(self.initial_interval_ms * 2 ** min(unstarted - 1, 40),
                                   WAIT_CAP_MS))

    def backoff_ms(self, failures):
        """The minimum pause before the next try after so many failures."""
        wait = self.initial_interval_ms
        for _ in range(failures - 1):
            wait *= self.backoff_coefficient
            if wait >= self.maximum_interval_ms:
                break
        return int(min(wait, self.maximum_interval_ms))

    def answer(self, reply, back):
        """What a reply leads to: an event of a history, or PERMANENT."""
        wanted = wire.STATE_DISABLED if back else wire.STATE_ACTIVE
        if not reply.HasField("error"):
            too_large = len(reply.result.data) + len(reply.result.content_type) > RESULT_MAX
            if reply.achieved != wanted:
                return "failed"
            return "PERMANENT" if too_large else "undone" if back else "done"
        if reply.error.verdict == wire.VERDICT_DEFER:
            return "deferred"
        never = (reply.error.verdict == wire.VERDICT_PERMANENT
                 or getattr(reply.error, "class") in self.non_retryable)
        return "PERMANENT" if never else "failed"

    def give_ms(self, unstarted, left):
        """How long a dispatch is valid after so many in a row that no agent took. @left: ms until
        the deadline, which limits its wait and its lease, each by itself; None: no limit."""
        wait = self.wait_ms
        for _ in range(unstarted):
            wait *= 2
            if wait >= WAIT_CAP_MS:
                break
        wait = max(self.wait_ms, min(wait, WAIT_CAP_MS))
        return wait + self.lock_ms if left is None else min(wait, left) + min(self.lock_ms, left)


class Definition:
    def __init__(self, workflow):
        self.tries = workflow.tries or 1
        self.complete_within_ms = workflow.complete_within_ms  # 0: no limit
        self.on_deadline = workflow.on_deadline or wire.RECOURSE_PARK
        self.names = [step.name for step in workflow.steps]
        numbers = {name: i for i, name in enumerate(self.names)}
        self.after = [[numbers[name] for name in step.after] for step in workflow.steps]
        self.dependents = [[] for _ in self.names]
        for i, after in enumerate(self.after):
            for before in after:
                self.dependents[before].append(i)
        self.take = [self._takes(step, numbers) for step in workflow.steps]
        self.sinks = [i for i, after in enumerate(self.dependents) if not after]
        self.forward = [Terms(workflow, step) for step in workflow.steps]
        self.revert = [
            Terms(workflow, step, step.revert) if step.HasField("revert") else None
            for step in workflow.steps
        ]
        self.waived = [step.waive_revert for step in workflow.steps]

    @staticmethod
    def _takes(step, numbers):
        """The steps whose results its requests carry."""
        if step.take_none or not step.take and len(step.after) > TAKEN_BY_ITSELF:
            return []
        return [numbers[name] for name in step.take or step.after]
