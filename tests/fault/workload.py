# SPDX-License-Identifier: Apache-2.0
"""Jobs of all kinds, the commands of their clients, and how each may end; one seed decides
everything"""

import evidence
import wire

POLICY = wire.Policy(initial_interval_ms=100, maximum_interval_ms=3000, maximum_attempts=20,
                     maximum_expiries=50, park_interval_ms=-1)
LOCK_MS = 5000
# The longest time that such a job takes without faults: a lease and its wait that has doubled
# several times, backoffs, and its turn in the queues of a busy machine.
SETTLE_WITHIN_MS = 240000


# The allowed ends of a kind besides outcomes: a step is parked; the job was paused and is never
# resumed; every process that reads it dies, so it becomes a dead letter.
PARKED, HELD, DEAD_LETTER = "PARKED", "HELD", "DEAD_LETTER"

# A process that reads these dies at once; see FAILPOINTS, which each daemon of a cluster with
# deadly jobs starts with.
DEADLY_ACTION = "kills-its-agent"
FAILPOINTS = {
    "agent": f"run.before=crash@{DEADLY_ACTION}",
    "scheduler": "store.submit.before=crash@deadly_submit\nstore.steer.before=crash@deadly_command",
}


class Job:
    """@ends: the only ones allowed. @commands: (ms after the submission, fields of a Control).

    @letters: how many of its messages can only end as dead letters.
    """

    def __init__(self, submit, ends, commands=(), letters=0):
        self.submit, self.ends, self.commands, self.letters = submit, ends, list(commands), letters

    @property
    def kind(self):
        return self.submit.job_id.partition("-")[0]


class Workload:
    """@strangers: includes jobs for an agent such as fickle.py. @deadly: includes jobs for
    FAILPOINTS. @steered: includes jobs that get commands, also at their end."""

    def __init__(self, random, strangers=True, deadly=False, steered=True):
        self._random = random
        self._kinds = {
            self.chain: 6, self.fan: 3, self.saga: 6, self.flip: 6, self.poison: 1, self.late: 1,
            self.steered: 3, self.tries: 1,
        }
        if not steered:
            self._kinds = {self.chain: 6, self.fan: 3, self.saga: 6, self.tries: 1}
        if strangers:
            self._kinds.update({self.long: 1, self.put_off: 2})
        if deadly:
            self._kinds.update({self.deadly_step: 0.4, self.deadly_submit: 0.3,
                                self.deadly_command: 0.3})

    def job(self, number):
        (kind,) = self._random.choices(list(self._kinds), self._kinds.values())
        return kind(f"{kind.__name__}-{number}")

    # --- parts ---

    def _how(self, **how):
        """Mostly succeeds; sometimes slow, or not at the first time."""
        how.setdefault("ms", self._random.choice([0, 0, 5, 20, 100]))
        (trouble,) = self._random.choices([None, "fail", "half", "hang"], [20, 2, 2, 1])
        if trouble and len(how) == 1:
            how[trouble] = 1
            how["deaf"] = self._random.random() < 0.5
        return evidence.arguments(**how)

    def _step(self, name, after=(), actor="effect", revert=True, how=None, **fields):
        if revert:
            fields["revert"] = wire.Revert(action="undo", arguments=self._how(), retry=POLICY,
                                           lock_ms=LOCK_MS)
        fields.setdefault("retry", POLICY)
        fields.setdefault("lock_ms", LOCK_MS)
        return wire.step(name, actor, after=after, arguments=self._how(**(how or {})), **fields)

    def _steps(self, length, **last):
        """One after another; @last: special settings of the last one."""
        return [self._step(f"s{i}", [f"s{i - 1}"] if i else [], **(last if i == length - 1 else {}))
                for i in range(length)]

    def _set_desired(self, active):
        state = wire.STATE_ACTIVE if active else wire.STATE_DISABLED
        return {"set_desired": wire.SetDesired(desired=state)}

    # --- kinds ---

    def chain(self, name):
        return Job(wire.submit(name, self._steps(self._random.randint(1, 6), revert=False)),
                   {"SUCCEEDED"})

    def fan(self, name):
        middle = [f"m{i}" for i in range(self._random.randint(2, 12))]
        steps = [self._step("first"), *(self._step(m, ["first"]) for m in middle),
                 self._step("last", middle)]
        return Job(wire.submit(name, steps), {"SUCCEEDED"})

    def saga(self, name):
        """Its last step is refused: all is taken back."""
        steps = self._steps(self._random.randint(2, 5), how={"deny": True})
        return Job(wire.submit(name, steps), {"COMPENSATED"})

    def flip(self, name):
        """Back, forward and back again, during its run or afterwards. Commands may overtake one
        another."""
        at, commands = 0, []
        for turn in range(self._random.randint(1, 4)):
            at += self._random.choice([0, 50, 300, 2000])
            commands.append((at, self._set_desired(turn % 2 == 1)))
        middle = [self._step(f"m{i}", ["first"]) for i in range(3)]
        steps = [self._step("first"), *middle, self._step("last", ["m0", "m1"])]
        return Job(wire.submit(name, steps), {"SUCCEEDED", "COMPENSATED"}, commands)

    def poison(self, name):
        """A step that never answers: parked, or taken back."""
        recourse, end = self._random.choice([(wire.RECOURSE_PARK, PARKED),
                                             (wire.RECOURSE_COMPENSATE, "COMPENSATED")])
        policy = wire.Policy(maximum_expiries=2, on_exhausted=recourse)
        steps = self._steps(3)
        steps.append(self._step("poison", ["s1"], how={"hang": 1000, "deaf": True}, lock_ms=500,
                                retry=policy))
        return Job(wire.submit(name, steps), {end})

    def long(self, name):
        steps = [self._step("long", actor="fickle", how={"ms": 4000}, lock_ms=20000,
                            heartbeat_ms=700), self._step("after", ["long"])]
        return Job(wire.submit(name, steps), {"SUCCEEDED"})

    def put_off(self, name):
        steps = [self._step("a"), self._step("b", ["a"], "fickle", how={"defer": 2}),
                 self._step("c", ["b"], "fickle")]
        return Job(wire.submit(name, steps), {"SUCCEEDED"})

    def late(self, name):
        """Taken back at its deadline."""
        steps = [*self._steps(2), self._step("slow", ["s0"], how={"fail": 1000})]
        workflow = wire.Workflow(steps=steps, complete_within_ms=3000,
                                 on_deadline=wire.RECOURSE_COMPENSATE)
        return Job(wire.Submit(job_id=name, definition=workflow), {"COMPENSATED"})

    def steered(self, name):
        """Commands may come before their job, after its end, or after one another."""
        at = self._random.choice([0, 50, 300, 1500])
        ends, commands = self._random.choice([
            ({"CANCELLED"}, [(at, {"cancel": wire.Cancel()})]),
            ({"KILLED"}, [(at, {"kill": wire.Kill()})]),
            ({HELD}, [(at, {"pause": wire.Pause()}), (at + 1000, {"resume": wire.Resume()})]),
            ({HELD, "COMPENSATED"},
             [(at, {"pause": wire.Pause()}), (at + 500, self._set_desired(False)),
              (at + 1000, {"resume": wire.Resume()})]),
            ({"CANCELLED"}, [(at, {"cancel": wire.Cancel()}), (at, {"cancel": wire.Cancel()}),
                             (at + 500, self._set_desired(True))]),
        ])
        return Job(wire.submit(name, self._steps(4)), ends | {"SUCCEEDED"}, commands)

    def tries(self, name):
        """Compensated, and tried once more by itself."""
        workflow = wire.Workflow(steps=self._steps(3, how={"deny": True}), tries=2)
        return Job(wire.Submit(job_id=name, definition=workflow), {"COMPENSATED"})

    def deadly_step(self, name):
        """One of its steps kills the agents that take it: it is parked, the others are done."""
        policy = wire.Policy(maximum_expiries=2, initial_interval_ms=100)
        steps = self._steps(3)
        steps.append(self._step("deadly", ["s0"], action=DEADLY_ACTION, lock_ms=1000, retry=policy))
        return Job(wire.submit(name, steps), {PARKED})

    def deadly_submit(self, name):
        """It kills the schedulers that take it."""
        return Job(wire.submit(name, self._steps(2)), {DEAD_LETTER}, letters=1)

    def deadly_command(self, name):
        """Its command kills the schedulers that take it; the job goes on."""
        return Job(wire.submit(name, self._steps(4)), {"SUCCEEDED"},
                   [(300, {"cancel": wire.Cancel()})], letters=1)
