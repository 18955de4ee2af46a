# SPDX-License-Identifier: Apache-2.0
"""Compares a job's history with all other evidence: client, handlers, broker"""

import collections

from run_evidence import Violation
from reasons import command_name

import wire

EARLY_MS = 500  # a record may precede the trace of its reply by so much
CHANGING = ("enable", "disable", "cancel", "kill", "pause", "resume", "retry", "resolve", "migrate")
DONE_OR_UNKNOWN = {wire.ANSWER_CODE_DONE, wire.ANSWER_CODE_UNKNOWN_JOB}
RECORDED = ("done", "undone", "failed", "deferred")  # by a reply


class Story:
    """One job. @trace: the messages that the broker has traced, see Trace."""

    def __init__(self, evidence, job, replay, trace):
        self.evidence, self.job, self.replay, self.trace = evidence, job, replay, trace
        self.world = evidence.world
        self.violations = []
        self.flights = {}  # (key, attempt) -> Flight
        if replay:
            for flight in replay.flights.values():
                self.flights[(replay.key(flight.number, flight.turn), flight.attempt)] = flight

    def judge(self):
        self._accepted()
        if self.replay and self.replay.whole and not self.replay.violations:
            self._notifications()
            if not self._may_have_forgotten():
                self._answered()
            self._leases()
            self._requested()
            if not self.job.lost:
                self._caused()
                self._overlaps()
                self._order()
                self._undone()
            self._replies()
            self._lateness()
            self._settled()
            self._moves()
            self._alerts()
        return self.violations

    def say(self, rule, step, text):
        self.violations.append(Violation(rule, self.job.id, step, text))

    # --- client ---

    def _accepted(self):
        """I1, I10: an accepted job is in the store, and no other."""
        if self.job.accepted and not self.job.history and self.world.durable:
            self.say("I1", "", "was accepted, and is not in the store")
        lost = [e for e in self.job.lost if not self.world.replicated or self._has_heard(e)]
        if lost and self.world.durable:
            self.say("I1", "", f"the store has forgotten {len(lost)} entries, from {lost[0].text}"
                               " on")
        if self.job.history and not self.job.submits:
            self.say("I10", "", "was never submitted")
        self._received()

    def _has_heard(self, entry):
        """Whether the client has heard of an entry: of the creation of the job, or of an end."""
        at = int(entry.at)
        if entry.event == "created":
            return any(receipt.message.recorded_at == at for receipt in self.job.accepted)
        return entry.event == "settled" and any(
            (event.kind, event.seq, event.at) == (wire.EVENT_KIND_SETTLED, int(entry.seq), at)
            for _, event in self.job.events)

    def _received(self):
        """I10: what the Receipts say is true."""
        receipts = [seen.message for seen in self.job.receipts]
        refused = [r for r in receipts if r.code == wire.RECEIPT_CODE_REJECTED]
        all_refused = len(self.job.submits) <= len(refused)
        if refused and self.job.history and not self.job.accepted and all_refused:
            self.say("I10", "", f"was refused for its {refused[0].field}, and is there")
        created = {r.recorded_at for r in receipts if r.code == wire.RECEIPT_CODE_CREATED}
        if not created or self._may_have_forgotten():
            return
        entry = self.job.history[0] if self.job.history else None
        if len(created) > 1:
            self.say("I10", "", f"was created {len(created)} times")
        elif entry and entry.event == "created" and int(entry.at) not in created:
            self.say("I10", "", f"was created at {created.pop()} by its Receipt, and at {entry.at}")

    def _may_have_forgotten(self):
        """Includes entries that were lost before they were copied."""
        return bool(self.job.lost) or not self.world.durable

    def _is_before_its_creation(self, at):
        """Whether the job, as the store has it, was created later: the store has forgotten it, and
        it was submitted again."""
        first = self.job.history[0]
        return self._may_have_forgotten() and first.event == "created" and at < int(first.at)

    def _answered(self):
        """I6: a command answered DONE is in the history, and the other way round."""
        for seen in self.job.commands:
            command_id = seen.message.command_id
            codes = {answer.message.code for answer in self.evidence.answers.get(command_id, ())
                     if answer.message.job_id == self.job.id}
            carried_out = command_id in self.replay.commands
            changing = command_name(seen.message) in CHANGING
            if wire.ANSWER_CODE_DONE in codes and not carried_out and changing:
                self.say("I6", "",
                         f"command {command_id} was answered DONE, and is not in the history")
            elif carried_out and codes and not codes & DONE_OR_UNKNOWN:
                self.say("I6", "", f"command {command_id} was carried out, and answered otherwise")

    def _notifications(self):
        """I11: each settled turn has a notification, and nothing else has."""
        by_seq = collections.defaultdict(list)
        for at, event in self.job.events:
            if event.kind == wire.EVENT_KIND_SETTLED:
                by_seq[event.seq].append(event)
        settlings = {s.seq: s for s in self.replay.settlings}
        for seq, events in by_seq.items():
            settling = settlings.get(seq)
            if not settling and not self.job.lost:
                self.say("I11", "", f"an event of an end by entry {seq}, which is no end")
            for event in events if settling else []:
                outcome = wire.Outcome.Name(event.outcome)[len("OUTCOME_"):]
                if (outcome, event.turn) != (settling.outcome, settling.turn):
                    self.say("I11", "", f"ended {settling.outcome} in turn {settling.turn}, and"
                                        f" the event says {outcome} in turn {event.turn}")
                self._event_results(settling, event)
        deaf = [f.at for f in self.evidence.faults if f.what == "client's queue lost"]
        for settling in self.replay.settlings:
            excused = any(at >= settling.at - self.world.slack_ms for at in deaf)
            if settling.seq not in by_seq and self.world.complete and not excused:
                self.say("I11", "", f"ended {settling.outcome} by entry {settling.seq}, and the"
                                    f" client has no event of it")

    def _event_results(self, settling, event):
        """A notification has the results of that moment or later ones: it may be read after the job
        went on."""
        given_by = dict(zip(self.replay.definition.names, self.replay.given))
        for result in event.results:
            given = given_by.get(result.step, ())
            if None not in given and result.payload.SerializeToString() not in given:
                self.say("I11", result.step, "an event with a result that the step has not given")
        if settling.seq != self.replay.seq:
            return
        named = {result.step for result in event.results} | set(event.results_left_out)
        for i in self.replay.definition.sinks:
            name, results = self.replay.name(i), settling.results[i]
            if results and b"" not in results and name not in named:
                self.say("I11", name, "has given a result that is not in the event")

    # --- handlers ---

    def _journaled(self, flight):
        return self.replay.terms(flight.number, flight.back).actor in self.world.journaled

    def _leases(self):
        """I4: nothing happens after the agent's own lease."""
        begun = {run.pid: run for run in self.job.runs}
        for run in self.job.runs:
            if run.limit <= 0:
                self.say("I4", self._step(run.key), f"{run.key} began when its lease was over")
            for at, code in run.ends:
                if at > self._lease_end(run):
                    self.say("I4", self._step(run.key), f"{run.key} ran {at - run.at} ms, and had"
                                                        f" {run.limit}")
        for effect in self.job.effects:
            run = begun.get(effect.pid)
            if run and effect.at > self._lease_end(run):
                self.say("I4", self._step(run.key),
                         f"{effect.what} of {effect.key} after the lease")

    def _lease_end(self, run):
        """Includes the time that a busy machine may take to end the run, less than half another
        lease."""
        flight = self.flights.get((run.key, run.attempt))
        slack = self.world.slack_ms
        if flight:
            slack = min(slack, self.replay.terms(flight.number, flight.back).lock_ms // 2)
        return run.at + run.limit + slack

    @staticmethod
    def _step(key):
        return key.split("/")[1]

    def _requested(self):
        """I10: each run has a request."""
        for run in self.job.runs:
            flight = self.flights.get((run.key, run.attempt))
            if not flight and not self.job.lost and not self._is_before_its_creation(run.at):
                self.say("I10", self._step(run.key), f"attempt {run.attempt} of {run.key} ran, and"
                                                     f" was never dispatched")
            elif (flight and run.at < flight.at - 1
                  and not (self._may_have_forgotten() or self.replay.clock_set)):
                self.say("I10", flight.step,
                         f"attempt {run.attempt} of {run.key} ran {flight.at - run.at} ms"
                         f" before it was dispatched")

    def _caused(self):
        """I10: each completion has a run that succeeded before."""
        good = collections.defaultdict(list)
        for run in self.job.runs:
            good[(run.key, run.attempt)] += [at for at, code in run.ends if code == 0]
        for (key, attempt), flight in self.flights.items():
            if flight.end not in ("done", "undone") or not self._journaled(flight):
                continue
            if not any(at <= flight.ended + 1 for at in good[(key, attempt)]):
                self.say("I10", flight.step, f"{flight.end}, and no run of attempt {attempt} of"
                                             f" {key} has ended well")

    def _overlaps(self):
        """I7: two runs of a step overlap only if the first had lost its lease, or the request came
        twice."""
        of_step = collections.defaultdict(list)
        for run in self.job.runs:
            of_step[self._step(run.key)].append(run)
        for step, runs in of_step.items():
            for k, later in enumerate(runs):
                for earlier in runs[:k]:
                    if any(at > later.at for at, _ in earlier.ends):
                        self._may_overlap(step, earlier, later)

    def _may_overlap(self, step, earlier, later):
        before, after = [self.flights.get((run.key, run.attempt)) for run in (earlier, later)]
        if before is after:
            excused = not before or self._twice(before, later)
        else:
            lost = ("expired", "silent", "unstarted", "unroutable")
            excused = before and before.end in lost and before.ended <= later.at + 1
            # one of several runs of an attempt that another run has answered, or a run that came
            # after the next attempt
            excused = excused or any(flight and self._twice(flight, later)
                                     for flight in (before, after))
        if not excused:
            self.say("I7", step, f"{later.key} attempt {later.attempt} began while {earlier.key}"
                                 f" attempt {earlier.attempt} was running")

    def _twice(self, flight, until):
        """Whether the request may have come more than once, as far as can be seen when @until
        begins."""
        return self.evidence.blind(flight.at, until.at) or self.trace.copies(flight.token) > 1

    def _order(self):
        """I5, I8: what was done and undone, in the order in which it happened."""
        definition = self.replay.definition
        numbers = {name: i for i, name in enumerate(definition.names)}
        journaled = [t.actor in self.world.journaled for t in definition.forward]
        done = collections.defaultdict(set)  # step -> keys that are done and not taken back
        if any(step.by_hand for step in self.replay.steps):
            return
        for effect in self.job.effects:
            name = self._step(effect.key)
            i = numbers.get(name)
            if i is None:
                continue
            if effect.what == "EFFECT" or effect.what == "AGAIN" and effect.run_key == effect.key:
                if effect.key not in done[i]:
                    missing = [definition.names[k] for k in definition.after[i]
                               if journaled[k] and not done[k]]
                    if missing:
                        self.say("I8", name, f"{effect.key} was done before {', '.join(missing)}")
                done[i].add(effect.key)
            elif effect.what == "UNDO" or effect.what == "AGAIN" and effect.key in done[i]:
                left = [definition.names[k] for k in definition.dependents[i]
                        if done[k] and definition.revert[k]]
                if left:
                    self.say("I5", name, f"{effect.key} was undone before {', '.join(left)}")
                if effect.key not in done[i]:
                    self.say("I5", name, f"{effect.key} was undone twice, or never done")
                done[i].discard(effect.key)
        self.done = done

    def _undone(self):
        """I5: in the end exactly those steps are done that the job's records show as done."""
        if not self.replay.settled or any(step.by_hand for step in self.replay.steps):
            return
        for i, step in enumerate(self.replay.steps):
            terms, revert = self.replay.definition.forward[i], self.replay.definition.revert[i]
            if terms.actor not in self.world.journaled or step.current not in ("A", "D"):
                continue
            if step.flying:  # of a job that was killed: its effect is unknown
                continue
            if revert and revert.actor not in self.world.journaled:
                continue
            keys = self.done[i]
            if step.current == "A" and self.replay.key(i, step.forward) not in keys:
                self.say("I5", self.replay.name(i), "is ACTIVE, and its effect is not there")
            if step.current == "A" and len(keys) > 1 and revert:
                self.say("I5", self.replay.name(i), f"is done more than once: {sorted(keys)}")
            if step.current == "D" and keys and revert:
                self.say("I5", self.replay.name(i), f"is DISABLED, and {sorted(keys)} still there")

    # --- broker ---

    def _replies(self):
        """I3, I4, I12: requests are as promised, and replies have the right tokens."""
        for flight in self.replay.flights.values():
            request = self.trace.request(flight.token, self.job.id)
            if request:
                self._promised(flight, request)
            replies = self.trace.replies.get(flight.token, [])
            if flight.end in RECORDED and not replies:
                if not self.evidence.blind(flight.at, flight.ended):
                    self.say("I3", flight.step, f"{flight.end} by {flight.token}, and no reply"
                                                f" carried it")
            elif flight.end in RECORDED and not self.replay.clock_set:
                early = min((since for since, _ in replies), default=0) - flight.ended
                if early > EARLY_MS and not self.evidence.blind(flight.at, flight.ended):
                    self.say("I3", flight.step, f"{flight.end} {early} ms before a reply carried"
                                                f" {flight.token}")
        for token, request in self.trace.of_job(self.job.id):
            if (token not in self.replay.flights and not self.job.lost
                    and not self._is_before_its_creation(self.trace.asked[token])):
                self.say("I10", request.step, f"a request with the token {token}, never dispatched")

    def _promised(self, flight, request):
        terms = self.replay.terms(flight.number, flight.back)
        key = self.replay.key(flight.number, flight.turn)
        left = self.replay.left(flight.back, request.sent_at)
        expected = {"job_id": self.job.id, "step": flight.step, "actor": terms.actor,
                    "action": terms.action, "lock_ms": min(terms.lock_ms, left or terms.lock_ms),
                    "attempt": flight.attempt,
                    "idempotency_key": key, "forward_key": "",
                    "desired": wire.STATE_DISABLED if flight.back else wire.STATE_ACTIVE}
        if flight.back and flight.forward:
            expected["forward_key"] = self.replay.key(flight.number, flight.forward)
        for name, value in expected.items():
            if getattr(request, name) != value:
                self.say("I12", flight.step, f"a request with {name} {getattr(request, name)}, not"
                                             f" {value}")
        self._carried(flight, request)

    def _carried(self, flight, request):
        """The data of a request."""
        fields = dict(flight.carries)
        results = fields.pop("results")
        for name, values in fields.items():
            value = getattr(request, name)
            value = value if isinstance(value, int) else value.SerializeToString()
            if values is not None and value not in values:
                self.say("I12", flight.step, f"a request with {name} {value}, not {values}")
        given = {result.step: result.payload.SerializeToString() for result in request.results}
        for step, values in results:
            if values is not None and given.get(step, b"") not in values:
                self.say("I12", flight.step, f"a request with another result of {step}")
        if set(given) - {step for step, _ in results}:
            self.say("I12", flight.step, f"a request with results of {sorted(given)}")

    # --- liveness ---

    def _lateness(self):
        """L2: an expired dispatch is recovered within two periods of the supervisor."""
        if not self.world.scan_ms or self.replay.clock_set:
            return
        over = self.evidence.faults_over()
        for flight in self.replay.flights.values():
            late = (flight.ended or 0) - flight.till - 2 * self.world.scan_ms
            ended = flight.end in ("expired", "silent") and flight.till > over
            if ended and late > self.world.slack_ms * 5:
                self.say("L2", flight.step, f"expired {late} ms late")

    def _settled(self):
        """L1: it has ended in time, or a person is expected to act."""
        within = self.world.settle_within_ms
        if not self.world.complete:
            return
        if not self.replay.settled and not self.replay.waits():
            flying = ", ".join(flight.step for flight in self.replay.flying())
            self.say("L1", "", f"has not ended; in flight: {flying or 'nothing'}")
        elif self.replay.settled and within is not None:
            words = [seen.at for seen in self.job.submits + self.job.commands]
            late = self.replay.settlings[-1].at - max([self.evidence.faults_over(), *words])
            if late > within:
                self.say("L1", "", f"has ended {late} ms after all was well, not within {within}")

    def _moves(self):
        """L1: after the faults nothing waits longer than for its lease, its backoff, or a
        supervisor's period."""
        if not self.replay.clock_set:
            late, at = self.replay.latest_move(self.evidence.faults_over(), self.world)
            if late > self.world.late_ms:
                self.say("L1", "",
                         f"stood still {late} ms longer than for a lease or a backoff, until {at}")

    def _alerts(self):
        """L3: a parked step has an alert."""
        listened = self.world.listens and not any(f.what == "client's queue lost"
                                                  for f in self.evidence.faults)
        alerts = self.trace.alerts[self.job.id] + [seen.message for seen in self.job.events]
        parked = [alert for alert in alerts
                  if alert.kind == wire.EVENT_KIND_ALERT and alert.reason == "PARKED"]
        for at, i, reason, news in self.replay.parkings:
            name = self.replay.name(i)
            if not news or not listened and self.evidence.blind(at, float("inf")):
                continue
            if not any(alert.step == name and alert.at >= at for alert in parked):
                self.say("L3", name, f"parked for {reason}, without an alert")


class Trace:
    """The messages that went through the broker, by token id and by job."""

    def __init__(self, evidence):
        self._evidence = evidence
        self._requests = collections.defaultdict(dict)  # token id -> token -> StepRequest
        self.asked = {}  # token -> when its request was seen first
        self.replies = collections.defaultdict(list)  # token -> (earliest time, StepReply)
        self.alerts = collections.defaultdict(list)  # job -> JobEvent
        self._published, self._redelivered = collections.Counter(), collections.Counter()
        self._of_job = collections.defaultdict(list)
        self._progress, self._had = collections.defaultdict(list), set()
        for passed in evidence.trace:
            if passed.place == "drover.tasks" or passed.place.startswith("drover.task."):
                self._take_requests(passed)
            elif wire.is_reply_exchange(passed.place) and passed.way == "publish":
                replies = self._parse(wire.Replies, passed.body)
                for reply in replies.replies:
                    self.replies[wire.token_id(reply.token)].append((passed.since, reply))
                for progress in replies.progress:
                    self._progress[wire.token_id(progress.token)].append(passed.at)
            elif passed.place == "drover.events" and passed.way == "publish":
                event = self._parse(wire.JobEvent, passed.body)
                self.alerts[event.job_id].append(event)

    @staticmethod
    def _parse(kind, body):
        message = kind()
        try:
            message.ParseFromString(body)
        except Exception:  # some tests send bodies that cannot be decoded
            return kind()
        return message

    def _take_requests(self, passed):
        for request in self._parse(wire.Requests, passed.body).requests:
            token = wire.token_id(request.token)
            if request.token not in self._requests[token]:
                self._requests[token][request.token] = request
                self.asked.setdefault(token, passed.at)
                self._of_job[request.job_id].append(token)
            self._published[token] += passed.way == "publish"
            self._redelivered[token] += passed.way == "deliver" and passed.redelivered
            if passed.way == "deliver" and passed.place != "drover.expired":
                self._had.add(token)

    def request(self, token, job_id):
        """The request of a dispatch, or None. The tokens of two jobs may have the same id, which is
        short."""
        requests = self._requests.get(token, {}).values()
        return next(iter([r for r in requests if r.job_id == job_id] or requests), None)

    def had(self, flight):
        """Whether an agent may have had its request."""
        return self.surely_had(flight) or self._evidence.blind(flight.at, flight.ended)

    def surely_had(self, flight):
        return flight.token in self._had or bool(self._progress[flight.token])

    def progress(self, flight):
        """The times of its Progress; None if some may be missing in the trace."""
        if self._evidence.blind(flight.at, flight.ended):
            return None
        return [at for at in self._progress[flight.token] if at >= flight.since - EARLY_MS]

    def fault_before(self, at):
        return any(fault.at <= at + EARLY_MS for fault in self._evidence.faults)

    def answers(self, flight):
        """The replies that may have ended a dispatch; none if some may be missing in the trace."""
        if self._evidence.blind(flight.at, flight.ended):
            return []
        return [reply for since, reply in self.replies.get(flight.token, [])
                if since <= flight.ended + EARLY_MS]

    def copies(self, token):
        """How often an agent may have received the request."""
        return max(self._published[token], 1) + self._redelivered[token]

    def of_job(self, job_id):
        return [(token, self.request(token, job_id)) for token in self._of_job[job_id]]
