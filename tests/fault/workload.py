# SPDX-License-Identifier: Apache-2.0
"""Jobs of all kinds, and what a client does to them on the way; one seed decides all"""

import evidence
import wire

POLICY = wire.Policy(initial_interval_ms=100, maximum_interval_ms=3000, maximum_attempts=20,
                     maximum_expiries=50, park_interval_ms=-1)
LOCK_MS = 5000
# The longest that a job of these takes once nothing harms it: a lease and its wait that has doubled a few
# times, backoffs, and its turn in the queues of a busy machine.
SETTLE_WITHIN_MS = 240000


class Job:
    """@commands: (ms after the submission, its fields of a Control)."""

    def __init__(self, submit, commands=()):
        self.submit, self.commands = submit, list(commands)


class Workload:
    """@strangers: also what needs an agent like fickle.py."""

    def __init__(self, random, strangers=True):
        self._random = random
        self._kinds = {
            self.chain: 6, self.fan: 3, self.saga: 6, self.flip: 6, self.poison: 1, self.late: 1,
            self.steered: 3, self.tries: 1,
        }
        if strangers:
            self._kinds.update({self.long: 1, self.put_off: 2})

    def job(self, number):
        (kind,) = self._random.choices(list(self._kinds), self._kinds.values())
        return kind(f"{kind.__name__}-{number}")

    # --- parts ---

    def _how(self, **how):
        """Mostly well; sometimes slowly, or not at the first time."""
        how.setdefault("ms", self._random.choice([0, 0, 5, 20, 100]))
        (trouble,) = self._random.choices([None, "fail", "half", "hang"], [20, 2, 2, 1])
        if trouble and len(how) == 1:
            how[trouble] = 1
            how["deaf"] = self._random.random() < 0.5
        return evidence.arguments(**how)

    def _step(self, name, after=(), actor="effect", revert=True, how=None, **fields):
        if revert:
            fields["revert"] = wire.Revert(action="undo", arguments=self._how())
        fields.setdefault("retry", POLICY)
        fields.setdefault("lock_ms", LOCK_MS)
        return wire.step(name, actor, after=after, arguments=self._how(**(how or {})), **fields)

    def _steps(self, length, **last):
        """One after another; @last: what is particular of the last one."""
        return [self._step(f"s{i}", [f"s{i - 1}"] if i else [], **(last if i == length - 1 else {}))
                for i in range(length)]

    def _set_desired(self, active):
        state = wire.STATE_ACTIVE if active else wire.STATE_DISABLED
        return {"set_desired": wire.SetDesired(desired=state)}

    # --- kinds ---

    def chain(self, name):
        return Job(wire.submit(name, self._steps(self._random.randint(1, 6), revert=False)))

    def fan(self, name):
        middle = [f"m{i}" for i in range(self._random.randint(2, 12))]
        steps = [self._step("first"), *(self._step(m, ["first"]) for m in middle),
                 self._step("last", middle)]
        return Job(wire.submit(name, steps))

    def saga(self, name):
        """Its last step is refused: all is taken back."""
        return Job(wire.submit(name, self._steps(self._random.randint(2, 5), how={"deny": True})))

    def flip(self, name):
        """There, back, and there again, while it is on its way or after."""
        at, commands = 0, []
        for turn in range(self._random.randint(1, 4)):
            at += self._random.choice([0, 50, 300, 2000])
            commands.append((at, self._set_desired(turn % 2 == 1)))
        middle = [self._step(f"m{i}", ["first"]) for i in range(3)]
        steps = [self._step("first"), *middle, self._step("last", ["m0", "m1"])]
        return Job(wire.submit(name, steps), commands)

    def poison(self, name):
        """A step that never answers: parked, or taken back."""
        recourse = self._random.choice([wire.RECOURSE_PARK, wire.RECOURSE_COMPENSATE])
        policy = wire.Policy(maximum_expiries=2, on_exhausted=recourse)
        steps = self._steps(3)
        steps.append(self._step("poison", ["s1"], how={"hang": 1000, "deaf": True}, lock_ms=500, retry=policy))
        return Job(wire.submit(name, steps))

    def long(self, name):
        steps = [self._step("long", actor="fickle", how={"ms": 4000}, lock_ms=20000,
                            heartbeat_ms=700), self._step("after", ["long"])]
        return Job(wire.submit(name, steps))

    def put_off(self, name):
        steps = [self._step("a"), self._step("b", ["a"], "fickle", how={"defer": 2}),
                 self._step("c", ["b"], "fickle")]
        return Job(wire.submit(name, steps))

    def late(self, name):
        """Past its time it is taken back."""
        steps = [*self._steps(2), self._step("slow", ["s0"], how={"fail": 1000})]
        workflow = wire.Workflow(steps=steps, complete_within_ms=3000,
                                 on_deadline=wire.RECOURSE_COMPENSATE)
        return Job(wire.Submit(job_id=name, definition=workflow))

    def steered(self, name):
        at = self._random.choice([0, 50, 300, 1500])
        command = self._random.choice([
            [(at, {"cancel": wire.Cancel()})],
            [(at, {"kill": wire.Kill()})],
            [(at, {"pause": wire.Pause()}), (at + 1000, {"resume": wire.Resume()})],
            [(at, {"pause": wire.Pause()}), (at + 500, self._set_desired(False)),
             (at + 1000, {"resume": wire.Resume()})],
            [(at, {"cancel": wire.Cancel()}), (at, {"cancel": wire.Cancel()}),
             (at + 500, self._set_desired(True))],
        ])
        return Job(wire.submit(name, self._steps(4)), command)

    def tries(self, name):
        """Compensated, and tried once more by itself."""
        workflow = wire.Workflow(steps=self._steps(3, how={"deny": True}), tries=2)
        return Job(wire.Submit(job_id=name, definition=workflow))
