# SPDX-License-Identifier: Apache-2.0
"""The checker can fail: valid evidence passes, and each violation planted in it is found

The run: job "j", a <- b, both undone by a command after it was done; b fails once. Job "p" parks.
All times are a tenth of a second apart.
"""

import base64
import contextlib
import copy
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from google.protobuf import json_format

import checker
import tap
import wire

BEGAN = 1700000000000
LOCK = 2000
DEF = "d" * 32

POLICY = wire.Policy(initial_interval_ms=50, maximum_attempts=2, maximum_expiries=2, jitter=-1,
                     on_permanent=wire.RECOURSE_PARK)


RESULT = wire.payload(b"given", "text/plain")


def step(name, after=()):
    return wire.step(name, "effect", after=after, action=f"do-{name}", lock_ms=LOCK, retry=POLICY,
                     revert=wire.Revert(action=f"undo-{name}"))


def submit(job, **fields):
    return wire.submit(job, [step("a"), step("b", ["a"])], **fields)


HISTORY = """\
j created {d} s1
j dispatched 0 1 0.a1
j done 0 1 0.a1
j dispatched 1 1 1.b1
j failed 1 1 1.b1
j dispatched 1 2 1.b2
j done 1 2 1.b2
j settled SUCCEEDED
j command disable c1 -
j turned D REQUESTED
j dispatched 1 3 1.b3 D
j undone 1 3 1.b3
j dispatched 0 2 0.a2 D
j undone 0 2 0.a2
j settled COMPENSATED REQUESTED
p created {d} s1
p dispatched 0 1 0.c1
p expired 0 1 0.c1
p dispatched 0 2 0.c2
p failed 0 2 0.c2
p dispatched 0 3 0.c3
p failed 0 3 0.c3
p parked 0 EXHAUSTED""".format(d=DEF)

# key, attempt, direction, effect, exit code; by the token of its dispatch
RUNS = {
    "0.a1": ("j/a/1", 1, "do", "EFFECT j/a/1", 0),
    "1.b1": ("j/b/1", 1, "do", None, 75),
    "1.b2": ("j/b/1", 2, "do", "EFFECT j/b/1", 0),
    "1.b3": ("j/b/2", 3, "undo", "UNDO j/b/1", 0),
    "0.a2": ("j/a/2", 2, "undo", "UNDO j/a/1", 0),
    "0.c2": ("p/a/1", 2, "do", None, 75),
    "0.c3": ("p/a/1", 3, "do", None, 75),
}


def shown(word):
    """A line as in a history: a token is shown as a digest."""
    return wire.token_id(word) if re.fullmatch(r"\d\.[a-z]\d", word) else word



class Scene:
    """Evidence under construction: everything is a list that a test may change before it is
    written."""

    def __init__(self):
        self.world = {"scan_ms": 100}
        self.faults, self.client, self.effects, self.trace, self.history = [], [], [], [], []
        self.at = BEGAN
        for job in "jp":
            self.say(submit(job))
        for line in HISTORY.splitlines():
            self._happen(line.split(" "))
        self.store = self._store()

    def say(self, message, at=None):
        fields = json_format.MessageToDict(message, preserving_proto_field_name=True)
        self.client.append({"at": at or self.at, "kind": message.DESCRIPTOR.name,
                            "message": fields})

    def pass_on(self, way, place, message, redelivered=False):
        body = base64.b64encode(message.SerializeToString()).decode()
        self.trace.append({"since": self.at, "at": self.at, "way": way, "place": place,
                           "redelivered": redelivered,
                           "resent": False, "kind": message.DESCRIPTOR.name, "body": body})

    def _happen(self, words):
        job, event, *rest = words
        self.at += 3 * LOCK if event == "expired" else 100
        self.history.append([job, str(len(self.of(job)) + 1), str(self.at), event, *rest])
        if event == "created":
            self.say(wire.Receipt(job_id=job, code=wire.RECEIPT_CODE_CREATED, recorded_at=self.at))
        elif event == "dispatched":
            self._dispatched(job, rest)
        elif event == "command":
            self.say(wire.Control(job_id=job, command_id=rest[1], set_desired=wire.SetDesired(
                desired=wire.STATE_DISABLED)))
        elif event == "settled":
            outcome, seq = wire.Outcome.Value(f"OUTCOME_{rest[0]}"), len(self.of(job))
            turn = 1 if rest[0] == "SUCCEEDED" else 2
            given = [wire.Result(step="b", payload=RESULT)] if rest[0] == "SUCCEEDED" else []
            self.say(wire.JobEvent(kind=wire.EVENT_KIND_SETTLED, job_id=job, seq=seq, turn=turn,
                                   outcome=outcome, results=given))
        elif event == "parked":
            alert = wire.JobEvent(kind=wire.EVENT_KIND_ALERT, job_id=job, reason="PARKED", step="a",
                                  at=self.at)
            self.pass_on("publish", "drover.events", alert)

    def _dispatched(self, job, rest):
        number, attempt, token = rest[:3]
        back, name = rest[3:] == ["D"], "ab"[int(number)]
        key, _, direction, effect, code = RUNS.get(token, (f"{job}/{name}/1", 0, "do", None, None))
        request = wire.StepRequest(
            job_id=job, step=name, actor="effect", token=token, attempt=int(attempt), lock_ms=LOCK,
            action=f"{'undo' if back else 'do'}-{name}", idempotency_key=key,
            desired=wire.STATE_DISABLED if back else wire.STATE_ACTIVE,
            turn=int(key.rpartition("/")[2]), current=self.current(job, rest[0]),
            forward_key=f"{job}/{name}/1" if back else "",
            failures=self._count(job, "failed", rest),
            expiries=self._count(job, "expired", rest))
        if back:
            request.forward_result.CopyFrom(RESULT)
        if name == "b":
            request.results.add(step="a").payload.CopyFrom(RESULT)
        self.pass_on("publish", "drover.tasks", wire.Requests(requests=[request]))
        self.pass_on("deliver", "drover.task.effect", wire.Requests(requests=[request]))
        if code is None:
            return
        run = f"{key} {attempt} {direction} {len(self.effects)}0"
        self.effects.append(f"{self.at + 10} BEGIN {run} {LOCK}")
        if effect:
            self.effects.append(f"{self.at + 30} {effect.split()[0]} {run} {effect.split()[1]}")
        self.effects.append(f"{self.at + 40} END {run} {code}")
        reply = wire.StepReply(job_id=job, step=name, token=token)
        if code == 0:
            reply.achieved = request.desired
            reply.result.CopyFrom(RESULT)
        else:
            reply.error.CopyFrom(wire.Error(**{"class": f"EXIT_{code}"},
                                            verdict=wire.VERDICT_TRANSIENT))
        self.pass_on("publish", "drover.replies", wire.Replies(replies=[reply]))

    def current(self, job, number):
        """What is known of a step before its last dispatch."""
        states = {"done": wire.STATE_ACTIVE, "failed": wire.STATE_UNKNOWN,
                  "expired": wire.STATE_UNKNOWN}
        return ([wire.STATE_DISABLED] + [states[e[3]] for e in self.of(job)
                                         if e[3] in states and e[4] == number])[-1]

    def _count(self, job, event, rest):
        """Counts the work of this dispatch."""
        return sum(e[3] == event and e[4] == rest[0]
                   for e in self.of(job)) if rest[3:] != ["D"] else 0

    def _store(self):
        j = {"def": DEF, "phase": "PROCESSED", "outcome": "COMPENSATED", "desired": "D",
             "turn": "2",
             "seq": "15", "open": "0", "busy": "0", "due": "0",
             "0": "D D W 2 2 0.a2 0 0 0 0 0 2 1", "1": "D D W 2 3 1.b3 0 0 0 0 0 2 1"}
        p = {"def": DEF, "phase": "PROCESSING", "outcome": "", "desired": "A", "turn": "1",
             "seq": "8",
             "open": "2", "busy": "1", "due": "7", "0": "U A P 1 3 0.c3 7 2 1 0 0"}
        return {
            "job:j": j, "job:p": p, "data:j": {}, "data:p": {}, "hist:j": 15, "hist:p": 8,
            f"def:{DEF}": {"refs": "2"}, "due": {"p": 7.0}, "open": {"p": 1.0},
            "settled": {"j": 1.0},
            "jobs": {"j": 1.0, "p": 1.0}, "leader": "s1 1 1",
        }

    # --- planting ---

    def of(self, job):
        return [e for e in self.history if e[0] == job]

    def entry(self, job, seq):
        return self.of(job)[seq - 1]

    def renumber(self, job):
        for number, entry in enumerate(self.of(job), 1):
            entry[1] = str(number)

    def insert(self, job, seq, text):
        """Inserts an entry after another, at its time."""
        before = self.entry(job, seq)
        at = self.history.index(before) + 1
        self.history.insert(at, [job, "", before[2], *text.split(" ")])
        self.renumber(job)

    def steer(self, job, seq, *events, command_id="x", **fields):
        """Inserts a client's command, and its entries, after an entry. @fields: of its Control."""
        (name,) = fields
        self.say(wire.Control(job_id=job, command_id=command_id, **fields), at=BEGAN)
        for text in reversed((f"command {name} {command_id} -", *events)):
            self.insert(job, seq, text)

    def answer(self, token, **fields):
        """Gives a dispatch this answer: an error with these fields, or without any a success."""
        for passed in self.trace:
            if passed["kind"] == "Replies":
                replies = wire.Replies.FromString(base64.b64decode(passed["body"]))
                if replies.replies[0].token == token:
                    replies.replies[0].ClearField("error")
                    replies.replies[0].achieved = wire.STATE_ACTIVE
                    if fields:
                        replies.replies[0].error.CopyFrom(wire.Error(**fields))
                passed["body"] = base64.b64encode(replies.SerializeToString()).decode()

    def requests(self):
        """Each StepRequest that was sent, to be changed."""
        for passed in self.trace:
            if passed["kind"] == "Requests":
                requests = wire.Requests.FromString(base64.b64decode(passed["body"]))
                yield requests.requests[0]
                passed["body"] = base64.b64encode(requests.SerializeToString()).decode()

    def cut(self, job, seq, *events):
        """The history goes on differently after that entry."""
        for entry in self.of(job)[seq:]:
            self.history.remove(entry)
        for number, text in enumerate(events):
            self.insert(job, seq + number, text)

    def drop(self, job, seq):
        self.history.remove(self.entry(job, seq))
        self.renumber(job)

    def forget(self, what, *words):
        """Removes the lines of a log that contain all of these words."""
        log = getattr(self, what)
        kept = [line for line in log if not all(str(word) in str(line) for word in words)]
        assert len(kept) < len(log), f"nothing to forget: {words}"
        setattr(self, what, kept)

    def write(self, directory):
        def lines(name, records):
            (directory / name).write_text("".join(record + "\n" for record in records))

        (directory / "world.json").write_text(json.dumps(self.world))
        (directory / "store.json").write_text(json.dumps({"x{p0": self.store}))
        lines("client.log", map(json.dumps, self.client))
        lines("faults.log", map(json.dumps, self.faults))
        if self.trace is not None:
            lines("trace.log", map(json.dumps, self.trace))
        lines("effects.log", self.effects)
        lines("history.log", [" ".join(map(shown, entry)) for entry in self.history])


class Planted(unittest.TestCase):
    def setUp(self):
        self.scene = Scene()

    def judge(self):
        with tempfile.TemporaryDirectory() as directory:
            self.scene.write(pathlib.Path(directory))
            return checker.judge(directory)

    def found(self, rule, text=""):
        """The checker reports a violation of the rule with this text."""
        said = [str(v) for v in self.judge()]
        self.assertTrue(any(s.startswith(rule + " ") and text in s for s in said), said)

    # --- valid evidence ---

    def test_good(self):
        self.assertEqual([], [str(v) for v in self.judge()])

    def test_good_without_a_trace(self):
        self.scene.trace = None
        self.assertEqual([], [str(v) for v in self.judge()])

    def test_good_up_to_a_migration(self):
        self.scene.insert("j", 6, "migrated order@2")
        self.scene.insert("j", 8, "dreamt 0")
        self.assertEqual([], [str(v) for v in self.judge() if v.rule not in ("I13", "I11")])
        self.scene.entry("j", 3)[6] = "0.xx"
        self.found("I3", "0.xx")

    def test_program(self):
        with tempfile.TemporaryDirectory() as directory:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.scene.write(pathlib.Path(directory))
                good = checker.main([directory])
                self.scene.drop("j", 3)
                self.scene.write(pathlib.Path(directory))
                bad = checker.main([directory])
        self.assertEqual((0, 1), (good, bad))
        self.assertIn("I8 j b entry 3: before a", out.getvalue())
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(2, checker.main(["/nowhere"]))

    # --- I1: nothing that was accepted is lost ---

    def test_I1_lost(self):
        self.scene.history = self.scene.of("p")
        self.found("I1", "j was accepted")

    def test_I1_excused_where_the_store_may_lose(self):
        self.scene.history = self.scene.of("p")
        self.scene.world["durable"] = False
        self.assertNotIn("I1", {v.rule for v in self.judge()})

    def go_back(self, job, seq):
        """The store had another end of this history, from that entry on, and has lost it."""
        first = self.scene.entry(job, seq)
        before = copy.deepcopy(self.scene.of(job)[seq - 1:])
        for entry in before:
            entry[2] = str(int(entry[2]) - 1)
        at = self.scene.history.index(first)
        self.scene.history[at:at] = before

    def test_I1_excused_where_it_went_back(self):
        self.go_back("j", 6)
        self.scene.world["durable"] = False
        self.assertNotIn("I1", {v.rule for v in self.judge()})

    def test_I1_went_back_past_an_end(self):
        self.go_back("j", 6)
        self.found("I1", "j the store has forgotten 10 entries")

    def test_I1_created_anew(self):
        self.go_back("j", 1)
        self.found("I1", "j the store has forgotten 15 entries")

    def test_I1_excused_what_nobody_has_heard_of(self):
        """The primary had it, and no replica."""
        self.go_back("j", 1)
        self.scene.world["replicated"] = True
        self.assertNotIn("I1", {v.rule for v in self.judge()})

    def test_I1_lost_after_its_receipt(self):
        self.go_back("j", 1)
        self.scene.world["replicated"] = True
        self.receipts(recorded_at=str(int(self.scene.of("j")[0][2])))
        self.found("I1", "j the store has forgotten 1 entries, from 1 ")

    def test_I1_lost_after_its_event(self):
        self.go_back("j", 8)
        self.scene.world["replicated"] = True
        at = self.scene.of("j")[7][2]
        for record in self.scene.client:
            if record["kind"] == "JobEvent" and record["message"].get("seq") == "8":
                record["message"]["at"] = at
        self.found("I1", "j the store has forgotten 1 entries, from 8 ")

    def forgotten(self):
        for key in ("job:j", "data:j", "hist:j"):
            del self.scene.store[key]
        self.scene.store.update(settled={}, jobs={"p": 1.0})
        self.scene.store[f"def:{DEF}"]["refs"] = "1"

    def test_I1_settled_and_gone(self):
        self.forgotten()
        self.found("I1", "j is no more in the store")

    def test_I1_excused_past_retention(self):
        self.forgotten()
        self.scene.world["forgets"] = True
        self.assertNotIn("I1", {v.rule for v in self.judge()})

    def test_I1_gone_before_its_end(self):
        self.forgotten()
        self.scene.world["forgets"] = True
        self.scene.history.pop(max(k for k, entry in enumerate(self.scene.history)
                                   if entry[0] == "j"))
        self.found("I1", "j is no more in the store")

    # --- I2: one completion ---

    def test_I2_completed_twice(self):
        """Done, lost by the store, and done again in the same turn."""
        self.scene.insert("j", 3, "dispatched 0 2 0.ax")
        self.found("I2", "done though it is A")

    def test_I2_dispatched_in_flight(self):
        self.scene.insert("j", 2, "dispatched 0 2 0.ax")
        self.found("I2", "while in flight")

    def test_I2_opposite_result(self):
        self.scene.entry("j", 12)[3] = "done"
        self.found("I2", "the opposite")

    # --- I3: only the token counts ---

    def test_I3_another_token(self):
        self.scene.entry("j", 7)[6] = "1.b1"
        self.found("I3", wire.token_id("1.b1"))

    def test_I3_withdrawn_token_accepted(self):
        self.scene.insert("p", 3, "done 0 1 0.c1")
        self.found("I3", "not that token was in flight")

    def test_I3_token_used_twice(self):
        self.scene.entry("j", 6)[6] = "1.b1"
        self.scene.entry("j", 7)[6] = "1.b1"
        self.found("I3", "used twice")

    def test_I3_no_reply(self):
        self.scene.trace = [p for p in self.scene.trace if p["place"] != "drover.replies"]
        self.found("I3", "no reply")

    def test_I3_recorded_before_it_was_answered(self):
        for passed in self.scene.trace:
            if passed["place"] == "drover.replies":
                passed["since"] += 60000
        self.found("I3", f"done 59900 ms before a reply carried {wire.token_id('0.a1')}")

    def test_I3_excused_where_the_trace_was_lost(self):
        self.scene.trace = [p for p in self.scene.trace if p["place"] != "drover.replies"]
        self.scene.faults = [{"at": BEGAN, "what": "trace lost", "who": ""},
                             {"at": self.scene.at, "what": "trace again", "who": ""}]
        self.assertNotIn("I3", {v.rule for v in self.judge()})

    def test_I3_excused_where_one_of_two_lost_the_trace(self):
        """A node was down for longer than the tracer was."""
        self.scene.trace = [p for p in self.scene.trace if p["place"] != "drover.replies"]
        self.scene.faults = [{"at": BEGAN, "what": "trace lost", "who": "node"},
                             {"at": BEGAN, "what": "trace lost", "who": ""},
                             {"at": BEGAN, "what": "trace again", "who": ""}]
        self.assertNotIn("I3", {v.rule for v in self.judge()})
        self.scene.faults.append({"at": BEGAN, "what": "trace again", "who": "node"})
        self.found("I3", "no reply")

    # --- I4: the agent's own lease ---

    def test_I4_effect_after_the_lease(self):
        at = [i for i, line in enumerate(self.scene.effects) if " EFFECT j/b" in line][0]
        when, rest = self.scene.effects[at].split(" ", 1)
        self.scene.effects[at] = f"{int(when) + 3 * LOCK} {rest}"
        self.found("I4", "after the lease")

    def test_I4_ran_too_long(self):
        at = [i for i, line in enumerate(self.scene.effects) if " END j/b/1 1 " in line][0]
        when, rest = self.scene.effects[at].split(" ", 1)
        self.scene.effects[at] = f"{int(when) + 3 * LOCK} {rest}"
        self.found("I4", "ran")

    def test_I4_began_without_time(self):
        at = [i for i, line in enumerate(self.scene.effects) if " BEGIN j/b/1 2 " in line][0]
        self.scene.effects[at] = self.scene.effects[at].rsplit(" ", 1)[0] + " 0"
        self.found("I4", "began when its lease was over")

    def test_I4_longer_than_half_another_lease(self):
        at = [i for i, line in enumerate(self.scene.effects) if " END j/b/1 2 " in line][0]
        when, rest = self.scene.effects[at].split(" ", 1)
        self.scene.effects[at] = f"{int(when) + LOCK + LOCK // 2} {rest}"
        self.found("I4", "ran 3030 ms, and had 2000")

    # --- I5: what was done is undone, in reverse order ---

    def test_I5_undo_in_forward_order(self):
        b = [self.scene.entry("j", n) for n in (11, 12)]
        a = [self.scene.entry("j", n) for n in (13, 14)]
        for left, right in zip(b, a):
            left[3:], right[3:] = right[3:], left[3:]
        self.found("I5", "before b")

    def test_I5_forward_after_the_turn(self):
        del self.scene.entry("j", 13)[7]
        self.found("I5", "forward after the turn")

    def test_I5_undone_twice(self):
        self.scene.insert("j", 12, "dispatched 1 4 1.b4 D")
        self.found("I5", "undone twice")

    def test_I5_effect_left(self):
        self.scene.forget("effects", "UNDO j/a/2")
        self.found("I5", "still there")

    def test_I5_effect_missing(self):
        """The history says SUCCEEDED, and b was never done: the exit code of a run is not enough.
        """
        for seq in range(15, 8, -1):
            self.scene.drop("j", seq)
        self.scene.client = [c for c in self.scene.client if "COMPENSATED" not in str(c)]
        self.scene.effects = [e for e in self.scene.effects if "UNDO" not in e]
        self.scene.forget("effects", "EFFECT j/b/1")
        self.found("I5", "its effect is not there")

    def test_I5_effects_undone_in_forward_order(self):
        """The history is valid; the effects are not."""
        undo = [line for line in self.scene.effects if "UNDO" in line]
        first, second = map(self.scene.effects.index, undo)
        self.scene.effects[first], self.scene.effects[second] = undo[1], undo[0]
        self.found("I5", "j/a/1 was undone before b")

    # --- I6: one outcome per turn, on an allowed path ---

    def test_I6_settled_twice(self):
        self.scene.insert("j", 8, "settled SUCCEEDED")
        self.found("I6", "settled twice")

    def test_I6_settled_too_early(self):
        self.scene.drop("j", 7)
        self.found("I6", "settled with steps in flight")

    def test_I6_wrong_outcome(self):
        self.scene.entry("j", 15)[4] = "CANCELLED"
        self.found("I6", "cannot have ended CANCELLED")

    def test_I6_no_such_event(self):
        self.scene.insert("j", 3, "dreamt 0")
        self.found("I6", "dreamt")

    def test_I6_dispatched_while_held(self):
        self.scene.steer("j", 5, "held paused", pause=wire.Pause())
        self.found("I6", "while held")

    def test_I6_command_twice(self):
        self.scene.insert("j", 9, "command disable c1 -")
        self.found("I6", "carried out twice")

    def test_I6_two_answers(self):
        self.scene.say(wire.Answer(job_id="j", command_id="c1", code=wire.ANSWER_CODE_DONE))
        self.scene.say(wire.Answer(job_id="j", command_id="c1", code=wire.ANSWER_CODE_UNCHANGED))
        self.found("I6", "was answered")

    def test_I6_done_and_not_in_the_history(self):
        self.scene.say(wire.Control(job_id="j", command_id="c9", cancel=wire.Cancel()))
        self.scene.say(wire.Answer(job_id="j", command_id="c9", code=wire.ANSWER_CODE_DONE))
        self.found("I6", "command c9 was answered DONE, and is not in the history")

    def test_I6_carried_out_and_refused(self):
        self.scene.say(wire.Answer(job_id="j", command_id="c1", code=wire.ANSWER_CODE_WRONG_STATE))
        self.found("I6", "command c1 was carried out, and answered otherwise")

    def test_I6_excused_where_the_command_came_first(self):
        self.scene.say(wire.Answer(job_id="j", command_id="c1", code=wire.ANSWER_CODE_UNKNOWN_JOB))
        self.scene.say(wire.Answer(job_id="j", command_id="c1", code=wire.ANSWER_CODE_DONE))
        self.assertEqual([], self.judge())

    # --- I7: requests that the broker has lost ---

    def send_again(self, seq, text="resent 0 1 0.c1", fault=True):
        """Has the store record it in the history of p after an entry."""
        if fault:
            self.scene.faults.append({"at": BEGAN, "what": "killed", "who": "rabbitmq"})
        self.scene.insert("p", seq, text)
        self.scene.store["job:p"]["seq"], self.scene.store["hist:p"] = "9", 9

    def test_I7_sent_again(self):
        self.send_again(2)
        self.assertEqual([], [str(v) for v in self.judge()])

    def test_I7_sent_again_without_a_loss(self):
        self.send_again(2, fault=False)
        self.found("I7", "the broker has lost nothing")

    def test_I7_sent_again_after_its_end(self):
        self.send_again(3)
        self.found("I7", "sent again, not in flight")

    def test_I7_sent_again_under_another_token(self):
        self.send_again(2, "resent 0 1 0.c2")
        self.found("I7", "sent again, not in flight")

    def test_I9_expired_soon_after_it_was_sent_again(self):
        self.send_again(2)
        self.scene.entry("p", 3)[2] = str(int(self.scene.entry("p", 4)[2]) - 100)
        self.found("I9", "early")

    # --- I7: overlapping runs ---

    def overlap(self):
        """The first run of b ends after the second has begun."""
        at = [i for i, line in enumerate(self.scene.effects) if " END j/b/1 1 " in line][0]
        when, rest = self.scene.effects[at].split(" ", 1)
        self.scene.effects[at] = f"{int(when) + 300} {rest}"

    def test_I7_overlap(self):
        self.overlap()
        self.found("I7", "was running")

    def redeliver(self):
        """The first request of b is redelivered."""
        requests = [p for p in self.scene.trace if p["place"] == "drover.task.effect"]
        again = copy.deepcopy(requests[1])
        again["redelivered"] = True
        self.scene.trace.append(again)

    def test_I7_excused_by_a_redelivery(self):
        self.overlap()
        self.redeliver()
        self.assertNotIn("I7", {v.rule for v in self.judge()})

    def begin_again(self):
        """A run of the first request of b begins after that of the second."""
        at = [i for i, line in enumerate(self.scene.effects) if " BEGIN j/b/1 2 " in line][0]
        when = int(self.scene.effects[at].split(" ")[0])
        self.scene.effects[at + 1 : at + 1] = [f"{when + 1} BEGIN j/b/1 1 do 98 {LOCK}",
                                               f"{when + 2} END j/b/1 1 do 98 75"]

    def test_I7_after_the_next(self):
        self.begin_again()
        self.found("I7", "attempt 1 began while j/b/1 attempt 2 was running")

    def test_I7_excused_by_a_redelivery_after_the_next(self):
        self.begin_again()
        self.redeliver()
        self.assertNotIn("I7", {v.rule for v in self.judge()})

    # --- I8: dependencies first ---

    def test_I8_dispatched_before_its_dependency(self):
        self.scene.drop("j", 3)
        self.found("I8", "before a")

    def test_I8_done_before_its_dependency(self):
        self.scene.forget("effects", "EFFECT j/a/1")
        self.found("I8", "done before a")

    # --- I14: requests without evidence do not count ---

    def test_I14_expiry_without_evidence(self):
        delivered = [passed for passed in self.scene.trace if passed["way"] == "deliver"
                     and b"0.c1" in base64.b64decode(passed["body"])]
        self.scene.trace.remove(*delivered)
        self.found("I14", "no agent has had the request")

    def test_I5_withdrawn_and_had(self):
        """A request is withdrawn only if no agent can have had it."""
        self.scene.entry("p", 3)[3] = "unsent"
        self.found("I5", "an agent has had the request")
        self.scene.trace = [passed for passed in self.scene.trace
                            if b"0.c1" not in base64.b64decode(passed["body"])]
        self.assertFalse([str(v) for v in self.judge() if "unsent" in str(v)])

    def test_I14_silence_counts_nothing(self):
        self.scene.entry("p", 3)[3] = "silent"
        self.found("I9", "2 failures and 1 expiries, not (2, 0)")

    def test_I9_silent_too_early(self):
        self.scene.entry("p", 3)[3] = "silent"
        self.scene.entry("p", 3)[2] = str(int(self.scene.entry("p", 2)[2]) + LOCK)
        self.found("I9", "given up")

    def test_I9_silent_at_its_deadline(self):
        """The deadline limits the lease if it takes the job back; if it parks the job it does not.
        """
        left = LOCK // 2
        for recourse, early in ((wire.RECOURSE_PARK, True), (wire.RECOURSE_COMPENSATE, False)):
            with self.subTest(recourse):
                self.setUp()
                message = self.scene.client[1]["message"]
                message["definition"]["on_deadline"] = wire.Recourse.Name(recourse)
                message["complete_by"] = str(int(self.scene.entry("p", 2)[2]) + left)
                self.scene.entry("p", 3)[3] = "silent"
                self.scene.entry("p", 3)[2] = str(int(self.scene.entry("p", 2)[2]) + 2 * left)
                found = [str(v) for v in self.judge() if "given up" in str(v)]
                self.assertEqual(early, bool(found), found)

    def test_I9_silent_after_a_progress(self):
        """A Progress makes LockedUntil the end of the lease. It is evidence, so the dispatch counts
        an expiry, unless the deadline has shortened it."""
        sent = int(self.scene.entry("p", 2)[2])
        for complete_by, early in ((0, True), (sent + LOCK, False)):
            with self.subTest(complete_by):
                self.setUp()
                message = self.scene.client[1]["message"]
                message["definition"]["on_deadline"] = "RECOURSE_COMPENSATE"
                message["complete_by"] = str(complete_by)
                self.scene.pass_on("publish", "drover.reply.effect", wire.Replies(
                    progress=[wire.Progress(job_id="p", token="0.c1")]))
                self.scene.entry("p", 3)[3] = "silent"
                self.scene.entry("p", 3)[2] = str(sent + LOCK + 10)
                found = [str(v) for v in self.judge() if "given up" in str(v)]
                self.assertEqual(early, bool(found), found)

    # --- I9: counters ---

    def test_I9_attempt_skipped(self):
        self.scene.entry("j", 6)[5] = "3"
        self.found("I9", "attempt 3")

    def test_I9_expired_early(self):
        self.scene.entry("p", 3)[2] = str(int(self.scene.entry("p", 2)[2]) + LOCK)
        self.found("I9", "early")

    def test_I9_tried_too_often(self):
        self.scene.drop("p", 8)
        self.scene.insert("p", 7, "dispatched 0 4 0.c4")
        self.found("I12", f"dispatched 0 4 {wire.token_id('0.c4')}, not parked 0 EXHAUSTED")
        self.scene.trace = None
        self.found("I9", "tried again after 2 failures")

    def test_I9_expired_too_often(self):
        self.scene.entry("p", 5)[3] = "expired"
        self.scene.entry("p", 5)[2] = str(int(self.scene.entry("p", 4)[2]) + 3 * LOCK)
        self.found("I9", "after 2 expiries")

    def test_I9_failure_not_counted(self):
        self.scene.store["job:p"]["0"] = "U A P 1 3 0.c3 7 1 1 0 0"
        self.found("I9", "1 failures")

    # --- I10: nothing is invented ---

    def test_I10_never_submitted(self):
        self.scene.forget("client", "'kind': 'Submit'", "'job_id': 'j'")
        self.found("I10", "was never submitted")

    def test_I10_done_without_a_run(self):
        self.scene.forget("effects", "END j/b/1 2 ")
        self.found("I10", "has ended well")

    def test_I10_run_without_a_request(self):
        self.scene.effects.append(f"{BEGAN} BEGIN j/b/1 7 do 99 {LOCK}")
        self.found("I10", "never dispatched")

    def test_I10_run_before_it_was_asked_for(self):
        at = [i for i, line in enumerate(self.scene.effects) if " BEGIN j/b/1 2 " in line][0]
        when, rest = self.scene.effects[at].split(" ", 1)
        self.scene.effects[at] = f"{int(when) - 50} {rest}"
        self.found("I10", "ran 40 ms before it was dispatched")

    def test_I10_run_of_no_job(self):
        self.scene.effects.append(f"{BEGAN} BEGIN x/b/1 1 do 99 {LOCK}")
        self.found("I10", "no job's")

    def test_I10_request_never_dispatched(self):
        request = wire.StepRequest(job_id="j", step="a", token="0.zz")
        self.scene.pass_on("publish", "drover.tasks", wire.Requests(requests=[request]))
        self.found("I10", wire.token_id("0.zz"))

    def test_I10_excused_where_the_job_was_created_again(self):
        """A store that may forget has forgotten what was before, also what nobody has copied."""
        request = wire.StepRequest(job_id="j", step="a", token="0.zz")
        self.scene.at = int(self.scene.entry("j", 1)[2]) - 50
        self.scene.pass_on("publish", "drover.tasks", wire.Requests(requests=[request]))
        self.scene.effects.append(f"{self.scene.at} BEGIN j/b/1 7 do 99 {LOCK}")
        self.found("I10", wire.token_id("0.zz"))
        self.scene.world["durable"] = False
        self.assertFalse([str(v) for v in self.judge() if "never dispatched" in str(v)])

    def receipts(self, **fields):
        for record in self.scene.client:
            if record["kind"] == "Receipt" and record["message"]["job_id"] == "j":
                record["message"].update(fields)

    def test_I10_rejected_and_there(self):
        self.receipts(code="RECEIPT_CODE_REJECTED", field="complete_by")
        self.found("I10", "j was refused for its complete_by, and is there")

    def test_I10_created_twice(self):
        self.scene.say(wire.Receipt(job_id="j", code=wire.RECEIPT_CODE_CREATED, recorded_at=BEGAN))
        self.found("I10", "j was created 2 times")

    def test_I10_excused_where_a_receipt_came_twice(self):
        self.scene.client.append(next(c for c in self.scene.client if c["kind"] == "Receipt"))
        self.assertEqual([], self.judge())

    def test_I10_created_at_another_time(self):
        self.receipts(recorded_at=str(BEGAN + 50))
        self.found("I10", "j was created at")

    # --- I11: notifications ---

    def test_I11_unknown_result(self):
        for record in self.scene.client:
            if "SUCCEEDED" in str(record):
                payload = record["message"]["results"][0]["payload"]
                payload["data"] = base64.b64encode(b"invented").decode()
        self.found("I11", "an event with a result that the step has not given")

    def test_I11_result_left_out(self):
        self.scene.cut("j", 8)
        self.scene.forget("client", "COMPENSATED")
        for record in self.scene.client:
            if "SUCCEEDED" in str(record):
                del record["message"]["results"]
        self.found("I11", "has given a result that is not in the event")

    def test_I11_no_event(self):
        self.scene.forget("client", "SUCCEEDED")
        self.found("I11", "client has no event of it")

    def test_I11_excused_where_the_queue_was_lost(self):
        self.scene.forget("client", "SUCCEEDED")
        self.scene.faults.append({"at": self.scene.at, "what": "client's queue lost", "who": ""})
        self.assertNotIn("I11", {v.rule for v in self.judge()})

    def test_I11_wrong_event(self):
        for record in self.scene.client:
            if "SUCCEEDED" in str(record):
                record["message"]["outcome"] = "OUTCOME_FAILED"
        self.found("I11", "the event says FAILED")

    def test_I11_event_without_an_end(self):
        self.scene.say(wire.JobEvent(kind=wire.EVENT_KIND_SETTLED, job_id="j", seq=5,
                                     outcome=wire.OUTCOME_SUCCEEDED))
        self.found("I11", "which is no end")

    def test_I11_still_in_the_outbox(self):
        self.scene.store["owed"] = {"j 15": 1.0}
        self.scene.store["data:j"] = {"s15": ""}
        self.found("I11", "still in the outbox")

    # --- I12: the terms of the definition that was accepted ---

    def test_I12_backoff_cut_short(self):
        self.scene.entry("j", 6)[2] = str(int(self.scene.entry("j", 5)[2]) + 20)
        self.found("I12", "before its backoff")

    def test_I12_another_lease(self):
        for request in self.scene.requests():
            request.lock_ms = 5 * LOCK
        self.found("I12", "lock_ms")

    def test_I12_other_content(self):
        other = wire.payload(b"other", "text/plain")
        for name in ("arguments", "input", "forward_result"):
            self.scene = Scene()
            for request in self.scene.requests():
                getattr(request, name).CopyFrom(other)
            self.found("I12", f"a request with {name}")
        for name in ("failures", "expiries", "turn", "heartbeat_ms", "complete_by"):
            self.scene = Scene()
            for request in self.scene.requests():
                setattr(request, name, getattr(request, name) + 1)
            self.found("I12", f"a request with {name}")
        self.scene = Scene()
        for request in self.scene.requests():
            request.current = wire.STATE_ACTIVE
        self.found("I12", "a request with current 2, not {1}")

    def test_good_where_two_tokens_have_the_same_id(self):
        token_id = wire.token_id
        with unittest.mock.patch.object(
                wire, "token_id", lambda token: token_id("0.a1" if token == "0.c1" else token)):
            self.assertEqual([], [str(v) for v in self.judge()])

    def test_I12_other_results(self):
        for request in self.scene.requests():
            for result in request.results:
                result.payload.data = b"other"
        self.found("I12", "with another result of a")
        self.scene = Scene()
        for request in self.scene.requests():
            del request.results[:]
        self.found("I12", "with another result of a")
        self.scene = Scene()
        for request in self.scene.requests():
            request.results.add(step="b").payload.CopyFrom(RESULT)
        self.found("I12", "with results of")

    # --- each turn, parking, hold and end has its cause: reasons.py ---

    def path(self):
        """The violations in the histories alone."""
        return [str(v) for v in self.judge() if v.text.startswith("entry ")]

    def test_good_steered(self):
        self.scene.steer("p", 8, "retried all", "dispatched 0 4 0.c4", "silent 0 4 0.c4",
                         retry=wire.Retry())
        self.scene.entry("p", 12)[2] = str(int(self.scene.entry("p", 11)[2]) + 2 * LOCK)
        self.scene.steer("j", 5, "held paused", command_id="y", pause=wire.Pause())
        self.scene.steer("j", 7, "resumed", resume=wire.Resume())
        self.assertEqual([], self.path())

    def test_good_resolved(self):
        resolve = wire.Resolve(step="a", state=wire.STATE_ACTIVE)
        self.scene.steer("p", 8, "resolved 0 A", "dispatched 1 1 1.c1", resolve=resolve)
        self.assertEqual([], self.path())
        self.scene.entry("p", 10)[5] = "D"
        self.found("I10", "resolved 0 D, and no client has said so")

    def test_good_tried_while_parked(self):
        self.scene.insert("p", 8, "dispatched 0 4 0.c4")
        self.found("I12", "before its backoff")
        self.scene.entry("p", 9)[2] = str(int(self.scene.entry("p", 8)[2]) + 600000)
        self.assertEqual([], self.path())

    def test_parked_early(self):
        self.scene.cut("p", 5, "parked 0 EXHAUSTED")
        self.found("I9", "parked 0 EXHAUSTED after 1 failures")
        self.scene.cut("p", 5, "parked 0 PERMANENT")
        self.found("I12", "though it may be tried again")
        self.scene.cut("p", 3, "parked 0 DEATHS")
        self.found("I9", "parked 0 DEATHS after 1 expiries")
        self.scene.cut("p", 3, "parked 0 EXHAUSTED")
        self.found("I6", "nothing has failed")

    def test_I12_wrong_recourse(self):
        for event in ("given_up 0 EXHAUSTED", "turned D FAILURE EXHAUSTED 0"):
            self.scene.cut("p", 7, event)
            self.found("I12", f"{event}, not parked 0 EXHAUSTED")
        self.scene.trace = None
        self.found("I12", "against its policy")

    def test_I12_permanent_and_tried_again(self):
        self.scene.answer("1.b1", verdict=wire.VERDICT_PERMANENT)
        self.found("I12", f"dispatched 1 2 {wire.token_id('1.b2')}, not parked 1 PERMANENT")

    def test_I12_non_retryable_class(self):
        for record in self.scene.client:
            if record["kind"] == "Submit":
                for step in record["message"]["definition"]["steps"]:
                    step["retry"]["non_retryable"] = ["EXIT_75"]
        self.found("I12", "not parked 1 PERMANENT")

    def test_I10_done_and_the_answer_was_a_failure(self):
        self.scene.answer("1.b2", verdict=wire.VERDICT_TRANSIENT)
        self.found("I10", "done, and the answer was failed")

    def test_I10_failed_and_the_answer_was_good(self):
        self.scene.answer("1.b1")
        self.found("I10", "failed, and the answer was done")

    def test_I6_turned_for_no_failure(self):
        self.scene.cut("j", 3, "turned D FAILURE PERMANENT 0")
        self.found("I12", "against its policy")
        for record in self.scene.client:
            if record["kind"] == "Submit":
                for step in record["message"]["definition"]["steps"]:
                    step["retry"]["on_permanent"] = "RECOURSE_COMPENSATE"
        self.found("I6", "nothing has failed")

    def test_I6_failed_for_no_failure(self):
        self.scene.cut("j", 3, "ending EXHAUSTED", "settled FAILED EXHAUSTED")
        self.found("I6", "no step was given up")
        self.scene.cut("j", 3, "settled FAILED PERMANENT")
        self.found("I6", "cannot have ended FAILED")

    def test_I6_ended_for_another_reason(self):
        self.scene.entry("j", 15)[5] = "FAILURE"
        self.found("I6", "cannot have ended COMPENSATED for FAILURE")

    def test_I6_tried_again_without_a_reason(self):
        self.scene.cut("j", 14, "turned A TRY")
        self.found("I6", "no failure was taken back")

    def test_I6_late_without_a_deadline(self):
        self.scene.cut("p", 2, "held deadline")
        self.found("I6", "it has no deadline")
        for record in self.scene.client:
            if record["kind"] == "Submit":
                record["message"]["definition"]["complete_within_ms"] = "60000"
        self.found("I12", "before its deadline")
        self.scene.cut("p", 2, "ending DEADLINE")
        self.found("I12", "against its policy")

    def test_I10_no_command(self):
        for event in ("killed", "held paused", "turned D REQUESTED", "turned D CANCELLED",
                      "retried 0",
                      "retried all", "edited 0", "resolved 0 A"):
            self.scene.cut("p", 8, event)
            self.found("I10", f"{event}, and no client has said so")
        self.scene.cut("p", 8, "command kill c9 -", "killed")
        self.found("I10", "kill c9, and no client has said so")

    def test_I10_another_command(self):
        self.scene.steer("p", 8, "killed", cancel=wire.Cancel())
        self.found("I10", "killed, and no client has said so")

    def test_I10_retry_of_another_step(self):
        self.scene.steer("p", 8, "retried 0", retry=wire.Retry(steps=["b"]))
        self.found("I10", "retried 0, and no client has said so")

    # --- I13, M4: the store at rest ---

    def test_I13_gap(self):
        self.scene.entry("j", 5)[1] = "55"
        self.found("I13", "the next one")

    def test_I13_not_due(self):
        self.scene.store["due"] = {}
        self.found("I13", "not in due")

    def test_I13_due_at_another_time(self):
        self.scene.store["due"] = {"p": 8.0}
        self.found("I13", "is due at")

    def test_I13_settled_and_open(self):
        self.scene.store["open"]["j"] = 1.0
        self.found("I13", "in open")

    def test_I13_another_state(self):
        self.scene.store["job:j"]["0"] = "A D W 2 2 0.a2 0 0 0 0 0 2 1"
        self.found("I13", "is taken for A")

    def test_I13_counters(self):
        self.scene.store["job:p"]["open"] = "1"
        self.found("I13", "open steps")
        self.scene.store["job:p"]["busy"] = "0"
        self.found("I13", "busy steps")
        self.scene.store["job:j"]["owes"] = "1"
        self.found("I13", "notifications in the outbox")

    def test_I13_references(self):
        self.scene.store[f"def:{DEF}"]["refs"] = "3"
        self.found("I13", "counts 3 users")

    def test_I13_mended(self):
        self.scene.insert("j", 3, "mended due")
        self.found("I13", "mend")

    def test_M4_left_behind(self):
        self.scene.store["hist:gone"] = 3
        self.found("M4", "hist:gone")

    def test_M4_unknown_key(self):
        self.scene.store["lock:j"] = "1"
        self.found("M4", "lock:j")

    # --- L: liveness ---

    def test_L1_not_ended(self):
        for seq in (8, 7):
            self.scene.drop("p", seq)
        self.found("L1", "p has not ended; in flight: a")

    def test_L1_too_late(self):
        self.scene.world["settle_within_ms"] = 100
        self.scene.faults.append({"at": BEGAN, "what": "killed", "who": "agent-1"})
        self.found("L1", "after all was well")

    def test_L1_stood_still(self):
        """After its backoff was over, and after a lease had ended."""
        for seq, text in ((6, "60050 ms"), (3, "62000 ms")):
            self.scene = Scene()
            for entry in self.scene.of("p" if seq == 3 else "j")[seq - 1:]:
                entry[2] = str(int(entry[2]) + 60000)
            self.scene.world["scan_ms"] = 0
            self.found("L1", f"stood still {text}")

    def test_L1_stands_still_at_the_end(self):
        self.scene.cut("j", 3)
        self.scene.world["ended_at"] = self.scene.at + 60000
        self.found("L1", "j stood still")

    def test_L1_excused_while_there_are_faults(self):
        for entry in self.scene.of("j")[5:]:
            entry[2] = str(int(entry[2]) + 60000)
        self.scene.faults.append({"at": int(self.scene.entry("j", 6)[2]), "what": "again",
                                  "who": "s1"})
        self.assertNotIn("L1", {v.rule for v in self.judge()})

    def test_L1_excused_while_held(self):
        self.scene.steer("j", 3, "held paused", pause=wire.Pause())
        self.scene.cut("j", 5)
        self.scene.world["ended_at"] = self.scene.at + 60000
        self.assertNotIn("L1", {v.rule for v in self.judge()})

    def test_L2_recovered_late(self):
        for entry in self.scene.of("p")[2:]:
            entry[2] = str(int(entry[2]) + 60000)
        self.found("L2", "late")

    def test_L3_parked_in_silence(self):
        self.scene.forget("trace", "drover.events")
        self.found("L3", "without an alert")

    def test_L3_parked_in_silence_while_the_trace_was_lost(self):
        self.scene.forget("trace", "drover.events")
        self.scene.faults = [{"at": BEGAN, "what": "trace lost", "who": ""}]
        self.assertEqual([], self.judge())
        self.scene.world["listens"] = True
        self.found("L3", "without an alert")
        self.scene.say(wire.JobEvent(kind=wire.EVENT_KIND_ALERT, job_id="p", reason="PARKED",
                                     step="a",
                                     at=self.scene.at))
        self.assertEqual([], self.judge())

    def test_L3_parked_and_tried(self):
        self.scene.answer("0.c3", verdict=wire.VERDICT_PERMANENT)
        self.scene.entry("p", 8)[5] = "PERMANENT"
        self.scene.insert("p", 8, "dispatched 0 4 0.c4")
        self.found("L3", "though parked")

    def test_L4_nobody_leads(self):
        self.scene.world.update(lease_ms=1000, ended_at=BEGAN)
        self.scene.store["leader"] = f"s1 {BEGAN - 3000} 1000"
        self.found("L4", "no supervisor leads")
        self.scene.store["leader"] = f"s1 {BEGAN + 500} 1000"
        self.assertEqual([], self.judge())


if __name__ == "__main__":
    tap.main()
