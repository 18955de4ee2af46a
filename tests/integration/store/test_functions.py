# SPDX-License-Identifier: Apache-2.0
"""Calls the store functions one by one, in orders of calls that processes seldom produce. With
DROVER_SIMULATED=build/tests/sim/simulated-redis it calls the simulator's Redis."""

import collections
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import redis
import servers
import tap
import wire
from store_library import LIBRARY, library, schema

SIMULATED = os.environ.get("DROVER_SIMULATED")
KEYS = "drover:{p0}:"
NONCES = [f"{n:016x}" for n in range(1, 10)]
JOB = "one"
# The terms of a step, in the order of terms() in definitions.lua: a lease, one attempt and one
# expiry, then the step is parked for good.
HEARTBEATS = "3600000 0 300 1 1 1 1 1 0 -1 PP|"
SHORT = "1 1 0 1 1 1 1 1 0 -1 PP|"
LONG = "60000 60000 0 1 1 1 1 1 0 -1 PP|"
FAILS = "60000 60000 0 1 1 1 1 1 0 -1 FP|"  # a permanent failure fails the step, and the job
COMPENSATES = "60000 60000 0 1 1 1 1 1 0 -1 CP|"  # a permanent failure turns the job
# backs off 10 ms, then a thousand times that, at most 20 ms
BACKS_OFF = "60000 60000 0 10 1000 20 9 9 0 -1 PP|"
# parked after one failure, and tried again each ten minutes
PARKS_FOR_A_TIME = "60000 60000 0 1 1 1 1 1 0 600000 PP|"
# the same, with a lease that a test can let pass
ONE_EXPIRY = "20000 20000 0 1 1 1 1 1 0 600000 PP|"
NINE_EXPIRIES = "20000 20000 0 1 1 1 1 9 0 600000 PP|"  # the same, with nine expiries
# keys of one job, and of labels that no other job has
JOB_KEYS = re.compile(r":(job:|data:|hist:|l:\d)")
FAR = 10**14  # a time that no test reaches
BUDGET = 250  # steps that one call may touch
DATA_MAX = 2**26  # bytes of input and results of a job


@contextlib.contextmanager
def real_redis():
    with servers.Redis() as server:
        yield redis.Redis(servers.HOST, server.port, decode_responses=True)


@contextlib.contextmanager
def simulated_redis():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/socket")
        listener.listen()
        with subprocess.Popen([SIMULATED], stdin=listener) as process:
            yield redis.Redis(unix_socket_path=f"{folder}/socket", decode_responses=True)
            process.terminate()


# What a scheduler reads of a notification, and the form of each value.
NOTIFICATION = {
    "code": "FOUND", "n": r"\d{1,5}", "tries": r"\d", "phase": "[A-Z]+", "turn": r"\d{1,10}",
    "at": r"\d+", "open": r"\d{1,5}",
    "outcome": "ALERT|KILLED|SUCCEEDED|COMPENSATED|FAILED|CANCELLED",
}


def an_error(message):
    """An encoded Error with details."""
    return without_details(message) + "\x1a\x03log"


def without_details(message):
    """The same Error without its details, as the store passes it on."""
    return f"\x0a\x03BAD\x12{chr(len(message))}{message}"


def results_of(answer):
    return {result.step: result.payload for result in answer.results}


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.redis = cls.enterClassContext(simulated_redis() if SIMULATED else real_redis())
        cls.load_library()

    @classmethod
    def load_library(cls, *changed):
        """Loads the library, whose clock a test can move. changed: (text, other): that text of the
        library is replaced by another."""
        text = LIBRARY
        clock = "unpack(call('TIME'))\n  return "
        for old, new in [(clock, f"{clock}(call('GET', 'skew') or 0) + "), *changed]:
            assert text.count(old) == 1
            text = text.replace(old, new)
        cls.redis.function_load(text, replace=True)

    def setUp(self):
        self.redis.flushall()

    def ask(self, function, **arguments):
        """Returns what a store function answers, as a list. schema.txt names its arguments."""
        name = f"drover1_{function.split()[0]}"
        try:
            return self.redis.fcall(name, 1, KEYS, *schema.arguments(function, **arguments))
        except redis.ResponseError as error:
            raise redis.ResponseError(library.with_places(str(error), LIBRARY)) from None

    def call(self, function, **arguments):
        """Returns the answer as an object."""
        return schema.answer(function, self.ask(function, **arguments))

    def define(
        self, name, *steps, after=None, take=None, revert="", on_deadline="P", tries=1, interval=0,
        coefficient=2, expected=0, complete_within=0, names=None, actors=None, revert_actor="",
    ):
        """Stores a definition of steps with these terms. after: maps a step to the one before it.
        take: maps a step to those whose results it gets. revert: the terms of the undo, the same
        for all steps. Without names and actors the definition is as builds before 36 stored it."""
        after, take = after or {}, take or {}
        roots = [str(i) for i in range(len(steps)) if i not in after]
        fields = [
            ("job", f"{on_deadline} {tries} {expected} {interval} {coefficient} {complete_within}"),
            ("r", f"0 0 0 0 0 0 0 0 0 0 PP||0 {len(roots)} 00|||{' '.join(roots)}"),
        ]
        for i, terms in enumerate(steps):
            next_ = [str(k) for k in after if after[k] == i]
            counts = f"{int(i in after)} {len(next_)} {int(revert != '')}0"
            taken = " ".join(map(str, take.get(i, [])))
            named = (f"|{names[i]}" if names else "") + (f"|{actors[i]}" if actors else "")
            back = f"{revert}|{revert_actor}" if revert_actor else revert
            fields += [
                (i, f"{terms}|{counts}|{taken}|{after.get(i, '')}|{' '.join(next_)}{named}"),
                (f"v{i}", back),
            ]
            fields += [(f"x{names[i]}", i)] if names else []
        self.assertEqual("DEFINED", self.define_piece(name, "", 0, len(steps), fields=fields).code)

    def define_piece(self, digest, name, version, total, blob="", last=1, registered=0, fields=()):
        """Stores a definition, or a piece of one."""
        return self.call(
            "define", digest=digest, name=name, version=version, total=total, blob=blob, last=last,
            registered=registered, fields=fields,
        )

    def submit_call(
        self, digest="d", start_at=0, complete_by=0, reply_to="", labels="", owner="",
        definition="d", job=JOB, limits=(0, 0, 0), data=(), events="job", workflow="",
        redelivered=0, nonce=NONCES[0],
    ):
        """Returns the answer of submit. owner: who submits the job; a job that exists must have
        this owner."""
        horizon, jobs, size = limits
        return self.call(
            "submit", job_id=job, digest=digest, definition=definition, workflow=workflow,
            redelivered=redelivered, nonce=nonce, by="me", desired="A", start_at=start_at,
            complete_by=complete_by, events=events, priority=0, reply_to=reply_to, labels=labels,
            owner=owner, horizon=horizon, jobs=jobs, bytes=size,
            fields=[*data, ("submitter", owner)],
        )

    def submit_without_owner(self, nonce, job=JOB):
        """Submits as builds before 36 did: the call has no owner."""
        return self.call(
            "submit", job_id=job, digest="d", definition="d", redelivered=0, nonce=nonce, by="me",
            desired="A", start_at=0, complete_by=0, priority=0, labels="",
        )

    def submit(self, *steps, start_at=0, complete_by=0, labels="", **definition):
        """Submits a job of these steps. Unless `after` says otherwise they do not depend on each
        other, and all of them are in flight."""
        self.define("d", *steps, **definition)
        self.assertEqual(
            "CREATED",
            self.submit_call(start_at=start_at, complete_by=complete_by, labels=labels).code,
        )
        for _ in range(len(steps) // BUDGET):
            self.drive()
        if not start_at and not definition.get("after"):
            self.assertEqual(["R"] * len(steps), [self.step(i).state for i in range(len(steps))])

    def reply(
        self, kind, token, result="", job=JOB, redelivered=0, retry_after=0, step="", actor="",
        error="", class_="", agent="", by="me", nonce=None,
    ):
        nonce = nonce or (NONCES[3] if redelivered else NONCES[1])
        report = schema.values(
            "report", kind=kind, job_id=job, token=token, redelivered=redelivered, nonce=nonce,
            fraction=0, result=result, error=error, error_class=class_, retry_after=retry_after,
            effect="", step=step, actor=actor, agent=agent,
        )
        (transition,) = self.call("record", by=by, reports=[report]).transitions
        return transition

    def record(self, kind, i=0, result="", error="", class_="", agent=""):
        """Records a reply to the request of step i that is in flight."""
        answer = self.reply(
            kind, self.step(i).token, result, error=error, class_=class_, agent=agent
        )
        self.assertEqual("RECORDED", answer.code)
        return answer

    def renew(self, token, fraction="0.5", note="", elapsed=0, actor=""):
        return self.call(
            "renew", job_id=JOB, token=token, fraction=fraction, note=note, elapsed=elapsed,
            actor=actor,
        )

    def wanted(self, **more):
        """Returns the code of a Progress for step 0, and whether the attempt is still wanted."""
        answer = self.renew(self.step(0).token, **more)
        return answer.code, answer.wanted

    def command(
        self, name, *arguments, job=JOB, command_id="", issued_at=0, owner="", most=0, said="-",
        redelivered=0, definition="",
    ):
        """Returns the answer. most: the bytes that the jobs of the owner may take."""
        return self.call(
            "steer", job_id=job, command_name=name, command_id=command_id, issued_at=issued_at,
            if_seq=0, said=said, by="me", nonce=NONCES[2], redelivered=redelivered,
            definition=definition, owner=owner, bytes=most, arguments=arguments,
        )

    def steer(self, *command, **more):
        """Returns the code of the answer, and the reason if the command was refused."""
        answer = self.command(*command, **more)
        return answer.code if answer.why == "-" else (answer.code, answer.why)

    def alerts(self, answer):
        """Returns the reasons of the alerts in an answer."""
        return [alert.reason for alert in answer.alerts]

    def outbox(self):
        """Returns the notifications in the outbox."""
        return [schema.words("notification", member) for member in self.index("owed")]

    def recorded_at(self, job_id, seq):
        """Returns when a notification was recorded."""
        record = self.redis.hget(f"{KEYS}data:{job_id}", f"s{seq}") or ""
        found = re.fullmatch(r"\S+ \S+ \d+ (\d+) \d+ \S* ?[\d ]*", record)
        return found[1] if found else "0"

    def confirm(self, *entries):
        """Deletes notifications from the outbox."""
        for e in entries:
            self.call("settle_owed", job_id=e.job_id, seq=e.seq,
                      at=self.recorded_at(e.job_id, e.seq))

    def defer(self, seq, tries):
        """A try to publish this notification has failed, after so many others. Returns the code."""
        return self.call("defer_owed", job_id=JOB, seq=seq, at=self.recorded_at(JOB, seq),
                         tries=tries).code

    def pass_time(self, ms):
        self.redis.set("skew", ms + int(self.redis.get("skew") or 0))

    def notification(self, entry, *steps, limit=1000):
        return self.call(
            "inspect notice", job_id=entry.job_id, seq=entry.seq, limit=limit, steps=steps
        )

    def inspect_job(self, start=0, count=9, with_data=1, owner=""):
        return self.call(
            "inspect job", job_id=JOB, start=start, count=count, with_data=with_data, owner=owner
        )

    def inspect_history(self, start, limit, owner=""):
        return self.call("inspect history", job_id=JOB, start=start, limit=limit, owner=owner)

    def inspect_jobs(self, *labels, limit=9, phase="", workflow="", needs="", class_="", actor=""):
        return self.call(
            "inspect jobs", before="+inf", before_id="", since=0, limit=limit, phase=phase,
            workflow=workflow, needs=needs, error_class=class_, actor=actor, labels=labels,
        )

    def forget(self, retention=0, limit=9):
        """Returns how many jobs were deleted, and whether there may be more."""
        answer = self.call("forget", retention=retention, limit=limit)
        return [answer.jobs, answer.more]

    def forget_all(self):
        """Forgets jobs that have ended, after their notifications are confirmed."""
        self.confirm(*self.outbox())
        self.forget(limit=10)

    def retry_all(self):
        return self.steer("retry", "")

    def drive(self, *steps, again=0, nonce=NONCES[1]):
        return self.call("drive", job_id=JOB, nonce=nonce, by="me", again=again, steps=steps)

    def unsent(self, number, *tokens, nonce=NONCES[1]):
        """Returns the tokens of the requests that are still wanted."""
        answer = self.call("unsent", job_id=JOB, nonce=nonce, by="me", number=number, tokens=tokens)
        return [request.token for request in answer.requests]

    def now(self):
        seconds, micros = self.redis.time()
        return seconds * 1000 + micros // 1000 + int(self.redis.get("skew") or 0)

    def job(self, *fields):
        return self.redis.hmget(f"{KEYS}job:{JOB}", fields)

    def field(self, name):
        """Returns a field of the job."""
        return self.redis.hget(f"{KEYS}job:{JOB}", name)

    def step(self, i, words=""):
        """Returns the record of step i, or a list of these words of it."""
        record = schema.words("step_record", self.field(i))
        return [getattr(record, word) for word in words.split()] if words else record

    def set_step(self, i, **words):
        record = {**vars(self.step(i)), **words}
        self.redis.hset(
            f"{KEYS}job:{JOB}", i, " ".join(word for word in record.values() if word is not None)
        )

    def history(self):
        return self.redis.lrange(f"{KEYS}hist:{JOB}", 0, -1)

    def entries(self):
        """Yields the entries of the history. `about` has the words after the event."""
        for text in self.history():
            entry = schema.words("history_entry", text)
            entry.about = text.split(" ")[len(vars(entry)):]
            yield entry

    def events(self):
        return [entry.event for entry in self.entries()]

    def entries_after(self, event):
        """Returns what follows the event in the history, for each time it is there."""
        return [entry.about for entry in self.entries() if entry.event == event]

    def step_entries(self, *events):
        """Returns the entries of the history for these events of dispatches."""
        entries = [schema.words("step_entry", text) for text in self.history()]
        return [entry for entry in entries if entry.event in events]

    def scanned(self):
        """Returns the step that a scan in pieces has reached."""
        return self.field("scan").partition(" ")[0]

    def index(self, name):
        return self.redis.zrange(f"{KEYS}{name}", 0, -1)

    def expire(self, dry_run=False, limit=9, jump=0, after=0, at=0):
        """Returns the answer of expire, or of its dry run."""
        arguments = {
            "skip": 0, "limit": limit, "lease_factor": 0, "latest": 0, "since": 1, "jump": jump,
            "after": after, "at": at,
        }
        if dry_run:
            return self.dry_run("expire", **arguments)
        return self.call("expire", **arguments)

    def named(self, expired):
        """Returns what an answer of expire names: jobs, each with the number of steps that have
        expired and with its steps; and notifications."""
        return (
            [(due.job_id, due.expired, due.steps) for due in expired.dues],
            [(entry.job_id, entry.seq) for entry in expired.notifications],
        )

    def dry_run(self, function, **arguments):
        return schema.answer(
            function,
            self.ask("look", name=function, arguments=schema.arguments(function, **arguments)),
        )

    def sweep(self, cursor="", dry_run=False):
        """Returns the job, and what was repaired there. Puts the next cursor in self.cursor."""
        call = self.dry_run if dry_run else self.call
        answer = call("sweep", cursor=cursor)
        self.cursor = answer.cursor
        return [answer.job_id, *answer.places]

    def await_named(self, i):
        """Waits until LockedUntil or the timer of the step has passed and `expire` has named the
        step. Nothing is driven."""
        servers.wait_for(
            lambda: self.expire() and self.step(i).state == "M", "the step to be named"
        )

    def take(self, token, job=JOB):
        """Stores that a scheduler has seen the request of this token leave its queue."""
        return self.call("taken", job_id=job, token=token)

    def taken(self, i):
        """Stores as evidence that an agent has the request; if its lease ends now, that is an
        expiry."""
        self.assertEqual("TAKEN", self.take(self.step(i).token).code)

    def ms_granted(self):
        """Returns the time from the last entry of the history to that of step 0."""
        *_, last = self.entries()
        return int(self.step(0).until) - int(last.at)

    def expire_begun(self, i):
        self.taken(i)
        self.await_named(i)
        self.assertEqual("1", self.step(i).expiries)

    if not SIMULATED:  # it has no FUNCTION LIST

        def test_a_full_store_refuses_new_jobs(self):
            ((_, _, _, _, _, functions),) = self.redis.function_list(library="drover1")
            flags = {
                function[1].removeprefix("drover1_"): set(function[5]) for function in functions
            }
            refused = {name for name in flags if not flags[name] & {"allow-oom", "no-writes"}}
            self.assertEqual({"define", "submit"}, refused)

    def test_unroutable_request(self):
        """No agent can have begun it."""
        self.submit(LONG)
        self.record("X")
        self.assertEqual(("D", "B"), (self.step(0).current, self.step(0).state))
        self.assertIn("unroutable", self.events())

    def test_unroutable_copy_of_a_request(self):
        """If the request was sent once more, that copy may have found a queue."""
        self.submit(LONG)
        self.drive(0, again=1)
        self.record("X")
        self.assertEqual("U", self.step(0).current)
        self.assertNotIn("unroutable", self.events())

    def test_refused_publish(self):
        """A broker that refuses a publish does not say that no queue has it."""
        self.submit(LONG)
        self.record("K")
        self.assertEqual("U", self.step(0).current)
        self.assertNotIn("unroutable", self.events())

    def test_retry_all_of_a_step_due_to_be_parked(self):
        """The step has used up its expiries, and no call has parked it yet."""
        self.submit(SHORT)
        self.expire_begun(0)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["0", "0"], self.step(0, "failures expiries"))

    def test_retry_all_before_the_walk_reaches_a_step(self):
        """Three steps whose timers have passed begin before the walk reaches them. The one that was
        parked, and the one that is about to be, begin anew; the one that backs off does not."""
        parked, expired, tried = BUDGET, BUDGET + 1, BUDGET + 2
        self.submit(
            *["3600000 60000 0 1 1 1 1 1 0 -1 PP|"] * BUDGET, PARKS_FOR_A_TIME, ONE_EXPIRY,
            BACKS_OFF,
        )
        self.record("T", parked)
        self.record("T", tried)
        self.assertEqual(["P", "B"], [self.step(i).state for i in (parked, tried)])
        self.taken(expired)
        self.redis.set("skew", 700000)
        for i in (parked, expired, tried):
            self.await_named(i)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual([f"y:{BUDGET}"], self.job("cursor"))
        self.drive(parked, expired, tried)
        self.assertEqual(
            [["R", "0", "0"], ["R", "0", "0"], ["R", "1", "0"]],
            [
                [self.step(i).state, *self.step(i, "failures expiries")]
                for i in (parked, expired, tried)
            ],
        )
        self.assertEqual([str(parked)], [entry.step for entry in self.step_entries("parked")])

    def test_retry_all_of_steps_whose_timers_the_end_cancelled(self):
        """The end of a job cancels the timer of a parked step. Retry of all steps begins the step
        anew."""
        self.submit(SHORT, FAILS)
        self.expire_begun(0)
        self.drive(0)
        self.assertEqual("P", self.step(0).state)
        self.record("P", 1)
        self.assertIn("settled", self.events())
        self.assertEqual("DONE", self.retry_all())
        for i in range(2):
            self.assertEqual(
                ["R", "0", "0"], [self.step(i).state, *self.step(i, "failures expiries")]
            )

    def test_retry_all_of_a_permanent_failure_after_the_end(self):
        """It was parked by a permanent error, before it had used up its tries."""
        self.submit(BACKS_OFF, FAILS)
        self.record("P")
        self.assertEqual(["P", "1"], [self.step(0).state, self.step(0).failures])
        self.record("P", 1)
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["R", "0"], [self.step(0).state, self.step(0).failures])

    def test_backoff_has_a_maximum(self):
        self.submit(BACKS_OFF)
        for wait in (10, 20):
            self.record("T")
            self.assertEqual("B", self.step(0).state)
            *_, last = self.entries()
            self.assertEqual("failed", last.event)
            self.assertEqual(wait, int(self.step(0).until) - int(last.at))
            self.await_named(0)
            self.drive(0, nonce=NONCES[3])

    def test_retry_of_one_step_resets_its_failures(self):
        self.submit(LONG)
        self.record("T")
        self.assertEqual(["P", "1"], [self.step(0).state, self.step(0).failures])
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual(["R", "0"], [self.step(0).state, self.step(0).failures])

    def test_new_arguments_for_an_unknown_step_are_refused(self):
        self.submit(LONG)
        self.record("T")
        self.assertEqual(["U", "P"], [self.step(0).current, self.step(0).state])
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.steer("retry", "other arguments", 0))
        self.assertNotIn("edited", self.events())

    def test_deadline_of_a_paused_job(self):
        """A deadline does not replace the hold of a person."""
        self.submit(LONG, complete_within=1)
        self.assertEqual("DONE", self.steer("pause"))
        servers.wait_for(lambda: self.drive() and self.job("late") == ["2"],
                         "the deadline")
        self.assertEqual(["paused"], self.job("hold"))
        self.assertEqual(1, self.events().count("held"))
        self.assertEqual("overdue", self.events()[-1])
        self.assertEqual([f"{JOB} {len(self.events())}"], self.index("owed"))
        self.assertEqual("deadline", self.needs()[0])
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual([""], self.needs())
        self.assertEqual("DONE", self.steer("pause"))
        self.assertEqual([""], self.needs())

    def test_turn_before_start_at(self):
        """The job goes back at once, because nothing was begun, and forward again not before
        start_at."""
        self.submit(LONG, start_at=FAR)
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual(["COMPENSATED", "0"], self.job("outcome", "open"))
        self.assertEqual("DONE", self.steer("enable"))
        self.assertEqual(["PENDING"], self.job("phase"))
        self.assertNotIn("dispatched", self.events())

    def test_orders_of_commands(self):
        """A command that turns the job supersedes earlier ones of that kind; a Retry supersedes
        only Retries."""
        self.submit(LONG)
        self.assertEqual("UNCHANGED", self.steer("retry", "", issued_at=4000))
        self.assertIn("SUPERSEDED", self.steer("retry", "", issued_at=3000))
        self.assertEqual("DONE", self.steer("cancel", issued_at=2000))
        self.assertIn("SUPERSEDED", self.steer("enable", issued_at=1000))
        self.assertEqual(["D"], self.job("desired"))

    def test_resume_of_a_job_without_a_hold(self):
        self.submit(LONG)
        self.assertEqual("UNCHANGED", self.steer("resume"))
        self.assertNotIn("resumed", self.events())

    def test_tries_of_a_job(self):
        """A job that was taken back after a failure goes forward again, as often as its definition
        says."""
        self.submit(COMPENSATES, tries=2)
        self.record("P")
        self.assertEqual(["R", "3"], [self.step(0).state, self.step(0).turn])
        self.record("P")
        self.assertEqual(["COMPENSATED", "FAILURE", "4"], self.job("outcome", "reason", "turn"))

    def test_repeated_command(self):
        """It gets the same answer as before, whatever has happened to the job meanwhile."""
        self.submit(LONG)
        self.assertEqual("DONE", self.steer("pause", command_id="one"))
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual("DONE", self.steer("pause", command_id="one"))
        self.assertEqual([""], self.job("hold"))

    def test_forward_turn_of_an_undo(self):
        """An undo names the turn of the last forward action. New arguments give that a turn of its
        own."""
        self.submit(LONG, LONG, after={1: 0})
        self.steer("disable")
        self.record("A")
        self.assertEqual(["COMPENSATED"], self.job("outcome"))
        self.assertEqual("DONE", self.steer("enable"))
        self.assertEqual("DONE", self.steer("retry", "other arguments", 1))
        self.record("A")
        self.assertEqual(["3", "4"], [self.step(0).forward, self.step(1).forward])

    def test_notification_of_an_earlier_turn(self):
        self.submit(LONG)
        self.steer("disable")
        self.record("A")
        (entry,) = self.outbox()
        self.assertEqual("DONE", self.steer("enable"))
        self.assertEqual([""], self.job("outcome"))
        self.assertEqual("COMPENSATED", self.notification(entry).outcome)

    def test_compensation_failed(self):
        """The turn ends once nothing more can be undone, and not before; the job cannot go forward
        then."""
        self.submit(LONG, LONG, revert=FAILS)
        self.record("A", 0)
        self.record("A", 1)
        self.assertEqual("DONE", self.steer("disable"))
        self.record("P", 0)
        self.assertEqual(
            ["", "F", "R"], [*self.job("outcome"), self.step(0).state, self.step(1).state]
        )
        self.record("P", 1)
        self.assertEqual(["COMPENSATION_FAILED", "0 1"], self.job("outcome", "failed"))
        *_, entry = sorted(self.outbox(), key=lambda entry: int(entry.seq))
        self.assertEqual("0 1", self.notification(entry).failed)
        self.assertIn("WRONG_STATE", self.steer("enable"))

    def migrate(self, name, n, *changed, gone=0):
        return self.steer("migrate", name, n, "", gone, *changed)

    def test_migrate(self):
        """All steps are counted anew. The old definition is deleted because no job uses it any
        more."""
        self.submit(LONG)
        self.define("e", LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 2))
        self.assertEqual(["2"], self.job("open"))
        self.assertEqual("R", self.step(1).state)
        self.assertEqual(0, self.redis.exists(f"{KEYS}def:d"))
        self.assertEqual("1", self.redis.hget(f"{KEYS}def:e", "refs"))

    def test_migrate_during_a_scan(self):
        """The position of a scan in pieces lies behind the last step of the new definition: the
        scan begins anew."""
        self.submit(SHORT, *[LONG] * BUDGET, after={BUDGET: 1})
        self.define("e", SHORT, *[LONG] * (BUDGET - 1))
        self.await_named(0)
        self.assertEqual(str(BUDGET), self.scanned())
        self.assertEqual("DONE", self.migrate("e", BUDGET, BUDGET, gone=1))
        self.expire()
        self.assertEqual([""], self.job("scan"))

    def test_scan_position_past_the_last_step(self):
        """An earlier build left such a position: the scan begins anew. Steps that it has not seen
        are not passed over when the job gets more steps."""
        self.submit(SHORT)
        self.redis.hset(f"{KEYS}job:{JOB}", "scan", f"1 {FAR}")
        self.await_named(0)
        self.assertEqual([""], self.job("scan"))
        self.redis.hset(f"{KEYS}job:{JOB}", "scan", f"1 {FAR}")
        self.define("e", SHORT, LONG)
        self.assertEqual("DONE", self.migrate("e", 2))
        self.assertEqual([""], self.job("scan"))

    def test_migrate_a_step_in_flight(self):
        self.submit(LONG)
        self.define("e", SHORT)
        self.assertIn("WRONG_STATE", self.migrate("e", 1, 0))

    def test_migrate_without_a_step_that_was_sent(self):
        """The request came back, but an agent may have had it: the step may change, but not be left
        out."""
        self.submit(LONG, LONG)
        self.define("e", LONG)
        self.record("N", 1)
        self.assertEqual(["U", "B"], self.step(1, "current state"))
        self.assertIn("WRONG_STATE", self.migrate("e", 1, 1, gone=1))
        self.define("f", LONG, SHORT)
        self.assertEqual("DONE", self.migrate("f", 2, 1))

    def test_migrate_a_resolved_step(self):
        """No agent had the request, so a person did the work and resolved the step. It stays done,
        whatever the other version says."""
        self.submit(LONG, LONG, after={1: 0})
        self.record("X")
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.define("e", SHORT, LONG, after={1: 0})
        self.assertEqual(("WRONG_STATE", "BEGUN"), self.migrate("e", 2, 0))
        self.assertEqual("A", self.step(0).current)

    def test_migrate_a_failed_step(self):
        """The step failed for good because it could not be sent. It has not begun, and leaves the
        list of failed steps."""
        self.submit(FAILS, LONG)
        self.record("P", 1)
        self.record("L", 0)
        self.assertEqual(["F", "0"], [self.step(0).state, *self.job("failed")])
        self.assertEqual("DONE", self.steer("retry", "", 1))
        self.define("e", LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 2, 0))
        self.assertEqual(["R", ""], [self.step(0).state, *self.job("failed")])
        self.record("A", 0)
        self.record("A", 1)
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_migrate_a_step_with_new_arguments(self):
        """The arguments were for the step as it was before; their bytes do not count any more."""
        self.submit(LONG, LONG, after={1: 0})
        self.assertEqual("DONE", self.steer("retry", "better", 1))
        self.assertEqual(["6"], self.job("bytes"))
        self.define("e", LONG, SHORT, after={1: 0})
        self.assertEqual("DONE", self.migrate("e", 2, 1))
        self.assertEqual(["0"], self.job("bytes"))
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", "a1"))

    def test_request_too_large(self):
        """No agent has had the request: there is nothing to undo, and the job goes back without the
        step."""
        self.submit(LONG, COMPENSATES, after={1: 0}, revert=LONG)
        self.record("A")
        self.record("L", 1)
        self.assertEqual(["D", "W"], self.step(1, "current state"))
        self.assertEqual(["D", "R"], [self.step(0).asked, self.step(0).state])

    def test_request_too_large_when_sent_again(self):
        """If another scheduler has sent the request the step is UNKNOWN."""
        self.submit(LONG)
        self.drive(0, again=1)
        self.record("L")
        self.assertEqual(["U", "P"], self.step(0, "current state"))

    def test_request_too_large_at_a_later_attempt(self):
        """If an earlier attempt may have taken effect the step is UNKNOWN."""
        self.submit(BACKS_OFF)
        self.record("T")
        self.await_named(0)
        self.drive(0)
        self.record("L")
        self.assertEqual(["U", "P"], self.step(0, "current state"))

    def test_undo_too_large_after_a_turn(self):
        """The job has turned meanwhile, so the step is where the job wants it."""
        self.submit(LONG, LONG, after={1: 0}, revert=LONG)
        self.record("A")
        self.record("A", 1)
        self.steer("disable")
        self.assertEqual("R", self.step(1).state)
        self.steer("enable")
        self.record("L", 1)
        self.assertEqual(["A", "W"], self.step(1, "current state"))
        self.assertEqual(["PROCESSED", "0"], self.job("phase", "open"))

    def test_alert_for_a_step_parked_for_good(self):
        """The last failure came while the job was ending, so it did not park the step. The Retry of
        another step parks it, does not send it, and alerts."""
        self.submit(FAILS, SHORT)
        self.record("P")
        self.record("T", 1)
        self.assertEqual("W", self.step(1).state)
        answer = self.command("retry", "", 0)
        (alert,) = answer.alerts
        self.assertEqual(
            ["DONE", "1", "A", "PARKED"], [answer.code, alert.step, alert.asked, alert.reason]
        )
        self.assertEqual(["P", "1"], self.step(1, "state attempt"))
        self.assertIn(f"{JOB} {alert.seq}", self.index("owed"))

    def test_alert_for_a_step_parked_with_a_next_try(self):
        """The same for a step with a park interval."""
        self.submit(FAILS, PARKS_FOR_A_TIME)
        self.record("P")
        self.record("T", 1)
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual("P", self.step(1).state)
        self.assertGreater(int(self.step(1).until), self.now())
        self.assertEqual(
            1, [self.notification(entry).reason for entry in self.outbox()].count("PARKED")
        )

    def test_alert_when_a_parked_step_parks_for_good(self):
        """The step had a next try, and has none any more: that is another alert."""
        self.submit(PARKS_FOR_A_TIME)
        self.record("T")
        self.redis.set("skew", 700000)
        self.await_named(0)
        self.drive(0)
        self.assertIn("PARKED", self.alerts(self.record("P")))
        self.assertEqual(["P", "0"], self.step(0, "state until"))
        self.assertEqual(2, len(self.index("owed")))

    def test_redelivered_deferral(self):
        """The deferral had the step dispatched again. That request may be lost, so it is sent once
        more."""
        self.submit(ONE_EXPIRY)
        deferred = self.step(0).token
        self.assertEqual("RECORDED", self.reply("F", deferred, retry_after=1).code)
        self.assertEqual(["R", "2"], self.step(0, "state attempt"))
        answer = self.reply("F", deferred, redelivered=1, retry_after=1)
        self.assertEqual(
            ["ALREADY", self.step(0).token],
            [answer.code, *(request.token for request in answer.requests)],
        )

    def test_late_deferral(self):
        """The request in flight followed from an expiry, not from the deferral, which was not
        recorded before: it is not sent once more."""
        self.submit(NINE_EXPIRIES)
        deferred = self.step(0).token
        self.redis.set("skew", 30000)
        self.await_named(0)
        self.drive(0)
        self.assertEqual(["R", "2"], self.step(0, "state attempt"))
        self.assertEqual("STALE", self.reply("F", deferred, redelivered=1, retry_after=1).code)

    def test_step_with_its_expiries_used_up_is_not_sent_again(self):
        """The step was parked, and the end of the job cancelled its timer. A Retry of another step
        does not dispatch it."""
        self.submit(SHORT, FAILS)
        self.expire_begun(0)
        self.drive(0)
        self.record("P", 1)
        self.assertIn("settled", self.events())
        self.assertEqual("DONE", self.steer("retry", "", 1))
        self.assertEqual(["P", "0"], self.step(0, "state until"))
        self.assertEqual("1", self.step(0).attempt)

    def test_step_named_on_hold_in_a_job_that_ends(self):
        """The Recover is lost. The step is named again, and the job ends although it is on hold."""
        self.submit(SHORT, FAILS)
        self.assertEqual("DONE", self.steer("pause"))
        self.record("P", 1)
        self.await_named(0)
        self.redis.set("skew", 6000)
        self.assertEqual([JOB], [due.job_id for due in self.expire().dues])
        self.drive(0)
        self.assertEqual(["FAILED"], self.job("outcome"))

    def test_retry_of_a_step_whose_timer_the_end_cancelled(self):
        """The step was parked, and by its counts still is."""
        self.submit(FAILS, LONG, BACKS_OFF, LONG, after={3: 1})
        self.record("P", 1)
        self.record("F", 2)  # a deferral is not counted
        self.record("P", 0)
        self.assertEqual(["W", "W"], [self.step(i).state for i in (1, 2)])
        self.assertEqual(("WRONG_STATE", "NOT_FAILED"), self.steer("retry", "", 3))
        self.assertEqual("DONE", self.steer("retry", "", 1, 2))
        self.assertEqual(["R", "0"], self.step(1, "state failures"))
        self.assertEqual(["R", "0"], self.step(2, "state failures"))

    def test_resolve_keeps_the_result(self):
        """A step that a person resolves as done keeps the result that it had; one resolved as not
        done has none."""
        self.submit(LONG, LONG, revert=LONG)
        self.record("A", result="done")
        self.assertEqual("DONE", self.steer("disable"))
        self.record("P")
        self.assertEqual("P", self.step(0).state)
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.assertEqual(
            ("R", "done"), (self.step(0).state, self.redis.hget(f"{KEYS}data:{JOB}", "r0"))
        )
        self.record("P")
        self.assertEqual("DONE", self.steer("resolve", 0, "D", ""))
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", "r0"))

    def test_start_at_counts_once(self):
        """It counts once, even if the clock steps back to before `start_at` and the job turns
        twice."""
        self.submit(LONG, start_at=self.now() + 3000)
        self.redis.set("skew", 4000)
        self.drive()
        self.assertEqual("R", self.step(0).state)
        self.redis.set("skew", 0)
        self.steer("disable")
        self.steer("enable")
        self.assertEqual("PROCESSING", self.field("phase"))
        self.record("A")
        self.assertEqual(("A", "W"), (self.step(0).current, self.step(0).state))
        self.assertEqual(1, self.events().count("settled"))

    def test_refused_commands_supersede_nothing(self):
        """A refused command does not supersede one that was issued before it."""
        self.submit(LONG)
        self.assertEqual(
            ("WRONG_STATE", "IN_FLIGHT"), self.steer("retry", "", 0, issued_at=self.now() + 1000)
        )
        self.record("P")
        self.assertEqual("DONE", self.steer("retry", "", issued_at=self.now()))

    def test_command_from_a_clock_ahead(self):
        """It supersedes commands issued before it by their own clocks, for five minutes."""
        self.submit(LONG)
        self.assertEqual("UNCHANGED", self.steer("enable", issued_at=10**15))
        self.assertEqual(("SUPERSEDED", "ORDER"), self.steer("disable", issued_at=self.now()))
        self.redis.set("skew", 301000)
        self.assertEqual("DONE", self.steer("disable", issued_at=self.now()))

    def test_pause_after_the_deadline(self):
        """The hold of a person replaces that of the deadline, so a turn does not end it."""
        self.submit(LONG, complete_by=self.now() + 60000)
        self.redis.set("skew", 60000)
        self.drive()
        self.assertIn("held", self.events())
        self.assertEqual("DONE", self.steer("pause"))
        self.assertEqual("UNCHANGED", self.steer("pause"))
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual("paused", self.field("hold"))

    def test_a_failed_job_is_paused_and_changed(self):
        """Its arguments are changed before anything is sent again."""
        self.submit(FAILS)
        self.record("P")
        self.assertIn("settled", self.events())
        self.assertEqual("DONE", self.steer("pause"))
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.steer("retry", "better", 0))
        self.assertEqual("DONE", self.steer("resolve", 0, "D", ""))
        self.assertEqual("W", self.step(0).state)
        self.assertEqual("DONE", self.steer("retry", "better", 0))
        self.assertEqual("W", self.step(0).state)
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(
            ("R", "better"), (self.step(0).state, self.redis.hget(f"{KEYS}data:{JOB}", "a0"))
        )

    def test_a_renewed_lease_after_a_jump(self):
        """The lease was renewed after the clock had jumped, so the jump does not extend it."""
        self.submit(HEARTBEATS)
        before = self.now() + 1  # the lease of the dispatch is older than that
        self.redis.set("skew", 3600000)
        self.expire(limit=1, jump=3600000, after=before, at=self.now())
        self.renew(self.step(0).token)
        self.redis.set("skew", 3662000)
        self.expire(limit=1, jump=3600000, after=before, at=before + 3600000)
        self.assertEqual("M", self.step(0).state)

    def test_silence_does_not_count(self):
        """The request may still be in its queue: it is sent again, with twice the wait. Once the
        step has had as many silences as it may have expiries there is an alert."""
        self.submit(SHORT)
        for n in range(1, 4):
            self.assertEqual("R", self.step(0).state)
            self.await_named(0)
            self.assertEqual("?", self.step(0).token)
            answer = self.drive(0, nonce=NONCES[n])
            self.assertEqual(["SILENT"], self.alerts(answer))
            self.assertEqual(
                ["R", str(n), "0"],
                [self.step(0).state, self.step(0).unstarted, self.step(0).expiries],
            )
            token = self.step(0).token
            (request,) = answer.requests
            _, wait, *_ = SHORT.split()
            self.assertEqual([token, int(wait) * 2 ** n], [request.token, int(request.wait)])
        self.assertEqual(3, self.events().count("silent"))
        self.assertNotIn("expired", self.events())
        self.assertEqual(["SERVED"], self.alerts(self.record("A")))

    def test_expiry_after_progress_counts(self):
        """After Progress, LockedUntil is what is left of `lock` since the agent received the
        request."""
        self.submit("10000 3600000 0 1 1 1 2 2 0 -1 PP|")
        before = self.now()
        self.assertEqual(("RENEWED", "1"), self.wanted(fraction="-1", elapsed=9000))
        self.assertIn(int(self.step(0).until), range(before + 1000, self.now() + 1001))
        self.redis.set("skew", 1001)
        self.await_named(0)
        self.assertEqual(["0", "1"], [self.step(0).unstarted, self.step(0).expiries])

    def test_late_progress_does_not_shorten_a_lease(self):
        """The first agent has ended. The broker has delivered the request to another agent, whose
        lease is longer."""
        self.submit("10000 3600000 0 1 1 1 2 2 0 -1 PP|")
        self.renew(self.step(0).token, fraction="-1", elapsed=10)
        self.redis.set("skew", 5000)
        before = self.now()
        self.renew(self.step(0).token, fraction="-1")
        until = self.step(0).until
        self.renew(self.step(0).token, fraction="-1", elapsed=4000)
        self.assertEqual(until, self.step(0).until)
        self.assertGreaterEqual(int(until), before + 10000)

    def test_expired_request_with_progress_stays_in_flight(self):
        """Its agent has ended, or has only lost its connection."""
        self.submit(LONG)
        token = self.step(0).token
        self.renew(token, fraction="-1")
        self.assertEqual("BEGUN", self.reply("N", token).code)
        self.assertEqual(["R", token], self.step(0, "state token"))
        self.assertEqual("RECORDED", self.reply("A", token).code)

    def test_a_reply_that_names_another_step(self):
        """The agent has mixed up two requests, and nothing is recorded. A name that no step has is
        ignored."""
        self.submit(LONG, LONG, names=["first", "second"])
        token = self.step(0).token
        answer = self.reply("A", token, step="second")
        self.assertEqual(("OTHER_STEP", ["OTHER_STEP"]), (answer.code, self.alerts(answer)))
        self.assertEqual(["R", token], self.step(0, "state token"))
        self.assertEqual("RECORDED", self.reply("A", token, step="first").code)
        self.assertEqual("RECORDED", self.reply("A", self.step(1).token, step="anything").code)

    def test_tokens_of_one_call(self):
        """No token can be derived from another: beyond the step they have no six digits in common.
        The history has a digest of each token, and none of its digits."""
        self.submit(*[LONG] * 20)
        tokens = [self.step(i).token for i in range(20)]
        for i, token in enumerate(tokens):
            self.assertRegex(token, rf"^{i}\.[A-Za-z0-9_-]{{22}}$")
        pieces = collections.Counter(
            digits[k : k + 6]
            for _, _, digits in (t.partition(".") for t in tokens)
            for k in range(17)
        )
        self.assertEqual(20 * 17, len(pieces))
        self.record("A")
        self.record("N", 1)  # withdraws the token, and dispatches the step again
        self.reply("A", tokens[1])  # too late
        found = str(self.redis.lrange(f"{KEYS}hist:{JOB}", 0, -1)) + str(
            self.redis.hget(f"{KEYS}data:{JOB}", "l1")
        )
        for token in tokens:
            self.assertIn(wire.token_id(token), found)
            self.assertNotIn(token[:token.index(".") + 7], found)
        self.assertEqual("STALE", self.reply("A", wire.token_id(tokens[2])).code)

    def test_the_record_of_a_step_is_short(self):
        """A step in flight of a job that has turned takes at most 64 bytes. With longer records
        Redis, by default, keeps the job in three times the memory."""
        self.submit(*[LONG] * 100, revert=COMPENSATES)
        self.record("A", 99)
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual("R", self.step(99).state)
        self.assertLessEqual(len(self.field("99")), 64)

    def test_a_token_of_an_earlier_build(self):
        """It is valid until its dispatch has ended."""
        self.submit(LONG)
        self.set_step(0, token="0.9f2c41d07be83a65")
        self.assertEqual("STALE", self.reply("A", "0.9f2c41d07be83a66").code)
        self.assertEqual("RENEWED", self.renew(self.step(0).token).code)
        self.assertEqual("RECORDED", self.reply("A", self.step(0).token).code)

    def test_tokens_of_two_calls(self):
        """The same step of two jobs, dispatched by two calls."""
        self.submit(LONG)
        first = self.step(0).token
        self.redis.delete(f"{KEYS}job:{JOB}")
        self.submit_without_owner(NONCES[5])
        self.assertNotEqual(first, self.step(0).token)

    def test_job_of_another_owner(self):
        """For other users there is no such job: they cannot command or read it, and its id is
        taken."""
        self.define("d", LONG)
        self.assertEqual("CREATED", self.submit_call(owner="ann").code)
        root = self.step(0).token
        for command in ("cancel", "kill", "pause", "disable"):
            self.assertEqual("UNKNOWN_JOB", self.command(command, owner="bob").code)
        self.assertEqual("UNKNOWN", self.inspect_job(count=1, owner="bob").code)
        self.assertEqual("UNKNOWN", self.inspect_history(1, 9, owner="bob").code)
        self.assertEqual("CONFLICT", self.submit_call(owner="bob", reply_to="bob.replies").code)
        self.assertEqual(
            (root, None), (self.step(0).token, self.redis.hget(KEYS + "data:" + JOB, "reply_to"))
        )
        self.assertEqual("ALREADY", self.submit_call(owner="ann").code)
        self.assertEqual("FOUND", self.inspect_job(count=1, owner="ann").code)
        self.assertEqual("FOUND", self.inspect_history(1, 9, owner="ann").code)
        self.assertEqual("FOUND", self.inspect_job(count=1).code, "as operator")
        self.assertEqual("DONE", self.steer("pause", owner="ann"))
        self.assertEqual("DONE", self.steer("resume"))

    def test_job_without_an_owner(self):
        """A build without owners stored it. It is for operators only, and a command of another user
        does not mend it if it is corrupt."""
        self.submit(LONG)
        self.assertEqual("UNKNOWN_JOB", self.command("kill", owner="bob").code)
        self.assertEqual("CONFLICT", self.submit_call(owner="bob").code)
        self.redis.hset(KEYS + "job:" + JOB, "n", "torn")
        self.assertEqual("UNKNOWN_JOB", self.command("kill", owner="bob").code)
        self.assertEqual("torn", self.field("n"))
        self.assertEqual("DONE", self.steer("kill"))

    def test_list_by_the_rarest_label(self):
        """In whatever order the labels come, the store reads the jobs of the label that the fewest
        jobs have."""
        self.define("d", LONG)
        for i in range(20):
            labels = "4:=ann" + ("6:rare=1" if i == 19 else "")
            self.assertEqual("CREATED", self.submit_call(job=f"j{i}", labels=labels).code)
        for labels in (("=ann", "rare=1"), ("rare=1", "=ann")):
            answer = self.inspect_jobs(*labels)
            self.assertEqual(["j19"], [job.job_id for job in answer.listed_jobs])
            self.assertEqual("j19", answer.last_id, "the store has read no other job")

    def test_list_by_workflow(self):
        """The store reads the jobs of that workflow only."""
        self.define("d", LONG)
        for i in range(20):
            self.assertEqual("CREATED", self.submit_call(job=f"j{i}").code)
        self.redis.hset(f"{KEYS}data:j19", "workflow", "order@1")
        self.redis.zadd(f"{KEYS}w:order", {"j19": self.redis.zscore(f"{KEYS}jobs", "j19")})
        for workflow in ("order", "order@1"):
            answer = self.inspect_jobs(workflow=workflow)
            self.assertEqual(["j19"], [job.job_id for job in answer.listed_jobs])
            self.assertEqual("j19", answer.last_id, "the store has read no other job")

    def test_no_start_beyond_the_horizon(self):
        self.define("d", LONG)
        seconds, _ = self.redis.time()
        now = seconds * 1000
        self.assertEqual(
            "TOO_FAR", self.submit_call(start_at=now + 120000, limits=(60000, 0, 0)).code
        )
        self.assertFalse(self.field("created"))
        self.assertEqual(
            "CREATED", self.submit_call(start_at=now + 30000, limits=(60000, 0, 0)).code
        )
        self.assertEqual(
            "CREATED", self.submit_call(start_at=FAR // 100, job="two").code, "without a horizon"
        )

    def test_limit_of_jobs_of_a_user(self):
        """The limit counts jobs until they are forgotten. A job that exists is answered ALREADY."""
        self.define("d", LONG)
        ann, bob = {"owner": "ann", "labels": "4:=ann"}, {"owner": "bob", "labels": "4:=bob"}
        two = (0, 2, 0)
        self.assertEqual(
            ["CREATED", "CREATED", "TOO_MANY", "ALREADY"],
            [self.submit_call(job=job, limits=two, **ann).code for job in ("a", "b", "c", "a")],
        )
        self.assertEqual("CREATED", self.submit_call(job="c", limits=two, **bob).code)
        self.command("kill", job="a")
        self.forget_all()
        self.assertEqual("CREATED", self.submit_call(job="d", limits=two, **ann).code)

    def taken_by(self, user):
        return int(self.redis.hget(KEYS + "users", user) or 0)

    def memory_of(self, keys):
        """Returns the bytes that keys take. MEMORY USAGE of Valkey 8.1 leaves out the names
        (valkey#2290)."""
        probe = "x" * 1000
        self.redis.set(probe, "")
        with_names = self.redis.memory_usage(probe) > len(probe)
        self.redis.delete(probe)
        names = 0 if with_names else sum(map(len, keys))
        return names + sum(self.redis.memory_usage(key, samples=0) for key in keys)

    def test_limit_of_bytes_of_a_user(self):
        """The estimated memory of a job counts until it is forgotten: its input, its labels, and
        the job itself."""
        self.define("d", LONG)
        ann = {"owner": "ann", "labels": "4:=ann", "limits": (0, 0, 10000)}
        self.assertEqual(
            "CREATED", self.submit_call(job="a", data=[("input", "x" * 1000)], **ann).code
        )
        first = self.taken_by("ann")
        self.assertTrue(3000 < first < 5000, first)
        self.assertEqual(
            "TOO_MANY",
            self.submit_call(
                job="b", data=[("input", "x" * (10001 - 2 * first + 1000))], **ann
            ).code,
        )
        self.assertEqual(
            "CREATED",
            self.submit_call(
                job="c", data=[("input", "x" * (10000 - 2 * first + 1000))], **ann
            ).code,
        )
        self.assertEqual(10000, self.taken_by("ann"))
        self.command("kill", job="a")
        self.forget_all()
        self.assertEqual(10000 - first, self.taken_by("ann"))
        self.command("kill", job="c")
        self.forget_all()
        self.assertFalse(self.redis.exists(KEYS + "users"))
        self.define("d", LONG)
        labels = "".join(
            f"{len(label)}:{label}" for label in [f"{n}={'v' * 256}" for n in range(10, 42)]
        )
        ann = {"owner": "ann", "labels": "4:=ann" + labels, "limits": (0, 0, 10**6)}
        self.assertEqual(
            "CREATED", self.submit_call(job="l", data=[("labels", labels)], **ann).code
        )
        self.assertLess(30000, self.taken_by("ann"))
        if not SIMULATED:
            of_job = [key for key in self.redis.keys() if JOB_KEYS.search(key)]
            self.assertLess(32, len(of_job))
            takes = self.memory_of(of_job)
            self.assertTrue(
                takes * 0.7 < self.taken_by("ann") < takes * 1.5, (takes, self.taken_by("ann"))
            )

    def test_bytes_of_a_job_of_an_earlier_build(self):
        """A build before 45 counted the input only, and stored no cost."""
        self.submit(LONG)
        data = f"{KEYS}data:{JOB}"
        self.redis.hset(data, mapping={"index": "4:=ann", "input": "x" * 60})
        self.redis.hset(KEYS + "users", "ann", 100)
        self.steer("kill")
        self.forget_all()
        self.assertEqual(40, self.taken_by("ann"))

    def test_commands_count_for_their_owner(self):
        """The store keeps commands with their reasons, so they count. A user at the limit may only
        end jobs."""
        self.define("d", LONG)
        self.submit_call(owner="ann", labels="4:=ann", limits=(0, 0, 10000))
        for n in range(100):
            answer = self.steer(
                "resume" if n % 2 else "pause", owner="ann", most=10000, said="ann " + "r" * 1000
            )
            if answer != "DONE":
                break
        self.assertEqual("TOO_MANY", answer)
        self.assertTrue(10000 <= self.taken_by("ann") < 12000)
        self.assertLess(n, 10)
        self.assertEqual(
            "DONE", self.steer("resume" if n % 2 else "pause"), "no limit for operators"
        )
        self.assertEqual("DONE", self.steer("kill", owner="ann", most=10000))
        self.forget_all()
        self.assertFalse(self.redis.exists(KEYS + "users"))

    def test_name_of_a_registered_workflow(self):
        """A definition in a Submit may have that name only if it is one of its registered
        versions."""
        fields = [
            ("job", "P 1 0"), ("r", "0 0 0 0 0 0 0 0 0 0 PP||0 1 00|||0"),
            (0, f"{LONG}|0 0 00||||a|x"), ("xa", 0),
        ]
        for digest, version, registered in (
            ("good", 1, 1), ("evil", 1, 0), ("evil2", 2, 0), ("free", 0, 0),
        ):
            name = "order" if version else "other"
            self.assertEqual(
                "DEFINED",
                self.define_piece(
                    digest, name, version, 1, "blob", registered=registered, fields=fields
                ).code,
            )
        self.assertEqual("NAME_TAKEN", self.submit_call(definition="evil").code)
        self.assertEqual("NAME_TAKEN", self.submit_call(definition="evil2").code)
        self.assertEqual(0, self.redis.exists(KEYS + "job:" + JOB))
        self.assertEqual("CREATED", self.submit_call(definition="good").code)
        self.assertEqual(
            "ALREADY", self.submit_call(definition="evil").code,
            "a job that is recorded is not checked again",
        )
        self.assertEqual("CREATED", self.submit_call(definition="free", job="two").code)

    def test_a_reply_of_another_actor(self):
        """The broker says whose agents have sent a reply, or Progress; it counts only for steps of
        that actor. If the broker does not say, the token alone decides."""
        self.submit(
            LONG, LONG, LONG, names=["first", "second", "third"],
            actors=["stock", "stock", "payments"],
        )
        token = self.step(0).token
        answer = self.reply("A", token, step="first", actor="payments")
        self.assertEqual(("OTHER_ACTOR", ["OTHER_ACTOR"]), (answer.code, self.alerts(answer)))
        self.assertEqual("OTHER_ACTOR", self.renew(token, actor="payments").code)
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", "p0"))
        self.assertEqual(["R", token], self.step(0, "state token"))
        self.assertEqual("RENEWED", self.renew(token, actor="stock").code)
        self.assertEqual("RECORDED", self.reply("A", token, step="first", actor="stock").code)
        self.assertEqual("RECORDED", self.reply("A", self.step(1).token).code)

    def test_a_large_reply_of_another_actor(self):
        """DATA_FULL is answered to agents of the step's actor only, because a failure of the step
        would follow."""
        self.submit(LONG, names=["first"], actors=["stock"])
        self.redis.hset(f"{KEYS}job:{JOB}", "bytes", DATA_MAX)
        self.assertEqual(
            "OTHER_ACTOR", self.reply("A", self.step(0).token, "x", actor="payments").code
        )
        self.assertEqual("DATA_FULL", self.reply("A", self.step(0).token, "x", actor="stock").code)

    def test_an_undo_of_another_actor(self):
        """An undo may have an actor of its own."""
        self.submit(
            LONG, LONG, revert=COMPENSATES, names=["first", "second"], actors=["stock", "stock"],
            revert_actor="claims",
        )
        self.record("A", 0)
        self.assertEqual("DONE", self.steer("disable"))
        token = self.step(0).token
        self.assertEqual("OTHER_ACTOR", self.reply("D", token, actor="stock").code)
        self.assertEqual("RECORDED", self.reply("D", token, actor="claims").code)

    def test_a_reply_of_a_job_whose_steps_have_no_actors(self):
        """An earlier build stored the definition: the actor of a reply is not compared."""
        self.submit(LONG, revert=COMPENSATES, names=["first"])
        self.assertEqual("RECORDED", self.reply("A", self.step(0).token, actor="anybody").code)
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual("RECORDED", self.reply("D", self.step(0).token, actor="anybody").code)

    def test_a_reply_of_a_job_whose_steps_have_no_names(self):
        """An earlier build stored the definition: the name in a reply is not compared."""
        self.submit(LONG)
        self.redis.hset(f"{KEYS}def:d", "xfirst", 1)
        self.assertEqual("RECORDED", self.reply("A", self.step(0).token, step="first").code)

    def test_names_of_a_definition_that_an_earlier_build_has_stored(self):
        """The steps get names when the definition is stored again, while jobs use it."""
        self.submit(LONG, LONG)
        self.redis.hset(f"{KEYS}def:d", "named", "1")  # as builds before 42 stored it
        before = self.redis.hgetall(f"{KEYS}def:d")
        self.define("d", LONG, LONG, names=["first", "second"], actors=["stock", "stock"])
        after = self.redis.hgetall(f"{KEYS}def:d")
        self.assertEqual(
            {"0", "1", "xfirst", "xsecond", "named"},
            {k for k in after if after[k] != before.get(k)},
        )
        self.assertEqual([], self.index("defs"))
        token = self.step(0).token
        self.assertEqual("OTHER_STEP", self.reply("A", token, step="second").code)
        self.assertEqual("OTHER_ACTOR", self.reply("A", token, actor="payments").code)
        self.assertEqual("RECORDED", self.reply("A", token, step="first").code)

    def test_a_submit_of_a_definition_that_an_earlier_build_has_stored(self):
        """A scheduler that has the definition stores it again, in this partition too. One that
        knows only its name need not, and an older one could not."""
        self.submit(LONG)
        for named, code in (("1", "UNKNOWN_DEFINITION"), ("0", "CREATED")):
            self.redis.hset(f"{KEYS}def:d", "named", named)
            self.assertEqual(code, self.submit_without_owner(NONCES[5], job="other").code)

    def test_a_definition_that_names_no_actors(self):
        """A scheduler before 42 stored it; one that names the actors may come later."""
        self.define("d", LONG, names=["first"])
        self.assertEqual("0", self.redis.hget(f"{KEYS}def:d", "named"))
        self.define("d", LONG, names=["first"], actors=["stock"])
        self.assertEqual("2", self.redis.hget(f"{KEYS}def:d", "named"))
        self.submit(LONG, names=["first"], actors=["stock"])
        self.assertEqual("OTHER_ACTOR", self.reply("A", self.step(0).token, actor="payments").code)

    def test_interrupted_naming_of_a_definition(self):
        """The scheduler ends after the first piece. A definition in use is kept, however long that
        takes."""
        self.submit(LONG)
        self.redis.hdel(f"{KEYS}def:d", "named")
        self.assertEqual("MORE", self.define_piece("d", "", 0, 1, last=0).code)
        self.redis.zadd(f"{KEYS}defs", {"d": 0})  # an earlier build may have left it so
        self.redis.set("skew", 3_700_000)
        self.expire()
        self.redis.set("skew", 3_800_000)
        self.expire()
        self.forget(10**9)
        self.assertTrue(self.redis.exists(f"{KEYS}def:d"))

    def test_a_definition_that_is_named_before_it_is_used(self):
        """It is still in the index of unused definitions."""
        self.define("d", LONG)
        self.redis.hdel(f"{KEYS}def:d", "named")
        self.define("d", LONG, names=["first"])
        self.assertEqual(["d"], self.index("defs"))

    def test_rejected_request(self):
        """Nothing is counted, neither silence, failure nor expiry. The step is tried again after a
        pause."""
        self.submit(LONG)
        self.assertEqual(["REJECTED"], self.alerts(self.record("J")))
        self.assertEqual(["U", "B", "0", "0"], self.step(0, "current state failures expiries"))
        self.redis.flushall()
        self.submit(LONG)
        self.redis.set("skew", 59500)  # the same just before the end of its wait
        self.record("J")
        self.assertEqual("B", self.step(0).state)

    def test_waiting_request_with_another_copy_sent(self):
        """An agent may have the other copy: LockedUntil decides, even when the request is not
        wanted any more."""
        self.submit(LONG)
        token = self.step(0).token
        self.drive(0, again=1)
        self.assertIn(token, self.unsent(1, token))
        self.assertEqual("DONE", self.steer("cancel"))
        self.assertNotIn(token, self.unsent(2, token))
        self.assertEqual(["R", token], self.step(0, "state token"))
        self.assertNotIn("unsent", self.events())

    def test_more_waiting_requests_than_the_budget(self):
        """One answer contains these requests, and those of a piece of the cursor."""
        steps = BUDGET + 20
        self.submit(*[LONG] * steps)
        tokens = [self.step(i).token for i in range(steps)]
        self.assertEqual(set(), set(tokens) - set(self.unsent(1, *tokens)))

    def test_request_that_waited_twice(self):
        """The first time it was wanted. The second time it is not: the token is withdrawn, nothing
        is in flight."""
        self.submit(LONG)
        token = self.step(0).token
        self.assertIn(token, self.unsent(9, token))
        self.assertEqual("DONE", self.steer("pause"))
        self.assertNotIn(token, self.unsent(10, token))
        self.assertEqual(["D", "W", "-"], self.step(0, "current state token"))
        self.assertIn("unsent", self.events())

    def test_late_unsent_calls(self):
        """A connection that was given up carries out a call after its repetition was answered and
        the request was sent. Nothing is withdrawn, in whatever order such late calls come."""
        self.submit(LONG)
        token = self.step(0).token
        self.assertIn(token, self.unsent(3, token))
        self.assertIn(token, self.unsent(1, token))
        self.assertEqual("DONE", self.steer("pause"))
        for late in (3, 2):
            self.assertNotIn(token, self.unsent(late, token))
            self.assertEqual(["R", token], self.step(0, "state token"))

    def test_evidence_of_another_token(self):
        """Evidence about the token before shows nothing about this one."""
        self.submit(SHORT)
        token = self.step(0).token
        self.expire_begun(0)
        self.assertEqual("STALE", self.take(token).code)
        self.assertEqual("UNKNOWN_JOB", self.take(token, job="other").code)
        self.assertEqual("DONE", self.retry_all())
        self.await_named(0)
        self.assertEqual(["2", "0"], [self.step(0).unstarted, self.step(0).expiries])

    def test_resolve_keeps_a_step_unbegun(self):
        """A step that no agent has begun stays so when a person resolves it: a migration may still
        change it."""
        self.submit(LONG)
        self.steer("pause")
        self.record("N")
        self.assertEqual("DONE", self.steer("resolve", 0, "D", ""))
        self.assertEqual(("1", "1"), (self.step(0).attempt, self.step(0).unstarted))

    def test_resolve_in_a_paused_job_that_turned(self):
        """The neighbours of a step are counted although nothing may be sent."""
        self.submit(LONG, LONG, LONG, after={1: 0, 2: 1}, revert=LONG)
        self.record("A")
        self.record("P", 1)
        self.steer("pause")
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual(("WRONG_STATE", "WAITING"), self.steer("resolve", 0, "D", ""))
        self.assertEqual("DONE", self.steer("resolve", 1, "D", ""))
        self.assertEqual(["W", "W"], [self.step(i).state for i in range(2)])
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["R", "W"], [self.step(i).state for i in range(2)])

    def test_set_desired_of_a_job_that_ended_elsewhere(self):
        """If the job has ended, or is ending, in another state, the answer is not UNCHANGED."""
        self.submit(FAILS, LONG)
        self.record("P")
        self.assertEqual(("WRONG_STATE", "ENDING"), self.steer("enable"))
        self.record("A", 1)
        self.assertEqual(("WRONG_STATE", "FAILED"), self.steer("enable"))
        self.redis.flushall()
        self.submit(LONG, revert=FAILS)
        self.record("A")
        self.steer("disable")
        self.record("P")
        self.assertEqual(("WRONG_STATE", "COMPENSATION_FAILED"), self.steer("disable"))
        self.redis.flushall()
        self.submit(COMPENSATES)
        self.record("P")
        self.assertEqual(["ERROR", "COMPENSATED"], self.job("phase", "outcome"))
        self.assertEqual("UNCHANGED", self.steer("disable"))

    def register(self, digest, version):
        return self.define_piece(digest, "w", version, 0, digest, registered=1).code

    def test_a_version_is_one_definition(self):
        """The newest version is the one with the greatest number, in whatever order they were
        registered."""
        self.assertEqual(["DEFINED"] * 2, [self.register("two", 2), self.register("one", 1)])
        self.assertEqual("CONFLICT", self.register("other", 2))
        self.assertEqual("two", self.call("inspect workflow", name="w").blob)

    def test_repeated_submit(self):
        """A job id belongs to one job. A repeated Submit replaces the address for answers."""
        self.submit(LONG)
        self.assertEqual("CONFLICT", self.submit_call("other").code)
        self.assertEqual("ALREADY", self.submit_call(reply_to="there").code)
        self.assertEqual("there", self.redis.hget(f"{KEYS}data:{JOB}", "reply_to"))

    def test_earlier_reply_addresses(self):
        """Besides the last address the store keeps four earlier ones: newest first, each once, and
        no empty one."""
        self.submit(LONG)
        for i in (*range(7), 3, 3):
            self.submit_call(reply_to=f"q{i}")
        self.assertEqual(["q3", "2:q60:2:q50:2:q40:2:q20:"],
                         self.redis.hmget(f"{KEYS}data:{JOB}", "reply_to", "earlier"))
        self.record("A")
        (entry,) = self.outbox()
        self.assertEqual(
            [("q6", ""), ("q5", ""), ("q4", ""), ("q2", "")],
            [
                (address.reply_to, address.correlation)
                for address in self.notification(entry).addresses
            ],
        )

    def test_reply_with_the_other_state_is_a_failure(self):
        """An agent that was asked for the forward action answers that the step is undone."""
        self.submit(LONG)
        self.record("D")
        self.assertEqual(
            ("U", "P", "1"), (self.step(0).current, self.step(0).state, self.step(0).failures)
        )

    def test_retention(self):
        """No job is forgotten before its notifications are confirmed, before its time, or because
        the clock has jumped. Afterwards nothing of it is left."""
        self.submit(LONG, labels="3:a=b")
        self.assertEqual([JOB], self.redis.zrange(f"{KEYS}l:a=b", 0, -1))
        self.record("A")
        self.assertEqual(["0", "0"], self.forget())
        (entry,) = self.outbox()
        self.confirm(entry)
        self.assertEqual(["0", "0"], self.forget(60000))
        self.expire(limit=1)
        self.redis.set("skew", 3600000)
        self.assertEqual(["0", "0"], self.forget(60000))
        self.redis.set("skew", 0)
        self.assertEqual(["1", "0"], self.forget())
        names = [f"job:{JOB}", f"data:{JOB}", f"hist:{JOB}", "l:a=b", "jobs", "settled", "def:d"]
        self.assertEqual(0, self.redis.exists(*(KEYS + name for name in names)))

    def test_retention_after_a_jump(self):
        """A job that ended before the jump is kept as long as without the jump; one that ends
        later, no longer."""
        minute, hour = 60000, 3600000

        def ends():
            self.submit(LONG)
            self.record("A")
            self.confirm(*self.outbox())

        def forgotten_at(skew):
            self.redis.set("skew", skew)
            self.expire(limit=1)
            return self.forget(10 * minute)

        ends()
        before = self.now() + 1
        self.redis.set("skew", hour)
        self.expire(limit=1, jump=hour, after=before, at=before)
        self.assertEqual(
            [["0", "0"], ["1", "0"]],
            [forgotten_at(hour + 9 * minute), forgotten_at(hour + 11 * minute)],
        )
        ends()
        self.assertEqual(
            [["0", "0"], ["1", "0"]],
            [forgotten_at(hour + 20 * minute), forgotten_at(hour + 22 * minute)],
        )

    # ---- what the broker has lost ----

    def lose(self, actor="*"):
        """Records that the broker has lost messages, to the end."""
        answer = self.call("lost", actor=actor, age=0, at=0, cursor="")
        while answer.cursor:
            answer = self.call("lost", actor=actor, age=0, at=answer.at, cursor=answer.cursor)
        time.sleep(0.002)  # what is dispatched from now on was not lost

    def steps_named(self):
        """Returns the steps of the job that expire names, and how many of them have expired."""
        dues, _ = self.named(self.expire())
        return [(list(map(int, steps)), int(expired)) for _, expired, steps in dues]

    def test_loss_that_is_recorded_late(self):
        """Of two that record a loss the later time counts, and none of the future."""
        now = self.now()
        for age, expected in ((1000, now - 1000), (5000, now - 1000), (0, now)):
            self.call("lost", actor="a", age=age, at=0, cursor="")
            self.assertAlmostEqual(expected, int(self.redis.hget(f"{KEYS}lost", "a")), delta=900)
        self.redis.hset(f"{KEYS}lost", "a", now + 100_000)
        self.call("lost", actor="a", age=0, at=0, cursor="")
        self.assertAlmostEqual(now, int(self.redis.hget(f"{KEYS}lost", "a")), delta=20_000)

    def test_loss_recorded_again(self):
        """A store that has gone back, perhaps, records the loss as it was: a dispatch that was sent
        again since is not sent once more, and one that was not is."""
        self.submit(LONG, LONG, names="ab")
        answer = self.call("lost", actor="*", age=0, at=0, cursor="")
        self.assertEqual([([0, 1], 0)], self.steps_named())
        time.sleep(0.002)
        self.drive(0)
        self.redis.delete(f"{KEYS}lost")
        self.pass_time(1000)
        again = self.call("lost", actor="*", age=0, at=answer.at, cursor="")
        self.assertEqual(answer.at, again.at)
        self.assertEqual(answer.at, self.redis.hget(f"{KEYS}lost", "*"))
        self.assertEqual([([1], 0)], self.steps_named())

    def test_lost_dispatches(self):
        """They are named at once, and each is sent once more, with its token and all its time
        again; dispatches made since are not."""
        self.submit(LONG, LONG, LONG, after={2: 1}, actors="aba", names="xyz")
        self.assertEqual([], self.steps_named())
        token = self.step(0).token
        self.redis.set("skew", 30000)
        self.lose("a")
        self.assertEqual([([0], 0)], self.steps_named())
        self.record("A", 1)
        self.redis.set("skew", 40000)
        for expected in ([("0", token)], []):
            answer = self.drive(0, 2)
            self.assertEqual(expected, [(r.step, r.token) for r in answer.requests])
        self.assertEqual([0], [int(r.attempt) - 1 for r in self.drive(0, again=1).requests])
        self.assertAlmostEqual(self.now() + 120000, int(self.step(0).until), delta=5000)
        self.assertEqual([["0", "1"]], [about[:2] for about in self.entries_after("resent")])
        self.redis.set("skew", 100000)
        self.assertEqual([], self.steps_named())
        self.lose()
        self.assertEqual([([0, 2], 0)], self.steps_named())
        self.assertEqual(["0", "2"], [r.step for r in self.drive(0, 2).requests])
        self.assertEqual(["0", "0"], [self.step(0).expiries, self.step(0).unstarted])
        self.record("A", 0)
        self.record("A", 2)
        self.assertEqual("SUCCEEDED", self.field("outcome"))

    def test_lost_dispatch_that_is_not_driven(self):
        """It does not expire, however late it is: it is named again, until a scheduler sends it."""
        self.submit(ONE_EXPIRY)
        self.taken(0)
        self.lose()
        for skew in (0, 50000, 100000):
            self.redis.set("skew", skew)
            self.assertEqual([([0], 0)], self.steps_named())
            self.assertEqual("R", self.step(0).state)
        self.assertEqual(1, len(self.drive(0).requests))
        self.redis.set("skew", 200000)
        self.assertEqual([([0], 1)], self.steps_named())
        self.assertEqual("0", self.step(0).expiries)  # nothing is known of the copy

    def test_lost_dispatch_with_heartbeats(self):
        """As long as the agent sends Progress it has the request. When three heartbeats have
        passed, the request is sent once more, and no expiry counts: not of the first copy, and not
        of the other, of which nothing is known."""
        self.submit(HEARTBEATS)
        self.assertEqual("RENEWED", self.renew(self.step(0).token).code)
        self.lose()
        self.assertEqual([], self.steps_named())
        self.assertEqual([], self.drive(0).requests)
        servers.wait_for(lambda: self.steps_named() == [([0], 0)], "the step to be named")
        self.assertEqual(1, len(self.drive(0).requests))
        self.redis.set("skew", 4000000)
        self.assertEqual([([0], 1)], self.steps_named())
        self.assertEqual(["0", "1"], [self.step(0).expiries, self.step(0).unstarted])

    def test_lost_dispatch_past_its_deadline(self):
        """It is not sent again, and its end counts nothing."""
        self.submit(LONG, complete_by=self.now() + 10000, on_deadline="C", revert=LONG)
        self.lose()
        self.redis.set("skew", 20000)
        self.assertEqual([], self.drive(0).requests)
        self.assertNotIn("resent", self.events())

    def test_lost_dispatch_before_its_deadline(self):
        """It is sent once more, not again and again, although the deadline leaves it less time than
        other dispatches have."""
        self.submit(LONG, complete_by=self.now() + 50000, on_deadline="C", revert=LONG)
        self.lose()
        self.assertEqual(1, len(self.drive(0).requests))
        self.assertEqual([], self.drive(0).requests)
        self.assertEqual([], self.steps_named())

    def test_dispatch_after_the_loss_that_the_deadline_cuts_short(self):
        """It was not lost, although its LockedUntil is as early as that of one before the loss; but
        then the broker loses it, and it is sent once more for each loss."""
        self.submit(LONG, LONG, after={1: 0}, names="ab", on_deadline="C", revert=LONG,
                    complete_by=self.now() + 50000)
        self.lose()
        self.record("A")
        self.assertEqual([], self.steps_named())
        self.assertEqual([], self.drive(1).requests)
        for _ in range(2):
            self.lose()
            self.assertEqual(["1"], [r.step for r in self.drive(1).requests])
            self.assertEqual([], self.drive(1).requests)
        self.assertEqual(2, self.events().count("resent"))

    def test_lost_dispatch_of_a_held_job(self):
        """The pause stops new dispatches, not those that were made before."""
        self.submit(LONG)
        self.steer("pause")
        self.lose()
        self.assertEqual([([0], 0)], self.steps_named())
        self.assertEqual(1, len(self.drive(0).requests))

    def test_loss_after_the_clock_was_set_back(self):
        """A loss that seems to lie in the future is taken for one of now: what is in flight is
        sent once more, and later dispatches are not."""
        self.submit(LONG, LONG, after={1: 0})
        self.redis.set("skew", 700000)
        self.lose()
        self.redis.set("skew", 0)
        self.expire()
        self.assertEqual(1, len(self.drive(0).requests))
        time.sleep(0.002)
        self.record("A")
        self.assertEqual([], self.drive(1).requests)

    def test_loss_after_dispatches_of_before_the_clock_was_set_back(self):
        """Their LockedUntil lies too far ahead: they count as made before the loss, however many
        jobs `expire` inspects at a time."""
        self.define("d", LONG)
        self.redis.set("skew", 5000)
        for i in range(3):
            self.submit_call(job=f"job{i}")
        self.redis.set("skew", 0)
        self.lose()
        named = []
        for _ in range(3):
            time.sleep(0.002)
            dues, _ = self.named(self.expire(limit=1))
            named += [job for job, _, steps in dues]
        self.assertEqual(["job0", "job1", "job2"], sorted(named))

    def test_loss_during_a_scan(self):
        """The scan of a large job begins anew: the steps that it has passed were not lost then."""
        self.submit(*[LONG] * 400)
        scan = f"250 {self.now() + 60000}"
        self.redis.hset(f"{KEYS}job:{JOB}", mapping={"scan": scan, "plain": 0})
        self.lose()
        self.assertEqual(0, min(self.steps_named()[0][0]))

    def test_loss_of_an_entry_without_a_job(self):
        """It is left to the sweep."""
        self.redis.zadd(f"{KEYS}open", {"ghost": 1})
        self.lose()
        self.assertEqual(0, self.redis.exists(f"{KEYS}job:ghost", f"{KEYS}due"))

    def test_request_that_is_sent_again_is_not_given_up(self):
        """A scheduler that is asked again for it, or that could not send it for a second, sends it,
        also while the job is on hold. If one of its copies comes back the other may be in use."""
        self.submit(LONG)
        token = self.step(0).token
        self.steer("pause")
        self.lose()
        for again in (0, 1, 1):
            self.assertEqual([token], [r.token for r in self.drive(0, again=again).requests])
        self.assertEqual([token], self.unsent(1, token))
        self.steer("resume")
        self.steer("cancel")
        self.assertEqual([token], self.unsent(2, token))
        self.assertEqual("BEGUN", self.reply("N", token).code)

    def test_loss_of_many_jobs(self):
        """Each call visits five hundred jobs, whichever end meanwhile."""
        self.define("d", LONG)
        for i in range(1100):
            self.submit_call(job=f"job{i:04}")
        answer, calls = self.call("lost", actor="*", age=0, at=0, cursor=""), 1
        while answer.cursor:
            self.assertEqual("DONE", self.command("kill", job=answer.cursor.split()[1]).code)
            answer = self.call("lost", actor="*", age=0, at=answer.at, cursor=answer.cursor)
            calls += 1
        self.assertEqual(3, calls)
        self.assertEqual(1098, self.redis.zcount(f"{KEYS}due", "-inf", self.now()))

    def test_losses_of_many_actors(self):
        """The record of losses is bounded: from then on it says that all was lost."""
        for i in range(1002):
            self.call("lost", actor=f"actor{i}", age=0, at=0, cursor="")
        self.assertEqual(["*", "actor1001"], sorted(self.redis.hgetall(f"{KEYS}lost")))

    def test_follow_ups_of_redelivered_messages(self):
        """They are asked for again if the message is delivered again, because the first scheduler
        may have ended before it sent them. A message that is only repeated has nothing sent
        twice."""

        def sent(answer):
            return answer.code, [(request.step, request.token) for request in answer.requests]

        self.submit(LONG, LONG, after={1: 0})
        root = self.step(0).token
        self.assertEqual(("ALREADY", []), sent(self.submit_call(redelivered=0)))
        self.assertEqual(("ALREADY", [("0", root)]), sent(self.submit_call(redelivered=1)))
        self.record("A")
        next_ = [("1", self.step(1).token)]
        self.steer("enable", command_id="once")
        for call, code in (
            (lambda again: self.reply("A", root, redelivered=again, nonce=NONCES[1]), "ALREADY"),
            (
                lambda again: self.command("enable", command_id="once", redelivered=again),
                "UNCHANGED",
            ),
            (lambda again: self.drive(1, again=again, nonce=NONCES[3]), "DRIVEN"),
        ):
            self.assertEqual((code, []), sent(call(0)))
            self.assertEqual((code, next_), sent(call(1)))

    def test_scheduler_that_drove_the_job_last(self):
        """It is empty while the job waits for start_at."""
        self.submit(LONG, LONG, start_at=FAR)
        self.assertEqual([None], self.job("locked_by"))
        self.redis.flushall()
        self.submit(LONG, LONG)
        self.assertEqual(["me"], self.job("locked_by"))
        for who in ("you", "me"):
            self.reply("A", self.step(int(who == "me")).token, by=who)
            self.assertEqual([who], self.job("locked_by"))

    def test_reply_for_a_step_that_was_never_sent(self):
        """The second token names a step that the job does not have."""
        self.submit(LONG, LONG, after={1: 0})
        for i in (1, 2):
            self.assertEqual("STALE", self.reply("A", f"{i}.{NONCES[8]}").code)

    def test_progress_of_another_token(self):
        """Progress for a step that is not in flight renews nothing."""
        self.submit(HEARTBEATS)
        token, until = self.step(0, "token until")
        self.assertEqual("STALE", self.renew(f"0.{NONCES[8]}").code)
        self.assertEqual(until, self.step(0).until)
        self.assertEqual("RENEWED", self.renew(token).code)
        self.assertTrue(self.now() < int(self.step(0).until) <= self.now() + 3 * 300)
        self.assertGreater(until, self.step(0).until)
        self.record("A")
        after = self.step(0)
        self.assertEqual("STALE", self.renew(token, fraction="0.7").code)
        self.assertEqual(after, self.step(0))

    def test_late_reply_of_another_actor_is_not_kept(self):
        """A reply that an agent of another actor makes up leaves nothing at the step."""
        self.submit(LONG, actors=["stock"], names=["a"])
        for actor, kept in (("payments", None), ("stock", "1"), ("", "2")):
            self.assertEqual("STALE", self.reply("A", "0.madeup", "x", actor=actor).code)
            late = self.redis.hget(f"{KEYS}data:{JOB}", "l0")
            self.assertEqual(kept, late and late.partition(" ")[0], actor)

    def test_reply_after_locked_until(self):
        """A reply after LockedUntil is recorded as one before, until `expire` has withdrawn the
        token."""
        self.submit(SHORT, SHORT)
        token = self.step(1).token
        servers.wait_for(lambda: self.now() > int(self.step(0).until) + 1, "its lease to end")
        self.record("A")
        self.assertEqual("A", self.step(0).current)
        self.expire_begun(1)
        self.assertEqual("STALE", self.reply("A", token).code)

    def test_sweep_mends_a_bound(self):
        """A bound later than the record says, and one that is missing."""
        for score in (FAR, None):
            self.redis.flushall()
            self.submit(LONG)
            self.redis.zrem(f"{KEYS}due", JOB)
            if score:
                self.redis.zadd(f"{KEYS}due", {JOB: score})
            self.assertEqual([JOB, "due"], self.sweep())
            self.assertLessEqual(self.redis.zscore(f"{KEYS}due", JOB), self.now())

    def test_budget_of_a_call(self):
        """A call touches a limited number of steps; the cursor has the others."""
        self.define("d", *[LONG] * 400)
        answer = self.submit_call()
        self.assertEqual(
            ("1", "250", "r:250"), (answer.more, answer.n_requests, self.field("cursor"))
        )
        self.drive()
        self.assertEqual([""], self.job("cursor"))
        self.steer("disable")
        self.assertEqual(["t:250"], self.job("cursor"))

    def test_budget_of_a_scan(self):
        """One call of expire scans 250 steps of a job; the next call goes on after these."""
        self.submit(*[LONG] * (BUDGET + 2))
        self.redis.set("skew", 3_601_000)
        for named in ([*range(BUDGET)], [*range(BUDGET + 2)]):
            self.redis.zadd(f"{KEYS}due", {JOB: self.now()})
            self.expire()
            states = [self.step(i).state for i in range(BUDGET + 2)]
            self.assertEqual(named, [i for i, state in enumerate(states) if state == "M"])

    def test_the_history_is_bounded(self):
        self.submit(LONG)
        for _ in range(300):
            self.steer("pause")
            self.steer("resume")
        self.assertEqual(1000, len(self.events()))

    def test_longest_wait_is_an_hour(self):
        """That is the maximum, both of the backoff and of the wait of a request."""
        self.submit(LONG)
        self.set_step(0, unstarted="30")
        self.record("X")
        self.assertEqual(("B", 3_600_000), (self.step(0).state, self.ms_granted()))
        self.redis.set("skew", 3601000)
        self.await_named(0)
        self.drive(0)
        self.assertEqual(("R", 3_660_000), (self.step(0).state, self.ms_granted()))

    def test_limit_of_results_in_a_notification(self):
        """A result that does not fit is named without its value."""
        self.submit(LONG, LONG)
        self.record("A", 0, "0123456789")
        self.record("A", 1, "abcdefghij")
        (entry,) = self.outbox()
        self.assertEqual(
            {"0": "0123456789", "1": ""}, results_of(self.notification(entry, 0, 1, limit=15))
        )

    def test_retried_job_is_not_listed_as_failed(self):
        self.submit(FAILS)
        self.record("P")
        self.assertEqual([JOB], self.redis.zrange(f"{KEYS}failed", 0, -1))
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual([], self.redis.zrange(f"{KEYS}failed", 0, -1))

    def test_reasons_of_refusals(self):
        self.submit(LONG, SHORT)
        self.record("A", result="one")
        self.assertEqual(("WRONG_STATE", "NOT_FAILED"), self.steer("retry", "other", 0))
        self.assertEqual("UNCHANGED", self.steer("resolve", 0, "A", "one"))
        self.assertEqual(("WRONG_STATE", "THERE"), self.steer("resolve", 0, "A", "other"))
        self.steer("pause")
        self.expire_begun(1)
        self.assertEqual(("WRONG_STATE", "DUE"), self.steer("retry", "", 1))

    def test_version(self):
        build = re.search(r"^local BUILD = (\d+)$", LIBRARY, re.M)[1]
        self.assertEqual(build, self.call("version").build)

    def test_replies_with_invalid_tokens(self):
        self.submit(LONG)
        for token in ("", "0", "0.x", "1.00", "0.00"):
            self.assertEqual("STALE", self.reply("A", token).code)
            self.assertEqual("UNKNOWN_JOB", self.reply("A", token, job="another").code)
            self.assertNotEqual("RENEWED", self.renew(token).code)
        self.assertEqual(["D", "R"], self.step(0, "current state"))

    def test_limit_of_data_of_a_job(self):
        """Results and arguments that are too large are refused, and nothing changes."""
        self.submit(LONG, LONG, LONG)
        self.record("T", 1)
        self.record("X", 2)
        self.redis.hset(f"{KEYS}job:{JOB}", "bytes", DATA_MAX)
        events = self.events()
        self.assertEqual("DATA_FULL", self.reply("A", self.step(0).token, "x").code)
        self.assertEqual(("WRONG_STATE", "DATA_FULL"), self.steer("resolve", 1, "A", "x"))
        self.assertEqual(("WRONG_STATE", "DATA_FULL"), self.steer("retry", "x", 2))
        self.assertEqual(events, self.events())
        self.record("A", 0)
        self.assertEqual("DONE", self.steer("resolve", 1, "A", ""))
        self.assertEqual("DONE", self.steer("retry", "", 2))

    def test_more_results_than_one_read_takes(self):
        self.submit(LONG, LONG, after={1: 0}, take={1: range(2001)})
        self.redis.hset(f"{KEYS}data:{JOB}", mapping={f"r{i}": f"of {i}" for i in range(1, 2001)})
        answer = self.record("A", result="of 0")
        self.assertEqual({str(i): f"of {i}" for i in range(2001)}, results_of(answer))

    def test_each_function_may_be_called_first(self):
        """Redis keeps nothing of a library that is loaded anew: each function sets up what it needs
        of Lua."""
        unknown, token = "UNKNOWN_JOB", "0.0"
        calls = {
            "define": lambda: self.define_piece("d", "", 0, 1).code == "DEFINED",
            "submit": lambda: self.submit_call().code == "UNKNOWN_DEFINITION",
            "record": lambda: self.reply("A", token).code == unknown,
            "unsent": lambda: self.unsent(1, token) == [],
            "renew": lambda: self.renew(token).code == unknown,
            "taken": lambda: self.take(token).code == unknown,
            "expire": lambda: self.expire().n_due == "0",
            "drive": lambda: self.drive().code == unknown,
            "steer": lambda: self.command("cancel").code == unknown,
            "settle_owed": lambda: self.call("settle_owed", job_id="gone", seq=1, at=1).code
            == "SETTLED",
            "defer_owed": lambda: self.defer(seq=1, tries=0) == "DEFERRED",
            "lost": lambda: self.call("lost", actor="*", age=0, at=0, cursor="").cursor == "",
            "lead": lambda: self.call("lead", supervisor="s", lease=1000).code == "LEADS",
            "inspect": lambda: self.inspect_job().code == "UNKNOWN",
            "told": lambda: self.call("told", cause="x", what="over", nonce="n").code == "OVER",
            "step_events": lambda: self.call("step_events", job_id=JOB).code == unknown,
            "mark": lambda: self.call("mark", run="r", nonce="n", job_ids=[JOB]).n_lost == "1",
            "suspect": lambda: self.call(
                "suspect", digest="m", incarnation="a", what="begin").incarnations == "1",
            "forget": lambda: self.call("forget", retention=0, limit=9).jobs == "0",
            "sweep": lambda: self.call("sweep", cursor="").job_id == "",
            "look": lambda: self.dry_run("sweep", cursor="").job_id == "",
            "version": lambda: int(self.call("version").build) > 0,
        }
        self.assertEqual({name.split()[0] for name in schema.functions}, set(calls))
        for name, answers in calls.items():
            with self.subTest(name):
                self.redis.flushall()
                self.load_library()
                self.assertTrue(answers())

    def test_error_that_is_not_the_jobs(self):
        """A job is not corrupt because Redis refuses a command: here its user has no right, or the
        server is read-only."""
        for code, refusal in (("ERR", "The user executing the script can't run this command"),
                              ("ERR", "ACL failure in script: no rights"),
                              ("READONLY", "no writes here")):
            self.load_library((
                "  call = redis.call\n",
                "  call = function(command, ...) "
                "if command == 'HMGET' and redis.call('GET', 'on') then "
                f"error({{err = \"{code} {refusal}\"}}, 0) end "
                "return redis.call(command, ...) end\n",
            ))
            self.addCleanup(self.load_library)
            self.redis.flushall()
            self.submit(LONG)
            self.record("A")
            self.redis.set("skew", 60_000)
            self.redis.set("on", 1)
            with self.subTest(refusal), self.assertRaisesRegex(redis.ResponseError, refusal):
                self.expire()

    def test_kill_when_redis_refuses_a_command(self):
        """A Kill repairs corrupt jobs only, and a job is not corrupt because Redis refuses to read
        it once."""
        self.load_library((
            "  call = redis.call\n",
            "  call = function(command, ...) "
            "if command == 'HMGET' and redis.call('GET', 'on') then "
            "redis.call('DEL', 'on') error({err = \"NOPERM no reads here\"}, 0) end "
            "return redis.call(command, ...) end\n",
        ))
        self.addCleanup(self.load_library)
        self.submit(LONG)
        self.redis.hset(f"{KEYS}job:{JOB}", "scan", 0)
        self.redis.set("on", 1)
        with self.assertRaisesRegex(redis.ResponseError, "no reads here"):
            self.steer("kill")
        self.assertEqual("0", self.redis.hget(f"{KEYS}job:{JOB}", "scan"))

    def test_error_of_a_dry_run(self):
        with self.assertRaises(redis.ResponseError):
            self.ask("look", name="expire", arguments=["no number", 1, 1, 0, 0, 0, 0, 0])

    def test_longest_answers(self):
        """An answer has at most 1000 workflows, steps or entries, however many are asked for."""
        self.submit(LONG)
        self.redis.hset(f"{KEYS}workflows", mapping={f"w{k:04}@1": "digest" for k in range(1001)})
        workflows = self.call("inspect workflows", after="", limit=2000)
        self.assertEqual(("1000", "1"), (workflows.n, workflows.more))
        self.redis.hset(f"{KEYS}job:{JOB}", "n", 1001)
        self.assertEqual("1000", self.inspect_job(count=2000, with_data=0).n_steps)
        self.redis.rpush(f"{KEYS}hist:{JOB}", *(f"{k} 0 mended due" for k in range(1, 1002)))
        history = self.inspect_history(1, 2000)
        self.assertEqual(("1000", "1"), (history.n, history.more))

    def test_a_page_of_large_errors(self):
        """A page ends once it is large enough, with at least one step. The next page goes on from
        there."""
        self.submit(LONG, LONG, LONG, LONG)
        for i, size in enumerate((1100000, 600000, 400000, 600000)):
            self.redis.hset(f"{KEYS}data:{JOB}", f"e{i}", "x" * size)
        for first, count in ((0, 1), (1, 2), (3, 1)):
            page = self.inspect_job(start=first, with_data=0)
            self.assertEqual(
                [str(first + k) for k in range(count)], [step.number for step in page.steps]
            )

    def test_list_by_several_labels(self):
        def jobs(*labels, **more):
            return [job.job_id for job in self.inspect_jobs(*labels, **more).listed_jobs]

        self.submit(LONG, labels="6:site=a4:x=yy")
        self.assertEqual([JOB], jobs("site=a"))
        self.assertEqual([JOB], jobs("site=a", "x=yy", phase="PROCESSING"))
        self.assertEqual([], jobs("site=a", "x=zz"))
        self.assertEqual([], jobs("site=a", phase="ERROR"))
        self.assertEqual([], jobs("site=a", workflow="another"))

    def test_a_definition_of_an_earlier_build(self):
        """It is stored again, and stays while a job uses it."""
        self.submit(LONG)
        self.redis.hset(f"{KEYS}def:d", "ready", 1)
        self.define("d", LONG)
        self.assertEqual([], self.index("defs"))
        self.assertEqual("1", self.redis.hget(f"{KEYS}def:d", "refs"))

    def test_unused_definition_is_forgotten(self):
        self.submit(LONG)
        self.define("e", LONG)
        self.assertEqual(["e"], self.index("defs"))
        self.forget(FAR)
        self.assertEqual(1, self.redis.exists(f"{KEYS}def:e"))
        self.redis.zadd(f"{KEYS}defs", {"e": self.now() - 3600000})
        self.forget(FAR)
        self.assertEqual([0, 1], [self.redis.exists(f"{KEYS}def:{name}") for name in "ed"])
        self.assertEqual([], self.index("defs"))

    def test_a_definition_that_lost_a_step(self):
        """A call that needs that step fails before it has changed the job. A sweep calls the job
        corrupt."""
        self.submit(LONG, LONG, after={1: 0})
        self.redis.hdel(f"{KEYS}def:d", 1)
        before = self.redis.hgetall(f"{KEYS}job:{JOB}")
        with self.assertRaisesRegex(redis.ResponseError, "definition d has no step 1"):
            self.record("A")
        _, corrupt, why = self.sweep(dry_run=True)
        self.assertEqual("torn", corrupt)
        self.assertIn("definition d has no step 1", why)
        self.assertEqual(before, self.redis.hgetall(f"{KEYS}job:{JOB}"))
        self.assertEqual("DONE", self.steer("pause"))

    def test_forget_waits_for_notifications(self):
        """Those of earlier turns count too."""
        self.submit(LONG)
        self.record("A")
        self.assertEqual("DONE", self.steer("disable"))
        succeeded, compensated = sorted(self.outbox(), key=lambda entry: int(entry.seq))
        self.confirm(compensated)
        self.assertEqual(["0", "0"], self.forget())
        self.assertEqual("SUCCEEDED", self.notification(succeeded).outcome)
        for _ in range(2):
            self.confirm(succeeded)
        self.assertEqual(["0"], self.job("owes"))
        self.assertEqual(["1", "0"], self.forget())
        keys = [f"{KEYS}{kind}:{JOB}" for kind in ("job", "data", "hist")]
        self.assertEqual(0, self.redis.exists(*keys))

    def test_forget_waits_for_uncounted_notifications(self):
        """A build before 22 ended the turn without counting its notifications. The counter covers
        those of later turns only, whether the first one is confirmed before or after the job ends
        again."""
        for before in (True, False):
            self.redis.flushall()
            self.submit(LONG)
            self.record("A")
            self.redis.hdel(f"{KEYS}job:{JOB}", "owes")
            (succeeded,) = self.outbox()
            self.assertEqual(["0", "0"], self.forget())
            if before:
                self.confirm(succeeded)
            self.assertEqual("DONE", self.steer("disable"))
            self.confirm(succeeded)
            self.assertEqual(["0", "0"], self.forget())
            (compensated,) = self.outbox()
            self.confirm(compensated)
            self.assertEqual(["1", "0"], self.forget())

    def test_forget_with_damaged_labels(self):
        self.submit(LONG, labels="6:site=a4:x=yy")
        self.redis.hset(f"{KEYS}data:{JOB}", "index", "6:site=ax=yy")
        self.record("A")
        (entry,) = self.outbox()
        self.confirm(entry)
        self.assertEqual(["1", "0"], self.forget())
        self.assertEqual([[], []], [self.index(name) for name in ("jobs", "l:site=a")])

    def test_indexes_with_unknown_jobs(self):
        """Their entries are removed, and nothing is driven."""
        self.submit(LONG)
        self.record("A")
        for name in ("due", "open"):
            self.redis.zadd(f"{KEYS}{name}", {"another": 0, JOB: 1})
        self.redis.zadd(f"{KEYS}owed", {"another 1": 0})
        self.redis.zadd(f"{KEYS}settled", {"another": 0})
        self.assertEqual(["1", "1"], self.forget(limit=1))
        self.assertEqual([JOB], self.index("settled"))
        self.assertEqual(([], []), self.named(self.expire()))
        self.assertEqual([], self.index("due"))
        self.assertEqual(1, len(self.index("owed")))
        sweeps = [self.sweep() for _ in range(3)]
        self.assertEqual([["another", "open"], [JOB, "open"], [""]], sweeps)
        self.assertEqual([], self.index("open"))

    def test_sweep_mends_a_join_counter(self):
        """The counter is one too high, or the step was never dispatched. A sweep mends that, and
        the step is driven."""
        for waiting in range(2):
            self.redis.flushall()
            self.submit(LONG, LONG, after={1: 0})
            steps = {"0": "A A W 1 1 - 0 0 0 0 0", "1": f"D A W 0 0 - 0 0 0 {waiting} 0"}
            self.redis.hset(f"{KEYS}job:{JOB}", mapping={**steps, "open": 1, "busy": 0})
            self.assertEqual([JOB, "1"], self.sweep())
            self.assertIn("mended", self.events())
            self.assertEqual(([(JOB, "0", ["1"])], []), self.named(self.expire()))
            self.drive(1)
            self.assertEqual("R", self.step(1).state)
            self.record("A", 1)
            self.assertEqual(["SUCCEEDED", "0"], self.job("outcome", "busy"))

    def test_sweep_mends_the_index_of_due_jobs(self):
        """A job is missing in `due`, or has a bound too late. A sweep makes it due at once."""
        self.submit(LONG)
        self.assertEqual([JOB], self.sweep())
        for lose in (
            lambda: self.redis.zrem(f"{KEYS}due", JOB),
            lambda: self.redis.zadd(f"{KEYS}due", {JOB: FAR}),
        ):
            lose()
            self.assertEqual([JOB, "due"], self.sweep())
            self.assertLessEqual(int(self.redis.zscore(f"{KEYS}due", JOB)), self.now())
            self.expire()
            self.assertEqual([JOB], self.sweep())

    def test_a_sweep_while_jobs_end(self):
        """The jobs behind the last one swept move up, and none is passed over."""
        for created in (5, 6):
            self.submit(LONG)
            self.redis.zadd(f"{KEYS}open", {JOB: 5, "second": created, "third": created})
            found = self.sweep()
            self.redis.zrem(f"{KEYS}open", JOB)
            while self.cursor:
                found += self.sweep(self.cursor)
            self.assertEqual([JOB, "second", "open", "third", "open", ""], found)
            self.redis.flushall()

    def test_step_back_during_a_sweep(self):
        """The bounds that the sweep has set until then lie too far ahead again: the store asks for
        another one."""
        self.submit(LONG)
        self.expire()
        for skew in (-5000, -10000):
            self.redis.set("skew", skew)
            self.assertEqual("1", self.expire().back)
            if skew == -5000:
                self.sweep()
        self.assertEqual([""], self.sweep(self.cursor))
        self.assertEqual("1", self.expire().back)
        self.sweep()
        self.assertEqual([""], self.sweep(self.cursor))
        self.assertEqual("0", self.expire().back)

    def test_dry_runs_change_nothing(self):
        """They answer as the call itself would."""
        self.submit(SHORT, FAILS)
        self.redis.set("skew", 5000)
        expired = self.named(self.expire(dry_run=True))
        self.assertEqual(([(JOB, "1", ["0"])], []), expired)
        self.assertEqual("R", self.step(0).state)
        self.assertEqual(expired, self.named(self.expire()))
        self.assertEqual("M", self.step(0).state)
        self.redis.zadd(f"{KEYS}open", {"another": 0})
        for _ in range(2):
            self.assertEqual(["another", "open"], self.sweep(dry_run=True))
        self.steer("kill")
        (entry,) = self.outbox()
        self.redis.set("skew", 15000)
        expired = self.named(self.expire(dry_run=True))
        self.assertEqual(([], [(entry.job_id, entry.seq)]), expired)
        self.assertEqual(expired, self.named(self.expire()))
        self.confirm(entry)
        self.assertEqual("1", self.dry_run("forget", retention=0, limit=9).jobs)
        self.assertEqual(["1", "0"], self.forget())
        self.assertEqual(["0", "0"], self.forget())

    def test_retry_while_the_end_cancels_timers(self):
        """Steps that the walk of the end has not reached keep their timers."""
        last = BUDGET + 49
        self.submit(FAILS, *[BACKS_OFF] * last)
        self.record("T", 1)
        self.record("T", last)
        self.record("P")
        self.assertEqual([f"l:{BUDGET}"], self.job("cursor"))
        self.assertEqual(["W", "B"], [self.step(i).state for i in (1, last)])
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.drive()
        self.assertEqual([""], self.job("cursor"))
        self.assertEqual(["R", "B"], [self.step(i).state for i in (1, last)])

    def test_migrate_a_step_dispatched_again(self):
        """No agent took the attempt before, and none has sent Progress for this one: the token is
        withdrawn, and the step is undone as a precaution."""
        self.submit(LONG)
        self.redis.set("skew", 61000)
        self.record("N")
        token = self.step(0).token
        self.assertEqual(["R", "2", "1"], self.step(0, "state attempt unstarted"))
        self.define("e", SHORT, revert=LONG)
        self.assertEqual("DONE", self.migrate("e", 1, 0))
        self.assertIn("withdrawn", self.events())
        self.assertEqual(["U", "D", "R"], self.step(0, "current asked state"))
        self.assertEqual("STALE", self.reply("A", token).code)
        self.record("D")
        self.assertEqual(["D", "A", "R"], self.step(0, "current asked state"))

    def test_migrate_a_silent_step(self):
        """The request did not come back: an agent without Progress may work on it, or have done it.
        Nor may a step whose next request was taken, or rejected."""
        self.submit(SHORT)
        self.define("e", LONG)
        self.await_named(0)
        self.assertIn("silent", self.events())
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.migrate("e", 1, 0))
        self.drive(0)
        self.assertEqual("R", self.step(0).state)
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.migrate("e", 1, 0))
        for show, why in ((self.take, "IN_FLIGHT"), (lambda _: self.record("J"), "UNKNOWN")):
            self.redis.flushall()
            self.submit(LONG)
            self.define("e", SHORT)
            self.redis.set("skew", 61000)
            self.record("N")
            show(self.step(0).token)
            self.assertEqual(("WRONG_STATE", why), self.migrate("e", 1, 0))

    def test_late_progress_is_no_evidence(self):
        """An agent that has had a request for longer than its lease must not begin it, so its
        Progress is no evidence."""
        self.submit(LONG)
        token, until = self.step(0).token, self.step(0).until
        self.assertEqual("STALE", self.renew(token, elapsed=60000).code)
        self.assertEqual([token, until], self.step(0, "token until"))
        self.assertEqual("RENEWED", self.renew(token, elapsed=59000).code)
        self.assertEqual("RENEWED", self.renew(token, elapsed=60000).code)

    def test_rejected_after_progress(self):
        """LockedUntil decides, and the expiry counts."""
        self.submit(LONG)
        token = self.step(0).token
        self.assertEqual("RENEWED", self.renew(token).code)
        self.assertEqual("BEGUN", self.reply("J", token).code)
        self.assertEqual("R", self.step(0).state)

    def test_wait_after_expiries(self):
        """The wait doubles after an expiry shown by the queue alone, and is reset after one shown
        by Progress."""
        self.submit("1 1 0 1 1 1 1 9 0 -1 PP|")
        self.expire_begun(0)
        self.assertEqual("1", self.step(0).unstarted)
        self.drive(0)
        self.renew(self.step(0).token)
        self.await_named(0)
        self.assertEqual(("2", "0"), (self.step(0).expiries, self.step(0).unstarted))

    def test_migrate_a_step_with_progress(self):
        self.submit(LONG)
        self.redis.set("skew", 61000)
        self.record("N")
        self.assertEqual("RENEWED", self.renew(self.step(0).token).code)
        self.define("e", SHORT)
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.migrate("e", 1, 0))

    def test_migrate_beside_a_step_in_flight(self):
        """One step has to be undone first. Another one that differs is in flight, and no agent has
        begun it; meanwhile one may."""
        self.submit(LONG, LONG, revert=LONG)
        self.record("T")
        self.redis.set("skew", 61000)
        self.record("N", 1)
        self.assertEqual("R", self.step(1).state)
        self.define("e", SHORT, SHORT, revert=LONG)
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.migrate("e", 2, 0, 1))
        self.assertEqual("DONE", self.migrate("e", 2, 0))

    def test_migrate_with_many_undos(self):
        self.submit(*[LONG] * (BUDGET + 1), revert=LONG)
        for i in range(BUDGET + 1):
            self.record("T", i)
        self.define("e", *[SHORT] * (BUDGET + 1), revert=LONG)
        self.assertEqual(
            ("WRONG_STATE", "MANY_UNKNOWN"), self.migrate("e", BUDGET + 1, *range(BUDGET + 1))
        )
        self.assertEqual("DONE", self.migrate("e", BUDGET + 1, *range(BUDGET)))

    def test_migrate_to_an_unknown_definition(self):
        self.submit(LONG)
        self.assertEqual("MOVED", self.migrate("e", 1))

    def test_migrate_before_start_at(self):
        self.submit(LONG, start_at=self.now() + 3000)
        self.define("e", LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 2))
        self.drive()
        self.assertEqual(["PENDING", None], self.job("phase", "cursor"))
        self.assertNotIn("dispatched", self.events())
        self.redis.set("skew", 4000)
        self.drive()
        self.assertEqual(["R", "R"], [self.step(i).state for i in range(2)])

    def test_migrate_after_retry_all(self):
        """The job was on hold meanwhile. The step that was parked begins anew all the same."""
        self.submit(LONG, LONG)
        self.record("T")
        self.assertEqual(["P", "1"], [self.step(0).state, self.step(0).failures])
        self.steer("pause")
        self.assertEqual("DONE", self.retry_all())
        self.define("e", LONG, LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 3))
        self.assertEqual("P", self.step(0).state)
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["R", "0"], [self.step(0).state, self.step(0).failures])

    def test_migrate_after_resume(self):
        """The walk of the resume had not reached all steps."""
        self.submit(*[LONG] * (BUDGET + 1))
        self.steer("pause")
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual([f"w:{BUDGET}"], self.job("cursor"))
        self.define("e", *[LONG] * (BUDGET + 2))
        self.assertEqual("DONE", self.migrate("e", BUDGET + 1))
        self.assertIn("w:0", *self.job("cursor"))

    def test_migrate_a_job_that_does_not_go_forward(self):
        self.submit(FAILS, LONG)
        self.define("e", LONG, LONG, LONG)
        self.record("P")
        self.assertEqual(("WRONG_STATE", "ENDING"), self.migrate("e", 3))
        self.steer("disable")
        self.assertEqual(("WRONG_STATE", "BACK"), self.migrate("e", 3))

    def test_a_paused_job_is_not_tried_again(self):
        """All is undone, and the job has another try: that begins once the job is resumed."""
        self.submit(LONG, COMPENSATES, after={1: 0}, revert=LONG, tries=2)
        self.record("A")
        self.record("P", 1)
        self.record("D", 1)
        self.steer("pause")
        self.record("D")
        self.assertEqual(["PROCESSING", "D", "0"], self.job("phase", "desired", "open"))
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["PROCESSING", "A"], self.job("phase", "desired"))
        self.assertEqual(["A", "R"], self.step(0, "asked state"))

    def test_a_failed_job_is_paused_and_resumed(self):
        """It stays FAILED, and nothing is sent."""
        self.submit(FAILS)
        self.record("P")
        self.steer("pause")
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["ERROR", "", None], self.job("phase", "hold", "cursor"))
        self.assertEqual(1, self.events().count("dispatched"))
        self.assertEqual(("WRONG_STATE", "FAILED"), self.steer("resume"))

    def test_deadline(self):
        """The job goes on hold, ends or goes back, as its definition says."""
        for on_deadline, fields in (("P", ["deadline", None, "A"]), ("F", [None, "DEADLINE", "A"]),
                                    ("C", [None, "", "D"])):
            self.redis.flushall()
            self.submit(LONG, on_deadline=on_deadline, complete_by=self.now() + 60000)
            self.redis.set("skew", 60000)
            self.drive()
            self.assertEqual(fields, self.job("hold", "ending", "desired"))

    def test_retry_all_while_the_job_ends(self):
        """No step has failed, but the job goes on all the same."""
        self.submit(LONG, LONG, after={1: 0}, on_deadline="F", complete_by=self.now() + 60000)
        self.redis.set("skew", 60000)
        self.drive()
        self.assertEqual(["DEADLINE"], self.job("ending"))
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual([""], self.job("ending"))
        self.record("A")
        self.assertEqual("R", self.step(1).state)

    def test_retry_of_one_of_two_failed_steps(self):
        """The other one still has failed: the job ends as before."""
        self.submit(FAILS, SHORT)
        self.record("P")
        self.record("T", 1)
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.assertEqual("DONE", self.steer("retry", "", 1))
        self.record("A", 1)
        self.assertEqual(["FAILED", "PERMANENT", "0"], self.job("outcome", "reason", "failed"))
        self.assertEqual(2, self.events().count("settled"))

    def failure(self):
        """Returns the failure that decided last how the job ends, and the error of that step."""
        text = self.field("failure")
        return [
            text.rpartition("|")[2],
            self.redis.hget(f"{KEYS}data:{JOB}", "failure_back" if "|" in text else "failure"),
        ]

    def test_deciding_failure(self):
        """The first failure in each direction decides; later ones of that direction change
        nothing."""
        gives_up = FAILS.replace("FP", "FF")
        self.submit(COMPENSATES, LONG, LONG, names="abc", revert=gives_up)
        self.record("A", 1)
        self.record("P", error=an_error("declined"))
        self.assertEqual(["a A PERMANENT 0 PERMANENT", without_details("declined")], self.failure())
        self.record("T", 2, error=an_error("stopped"))
        self.record("D", error="")
        self.assertEqual(["a A PERMANENT 0 PERMANENT", without_details("declined")], self.failure())
        first = ["b D EXHAUSTED 1 EXHAUSTED", without_details("cannot be taken back")]
        self.record("T", 1, error=an_error("cannot be taken back"))
        self.assertEqual(first, self.failure())
        self.record("P", 2, error=an_error("nor this"))
        self.assertEqual(["COMPENSATION_FAILED"], self.job("outcome"))
        self.assertEqual(first, self.failure())

    def test_deciding_failure_is_reset_by_another_try(self):
        self.submit(COMPENSATES, names="a", revert=LONG, tries=2)
        self.record("P", error=an_error("declined"))
        self.record("D")
        self.assertEqual(["A", "2"], self.job("desired", "tried"))
        self.assertEqual([""], self.job("failure"))
        self.record("P", error=an_error("declined again"))
        self.record("D")
        self.assertEqual(
            ["COMPENSATED", "FAILURE", "a A PERMANENT 0 PERMANENT"],
            self.job("outcome", "reason", "failure"),
        )
        self.assertEqual(without_details("declined again"), self.failure()[1])
        self.steer("enable")
        self.record("A")
        self.assertEqual(["SUCCEEDED", ""], self.job("outcome", "failure"))

    def test_deciding_failure_after_a_retry(self):
        """The first failure is gone because a person had that step tried again. Of the others the
        earliest decides."""
        self.submit(LONG, LONG, LONG, names="abc", revert=FAILS)
        for i in range(3):
            self.record("A", i)
        self.steer("disable")
        self.record("P", error=an_error("first"))
        self.record("P", 2, error=an_error("second"))
        self.record("P", 1, error=an_error("third"))
        self.assertEqual(["a D PERMANENT 0 PERMANENT", without_details("first")], self.failure())
        self.steer("retry", "", 0)
        self.assertEqual([""], self.job("failure"))
        self.record("D")
        self.assertEqual(
            ["COMPENSATION_FAILED", "|c D PERMANENT 2 PERMANENT"], self.job("outcome", "failure")
        )
        self.assertEqual(without_details("second"), self.failure()[1])

    def test_deciding_failure_outlasts_a_failed_undo(self):
        """The failure stays known when an undo has failed and a person has that tried again."""
        self.submit(COMPENSATES, LONG, names="ab", actors="xy", revert=FAILS, revert_actor="z")
        self.record("A", 1)
        self.record("P", error=an_error("declined"), class_="DECLINED")
        self.record("D")
        self.record("P", 1, error=an_error("cannot"), class_="STUCK")
        self.assertEqual(["ended", "b", "z", "STUCK"], self.needs())
        self.steer("retry", "", 1)
        self.record("D", 1)
        self.assertEqual(["COMPENSATED", "FAILURE"], self.job("outcome", "reason"))
        self.assertEqual(["a A PERMANENT 0 DECLINED", without_details("declined")], self.failure())
        self.assertEqual(["ended", "a", "x", "DECLINED"], self.needs())

    def test_malformed_errors(self):
        """Text that cannot be decoded as an Error is left out."""
        for error in ("\x0a", "\x0a\x7fBAD", "\x0b\x01", "\xff" * 20, "BAD"):
            with self.subTest(error):
                self.redis.flushall()
                self.submit(FAILS, names="a")
                self.record("P", error=error)
                self.assertEqual(["FAILED"], self.job("outcome"))

    def test_failures_that_no_agent_reports(self):
        self.submit("1 1 0 1 1 1 1 1 0 -1 PC|", names="a")
        self.expire_begun(0)
        self.drive(0)
        self.assertEqual(["COMPENSATED", "a A DEATHS 0 DEATHS"], self.job("outcome", "failure"))
        self.redis.flushall()
        self.submit(LONG, names="a", on_deadline="C", complete_by=self.now() + 60000)
        self.redis.set("skew", 60000)
        self.drive()
        self.assertEqual(["- A DEADLINE - DEADLINE", ""], self.failure())

    def test_notification_has_the_deciding_failure(self):
        self.submit(COMPENSATES, names="a")
        self.record("P", error=an_error("declined"))
        *_, entry = sorted(self.outbox(), key=lambda entry: int(entry.seq))
        answer = self.notification(entry)
        self.assertEqual(
            [
                "COMPENSATED", "FAILURE", "", "a A PERMANENT 0 PERMANENT",
                without_details("declined"),
            ],
            [answer.outcome, answer.reason, answer.failed, answer.failure, answer.error],
        )
        self.steer("enable")  # the notification of the earlier end still says this
        answer = self.notification(entry)
        self.assertEqual(
            ["a A PERMANENT 0 PERMANENT", without_details("declined")],
            [answer.failure, answer.error],
        )
        self.confirm(entry)
        self.assertEqual(
            [None] * 2, self.redis.hmget(f"{KEYS}data:{JOB}", f"w{entry.seq}", f"v{entry.seq}")
        )

    def agents(self):
        """Returns for each step the agent that had it last."""
        return [step.agent for step in self.inspect_job(with_data=0).steps]

    def test_agent_that_answered(self):
        """The history names the agent of each attempt, and the record that of the last one. An
        agent that does not give its name is left empty."""
        self.submit(BACKS_OFF, LONG, LONG)
        self.assertEqual(["", "", ""], self.agents())
        self.record("T", agent="a-1")
        self.record("A", 1, agent="b-1")
        self.record("P", 2)
        self.assertEqual(["a-1", "b-1", ""], self.agents())
        self.await_named(0)
        self.drive(0)
        self.record("A", agent="a-2")
        self.assertEqual(["a-2", "b-1", ""], self.agents())
        self.assertEqual(
            ["a-1", "b-1", None, "a-2"],
            [entry.last for entry in self.step_entries("done", "failed")],
        )

    def test_agent_of_an_expiry(self):
        """For a dispatch without a reply, it is the agent whose Progress has named it."""
        self.submit(LONG, BACKS_OFF)
        self.record("T", 1, agent="b-1")
        self.renew(self.step(0).token, fraction="0.5@a-1")
        self.redis.set("skew", 600_000)
        self.expire()
        self.await_named(1)
        self.drive(1)
        self.taken(1)
        self.redis.set("skew", 1_200_000)
        self.expire()
        self.assertEqual(
            [("0", "1", "a-1"), ("1", "2", None)],
            [(entry.step, entry.attempt, entry.last) for entry in self.step_entries("expired")],
        )
        self.assertEqual(["a-1", "b-1"], self.agents())

    def attention(self):
        """Returns the kind of what the job needs a person for."""
        return self.field("attention").partition(" ")[0]

    def needs(self):
        """Returns the attention of the job, which the lists and the job itself must agree on."""
        kinds = [kind for kind in ("parked", "deadline", "ended") if self.index(f"needs:{kind}")]
        self.assertEqual([JOB] if kinds else [], self.index("needs"))
        kind, since, *about = (self.field("attention") or "").split() or ["", "0"]
        self.assertEqual([kind] if kind else [], kinds)
        self.assertTrue(not kind or self.now() - int(since) < 10_000)
        return [kind, *about]

    def test_a_parked_step_needs_a_person(self):
        self.submit(LONG, LONG, LONG, names="abc", actors=["x", "y", "z"])
        self.assertEqual([""], self.needs())
        self.record("P", 1, class_="DECLINED")
        self.assertEqual(["parked", "b", "y", "DECLINED"], self.needs())
        self.assertEqual("DONE", self.steer("acknowledge", said="ann is on it"))
        self.assertEqual([""], self.needs())
        self.assertIn(["acknowledge", "-", "ann", "is", "on", "it"], self.entries_after("command"))
        self.assertEqual("UNCHANGED", self.steer("acknowledge"))
        self.record("P", 0, class_="NO_ROOM")
        self.assertEqual(["parked", "a", "x", "NO_ROOM"], self.needs())
        self.assertEqual(["2"], self.job("parked"))
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual("parked", self.needs()[0])  # the other one
        self.steer("retry", "", 1)
        self.assertEqual([""], self.needs())
        self.assertEqual(("WRONG_STATE", "NO_NEED"), self.steer("acknowledge"))

    def test_attention_names_the_last_parked_step(self):
        """The time since when the job needs attention stays the same."""
        self.submit(LONG, LONG, names="ab", actors="xy")
        self.record("P", class_="CA")
        self.record("P", 1, class_="CB")
        self.assertEqual(["parked", "b", "y", "CB"], self.needs())

    def test_acknowledged_and_then_past_its_deadline(self):
        """That is new, so the job is on the list again."""
        self.submit(LONG, names="a", actors="x", complete_by=self.now() + 60_000)
        self.record("P", class_="DECLINED")
        self.steer("acknowledge")
        self.assertEqual([""], self.needs())
        self.redis.set("skew", 60_000)
        self.drive()
        self.assertEqual("parked", self.needs()[0])

    def test_acknowledged_and_then_parked_for_good(self):
        self.submit(PARKS_FOR_A_TIME, names="a", actors="x")
        self.record("T", class_="BUSY")
        self.steer("acknowledge")
        self.redis.set("skew", 600_001)
        self.await_named(0)
        self.drive(0)
        self.assertEqual(["PARKED"], self.alerts(self.record("P", class_="DECLINED")))
        self.assertEqual(["parked", "a", "x", "DECLINED"], self.needs())

    def test_attention_lasts_until_success(self):
        """A step that is tried again stays parked in the list, and there is no new alert."""
        self.submit(PARKS_FOR_A_TIME, names="a", actors="x")
        self.assertEqual(["PARKED"], self.alerts(self.record("T", class_="BUSY")))
        for skew in (600_001, 1_200_002):
            self.redis.set("skew", skew)
            self.await_named(0)
            self.drive(0)
            self.assertEqual("R", self.step(0).state)
            self.assertEqual("parked", self.attention())
            self.assertEqual([], self.alerts(self.record("T")))
        self.redis.set("skew", 1_800_003)
        self.await_named(0)
        self.drive(0)
        self.record("A")
        self.assertEqual(["SUCCEEDED", "", "0"], self.job("outcome", "attention", "parked"))
        self.assertEqual([], self.index("needs"))

    def test_attention_for_a_step_parked_by_an_earlier_build(self):
        """It is on the list after a sweep."""
        self.submit(LONG, names="a", actors="x")
        self.record("T")
        self.redis.hdel(f"{KEYS}job:{JOB}", "k0", "parked", "attention")
        self.redis.zrem(f"{KEYS}needs", JOB)
        self.redis.zrem(f"{KEYS}needs:parked", JOB)
        self.assertEqual([""], self.needs())
        for _ in range(3):
            self.assertEqual([JOB], self.sweep())
            self.assertEqual(["parked", "a", "x", "EXHAUSTED"], self.needs())
        self.assertEqual(["1"], self.job("parked"))

    def test_attention_for_a_failed_job(self):
        self.submit(FAILS, names="a", actors="x")
        self.assertEqual(["FAILED"], self.alerts(self.record("P", class_="DECLINED")))
        self.assertEqual(["ended", "a", "x", "DECLINED"], self.needs())
        self.assertEqual(["1"], self.job("failures"))
        self.steer("acknowledge")
        self.assertEqual([""], self.needs())
        self.steer("retry", "")
        self.assertEqual([""], self.needs())
        self.record("P", class_="AGAIN")
        self.assertEqual(["ended", "a", "x", "AGAIN"], self.needs())
        self.assertEqual(["2"], self.job("failures"))
        self.forget_all()
        self.assertEqual([], self.index("needs") + self.index("needs:ended"))

    def test_outcomes_that_need_a_person(self):
        for name, kind, want, definition in (
                ("compensated", "P", "ended", {}), ("ordinary", "P", "", {"expected": 1}),
                ("cancelled", "", "", {}), ("done", "A", "", {})):
            with self.subTest(name):
                self.redis.flushall()
                self.submit(
                    COMPENSATES, names="a", actors="x", revert=LONG, revert_actor="y", **definition
                )
                if kind:
                    self.record(kind)
                else:
                    self.steer("cancel")
                    self.record("A")
                if kind != "A":
                    self.assertEqual([""], self.needs())
                    self.record("D")
                self.assertEqual(want, self.needs()[0])
                self.assertEqual([["COMPENSATED"]] if want else [], self.entries_after("attention"))

    def test_attention_for_a_failed_undo(self):
        self.submit(COMPENSATES, names="a", actors="x", revert=FAILS, revert_actor="y")
        self.record("P", class_="DECLINED")
        self.assertEqual(["COMPENSATION_FAILED"], self.alerts(self.record("P", class_="STUCK")))
        self.assertEqual(["ended", "a", "y", "STUCK"], self.needs())

    def test_attention_for_a_parked_step_outlasts_the_deadline(self):
        self.submit(LONG, names="a", actors="x", complete_by=self.now() + 5_000)
        self.record("P", class_="DECLINED")
        self.redis.set("skew", 5_000)
        self.drive()
        self.assertEqual(["deadline"], self.job("hold"))
        self.assertEqual(["parked", "a", "x", "DECLINED"], self.needs())

    def test_dead_letters_of_others(self):
        """The store reports dead letters that no scheduler answers for within a minute: to one
        scheduler, with their number."""
        def letters(there, own=0, minutes=1):
            """Reports what a scheduler has seen in drover.dead."""
            self.passed += minutes * 60_000
            self.redis.set("skew", self.passed)
            answer = self.call("told", cause="", what="letters", nonce="", there=there, own=own)
            self.assertEqual("NEWS" if answer.count != "0" else "KNOWN", answer.code)
            return int(answer.count)

        self.passed = 0
        self.assertEqual(0, letters(5))  # these were there before
        self.assertEqual((0, 2), (letters(7), letters(7)))
        self.assertEqual(0, letters(7))
        # Another scheduler has put one there, and says so a little later.
        self.assertEqual((0, 0), (letters(8, minutes=0.5), letters(8, own=1, minutes=0.5)))
        self.assertEqual((0, 0), (letters(8), letters(8)))
        # That scheduler says so before the letter can be seen; then it and two of others come.
        self.assertEqual((0, 0, 2), (letters(8, own=1), letters(11, minutes=0.5), letters(11)))
        # Schedulers put letters there all the time; the number seen a minute ago counts.
        self.assertEqual((0, 0, 0), (letters(20), letters(30, own=9), letters(40, own=10)))
        self.assertEqual((0, 0), (letters(50, own=21), letters(50)))
        # A person has removed some.
        self.assertEqual((0, 0, 1), (letters(3), letters(4), letters(4)))
        # A letter that was announced and never comes hides another one only for a while.
        self.assertEqual((0, 0, 0), (letters(4, own=1), letters(4), letters(4)))
        self.assertEqual((0, 1), (letters(5), letters(5)))

    def test_attention_for_a_passed_deadline(self):
        self.submit(LONG, names="a", actors="x", complete_by=self.now() + 60_000)
        self.redis.set("skew", 60_000)
        self.drive()
        self.assertEqual(["deadline", "-", "-", "DEADLINE"], self.needs())
        self.steer("resume")
        self.assertEqual([""], self.needs())

    def listed(self, needs="any", class_="", actor=""):
        return int(self.inspect_jobs(needs=needs, class_=class_, actor=actor).n)

    def test_list_of_jobs_that_need_a_person(self):
        self.submit(LONG, names="a", actors="x")
        self.assertEqual((1, 0), (self.listed(""), self.listed()))
        self.record("P", class_="DECLINED")
        self.assertEqual(
            (1, 1, 0, 0), tuple(map(self.listed, ("any", "parked", "deadline", "ended")))
        )
        self.assertEqual((1, 0), (self.listed(class_="DECLINED"), self.listed(class_="OTHER")))
        self.assertEqual((1, 0), (self.listed(actor="x"), self.listed("any", "DECLINED", "y")))
        counts = self.call("forget", retention=FAR, limit=1)
        self.assertEqual(["1", "0", "0"], [counts.parked, counts.deadline, counts.ended])

    # parked after two expiries, and tried again after an hour
    SILENCE_INTERVAL = "20000 20000 0 1 1 1 9 2 0 -1 PP 3600000|"

    def expire_silently(self):
        """Lets an agent take the request and never answer."""
        self.taken(0)
        self.redis.set(
            "skew", int(self.redis.get("skew") or 0) + int(self.step(0).until) - self.now() + 1
        )
        self.await_named(0)
        return self.alerts(self.drive(0))

    def pass_silence_interval(self, ms):
        """The step is parked for this long, and tried afterwards."""
        self.assertEqual("P", self.step(0).state)
        left = int(self.step(0).until) - self.now()
        self.assertTrue(ms - 10_000 < left <= ms, left)
        self.redis.set("skew", int(self.redis.get("skew") or 0) + left + 1)
        self.await_named(0)
        self.drive(0)
        self.assertEqual("R", self.step(0).state)

    def test_silence_interval_doubles(self):
        """One dispatch after the interval, then one after twice as long. There is one alert."""
        self.submit(self.SILENCE_INTERVAL, names="a", actors="x")
        self.assertEqual([], self.expire_silently())
        self.assertEqual("R", self.step(0).state)
        self.assertEqual(["PARKED"], self.expire_silently())
        self.assertEqual(["parked", "a", "x", "DEATHS"], self.needs())
        self.pass_silence_interval(3_600_000)
        self.assertEqual([], self.expire_silently())
        self.pass_silence_interval(7_200_000)
        self.assertEqual("parked", self.attention())
        self.record("T")  # an agent has answered: expiries are counted anew
        self.assertEqual(("B", "0"), (self.step(0).state, self.step(0).expiries))

    def test_deferral_resets_expiries(self):
        """An agent has answered: the step is tried again when the deferral says, and expiries are
        counted anew."""
        self.submit(self.SILENCE_INTERVAL, names="a")
        self.expire_silently()
        self.expire_silently()
        self.pass_silence_interval(3_600_000)
        self.reply("F", self.step(0).token, retry_after=5000)
        self.assertEqual(("B", "0"), (self.step(0).state, self.step(0).expiries))
        self.redis.set("skew", int(self.redis.get("skew")) + 6000)
        self.await_named(0)
        self.drive(0)
        self.assertEqual("R", self.step(0).state)

    def test_unroutable_after_the_silence_interval(self):
        """No queue took the request: no new silence interval begins, and the step is dispatched
        after a backoff."""
        self.submit(self.SILENCE_INTERVAL, names="a")
        self.expire_silently()
        self.expire_silently()
        self.pass_silence_interval(3_600_000)
        self.reply("X", self.step(0).token)
        self.redis.set("skew", int(self.redis.get("skew")) + 10_000)
        self.await_named(0)
        self.drive(0)
        self.assertEqual("R", self.step(0).state)

    def test_longest_silence_interval_is_a_day(self):
        self.submit(self.SILENCE_INTERVAL, names="a")
        self.expire_silently()
        self.expire_silently()
        for hours in (1, 2, 4, 8, 16, 24, 24):
            self.pass_silence_interval(hours * 3_600_000)
            self.expire_silently()

    def test_no_silence_interval(self):
        """The policy says never, or the job is older than the setting."""
        for terms, renewed in (
            (self.SILENCE_INTERVAL.replace("3600000", "0"), 0), (self.SILENCE_INTERVAL, FAR),
            (self.SILENCE_INTERVAL.replace(" 3600000", ""), 0),
        ):
            with self.subTest(terms):
                self.redis.flushall()
                self.submit(terms, names="a")
                if renewed:
                    self.redis.hset(f"{KEYS}def:d", "renewed", renewed)
                self.expire_silently()
                self.expire_silently()
                self.assertEqual(("P", "0"), (self.step(0).state, self.step(0).until))

    def bounded(self, terms=LONG, **definition):
        """Submits a job that must be complete in ten seconds, or goes back."""
        self.submit(
            terms, names="a", revert=LONG, on_deadline="C", complete_by=self.now() + 10_000,
            **definition,
        )

    def test_no_lease_beyond_the_deadline(self):
        """Neither wait nor lease is longer than the time that is left; an undo has both in full."""
        self.bounded()
        left = int(self.step(0).until) - self.now()
        self.assertTrue(15_000 < left <= 20_000, left)  # ten seconds to wait, ten to work
        self.record("A")
        self.steer("disable")
        left = int(self.step(0).until) - self.now()
        self.assertTrue(110_000 < left <= 120_000, left)

    def test_expired_request_before_the_deadline(self):
        """A request that comes back after its whole wait was not thrown away: it waits for an agent
        again, without a backoff."""
        self.submit(LONG, names="a", on_deadline="C", complete_by=self.now() + 90_000)
        self.redis.set("skew", 60_000)
        self.record("N")
        self.assertEqual(("R", "2"), (self.step(0).state, self.step(0).attempt))

    def test_lease_is_not_cut_if_the_deadline_parks(self):
        self.submit(LONG, names="a", on_deadline="P", complete_by=self.now() + 10_000)
        self.assertGreater(int(self.step(0).until) - self.now(), 110_000)

    def test_work_past_the_deadline_is_not_wanted(self):
        self.bounded()
        self.assertEqual(("RENEWED", "1"), self.wanted())
        self.redis.set("skew", 10_001)
        self.assertEqual(("RENEWED", "0"), self.wanted())

    def test_nothing_is_sent_past_the_deadline(self):
        """No call has noticed the deadline yet, and the job is about to go back. A request that
        waits in a scheduler is not sent either."""
        self.submit(
            LONG, LONG, LONG, names="abc", after={1: 0}, on_deadline="C",
            complete_by=self.now() + 10_000,
        )
        self.redis.set("skew", 5_000)
        token = self.step(2).token
        (request,) = self.call(
            "unsent", job_id=JOB, nonce=NONCES[3], by="me", number=1, tokens=[token]
        ).requests
        self.assertTrue(0 < int(request.wait) <= 5_000, request.wait)
        self.redis.set("skew", 10_001)
        self.record("A")
        self.assertEqual(
            ["W", "A"], [self.step(1).state if self.field("1") else "W", *self.job("desired")]
        )
        self.assertEqual([], self.unsent(2, token, nonce=NONCES[4]))
        self.assertEqual("W", self.step(2).state)
        self.drive()
        self.assertEqual(["D"], self.job("desired"))

    def test_lease_cut_by_the_deadline_is_no_expiry(self):
        self.submit(LONG, names="a", on_deadline="F", complete_by=self.now() + 10_000)
        self.taken(0)
        self.drive()
        self.redis.set("skew", 21_000)
        self.await_named(0)
        self.drive(0)
        self.assertEqual(["FAILED", "DEADLINE"], self.job("outcome", "reason"))
        self.assertEqual("0", self.step(0).expiries)

    def test_expiry_of_what_was_sent_past_the_deadline(self):
        """It counts, also after the job went back and forward again: the deadline had not limited
        it. Else a request that kills its agents would be sent again without end."""
        self.submit(LONG, LONG, names="ab", after={1: 0}, revert=LONG, on_deadline="F",
                    complete_by=self.now() + 10_000)
        self.redis.set("skew", 10_000)
        self.drive()
        self.assertEqual("DONE", self.retry_all())
        self.record("A")
        self.assertEqual("R", self.step(1).state)
        self.taken(1)
        for command in ("cancel", "enable"):
            self.assertEqual("DONE", self.steer(command))
        self.redis.set("skew", 100_000_000)
        self.await_named(1)
        self.assertEqual("1", self.step(1).expiries)

    def fail_and_undo(self):
        self.record("P")
        self.record("D")

    def test_interval_between_tries_of_a_job(self):
        self.submit(COMPENSATES, names="a", revert=LONG, tries=4, interval=60_000, coefficient=3)
        for wait in (60_000, 180_000):
            self.fail_and_undo()
            self.assertEqual(["PROCESSING", "D", "0"], self.job("phase", "desired", "open"))
            left = int(self.field("next_try")) - self.now()
            self.assertTrue(wait - 10_000 < left <= wait)
            self.drive()
            self.assertEqual(["D"], self.job("desired"))
            self.redis.zadd(f"{KEYS}due", {JOB: self.now()})  # a bound that is too early
            self.assertEqual([], self.expire().dues)
            self.assertEqual(
                float(self.field("next_try")), self.redis.zscore(f"{KEYS}due", JOB)
            )
            self.redis.set("skew", int(self.redis.get("skew") or 0) + left + 1)
            self.assertEqual([JOB], [due.job_id for due in self.expire().dues])
            self.drive()
            self.assertEqual(["A", "0"], self.job("desired", "next_try"))
        self.fail_and_undo()
        self.assertEqual("DONE", self.steer("disable"))  # so it is not tried again
        self.assertEqual(
            ["COMPENSATED", "REQUESTED", "0"], self.job("outcome", "reason", "next_try")
        )

    def test_cancelled_between_two_tries(self):
        self.submit(COMPENSATES, names="a", revert=LONG, tries=4, interval=60_000)
        self.fail_and_undo()
        self.assertEqual("DONE", self.steer("cancel"))
        self.assertEqual(["CANCELLED", "REQUESTED"], self.job("outcome", "reason"))
        self.assertEqual([""], self.needs())

    def test_no_try_after_the_deadline(self):
        """The next try would begin after the deadline."""
        self.submit(
            COMPENSATES, names="a", revert=LONG, tries=2, interval=60_000,
            complete_by=self.now() + 30_000,
        )
        self.fail_and_undo()
        self.assertEqual(["COMPENSATED"], self.job("outcome"))

    def test_pause_between_two_tries(self):
        self.submit(COMPENSATES, names="a", revert=LONG, tries=2, interval=60_000)
        self.fail_and_undo()
        self.steer("pause")
        self.redis.set("skew", 60_001)
        self.drive()
        self.assertEqual(["D"], self.job("desired"))
        self.steer("resume")
        self.assertEqual(["A"], self.job("desired"))

    def test_new_arguments_on_the_way_back(self):
        """The step waits for its undo, so its forward action is not wanted."""
        self.submit(LONG, LONG, after={1: 0}, revert=LONG)
        self.record("A")
        self.record("A", 1)
        self.steer("disable")
        self.assertEqual(["A", "W"], self.step(0, "current state"))
        self.assertEqual(("WRONG_STATE", "BACK"), self.steer("retry", "other arguments", 0))

    def change(self, name, step, what="actor", arguments=""):
        return self.steer("change", name, what, arguments, step)

    def refs(self, *names):
        return [self.redis.hget(f"{KEYS}def:{name}", "refs") for name in names]

    def park(self, *steps, **definition):
        """Submits a job whose first step may have taken effect, and is parked."""
        self.submit(*(steps or (LONG,)), **definition)
        self.record("T")
        self.assertEqual(["U", "P"], self.step(0, "current state"))

    def test_change_to_an_unknown_definition(self):
        self.park(revert=LONG)
        self.assertEqual("MOVED", self.change("e", 0))

    def test_change_of_the_lease(self):
        """It is the same work under the same key; its failures and expiries are counted anew."""
        self.park()
        self.define("e", "90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual("DONE", self.change("e", "0t", "lock_ms"))
        self.assertEqual(["R", "1", "2", "0"], self.step(0, "state turn attempt failures"))
        self.assertGreater(int(self.step(0).until), self.now() + 145_000)
        self.assertEqual([None, "1"], self.refs("d", "e"))
        self.assertEqual(["1"], self.job("turn"))
        self.assertIn("changed", self.events())

    def test_change_of_the_lease_of_an_undo(self):
        self.submit(LONG, revert=LONG)
        self.record("A")
        self.steer("disable")
        self.record("T")
        self.assertEqual(["D", "P"], self.step(0, "asked state"))
        turn = self.step(0).turn
        self.define("e", LONG, revert="90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual(("WRONG_STATE", "BACK"), self.change("e", 0))
        self.assertEqual("DONE", self.change("e", "0t", "revert.lock_ms"))
        self.assertEqual(["D", "R", turn], self.step(0, "asked state turn"))
        self.assertGreater(int(self.step(0).until), self.now() + 145_000)

    def test_change_of_a_step_that_was_not_begun(self):
        """No agent has had the request: another actor does the work, under another key."""
        self.submit(LONG)
        self.record("L")
        self.assertEqual(["D", "P"], self.step(0, "current state"))
        self.define("e", SHORT)
        self.assertEqual("DONE", self.change("e", 0))
        self.assertEqual(
            ["D", "A", "R", "2", "2"], self.step(0, "current asked state turn attempt")
        )
        self.assertEqual([None, "1"], self.refs("d", "e"))

    def test_change_of_an_unknown_step(self):
        """The step is undone by the old definition, then done by the new one; the job begins
        nothing else until then."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=LONG)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=SHORT)
        key = self.step(0).turn
        self.assertEqual("DONE", self.change("e", 0))
        self.assertEqual(["U", "D", "R", "2"], self.step(0, "current asked state turn"))
        self.assertEqual(key, self.step(0).forward)  # the turn that the undo takes back
        self.assertGreater(int(self.step(0).until), self.now() + 60_000)  # by the old terms
        self.assertEqual(["1", "1"], self.refs("d", "e"))
        self.record("A", 1)
        self.assertEqual("W", self.step(2).state)
        self.assertEqual(("WRONG_STATE", "CHANGING"), self.change("e", 2))
        self.assertEqual(("WRONG_STATE", "CHANGING"), self.migrate("e", 3))
        self.record("D")
        self.assertEqual(["D", "A", "R", "4"], self.step(0, "current asked state turn"))
        self.assertLess(int(self.step(0).until), self.now() + 60_000)
        self.assertEqual("R", self.step(2).state)
        self.assertEqual([None, "1"], self.refs("d", "e"))
        self.assertEqual(
            [["0"], ["0", "actor"]],
            [self.entries_after("changing")[0], self.entries_after("edited")[0]],
        )
        self.assertEqual([""], self.job("waits_for"))
        self.assertFalse(self.redis.hexists(f"{KEYS}data:{JOB}", "change"))

    def test_new_arguments_of_an_unknown_step(self):
        """The undo has the old arguments."""
        self.park(revert=LONG)
        self.assertEqual("DONE", self.steer("change", "d", "arguments", "others", 0))
        self.assertEqual(["U", "D", "R"], self.step(0, "current asked state"))
        self.assertFalse(self.redis.hexists(f"{KEYS}data:{JOB}", "a0"))
        self.record("D")
        self.assertEqual("others", self.redis.hget(f"{KEYS}data:{JOB}", "a0"))
        self.assertEqual(["1"], self.refs("d"))
        self.assertEqual(["D", "A", "R"], self.step(0, "current asked state"))

    def test_parked_undo_on_the_way_forward(self):
        """Its second try succeeds. From then on the step is forward work, and is not parked."""
        tried = "60000 60000 0 1 1 1 1 1 0 1 PP|"
        self.park(revert=tried)
        self.define("e", LONG, revert=tried)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("T")
        self.await_named(0)
        self.drive(0)
        self.assertEqual(["D", "R"], self.step(0, "asked state"))
        self.assertEqual([JOB], self.index("needs:parked"))
        self.record("D")
        self.assertEqual(["A", "R"], self.step(0, "asked state"))
        self.assertEqual([], self.index("needs:parked"))

    def test_change_of_an_unknown_step_without_an_undo(self):
        self.park()
        self.define("e", SHORT)
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.change("e", 0))
        self.assertEqual(["1", "0"], self.refs("d", "e"))
        self.assertEqual("DONE", self.change("e", "0!"))
        self.assertEqual(["D", "A", "R", "2"], self.step(0, "current asked state turn"))
        self.assertEqual([["0"]], self.entries_after("anew"))

    def test_change_of_a_step_in_flight_or_done(self):
        self.submit(LONG, LONG, after={1: 0})
        self.define("e", SHORT, SHORT, after={1: 0})
        for step in ("0", "0t", "0!"):
            self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.change("e", step))
        self.record("A")
        for step in ("0", "0t", "0!"):
            self.assertEqual(("WRONG_STATE", "NOT_FAILED"), self.change("e", step))
        self.assertEqual(["1", "0"], self.refs("d", "e"))

    def test_change_before_the_step_begins(self):
        self.submit(LONG, LONG, after={1: 0})
        self.define("e", LONG, SHORT, after={1: 0})
        self.assertEqual("DONE", self.change("e", 1))
        self.assertEqual("W", self.step(1).state)
        self.record("A")
        self.assertEqual("R", self.step(1).state)
        self.assertLess(int(self.step(1).until), self.now() + 60_000)

    def test_change_of_a_job_that_has_ended(self):
        self.submit(FAILS)
        self.record("P")
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.define("e", LONG)
        self.assertEqual("DONE", self.change("e", "0!"))
        self.assertEqual(["PROCESSING", ""], self.job("phase", "outcome"))
        self.assertEqual("R", self.step(0).state)
        self.record("A")
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))
        self.assertEqual(("WRONG_STATE", "SUCCEEDED"), self.change("e", 0))

    def test_change_dropped_by_a_turn(self):
        """The job turns, or ends, before the step is undone: the step is not changed."""
        for command, code in (("disable", "TURNED"), ("kill", "TURNED")):
            with self.subTest(command):
                self.redis.flushall()
                self.park(revert=LONG)
                self.define("e", LONG, revert=LONG)
                self.assertEqual("DONE", self.change("e", 0))
                self.assertEqual("DONE", self.steer(command))
                self.assertEqual([code], self.entries_after("unchanged")[0])
                self.assertEqual(["1", None], self.refs("d", "e"))
                self.assertEqual([""], self.job("waits_for"))

    def test_change_dropped_by_a_resolve(self):
        """A person resolves the step as done: it is not changed any more, and the other steps go
        on."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=LONG)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("T")  # the undo
        self.assertEqual(["U", "D", "P"], self.step(0, "current asked state"))
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.record("A", 1)
        self.assertEqual([["NOT_FAILED", "0"]], self.entries_after("unchanged"))
        self.assertEqual(["1", None], self.refs("d", "e"))
        self.assertEqual("R", self.step(2).state)

    def test_change_whose_undo_fails_for_good(self):
        """The change is dropped, and the other steps of the job go on."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=FAILS)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=FAILS)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("A", 1)
        self.assertEqual("W", self.step(2).state)
        self.record("P")  # the undo
        self.assertEqual(["U", "D", "F"], self.step(0, "current asked state"))
        self.assertEqual([["FAILED", "0"]], self.entries_after("unchanged"))
        self.assertEqual(
            ([""], False),
            (self.job("waits_for"), self.redis.hexists(f"{KEYS}data:{JOB}", "change")),
        )
        self.assertEqual(["1", None], self.refs("d", "e"))
        self.assertEqual("R", self.step(2).state)
        self.record("A", 2)
        self.assertEqual(["COMPENSATION_FAILED"], self.job("outcome"))

    def test_change_dropped_by_a_late_resolve(self):
        """The other steps have waited for the change already, and only the Resolve can let them go
        on."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=LONG)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("T")  # the undo
        self.record("A", 1)
        self.assertEqual("W", self.step(2).state)
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.assertEqual("R", self.step(2).state)
        self.assertEqual([["NOT_FAILED", "0"]], self.entries_after("unchanged"))

    def test_key_after_a_change_that_was_dropped(self):
        """The job ends before the change is carried out: what is done later has another key than
        the undo."""
        self.submit(LONG, FAILS, revert=LONG)
        self.record("T")
        self.define("e", SHORT, FAILS, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        undone = self.step(0).turn
        self.record("P", 1)
        self.record("D")
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.retry_all()
        self.assertEqual(["D", "A", "R"], self.step(0, "current asked state"))
        self.assertNotEqual(undone, self.step(0).turn)

    def test_an_undo_that_was_sent_keeps_its_key(self):
        """The undo was sent before the change: its dispatch for the change is the same work."""
        self.submit(LONG, revert=LONG)
        self.steer("disable")
        self.record("T")
        self.steer("enable")
        self.record("T")
        self.assertEqual(["U", "D", "P"], self.step(0, "current asked state"))
        key = self.step(0).turn
        self.assertEqual("DONE", self.change("d", 0, "arguments", "new"))
        self.assertEqual(["U", "D", "R", key], self.step(0, "current asked state turn"))

    def test_timers_wait_for_a_change(self):
        """A parked step whose next try is due while a change waits is dispatched after the
        change."""
        soon = "60000 60000 0 1 1 1 1 1 0 1 PP|"
        self.submit(LONG, soon, revert=LONG)
        self.record("T")
        self.record("T", 1)
        self.define("e", SHORT, soon, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        servers.wait_for(lambda: int(self.step(1).until) < self.now(), "the next try to be due")
        self.expire()
        self.drive(1)
        self.assertEqual("P", self.step(1).state)
        self.record("D")
        self.await_named(1)
        self.drive(1)
        self.assertEqual("R", self.step(1).state)

    def test_expiry_after_the_deadline_counts(self):
        """A person lets the job go on, so the deadline cuts no lease any more."""
        self.submit(ONE_EXPIRY, revert=LONG, on_deadline="F", complete_by=self.now() + 60_000)
        self.record("T")
        self.redis.set("skew", 61_000)
        self.drive()
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.retry_all()
        self.assertEqual("R", self.step(0).state)
        self.taken(0)
        self.redis.set("skew", 161_000)
        self.expire()
        self.assertEqual("expired", self.events()[-1])

    def test_change_gives_no_silence_interval(self):
        """The definition with the change keeps the time before which jobs have no silence
        interval."""
        self.park()
        self.redis.hset(f"{KEYS}def:d", "renewed", FAR)
        self.define("e", "90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual("DONE", self.change("e", "0t"))
        self.assertEqual(str(FAR), self.redis.hget(f"{KEYS}def:e", "renewed"))

    def test_change_of_a_paused_job(self):
        self.park(revert=LONG)
        self.define("e", SHORT, revert=LONG)
        self.steer("pause")
        self.assertEqual("DONE", self.change("e", 0))
        self.assertEqual(["U", "D", "W"], self.step(0, "current asked state"))
        self.steer("resume")
        self.assertEqual(["U", "D", "R"], self.step(0, "current asked state"))
        self.record("D")
        self.assertEqual(["D", "A", "R"], self.step(0, "current asked state"))
        self.assertLess(int(self.step(0).until), self.now() + 60_000)

    def test_migrate_unknown_steps(self):
        """The job waits until both steps are undone; then it has the newer version."""
        self.park(LONG, LONG, revert=LONG)
        self.record("T", 1)
        self.define("e", SHORT, SHORT, LONG, revert=SHORT)
        self.assertEqual("DONE", self.migrate("e", 3, 0, 1))
        self.assertEqual(["2"], self.job("n"))
        self.record("D")
        self.assertEqual(["D", "W"], self.step(0, "current state"))
        self.assertEqual(["1", "1"], self.refs("d", "e"))
        self.record("D", 1)
        self.assertEqual(["3"], self.job("n"))
        self.assertEqual(
            [["D", "A", "R"]] * 3, [self.step(i, "current asked state") for i in range(3)]
        )
        self.assertEqual([None, "1"], self.refs("d", "e"))
        self.assertEqual(1, self.events().count("migrated"))
        self.assertEqual(["7", "7"], [self.step(0).turn, self.step(1).turn])

    def test_migrate_to_another_lease(self):
        """Steps that were begun keep their key."""
        self.park(LONG, LONG)
        self.record("A", 1)
        self.define("e", "90000 60000 0 1 1 1 1 1 0 -1 PP|", "90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual("DONE", self.migrate("e", 2, "0t", "1t"))
        self.assertEqual(["U", "P"], self.step(0, "current state"))
        self.assertEqual(["A", "W"], self.step(1, "current state"))
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual(["U", "A", "R", "1"], self.step(0, "current asked state turn"))
        self.assertGreater(int(self.step(0).until), self.now() + 145_000)
        self.record("A")
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_migrate_an_unknown_step_without_an_undo(self):
        self.park()
        self.define("e", SHORT)
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.migrate("e", 1, 0))
        self.assertEqual("DONE", self.migrate("e", 1, "0!"))
        self.assertEqual(["D", "A", "R", "3"], self.step(0, "current asked state turn"))
        self.assertEqual([["0"]], self.entries_after("anew"))

    def step_events(self):
        """Returns the step events since the last call, for a client that has asked for them."""
        answer = self.call("step_events", job_id=JOB)
        self.assertEqual(
            ["FOUND", self.field("open"), "2", "me.here"],
            [answer.code, answer.open, answer.n, answer.reply_to],
        )
        return [
            (event.name, event.attempt, event.asked, event.agent, event.step, event.error)
            for event in answer.events
        ]

    def test_step_events(self):
        """Each event comes once: the error without details, the agent where it is known."""
        self.define("d", PARKS_FOR_A_TIME, LONG, after={1: 0}, names=("a", "b"), revert=LONG)
        answer = self.submit_call(reply_to="me.here", events="reply")
        self.assertEqual("2", answer.step_events)
        self.assertEqual([("dispatched", "1", "A", "-", "a", "")], self.step_events())
        self.assertEqual([], self.step_events())
        token = self.step(0).token
        renewals = [self.renew(token, fraction="0.5@agent-7").begins for _ in range(2)]
        self.assertEqual(["1", "0"], renewals)
        self.assertEqual([("began", "1", "A", "agent-7", "a", "")], self.step_events())
        answer = self.record("T", error=an_error("first"), agent="agent-7")
        self.assertEqual("2", answer.step_events)
        self.assertEqual(
            [
                ("failed", "1", "A", "agent-7", "a", without_details("first")),
                ("parked", "1", "A", "-", "a", without_details("first")),
            ],
            self.step_events(),
        )
        self.steer("retry", "", 0)
        self.record("A")
        self.assertEqual([("dispatched", "2", "A", "-", "a", ""), ("done", "2", "A", "-", "a", ""),
                          ("dispatched", "1", "A", "-", "b", "")], self.step_events())
        self.steer("disable")
        self.record("T", 1)
        self.record("D", 1)
        self.assertEqual(
            [
                ("failed", "1", "A", "-", "b", ""), ("dispatched", "2", "D", "-", "b", ""),
                ("undone", "2", "D", "-", "b", ""), ("dispatched", "3", "D", "-", "a", ""),
            ],
            [
                (event, attempt, "A" if event == "failed" else asked, *more)
                for event, attempt, asked, *more in self.step_events()
            ],
        )

    def test_step_events_not_asked_for(self):
        for events, flag in (("job", "0"), ("step", "1")):
            with self.subTest(events):
                self.redis.flushall()
                self.define("d", HEARTBEATS)
                self.assertEqual(flag, self.submit_call(events=events).step_events)
                self.assertEqual("0", self.renew(self.step(0).token, fraction="0.5@agent-7").begins)
                self.assertEqual("UNKNOWN_JOB", self.call("step_events", job_id=JOB).code)
                self.assertNotIn("began", self.events())
                self.assertFalse(self.redis.hexists(f"{KEYS}data:{JOB}", "heard"))

    def test_step_events_are_bounded(self):
        """Of more events than one call returns, it returns the last ones."""
        steps = 400
        self.define("d", *[LONG] * steps)
        self.submit_call(reply_to="me.here", events="reply")
        self.drive()
        for i in range(steps):
            self.record("T", i)  # dispatched, failed, parked
        *others, last = self.call("step_events", job_id=JOB).events
        self.assertEqual(999, len(others))
        self.assertEqual(str(len(self.events())), last.seq)

    def test_second_retry_all(self):
        """The first walk has not reached all steps, and a step that it began was parked again."""
        last = BUDGET + 49
        self.submit(*[LONG] * (last + 1))
        self.record("T")
        self.record("T", last)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["R", "P"], [self.step(i).state for i in (0, last)])
        self.steer("pause")
        self.record("T")
        self.assertEqual("DONE", self.retry_all())
        self.steer("resume")
        for _ in range(3):
            self.drive()
        self.assertEqual(["R", "R"], [self.step(i).state for i in (0, last)])
        self.assertEqual([""], self.job("cursor"))

    def test_more_failed_steps_than_are_listed(self):
        """The list has no room for the second step, but the count has it."""
        self.submit(LONG, LONG, revert=FAILS)
        self.record("A", 0)
        self.record("A", 1)
        self.steer("disable")
        self.record("P", 0)
        listed = "9" * 1000
        self.redis.hset(f"{KEYS}job:{JOB}", "failed", listed)
        self.record("P", 1)
        self.assertEqual(
            ["COMPENSATION_FAILED", listed, "0 2"], self.job("outcome", "failed", "stuck")
        )

    def test_results_too_large_for_a_notification(self):
        """The notification names them without their value; smaller ones after them are complete."""
        self.submit(LONG, LONG, LONG)
        for i, result in enumerate(("0123456789", "", "abcde")):
            self.record("A", i, result)
        (entry,) = self.outbox()
        for room, results in (
            (15, ["0123456789", "abcde"]), (14, ["0123456789", ""]), (9, ["", "abcde"]),
        ):
            self.assertEqual(
                dict(zip("02", results)), results_of(self.notification(entry, 0, 1, 2, limit=room))
            )

    def test_conflicts(self):
        """A version, a job id or a command id that is in use for something else is refused."""
        self.assertEqual(
            ["DEFINED", "CONFLICT"], [self.register(digest, 1) for digest in ("w1", "w2")]
        )
        self.submit(LONG)
        self.assertEqual("CONFLICT", self.submit_call("other").code)
        self.assertEqual("DONE", self.steer("pause", command_id="one"))
        self.assertEqual("CONFLICT", self.steer("resume", command_id="one"))
        self.assertEqual(["paused"], self.job("hold"))

    def test_unknown_names(self):
        self.assertEqual(
            "UNKNOWN_WORKFLOW", self.submit_call(definition="", workflow="nobody").code
        )
        self.assertEqual("UNKNOWN_JOB", self.drive().code)
        self.assertEqual("UNKNOWN", self.inspect_history(1, 9).code)
        self.submit(LONG)
        self.assertEqual("UNSUPPORTED", self.steer("dance"))
        self.assertEqual("MOVED", self.steer("retry", "", 0, definition="another"))

    def test_history_says_what_was_dropped(self):
        self.submit(LONG)
        self.redis.rpush(f"{KEYS}hist:{JOB}", *[f"{n} 0 filled" for n in range(3, 1002)])
        self.redis.hset(f"{KEYS}job:{JOB}", "seq", 1001)
        self.record("A")
        answer = self.inspect_history(1003, 9)
        self.assertEqual(
            ["FOUND", "d", "4", "0", "1"],
            [answer.code, answer.definition, answer.first, answer.more, answer.n],
        )
        (last,) = (schema.words("history_entry", entry) for entry in answer.entries)
        self.assertEqual(["1003", "settled"], [last.seq, last.event])
        for limit, more in ((2, "1"), (3, "0")):
            answer = self.inspect_history(1001, limit)
            self.assertEqual([more, limit], [answer.more, len(answer.entries)])

    def check_alert_in_outbox(self, reason, *about):
        """Checks that the outbox has this alert alone, and that `expire` names it until it is
        confirmed."""
        (entry,) = self.outbox()
        notification = self.notification(entry)
        self.assertEqual(["ALERT", "PROCESSING", reason, " ".join(about)],
                         [notification.outcome, notification.phase, notification.reason,
                          notification.failed])
        self.redis.set("skew", 6000 + int(self.redis.get("skew") or 0))
        self.assertEqual([entry], self.expire().notifications)
        self.confirm(entry)
        self.assertEqual([[], ["0"]], [self.index("owed"), self.job("owes")])

    def test_each_notification_has_its_tries(self):
        self.submit(LONG, LONG)
        self.record("T")
        self.record("T", 1)
        first, second = self.outbox()
        for tries in range(2):
            self.assertEqual("DEFERRED", self.defer(first.seq, tries))
            self.pass_time(301_000)
        self.assertEqual(["2", "0"], [self.notification(entry).tries for entry in (first, second)])
        self.confirm(first)
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", f"n{first.seq}"))

    def test_only_failed_tries_to_notify_are_counted(self):
        """A scheduler may die before it knows the outcome, and so may the supervisor before it
        asks: the next call of `expire` after five seconds names the notification again."""
        self.submit(LONG)
        self.record("T")
        (entry,) = self.outbox()
        for _ in range(6):
            self.pass_time(5001)
            self.assertEqual([entry], self.expire().notifications)
            self.assertEqual([], self.expire().notifications)
            self.assertEqual("0", self.notification(entry).tries)

    def test_next_try_to_notify(self):
        """Five tries in an hour. Until the next one is due no supervisor asks for it, and no
        scheduler publishes it, although more than one Notify may wait in the queue."""
        self.submit(LONG)
        self.record("T")
        (entry,) = self.outbox()
        for tries, wait in enumerate([5000, 300_000, 1_200_000, 2_100_000, 2_100_000]):
            failed = min(tries, 4)
            self.assertEqual(str(failed), self.notification(entry).tries)
            for _ in range(2 if tries < 4 else 1):  # the same call again changes nothing
                self.assertEqual("DEFERRED", self.defer(entry.seq, failed))
            for ms, named in ((wait - 1000, False), (1001, True)):
                self.pass_time(ms)
                self.assertEqual("FOUND" if named else "UNKNOWN", self.notification(entry).code)
                self.assertEqual([entry] if named else [], self.expire().notifications)

    def test_notification_of_another_time(self):
        """The store went back, and the job has another notification of that number: what was
        published of the one that is lost neither deletes it nor puts it off."""
        self.submit(LONG)
        self.record("T")
        (entry,) = self.outbox()
        of_the_lost = {"job_id": JOB, "seq": entry.seq,
                       "at": str(int(self.recorded_at(JOB, entry.seq)) - 1)}
        self.assertEqual("SETTLED", self.call("settle_owed", **of_the_lost).code)
        self.assertEqual("DEFERRED", self.call("defer_owed", **of_the_lost, tries=0).code)
        self.assertEqual([[entry], "1", "0"],
                         [self.outbox(), self.job("owes")[0], self.notification(entry).tries])
        self.pass_time(5001)
        self.assertEqual([entry], self.expire().notifications)

    def test_try_to_notify_that_is_not_known(self):
        """It was confirmed meanwhile, by another scheduler."""
        self.submit(LONG)
        self.record("T")
        (entry,) = self.outbox()
        self.confirm(entry)
        before = self.redis.hgetall(f"{KEYS}data:{JOB}")
        self.assertEqual("DEFERRED", self.defer(entry.seq, 0))
        self.assertEqual([[], before], [self.outbox(), self.redis.hgetall(f"{KEYS}data:{JOB}")])

    def test_outbox_has_the_alert_that_a_step_is_parked(self):
        """The scheduler that was to publish the alert may be gone. A redelivered reply adds no
        second alert."""
        self.submit(LONG)
        token = self.step(0).token
        self.assertIn("PARKED", self.alerts(self.record("T")))
        answer = self.reply("T", token, redelivered=1)
        self.assertEqual("ALREADY", answer.code)
        self.assertNotIn("PARKED", self.alerts(answer))
        self.assertEqual("1", self.step(0).failures)
        self.check_alert_in_outbox("PARKED", "0", "0")

    def test_outbox_has_the_alert_that_an_undo_is_parked(self):
        self.submit(LONG, revert=LONG)
        self.record("A")
        self.confirm(*self.outbox())
        self.steer("disable")
        self.assertIn("PARKED", self.alerts(self.record("T")))
        self.check_alert_in_outbox("PARKED", "0", "1")

    def test_outbox_has_the_alert_that_expiries_parked_a_step(self):
        self.submit(SHORT)
        self.expire_begun(0)
        self.assertIn("PARKED", self.alerts(self.drive(0)))
        self.assertNotIn("PARKED", self.alerts(self.drive(0, again=1)))
        self.assertEqual(["P", "0"], [self.step(0).state, self.step(0).until])
        self.check_alert_in_outbox("PARKED", "0", "0")

    def test_outbox_has_the_alert_that_the_deadline_passed(self):
        self.submit(LONG, complete_by=self.now() + 60000)
        self.redis.set("skew", 61000)
        self.assertIn("DEADLINE", self.alerts(self.drive()))
        self.assertEqual(["deadline", "2"], self.job("hold", "late"))
        self.assertNotIn("DEADLINE", self.alerts(self.drive(again=1)))
        self.check_alert_in_outbox("DEADLINE")

    def test_parked_by_failures_after_expiries(self):
        """The step was parked for good until the job turned, so the second alert is new."""
        self.submit(LONG, revert=ONE_EXPIRY)
        self.record("A")
        self.steer("disable")
        self.record("T")
        self.redis.set("skew", 700000)
        self.await_named(0)
        self.drive(0)
        self.assertEqual("DONE", self.steer("enable"))
        self.taken(0)
        self.redis.set("skew", 745000)
        self.await_named(0)
        self.drive(0)
        self.assertEqual(["P", "0"], [self.step(0).state, self.step(0).until])
        self.assertEqual("DONE", self.steer("cancel"))
        self.assertIn("PARKED", self.alerts(self.record("T")))

    def test_tries_after_a_turn(self):
        """An undo that had used up its tries has all of them again, although its key is the
        same."""
        twice = "60000 60000 0 1 1 1 2 1 0 -1 PP|"
        self.submit(LONG, revert=twice)
        self.record("A")
        self.steer("disable")
        self.record("T")
        self.await_named(0)
        self.drive(0)
        self.record("T")
        self.assertEqual("P", self.step(0).state)
        key = self.step(0).turn
        self.assertEqual("DONE", self.steer("enable"))
        self.record("T")
        self.assertEqual(["D", "B", key], self.step(0, "asked state turn"))

    def test_no_alert_for_a_step_parked_again(self):
        """The step was tried once more."""
        self.submit(PARKS_FOR_A_TIME)
        self.record("T")
        (entry,) = self.outbox()
        self.redis.set("skew", 700000)
        self.await_named(0)
        self.drive(0)
        self.assertNotIn("PARKED", self.alerts(self.record("T")))
        self.assertEqual([entry], self.outbox())
        self.assertEqual(["P", "2"], self.step(0, "state failures"))

    def test_retry_after_the_deadline(self):
        """The person who retries the job knows about the deadline: it does not apply any more."""
        self.submit(FAILS, complete_by=self.now() + 60000)
        self.record("P")
        self.redis.set("skew", 61000)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["1"], self.job("late"))
        self.drive()
        self.assertEqual([None, "PROCESSING"], self.job("hold", "phase"))
        self.assertEqual("R", self.step(0).state)

    def test_migrate_without_a_step_that_was_not_begun(self):
        self.submit(LONG, LONG)
        self.define("e", LONG)
        self.record("X", 1)
        self.assertEqual("DONE", self.migrate("e", 1, 1, gone=1))
        self.assertIsNone(self.redis.hget(f"{KEYS}job:{JOB}", 1))
        self.assertEqual(["1", "1"], self.job("open", "n"))
        self.record("A")
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_replies_while_the_end_cancels_timers(self):
        last = BUDGET + 49
        self.submit(FAILS, *[BACKS_OFF] * last)
        self.record("T", last)
        self.record("P")
        self.assertEqual([f"l:{BUDGET}"], self.job("cursor"))
        self.record("A", 1)
        self.assertEqual(["A", "W"], self.step(1, "current state"))
        self.assertEqual(["W", ""], [self.step(last).state, *self.job("cursor")])

    def test_sweep_of_a_job_that_changed(self):
        """A partial count from before a change of the job is discarded: the next round counts
        again."""
        self.submit(LONG, LONG, after={1: 0})
        self.redis.hset(f"{KEYS}job:{JOB}", 1, "D A W 0 0 - 0 0 0 7 0")
        self.assertEqual([JOB], self.sweep(f"0 {JOB} 1 1 0 9999 1 0 1 1 0 0 0"))
        self.assertEqual([JOB, "1"], self.sweep())
        self.assertEqual("1", self.step(1).waiting)

    def sweep_all(self):
        """Returns what a complete round of sweeps mends."""
        self.cursor, mended = "", []
        while True:
            _, *places = self.sweep(self.cursor)
            mended += places
            if not self.cursor:
                return mended

    def test_sweep_mends_counters(self):
        """A job with a wrong counter would not end although all its steps are done; a sweep counts
        anew."""
        for field, wrong in (("open", 1), ("open", 2), ("busy", 1)):
            self.redis.flushall()
            self.submit(LONG, LONG)
            self.record("A")
            right = self.job("open", "busy")
            self.redis.hset(f"{KEYS}job:{JOB}", field, int(self.field(field)) + wrong)
            self.assertEqual([f"count:{field}"], self.sweep_all())
            self.assertEqual(right, self.job("open", "busy"))
            self.assertIn("mended", self.events())
            self.assertEqual([], self.sweep_all())
            self.record("A", 1)
            self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_sweep_drives_a_job_whose_counters_were_too_high(self):
        """All its steps are done, so no other event would drive it: the sweep has it driven, and it
        ends."""
        for failing, outcome in ((False, "SUCCEEDED"), (True, None)):
            self.redis.flushall()
            self.submit(LONG, FAILS)
            self.record("A")
            self.redis.hincrby(f"{KEYS}job:{JOB}", "busy" if failing else "open", 1)
            self.record("P" if failing else "A", 1)
            self.assertEqual("PROCESSING", *self.job("phase"))
            self.assertEqual(["count:busy" if failing else "count:open"], self.sweep_all())
            self.assertEqual([JOB], [due.job_id for due in self.expire().dues])
            self.drive()
            self.assertEqual(
                ["PROCESSED" if outcome else "ERROR", outcome or "FAILED"],
                self.job("phase", "outcome"),
            )

    def test_sweep_mends_a_counter_that_is_too_low(self):
        """Without the sweep the job would end while a step is in flight."""
        self.submit(LONG, LONG, LONG)
        self.redis.hset(f"{KEYS}job:{JOB}", "open", 2)
        self.assertEqual(["count:open"], self.sweep_all())
        for i in range(3):
            self.assertEqual("PROCESSING", *self.job("phase"))
            self.record("A", i)
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_sweep_mends_the_count_of_stuck_steps(self):
        """The counters of a job that is ending, or on hold, are compared too."""
        self.submit(FAILS, LONG)
        self.record("P")
        right = self.job("stuck")
        self.redis.hset(f"{KEYS}job:{JOB}", mapping={"stuck": "7 7"})
        self.assertEqual(["count:stuck"], self.sweep_all())
        self.assertEqual(right, self.job("stuck"))
        self.steer("pause")
        self.redis.hset(f"{KEYS}job:{JOB}", "open", 9)
        self.assertEqual(["count:open"], self.sweep_all())
        self.assertEqual(["2"], self.job("open"))

    def test_sweep_counts_across_calls(self):
        """A job has more steps than one call reads. A change between two calls is not counted
        wrong."""
        steps = [LONG] * (BUDGET + 20)
        self.submit(*steps)
        while self.field("cursor"):
            self.drive()
        self.redis.hset(f"{KEYS}job:{JOB}", "open", 3)
        self.sweep()
        self.record("A", 0)
        self.assertEqual([JOB], self.sweep(self.cursor))
        self.assertEqual(["count:open"], self.sweep_all())
        self.assertEqual([str(len(steps) - 1)], self.job("open"))

    def test_sweep_counts_while_a_step_comes_to_rest(self):
        """A lease ends in a job that is ending. The step comes to rest without an entry in the
        history, and is not counted wrong."""
        self.submit(SHORT, FAILS, *[LONG] * (BUDGET + 20))
        while self.field("cursor"):
            self.drive()
        self.taken(0)
        self.record("P", 1)
        while self.field("cursor"):
            self.drive()
        self.await_named(0)
        self.sweep()
        seq = self.field("seq")
        self.drive(0)
        self.assertEqual(["W", seq], [self.step(0).state, self.field("seq")])
        right = self.job("open", "busy")
        self.assertEqual([JOB], self.sweep(self.cursor))
        self.assertEqual([], self.sweep_all())
        self.assertEqual(right, self.job("open", "busy"))

    def corrupt_or_done(self, name, value):
        """Submits a job of three steps with that field lost or changed, beside one that is due.
        Returns whether a sweep calls it corrupt; if not, the job must end."""
        self.redis.flushall()
        self.submit(LONG, LONG, LONG, after={1: 0}, complete_by=self.now() + 10**9)
        self.record("A")
        job = f"{KEYS}job:{JOB}"
        if value is None:
            self.redis.hdel(job, name)
        else:
            self.redis.hset(job, name, value)
        self.redis.zadd(f"{KEYS}due", {JOB: 0})
        self.redis.zadd(f"{KEYS}due", {"gone": 1})
        self.assertLess(len(self.expire().dues), 2)
        self.assertNotIn("gone", self.index("due"))
        mended = self.sweep_all()
        if "torn" in mended:
            self.assertEqual("torn", mended[0])
            self.expire()
            return True
        for _ in range(3):
            for i in range(3):
                # the step was lost, so its reply is STALE
                with contextlib.suppress(AssertionError):
                    self.record("A", i)
            self.sweep_all()
            self.expire()
            self.drive(0, 1, 2)
        self.assertEqual(["PROCESSED"], self.job("phase"), (name, value))
        return False

    def test_corrupt_jobs(self):
        """Each field is lost or changed in turn: the job ends as usual, or a sweep calls it corrupt
        and a kill ends it. Other jobs go on."""
        self.submit(LONG, LONG, LONG, after={1: 0}, complete_by=self.now() + 10**9)
        corrupt = set()
        for name in ["0", "1", "2", *self.redis.hgetall(f"{KEYS}job:{JOB}")]:
            for value in (None, "", "x", "-1", str(10**20)):
                with self.subTest(name=name, value=value):
                    if self.corrupt_or_done(name, value):
                        corrupt.add(name)
                        self.steer("kill")
                        self.assertEqual(["ERROR"], self.job("phase"))
                        self.assertEqual([], self.index("open"))
                        self.assertEqual(
                            [], [place for place in self.sweep_all() if place != "open"]
                        )
        self.assertLessEqual(
            {"n", "turn", "seq", "def", "desired", "phase", "0", "1", "2"}, corrupt
        )

    def make_eventful_job(self):
        """Makes a job with a long history, which has most of the fields that a job can have."""
        self.redis.flushall()
        self.submit(LONG, LONG, LONG, after={1: 0}, complete_by=self.now() + 10**9, labels="4:a=bc")
        for queue in "ab":
            self.submit_call(reply_to=queue)
        last = self.step(2).token
        self.drive(2, again=1)
        self.unsent(1, last)
        self.take(last)
        self.renew(last, note="half way", elapsed=10)
        self.reply("A", f"0.{NONCES[3]}")  # too late
        self.record("T")  # the step parks, which is an alert
        for i, command in enumerate(("disable", "enable", "pause", "resume")):
            self.assertEqual("DONE", self.steer(command, command_id=f"c{i}", issued_at=self.now()))

    def sweep_calls_it_corrupt(self):
        """Does what a supervisor does, and returns whether a sweep calls the job corrupt."""
        for index in ("owed", "due"):
            for member in self.index(index):
                self.redis.zadd(f"{KEYS}{index}", {member: 0})
        self.redis.zadd(f"{KEYS}due", {"gone": 1})
        self.expire()
        self.assertNotIn("gone", self.index("due"))
        return "torn" in self.sweep_all()

    def make_scheduler_calls(self):
        """Makes the calls that a scheduler makes; each must have an answer."""
        known = [entry for entry in self.outbox() if entry.job_id == JOB]
        for entry in known:
            self.ask("inspect notice", job_id=JOB, seq=entry.seq, limit=1000)
        self.submit_call(reply_to="c")
        for i in (0, 2):
            token = self.step(i).token
            self.renew(token, fraction="-1", elapsed=10)
            self.unsent(2, token)
            self.reply("T", token)
        self.inspect_job()
        self.steer("disable", command_id="d", issued_at=self.now())
        self.confirm(*known)
        self.forget(10**9)

    def test_damaged_count_of_tries(self):
        """The count of tries of a notification cannot be read. `expire` names it all the same, and
        goes on."""
        for damage in ("x", "nan", str(2**63 - 1), str(10**20), "0 x", "9"):
            with self.subTest(damage):
                self.check_damaged_count(damage)

    def check_damaged_count(self, damage):
        self.make_eventful_job()
        (entry,) = self.outbox()
        self.redis.hset(f"{KEYS}data:{JOB}", f"n{entry.seq}", damage)
        self.redis.set(f"{KEYS}data:other", "x")
        self.redis.zadd(f"{KEYS}owed", {f"{JOB} {entry.seq}": 2, "other 7": 1, "damaged": 0})
        self.assertEqual([entry], self.expire().notifications)
        self.assertEqual([entry], self.outbox())
        self.assertEqual("4", self.notification(entry).tries)  # the last try

    def test_all_jobs_are_due_after_a_step_back(self):
        """Bounds from before the step back lie too far ahead, even if only by less than what a
        sweep mends anyway."""
        for skew in (-60_000, -3_600_000):
            with self.subTest(skew):
                self.redis.flushall()
                self.submit(LONG)
                self.expire()
                self.redis.set("skew", skew)
                self.assertEqual("1", self.expire().back)
                self.sweep_all()
                self.assertLessEqual(self.redis.zscore(f"{KEYS}due", JOB), self.now())

    def test_scan_begins_anew_after_a_step_back(self):
        """A scan in pieces holds times from before the step back, which lie too far ahead. The
        sweep that mends the bound may have begun before the step back, too."""
        self.submit(*[LONG] * (BUDGET + 1), after={BUDGET: 1})
        before = self.now()
        self.redis.zadd(f"{KEYS}due", {JOB: before})
        self.expire()
        self.assertEqual(str(BUDGET), self.scanned())
        self.redis.zadd(f"{KEYS}due", {JOB: before})
        self.sweep()
        self.redis.set("skew", -3_600_000)
        self.assertEqual("1", self.expire().back)
        self.assertEqual([JOB, "due"], self.sweep(self.cursor))
        self.sweep_all()
        for _ in range(3):  # two pieces, and a third if one was left
            self.expire()
        self.assertEqual([""], self.job("scan"))
        self.assertLessEqual(int(self.field("due")), self.now() + 120_000)

    def test_damaged_notification_can_be_read(self):
        """A scheduler can publish it all the same, so it does not stay in the outbox for ever."""
        self.submit(LONG)
        self.record("A")
        (entry,) = self.outbox()
        for damage in ("", "x", "SUCCEEDED", "SUCCEEDED PROCESSED x 1 0  "):
            self.redis.hset(f"{KEYS}data:{JOB}", f"s{entry.seq}", damage)
            self.check_readable(self.notification(entry))

    def check_readable(self, notification):
        for name, pattern in NOTIFICATION.items():
            self.assertRegex(getattr(notification, name), f"^({pattern})$", name)

    def test_damaged_count_of_the_outbox(self):
        """The job ends all the same, and its count begins with that notification."""
        self.submit(LONG)
        self.redis.hset(f"{KEYS}job:{JOB}", "owes", "x")
        self.record("A")
        self.assertEqual(["PROCESSED", "1"], self.job("phase", "owes"))

    def test_any_damage_to_a_job(self):
        """Each field of a job with a long history: the damage does not stop other jobs, and the job
        can be killed."""
        self.make_eventful_job()
        fields = [
            (kind, name)
            for kind in ("job", "data")
            for name in self.redis.hgetall(f"{KEYS}{kind}:{JOB}")
        ]
        names = {name for _, name in fields}
        self.assertLessEqual(
            {"owes", "commands", "earlier", "p2", "t2", "c2", "u2", "l0", "e0", "held", "ordered"},
            names,
        )
        for kind, name in fields:
            for value in (None, "", "x", "-5", "3:abc", "7000000000", str(2**63 - 1), str(10**20)):
                with self.subTest(kind=kind, name=name, value=value):
                    self.make_eventful_job()
                    if value is None:
                        self.redis.hdel(f"{KEYS}{kind}:{JOB}", name)
                    else:
                        self.redis.hset(f"{KEYS}{kind}:{JOB}", name, value)
                    if not self.sweep_calls_it_corrupt():
                        self.make_scheduler_calls()
                    self.steer("kill", command_id="k")
                    self.assertIn(self.field("phase"), ("ERROR", "PROCESSED"))
                    for entry in self.outbox():
                        self.check_readable(self.notification(entry))
                    self.assertFalse(self.sweep_calls_it_corrupt())


if __name__ == "__main__":
    tap.main()
