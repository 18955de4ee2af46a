# SPDX-License-Identifier: Apache-2.0
"""Replays a job's history against its definition: do the rules allow this path?

The rules come from docs/PROTOCOL.md and docs/ARCHITECTURE.md, not from the code: this is a second
implementation. It stops at the first impossible entry; later ones would only repeat the error.
story.py and fsck.py compare the result with the other evidence.
"""

from run_evidence import Violation
from reasons import Reasons

import wire

STATES = {"A": wire.STATE_ACTIVE, "D": wire.STATE_DISABLED, "U": wire.STATE_UNKNOWN}


class Impossible(Exception):
    pass


class Flight:
    """One dispatch."""

    def __init__(self, number, step, attempt, token, back, at):
        self.number, self.step, self.attempt, self.token = number, step, attempt, token
        self.back, self.at = back, at
        self.since = at  # when its request was sent, last if the broker had lost it
        self.turn = self.forward = 0  # in its key, and in that of the work that an undo takes back
        self.till = 0  # the end of its lease, unless a heartbeat makes it shorter
        self.carries = {}  # fields of its request -> allowed values
        self.end, self.ended = None, None  # the event that ended it, and when


class Step:
    def __init__(self):
        self.flying = None
        self.current = "D"  # what was known when it was last at rest: A, D or U, or several of them
        self.back = False  # what the last dispatch asked for, and the turns in its keys
        self.turn = self.forward = 0
        self.attempt = self.failures = self.expiries = self.unstarted = 0
        self.not_before = self.not_after = 0  # of the next try
        self.parked = ""  # why
        self.failed = False  # for good
        self.timer_cancelled = False  # its job was about to end after it was dispatched
        self.arguments = None  # that a person gave it
        self.results = {b""}  # possible results, as known when it was last at rest; None: any
        self.renewed = False  # its tries were used up when the job turned: the next one begins anew
        self.vague = False  # a Retry of all may have reached it or not: its counters are unknown
        self.by_hand = False  # a person has resolved it


class Settling:
    def __init__(self, seq, at, outcome, turn, reason):
        self.seq, self.at, self.outcome, self.turn, self.reason = seq, at, outcome, turn, reason
        self.results = []  # possible results of each step by then


def _asked(answers):
    """The pauses that the replies ask for."""
    return [reply.error.retry_after_ms for _, reply in answers]


CHANGES = ("migrated", "changed", "changing", "anew")

class Replay:
    """@trace: the messages that the broker has traced, see story.Trace."""

    def __init__(self, job, definition, trace, clock_set=False):
        self.job, self.definition, self.trace = job, definition, trace
        self.clock_set = clock_set  # the store's clock was set: times mean nothing
        self.violations = []
        self.steps = [Step() for _ in definition.names]
        self.flights = {}  # token -> Flight
        self.settlings = []
        self.commands = set()
        self.given = [{b""} for _ in definition.names]  # all results so far; None among them: any
        self.completions = set()  # (step, direction, turn of the key)
        self.parkings = []  # (at, number, reason, whether there must be an alert)
        self.seq = self.at = 0
        self.moves = []  # (latest time, actual time) of entries that Drover makes by itself
        self.start_at = job.submits[0].message.start_at
        self.turn = self.since = 1
        self.back = self.settled = False
        self.ending = ""  # why
        self.hold = self.cause = ""
        self.tried = 0
        self.complete_by = job.submits[0].message.complete_by  # 0: no deadline
        self.reasons = Reasons(self)
        self.number = None  # the step that an entry is about
        self.whole = True  # the whole history was understood
        for entry in job.history:
            if entry.event in CHANGES:  # to a definition that was made for this job alone
                self.whole = False
                break
            try:
                self._entry(entry)
            except Impossible as impossible:
                self.violations.append(impossible.args[0])
                break
            except (IndexError, ValueError):
                self.violations.append(
                    Violation("I6", job.id, "", f"an entry that cannot be read: {entry.text}")
                )
                break

    # --- what is known ---

    def name(self, i):
        return self.definition.names[i]

    def key(self, i, turn):
        return f"{self.job.id}/{self.name(i)}/{turn}"

    def terms(self, i, back):
        return self.definition.revert[i] if back else self.definition.forward[i]

    def is_there(self, i, back):
        return not self.steps[i].flying and ("D" if back else "A") in self.steps[i].current

    def missing(self, i, back):
        """Neighbours that must come first and are not there."""
        before = self.definition.dependents[i] if back else self.definition.after[i]
        return [k for k in before if not self.is_there(k, back)]

    def all_there(self, back):
        return all(self.is_there(i, back) for i in range(len(self.steps)))

    def any_failed(self, back):
        return any(s.failed and s.back == back for s in self.steps)

    def flying(self):
        return [s.flying for s in self.steps if s.flying]

    def last_outcome(self):
        return self.settlings[-1].outcome if self.settled else ""

    def waits(self):
        """Whether only a person can let it go on."""
        return bool(self.hold) or any(step.parked for step in self.steps) and not self.flying()

    def due(self):
        """The latest time of the next entry; None: nothing has to follow."""
        if not self.seq or self.settled or self.hold:
            return None
        moments = [flight.till for flight in self.flying()]
        moments += [step.not_after for step in self.steps if step.not_after]
        if not moments and self.waits():
            return None
        return max([self.at, self.start_at, *moments])

    def latest_move(self, over, world):
        """Return: by how much the latest entry after @over was too late, and its time."""
        moves = list(self.moves)
        if world.complete and self.due() is not None:
            moves.append((self.due(), world.ended_at))
        slack = 2 * (world.scan_ms or 0)
        return max(((at - max(due, over) - slack, at) for due, at in moves), default=(0, 0))

    # --- entries ---

    def require(self, condition, rule, text):
        if not condition:
            step = self.name(self.number) if self.number is not None else ""
            raise Impossible(Violation(rule, self.job.id, step, f"entry {self.seq}: {text}"))

    def _entry(self, entry):
        event, rest = entry.event, entry.about
        if event is None:
            raise ValueError("an incomplete entry")
        self.number = None
        self.require(int(entry.seq) == self.seq + 1, "I13", f"the next one is {entry.seq}")
        due = self.due()
        self.seq, self.at = int(entry.seq), int(entry.at)
        if due is not None and event != "command":
            self.moves.append((due, self.at))
        self.reasons.entry(entry)
        handler = getattr(self, f"_on_{event}", None)
        if handler:
            handler(rest)
            return
        step_handler = getattr(self, f"_on_step_{event}", None)
        self.require(step_handler, "I6", f"an unknown event: {event}")
        self.require(int(rest[0]) < len(self.steps), "I6", f"{event} of step {rest[0]}")
        self.number = int(rest[0])
        step_handler(self.number, self.steps[self.number], rest)

    def _on_created(self, rest):
        self.require(self.seq == 1, "I10", "created twice")
        if not self.complete_by and self.definition.complete_within_ms:
            start = max(self.at, self.job.submits[0].message.start_at)
            self.complete_by = start + self.definition.complete_within_ms

    def _on_started(self, rest):
        self.require(not self.settled and not self.flights, "I6", "started when under way")

    def _on_step_began(self, i, step, rest):
        self.require(step.flying, "I14", "begun, and not in flight")

    def _on_attention(self, rest):
        self.require(not self.settled, "I6", "an alert about its end after the end")

    def _on_mended(self, rest):
        self.require(self.clock_set, "I13", f"a sweep had to mend {' '.join(rest)}")

    def _on_command(self, rest):
        command = rest[1]
        self.require(command == "-" or command not in self.commands, "I6",
                     f"command {command} carried out twice")
        self.commands.add(command)

    def _on_ending(self, rest):
        self.ending = rest[0]
        for step in self.steps:
            # an entry that begins them anew sets these times again
            step.not_before = step.not_after = 0
            step.timer_cancelled = True

    def _on_held(self, rest):
        self.require(not self.hold, "I6", "held twice")
        self.hold = rest[0]

    def _on_overdue(self, rest):
        self.require(self.hold == "paused", "I6", "overdue, and the deadline could hold it")

    def _on_killed(self, rest):
        self.hold = "killed"

    def _on_resumed(self, rest):
        self.require(self.hold not in ("", "killed"), "I6", "resumed, and nothing held it")
        self.hold = ""

    def _on_turned(self, rest):
        back, self.cause = rest[0] == "D", rest[1]
        self.require(self.turn == 1 or back != self.back, "I6", "turned to its present direction")
        self.back = back
        self.turn += 1
        self.since = self.turn
        if self.cause == "TRY":
            self.tried += 1
        elif self.cause != "FAILURE":
            self.tried = 0
        self.require(self.tried < self.definition.tries, "I6",
                     f"tried {self.tried} times more, of {self.definition.tries} in all")
        self.settled, self.ending = False, ""
        self.hold = "" if self.hold == "deadline" else self.hold
        for i, step in enumerate(self.steps):
            step.renewed = step.renewed or self._tries_used_up(i, step)
            step.failed, step.parked, step.not_before, step.not_after = False, "", 0, 0

    def _on_settled(self, rest):
        outcome, reason = rest[0], rest[1] if len(rest) > 1 else ""
        self.require(not self.settled, "I6", "settled twice")
        self.require(outcome == "KILLED" or not self.flying(), "I6", "settled with steps in flight")
        self.require(self._fits(outcome), "I6", f"cannot have ended {outcome}")
        self.require(reason in self._reasons(outcome), "I6",
                     f"cannot have ended {outcome} for {reason}")
        self.settled = True
        self.hold = self.hold if self.hold == "killed" else ""
        settling = Settling(self.seq, self.at, outcome, self.turn, reason)
        settling.results = [step.results for step in self.steps]
        self.settlings.append(settling)

    def _fits(self, outcome):
        """A step that can still move keeps a job from ending badly."""
        never_wanted = self.turn == 1 and not self.flights
        if outcome == "SUCCEEDED":
            return not self.back and self.all_there(False)
        if outcome == "COMPENSATED":
            taken_back = (self.back or never_wanted) and self.all_there(True)
            return taken_back and self.cause != "CANCELLED"
        if outcome == "CANCELLED":
            return self.back and self.all_there(True) and self.cause == "CANCELLED"
        if outcome == "FAILED":
            return self.ending or self.any_failed(False) and not self.hold
        if outcome == "COMPENSATION_FAILED":
            return self.any_failed(True) and not self.ending and not self.hold
        return outcome == "KILLED" and self.hold == "killed"

    def _reasons(self, outcome):
        if outcome == "FAILED":
            return (self.ending or "PERMANENT",)
        if outcome in ("COMPENSATED", "COMPENSATION_FAILED"):
            return (self.cause or "REQUESTED",)
        return ("" if outcome == "SUCCEEDED" else "REQUESTED",)

    # --- entries about a step ---

    def _another_try(self, i, step, back, token):
        """Whether it is the same work as the last dispatch, under the same key."""
        if step.attempt == 0 or step.back != back:
            return False
        if step.turn == self.turn:
            return True
        if not ("U" in step.current and (back or step.turn >= self.since)):
            return False
        request = self.trace.request(token, self.job.id)
        return (step.current == "U" or not request
                or request.idempotency_key == self.key(i, step.turn))

    def _may_go(self, i, step, back):
        """What a step may do depends on what is known of it, not on what the job wants."""
        old, unknown = step.turn < self.since, "U" in step.current
        rule = "I5" if back else "I8"
        missing = [self.name(k) for k in self.missing(i, back)]
        self.require(not missing, rule, f"before {', '.join(missing)}")
        if back:
            self.require(self.definition.revert[i], "I5", "nothing takes it back")
            self.require(step.current != "D", "I5", "undone twice, or never done")
            self.require(self.back or unknown and (step.back or old), "I5",
                         "undone on the way forward")
        else:
            self.require(not self.back, "I5", "goes forward after the turn")
            again = unknown and not step.back and not old
            self.require("D" in step.current or again, "I2", f"done though it is {step.current}")

    def _may_be_tried(self, i, step, back, token):
        terms = self.terms(i, back)
        if not self._another_try(i, step, back, token):
            step.failures = step.expiries = step.unstarted = 0
            step.turn = self.since - 1 if back and not self.back else self.turn
            step.vague = False
            return
        if step.renewed:  # the job has turned
            step.failures = step.expiries = 0
        if step.vague:
            return
        self.require(step.expiries < terms.maximum_expiries, "I9",
                     f"tried again after {step.expiries} expiries")
        again = step.parked == "EXHAUSTED" and terms.park_interval_ms > 0
        self.require(not step.parked or again, "L3", f"tried again though parked for {step.parked}")
        self.require(step.failures < terms.maximum_attempts or step.parked, "I9",
                     f"tried again after {step.failures} failures, and was not parked")
        self.require(self.clock_set or self.at >= step.not_before, "I12",
                     f"tried again {step.not_before - self.at} ms before its backoff was over")

    def _on_step_dispatched(self, i, step, rest):
        attempt, token, back = int(rest[1]), rest[2], rest[3:] == ["D"]
        self.require(not self.settled and not self.ending, "I6", "dispatched after the end")
        self.require(not self.hold, "I6", f"dispatched while held: {self.hold}")
        self.require(not step.flying, "I2", "dispatched while in flight")
        self.require(not step.failed, "I6", "dispatched after it failed for good")
        self._may_go(i, step, back)
        self.require(attempt == step.attempt + 1, "I9", f"attempt {attempt} after {step.attempt}")
        self.require(token not in self.flights, "I3", f"token {token} used twice")
        self._may_be_tried(i, step, back, token)
        step.attempt, step.back, step.parked, step.not_after = attempt, back, "", 0
        step.timer_cancelled = step.renewed = False
        if not back:
            step.forward = step.turn
        flight = Flight(i, self.name(i), attempt, token, back, self.at)
        flight.turn, flight.forward = step.turn, step.forward
        flight.carries = self._carries(i, step, back)
        flight.till = self.at + self.terms(i, back).give_ms(step.unstarted,
                                                            self.left(back, self.at))
        self.flights[token] = step.flying = flight

    def _on_step_resent(self, i, step, rest):
        """The broker may have lost the request, or its reply: it is sent once more under its token,
        with all its time again. What an agent has said before is no evidence; what it says later
        may be about the first copy, of which it had a lease from the dispatch on."""
        flight = step.flying
        self.require(flight and flight.token == rest[2], "I7", "sent again, not in flight")
        self.require(self.trace.fault_before(self.at), "I7",
                     "sent again, and the broker has lost nothing")
        flight.since = self.at
        flight.till = self.at + self.terms(i, flight.back).give_ms(
            step.unstarted, self.left(flight.back, self.at))

    def left(self, back, at):
        """How long work that is sent at @at may take, if the deadline takes the job back or ends
        it; None: no limit."""
        bounded = self.complete_by > at and self.definition.on_deadline != wire.RECOURSE_PARK
        return self.complete_by - at if bounded and not back else None

    def _carries(self, i, step, back):
        terms = self.terms(i, back)
        own = step.arguments is None or terms.own_arguments
        fields = {"arguments": {(terms.arguments if own else step.arguments).SerializeToString()},
                  "input": {self.job.submits[0].message.input.SerializeToString()},
                  "forward_result": step.results if back else {b""},
                  "current": {STATES[letter] for letter in step.current},
                  "turn": {step.turn}, "heartbeat_ms": {terms.heartbeat_ms}}
        if not self.clock_set:
            fields["complete_by"] = {self.complete_by}
        if not step.vague:
            fields |= {"failures": {step.failures}, "expiries": {step.expiries}}
        fields["results"] = [(self.name(k), self.steps[k].results) for k in self.definition.take[i]]
        return fields

    def _land(self, step, rest, event):
        flight = step.flying
        self.require(flight and flight.token == rest[2], "I3",
                     f"{event} by {rest[2]}, and not that token was in flight")
        flight.end, flight.ended = event, self.at
        step.flying = None
        return flight

    def _answers(self, i, flight):
        """The replies that may have ended the dispatch so; none if they were not traced."""
        terms = self.terms(i, flight.back)
        answers = [(terms.answer(reply, flight.back), reply)
                   for reply in self.trace.answers(flight)]
        fit = [(a, reply) for a, reply in answers
               if a == flight.end or a == "PERMANENT" and flight.end == "failed"]
        self.require(fit or not answers, "I10", f"{flight.end}, and the answer was"
                                                f" {', '.join(sorted(a for a, _ in answers))}")
        return fit

    def _complete(self, i, step, rest, event, back):
        flight = self._land(step, rest, event)
        completion = (i, back, flight.turn)
        self.require(flight.back == back, "I2", f"{event}, and asked for the opposite")
        answers = self._answers(i, flight)
        self.require(completion not in self.completions, "I2",
                     f"{event} twice in turn {flight.turn}")
        self.completions.add(completion)
        step.current, step.unstarted = "D" if back else "A", 0
        results = {reply.result.SerializeToString() for _, reply in answers} or None
        self._give(i, step, {b""} if back else results)

    def _give(self, i, step, results):
        step.results = results
        self.given[i] |= {None} if results is None else results

    def _on_step_done(self, i, step, rest):
        self._complete(i, step, rest, "done", False)

    def _on_step_undone(self, i, step, rest):
        self._complete(i, step, rest, "undone", True)

    def _on_step_failed(self, i, step, rest):
        flight = self._land(step, rest, "failed")
        step.failures += 1
        step.current, step.unstarted = self._after_failure(i, flight), 0
        terms = self.terms(i, flight.back)
        step.not_before = self.at + terms.backoff_ms(step.failures)
        answers = self._answers(i, flight)
        step.not_after = self.at + max([terms.longest_ms(terms.backoff_ms(step.failures)),
                                        *_asked(answers)])
        self.reasons.failed(flight, {answer for answer, _ in answers})

    def _on_step_deferred(self, i, step, rest):
        flight = self._land(step, rest, "deferred")
        answers = self._answers(i, flight)
        step.current, step.unstarted, step.not_before = self._after_failure(i, flight), 0, 0
        terms = self.terms(i, flight.back)
        wait = max([terms.initial_interval_ms, *_asked(answers)]) if answers else float("inf")
        step.not_after = self.at + terms.longest_ms(wait) if answers else wait

    def _after_failure(self, i, flight):
        """A definition may accept a failure that reports no effect."""
        return "DU" if self.definition.waived[i] and not flight.back else "U"

    def _on_step_expired(self, i, step, rest):
        flight = self._land(step, rest, "expired")
        self.require(self.trace.had(flight), "I14",
                     "an expiry counts, and no agent has had the request")
        progress, lease = self.trace.progress(flight), self._lease_ms(i, flight)
        till = flight.till if progress == [] else min(flight.till, flight.at + lease)
        self.require(self.clock_set or self.at >= till, "I9", f"expired {till - self.at} ms early")
        if progress:
            flight.till = min(flight.till, max(progress) + lease)
        step.unstarted = step.unstarted + 1 if progress == [] else 0
        step.expiries += 1
        step.current = "U"

    def _on_step_silent(self, i, step, rest):
        """Its lease is over, without evidence that an agent had the request; or the deadline has
        shortened the dispatch, which then counts no expiry, also after a Progress."""
        flight = self._land(step, rest, "silent")
        till = flight.till
        begun = (self.left(flight.back, flight.since) is not None
                 and self.trace.progress(flight) != [])
        if begun:
            till = min(till, flight.at + self._lease_ms(i, flight))
        self.require(self.clock_set or self.at >= till, "I9", f"given up {till - self.at} ms early")
        step.unstarted = 0 if begun else step.unstarted + 1
        step.current = "U"

    def _lease_ms(self, i, flight):
        """The length of a lease after a Progress."""
        terms = self.terms(i, flight.back)
        return min(terms.lock_ms, 3 * terms.heartbeat_ms or terms.lock_ms)

    def _on_step_unstarted(self, i, step, rest):
        """A request that came back may have been begun; one that was never sent was not (decision
        22)."""
        self._land(step, rest, "unstarted")
        self._not_begun(i, step)
        step.current += "U" if "U" not in step.current else ""

    def _on_step_unsent(self, i, step, rest):
        """The scheduler withdrew a request that it had not sent, and that the job does not want any
        more."""
        flight = self._land(step, rest, "unsent")
        self.require(not self.trace.surely_had(flight), "I5",
                     "withdrawn as unsent, and an agent has had the request")
        step.unstarted += 1
        step.not_before = step.not_after = 0

    def _on_step_unroutable(self, i, step, rest):
        self._land(step, rest, "unroutable")
        self._not_begun(i, step)

    def _not_begun(self, i, step):
        step.unstarted += 1
        step.not_before = 0
        step.not_after = self.at + self.terms(i, step.back).unstarted_ms(step.unstarted)

    def _on_step_skipped(self, i, step, rest):
        missing = self.missing(i, True)
        old = step.turn < self.since
        self.require(not self.definition.revert[i] and not step.flying and step.current != "D",
                     "I5",
                     "skipped")
        self.require(not missing, "I5", "skipped before its dependents")
        self.require(self.back or "U" in step.current and old, "I5", "skipped on the way forward")
        step.current = "D"

    def _on_step_parked(self, i, step, rest):
        step.parked = rest[1]
        interval = self.terms(i, step.back).park_interval_ms
        news = step.parked != "EXHAUSTED" or interval <= 0 or step.timer_cancelled or (
            step.failures == self.terms(i, step.back).maximum_attempts)
        self.parkings.append((self.at, i, step.parked, news))
        if step.parked == "EXHAUSTED" and interval > 0:
            step.not_before = step.not_after = self.at + interval
        else:
            step.not_after = 0

    def _on_step_given_up(self, i, step, rest):
        step.failed, step.not_after = True, 0

    # --- commands of people ---

    def _begin_anew(self, steps):
        self.settled, self.ending = False, ""
        for step in steps:
            step.parked, step.failed, step.not_before, step.not_after = "", False, 0, 0
            step.failures = step.expiries = step.unstarted = 0
            step.vague = step.renewed = False

    def _on_retried(self, rest):
        if rest[0] != "all":
            self._begin_anew([self.steps[int(rest[0])]])
            return
        still = [s for s in self.steps if s.parked or s.failed]
        self._begin_anew(still)
        for i, step in enumerate(self.steps):
            step.vague = self._tries_used_up(i, step) or self.hold and step in still

    def _tries_used_up(self, i, step):
        """It is about to be parked or given up, or begins anew without an entry."""
        if step.flying or not step.attempt:
            return False
        terms = self.terms(i, step.back)
        return step.failures >= terms.maximum_attempts or step.expiries >= terms.maximum_expiries

    def _on_step_edited(self, i, step, rest):
        self.turn += 1
        step.by_hand = True
        step.arguments = self.reasons.control().retry.arguments
        self._begin_anew([step])

    def _on_step_resolved(self, i, step, rest):
        self.require(not self.is_there(i, self.back) and not self.missing(i, self.back), "I2",
                     "resolved though it was there, or before its neighbours")
        self.turn += 1
        step.current, step.by_hand = rest[1], True
        self._give(i, step, {self.reasons.control().resolve.result.SerializeToString()})
        self._begin_anew([step])
