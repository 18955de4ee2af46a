# SPDX-License-Identifier: Apache-2.0
"""The functions of the store, called one by one: rules that show only in an order of calls which processes
seldom come to. With DROVER_SIMULATED=build/tests/sim/simulated-redis the simulator's Redis is called."""

import collections
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import redis
import servers
import tap
import wire

SIMULATED = os.environ.get("DROVER_SIMULATED")
LIBRARY = (wire.ROOT / "common" / "store" / "drover.lua").read_text()
KEYS = "drover:{p0}:"
NONCES = [f"{n:016x}" for n in range(1, 10)]
JOB = "one"
# What a step goes by: a lease, one attempt and one death, then it is parked for good.
BEATING = "3600000 0 300 1 1 1 1 1 0 -1 PP|"
SHORT = "1 1 0 1 1 1 1 1 0 -1 PP|"
LONG = "60000 60000 0 1 1 1 1 1 0 -1 PP|"
FAILS = "60000 60000 0 1 1 1 1 1 0 -1 FP|"  # for good: so does the job
UNDOES = "60000 60000 0 1 1 1 1 1 0 -1 CP|"  # and the job goes back
CAPPED = "60000 60000 0 10 1000 20 9 9 0 -1 PP|"  # waits 10 ms, then a thousand times that, at most 20 ms
TRIED = "60000 60000 0 1 1 1 1 1 0 600000 PP|"  # parked after one failure, and tried again each ten minutes
DIES = "20000 20000 0 1 1 1 1 1 0 600000 PP|"  # the same, of a lease that a test may end
LIVES = "20000 20000 0 1 1 1 1 9 0 600000 PP|"  # and of more deaths than one
JOB_KEYS = re.compile(r":(job:|data:|hist:|l:\d)")  # of a job alone, and of labels that no other has
FAR = 10**14  # a time that no test sees
BUDGET = 250  # steps that a call touches
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

# What a scheduler reads of a notice: definition, steps, data, tries, and how it ended.
NOTICE = r"^FOUND \S* \d{1,5} .*  ?\d (ALERT|KILLED|SUCCEEDED|COMPENSATED|FAILED|CANCELLED) [A-Z]+ \d{1,10} \d+ \d{1,5} "

def an_error(message):
    """An encoded Error with details."""
    return shown(message) + "\x1a\x03log"


def shown(message):
    """The same without them, where it says nothing else."""
    return f"\x0a\x03BAD\x12{chr(len(message))}{message}"

class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.redis = cls.enterClassContext(simulated_redis() if SIMULATED else real_redis())
        clock = "call('TIME')\n  return "
        assert LIBRARY.count(clock) == 1
        cls.redis.function_load(LIBRARY.replace(clock, f"{clock}(call('GET', 'skew') or 0) + "), replace=True)

    def setUp(self):
        self.redis.flushall()

    def call(self, name, *arguments):
        return self.redis.fcall(f"drover1_{name}", 1, KEYS, *arguments)

    def define(self, name, *steps, after=None, take=None, revert="", on_deadline="P", tries=1, interval=0, coefficient=2,
               expected=0, complete_within=0, names=None, actors=None, revert_actor=""):
        """A definition of steps with these terms; `after`: a step -> the one before it; `take`: a step -> those
        whose results it takes. What they are taken back by, if they are, is the same for all. Without names and
        actors: as builds before 36 have stored it."""
        after, take = after or {}, take or {}
        roots = [str(i) for i in range(len(steps)) if i not in after]
        lines = ["r", f"0 0 0 0 0 0 0 0 0 0 PP||0 {len(roots)} 00|||{' '.join(roots)}"]
        for i, terms in enumerate(steps):
            next_ = [str(k) for k in after if after[k] == i]
            counts = f"{int(i in after)} {len(next_)} {int(revert != '')}0"
            taken = " ".join(map(str, take.get(i, [])))
            named = (f"|{names[i]}" if names else "") + (f"|{actors[i]}" if actors else "")
            back = f"{revert}|{revert_actor}" if revert_actor else revert
            lines += [str(i), f"{terms}|{counts}|{taken}|{after.get(i, '')}|{' '.join(next_)}{named}", f"v{i}", back]
            lines += [f"x{names[i]}", i] if names else []
        self.assertEqual("DEFINED", self.call(
            "define", name, "", 0, len(steps), "", 1, 0, "job",
            f"{on_deadline} {tries} {expected} {interval} {coefficient} {complete_within}", *lines)[0])

    def submit_call(self, digest="d", start_at=0, complete_by=0, reply_to="", labels="", owner="", definition="d", job=JOB,
                    limits=(0, 0, 0), data=(), events="job"):
        """The answer. @owner: who has submitted it, and whose a job of this id must be."""
        return self.call("submit", job, digest, definition, "", 0, NONCES[0], "me", "A", start_at, complete_by, events, 0,
                         reply_to, "", labels, owner, *limits, *data, "submitter", owner)

    def submit(self, *steps, start_at=0, complete_by=0, labels="", **definition):
        """A job of these steps, which do not depend on each other; all of them are out."""
        self.define("d", *steps, **definition)
        self.assertEqual("CREATED", self.submit_call(start_at=start_at, complete_by=complete_by, labels=labels)[0])
        for _ in range(len(steps) // BUDGET):
            self.drive()
        if not start_at and not definition.get("after"):
            self.assertEqual(["R"] * len(steps), [self.step(i)[2] for i in range(len(steps))])

    def reply(self, kind, token, result="", job=JOB, redelivered=0, retry_after=0, step="", actor="", error="",
              class_="", agent=""):
        nonce = NONCES[3] if redelivered else NONCES[1]
        return self.call("record", "me", kind, job, token, redelivered, nonce, 0, result, error, class_, retry_after, "",
                         step, actor, agent)

    def record(self, kind, i=0, result="", error="", class_="", agent=""):
        """Of the request that is out."""
        answer = self.reply(kind, self.step(i)[5], result, error=error, class_=class_, agent=agent)
        self.assertEqual("RECORDED", answer[0])
        return answer

    def steer(self, command, *arguments, command_id="", issued_at=0, owner="", most=0, said="-"):
        """The answer, and why it was refused. @most: bytes that the owner may take."""
        answer = self.call("steer", JOB, command, command_id, issued_at, 0, said, "me", NONCES[2], 0, "", owner, most,
                           *arguments)
        return answer[0] if answer[-2] == "-" else (answer[0], answer[-2])

    def alerts(self, answer):
        """What its alerts are about."""
        *_, n, _ = map(int, answer[2].split())
        return [words.split()[2] for words in answer[3:3 + n]]

    def forget_all(self):
        """Jobs that have ended, once what they owe is told."""
        for owed in self.index("owed"):
            self.call("settle_owed", *owed.split())
        self.call("forget", 0, 10)

    def retry_all(self):
        return self.steer("retry", "")

    def drive(self, *steps):
        self.call("drive", JOB, NONCES[1], "me", 0, *steps)

    def now(self):
        seconds, micros = self.redis.time()
        return seconds * 1000 + micros // 1000 + int(self.redis.get("skew") or 0)

    def job(self, *fields):
        return self.redis.hmget(f"{KEYS}job:{JOB}", fields)

    def step(self, i):
        """current asked state turn attempt token until failures expiries waiting unstarted [since forward]"""
        return self.redis.hget(f"{KEYS}job:{JOB}", i).split()

    def history(self):
        return self.redis.lrange(f"{KEYS}hist:{JOB}", 0, -1)

    def events(self):
        return [entry.split()[2] for entry in self.history()]

    def noted(self, event):
        """What stands behind it, each time."""
        return [entry.split()[3:] for entry in self.history() if entry.split()[2] == event]

    def index(self, name):
        return self.redis.zrange(f"{KEYS}{name}", 0, -1)

    def expire(self, *look):
        """now, head of due, more, back; how many jobs, each with its steps; how many notices, each"""
        return self.call(*look, "expire", 0, 9, 0, 0, 1, 0, 0, 0)

    def await_mark(self, i):
        """Its lease ends, or its timer strikes, and that is noticed; what follows is not seen to."""
        servers.wait_for(lambda: self.expire() and self.step(i)[2] == "M", "the step to be marked")

    def taken(self, i):
        """An agent has the request; should its lease end, that is a death."""
        self.assertEqual(["TAKEN"], self.call("taken", JOB, self.step(i)[5]))

    def die(self, i):
        self.taken(i)
        self.await_mark(i)
        self.assertEqual("1", self.step(i)[8])

    if not SIMULATED:  # which has no FUNCTION LIST

        def test_a_full_store_refuses_what_is_new(self):
            ((_, _, _, _, _, functions),) = self.redis.function_list(library="drover1")
            flags = {function[1].removeprefix("drover1_"): set(function[5]) for function in functions}
            refused = {name for name in flags if not flags[name] & {"allow-oom", "no-writes"}}
            self.assertEqual({"define", "submit"}, refused)

    def test_no_queue_took_it(self):
        """Nobody can have begun it ..."""
        self.submit(LONG)
        self.record("X")
        self.assertEqual(("D", "B"), (self.step(0)[0], self.step(0)[2]))
        self.assertIn("unroutable", self.events())

    def test_no_queue_took_one_copy(self):
        """... unless it was sent once more: that one may have found a queue."""
        self.submit(LONG)
        self.call("drive", JOB, NONCES[1], "me", 1, 0)
        self.record("X")
        self.assertEqual("U", self.step(0)[0])
        self.assertNotIn("unroutable", self.events())

    def test_the_broker_refused_it(self):
        """It answers for nothing; that it has nothing it does not say."""
        self.submit(LONG)
        self.record("K")
        self.assertEqual("U", self.step(0)[0])
        self.assertNotIn("unroutable", self.events())

    def test_retry_all_of_what_is_about_to_be_parked(self):
        """It died too often, and whoever is to park it has not come to that."""
        self.submit(SHORT)
        self.die(0)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["0", "0"], self.step(0)[7:9])

    def test_retry_all_before_its_walk_has_come_by(self):
        """What is due by then begins at once, and anew: one that was parked, one that is about to be."""
        parked, dead, tried = BUDGET, BUDGET + 1, BUDGET + 2
        self.submit(*["3600000 60000 0 1 1 1 1 1 0 -1 PP|"] * BUDGET, TRIED, DIES, CAPPED)
        self.record("T", parked)
        self.record("T", tried)
        self.assertEqual(["P", "B"], [self.step(i)[2] for i in (parked, tried)])
        self.taken(dead)
        self.redis.set("skew", 700000)
        for i in (parked, dead, tried):
            self.await_mark(i)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual([f"y:{BUDGET}"], self.job("cursor"))
        self.drive(parked, dead, tried)
        self.assertEqual([["R", "0", "0"], ["R", "0", "0"], ["R", "1", "0"]],
                         [[self.step(i)[2], *self.step(i)[7:9]] for i in (parked, dead, tried)])
        self.assertEqual([str(parked)], [e.split()[3] for e in self.history() if e.split()[2] == "parked"])

    def test_retry_all_of_what_the_end_laid_down(self):
        """A parked step waits for nothing once its job has ended; brought back, it begins anew."""
        self.submit(SHORT, FAILS)
        self.die(0)
        self.call("drive", JOB, NONCES[1], "me", 0, 0)
        self.assertEqual("P", self.step(0)[2])
        self.record("P", 1)
        self.assertIn("settled", self.events())
        self.assertEqual("DONE", self.retry_all())
        for i in range(2):
            self.assertEqual(["R", "0", "0"], [self.step(i)[2], *self.step(i)[7:9]])

    def test_retry_all_of_what_failed_for_good_and_the_end_laid_down(self):
        """It was parked before its tries were used up."""
        self.submit(CAPPED, FAILS)
        self.record("P")
        self.assertEqual(["P", "1"], [self.step(0)[2], self.step(0)[7]])
        self.record("P", 1)
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["R", "0"], [self.step(0)[2], self.step(0)[7]])

    def test_the_wait_has_a_cap(self):
        self.submit(CAPPED)
        for wait in (10, 20):
            self.record("T")
            self.assertEqual("B", self.step(0)[2])
            failed = self.redis.lindex(f"{KEYS}hist:{JOB}", -1).split()
            self.assertEqual("failed", failed[2])
            self.assertEqual(wait, int(self.step(0)[6]) - int(failed[1]))
            self.await_mark(0)
            self.call("drive", JOB, NONCES[3], "me", 0, 0)

    def test_retry_of_one_begins_it_anew(self):
        self.submit(LONG)
        self.record("T")
        self.assertEqual(["P", "1"], [self.step(0)[2], self.step(0)[7]])
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual(["R", "0"], [self.step(0)[2], self.step(0)[7]])

    def test_other_arguments_for_what_may_have_begun(self):
        self.submit(LONG)
        self.record("T")
        self.assertEqual(["U", "P"], [self.step(0)[0], self.step(0)[2]])
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.steer("retry", "other arguments", 0))
        self.assertNotIn("edited", self.events())

    def test_deadline_of_what_is_paused(self):
        """The hold stays a person's."""
        self.submit(LONG, complete_within=1)
        self.assertEqual("DONE", self.steer("pause"))
        servers.wait_for(lambda: self.call("drive", JOB, NONCES[1], "me", 0) and self.job("late") == ["2"],
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

    def test_turned_before_its_time(self):
        """Back at once, because nothing was begun; forward again not before its time."""
        self.submit(LONG, start_at=FAR)
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual(["COMPENSATED", "0"], self.job("outcome", "open"))
        self.assertEqual("DONE", self.steer("enable"))
        self.assertEqual(["PENDING"], self.job("phase"))
        self.assertNotIn("dispatched", self.events())

    def test_orders_of_commands(self):
        """A command that turns the job overtakes the earlier ones of its kind, a Retry only Retries."""
        self.submit(LONG)
        self.assertEqual("UNCHANGED", self.steer("retry", "", issued_at=4000))
        self.assertIn("SUPERSEDED", self.steer("retry", "", issued_at=3000))
        self.assertEqual("DONE", self.steer("cancel", issued_at=2000))
        self.assertIn("SUPERSEDED", self.steer("enable", issued_at=1000))
        self.assertEqual(["D"], self.job("desired"))

    def test_resume_of_what_nothing_holds(self):
        self.submit(LONG)
        self.assertEqual("UNCHANGED", self.steer("resume"))
        self.assertNotIn("resumed", self.events())

    def test_tries_of_a_job(self):
        """Taken back after a failure it goes forward again, as often as its definition says."""
        self.submit(UNDOES, tries=2)
        self.record("P")
        self.assertEqual(["R", "3"], [self.step(0)[2], self.step(0)[3]])
        self.record("P")
        self.assertEqual(["COMPENSATED", "FAILURE", "4"], self.job("outcome", "reason", "turn"))

    def test_command_again(self):
        """It is answered as before, whatever has become of the job meanwhile."""
        self.submit(LONG)
        self.assertEqual("DONE", self.steer("pause", command_id="one"))
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual("DONE", self.steer("pause", command_id="one"))
        self.assertEqual([""], self.job("hold"))

    def test_what_an_undo_takes_back(self):
        """The turn of its last do: the one in which its arguments were changed."""
        self.submit(LONG, LONG, after={1: 0})
        self.steer("disable")
        self.record("A")
        self.assertEqual(["COMPENSATED"], self.job("outcome"))
        self.assertEqual("DONE", self.steer("enable"))
        self.assertEqual("DONE", self.steer("retry", "other arguments", 1))
        self.record("A")
        self.assertEqual(["3", "4"], [self.step(0)[12], self.step(1)[12]])

    def test_notice_of_a_turn_that_is_past(self):
        self.submit(LONG)
        self.steer("disable")
        self.record("A")
        (owed,) = self.index("owed")
        self.assertEqual("DONE", self.steer("enable"))
        self.assertEqual([""], self.job("outcome"))
        self.assertIn("COMPENSATED", self.call("inspect", "notice", *owed.split(), 1000))

    def test_compensation_failed(self):
        """Once nothing more can be undone, and not before; then there is no way forward."""
        self.submit(LONG, LONG, revert=FAILS)
        self.record("A", 0)
        self.record("A", 1)
        self.assertEqual("DONE", self.steer("disable"))
        self.record("P", 0)
        self.assertEqual(["", "F", "R"], [*self.job("outcome"), self.step(0)[2], self.step(1)[2]])
        self.record("P", 1)
        self.assertEqual(["COMPENSATION_FAILED", "0 1"], self.job("outcome", "failed"))
        self.assertIn("WRONG_STATE", self.steer("enable"))

    def migrate(self, name, n, *changed, gone=0):
        return self.steer("migrate", name, n, "", gone, *changed)

    def test_migrated(self):
        """All is counted anew, and the old definition, which nobody uses any more, is gone."""
        self.submit(LONG)
        self.define("e", LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 2))
        self.assertEqual(["2"], self.job("open"))
        self.assertEqual("R", self.step(1)[2])
        self.assertEqual(0, self.redis.exists(f"{KEYS}def:d"))
        self.assertEqual("1", self.redis.hget(f"{KEYS}def:e", "refs"))

    def test_migrated_while_it_is_looked_at(self):
        """A look that goes in pieces stands behind the last step of what the job gets: it begins anew."""
        self.submit(SHORT, *[LONG] * BUDGET, after={BUDGET: 1})
        self.define("e", SHORT, *[LONG] * (BUDGET - 1))
        self.await_mark(0)
        self.assertEqual(str(BUDGET), self.job("scan")[0].split()[0])
        self.assertEqual("DONE", self.migrate("e", BUDGET, BUDGET, gone=1))
        self.expire()
        self.assertEqual([""], self.job("scan"))

    def test_looked_at_past_its_last_step(self):
        """An earlier build left that so. The job is looked at anew; and what a look had not seen is not passed
        over where the job gets more steps."""
        self.submit(SHORT)
        self.redis.hset(f"{KEYS}job:{JOB}", "scan", f"1 {FAR}")
        self.await_mark(0)
        self.assertEqual([""], self.job("scan"))
        self.redis.hset(f"{KEYS}job:{JOB}", "scan", f"1 {FAR}")
        self.define("e", SHORT, LONG)
        self.assertEqual("DONE", self.migrate("e", 2))
        self.assertEqual([""], self.job("scan"))

    def test_migrate_what_has_begun(self):
        self.submit(LONG)
        self.define("e", SHORT)
        self.assertIn("WRONG_STATE", self.migrate("e", 1, 0))

    def test_migrate_away_what_was_sent(self):
        """It came back; an agent may have had it all the same. It may change, but not be left out."""
        self.submit(LONG, LONG)
        self.define("e", LONG)
        self.record("N", 1)
        self.assertEqual(["U", "B"], self.step(1)[0:3:2])
        self.assertIn("WRONG_STATE", self.migrate("e", 1, 1, gone=1))
        self.define("f", LONG, SHORT)
        self.assertEqual("DONE", self.migrate("f", 2, 1))

    def test_migrate_what_a_person_has_done(self):
        """Nobody took it, so that it was done by hand: it is done, whatever another version says."""
        self.submit(LONG, LONG, after={1: 0})
        self.record("X")
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.define("e", SHORT, LONG, after={1: 0})
        self.assertEqual(("WRONG_STATE", "BEGUN"), self.migrate("e", 2, 0))
        self.assertEqual("A", self.step(0)[0])

    def test_migrate_what_had_failed(self):
        """For good, as it could not be sent: it has not begun, and is not among those that failed any more."""
        self.submit(FAILS, LONG)
        self.record("P", 1)
        self.record("L", 0)
        self.assertEqual(["F", "0"], [self.step(0)[2], *self.job("failed")])
        self.assertEqual("DONE", self.steer("retry", "", 1))
        self.define("e", LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 2, 0))
        self.assertEqual(["R", ""], [self.step(0)[2], *self.job("failed")])
        self.record("A", 0)
        self.record("A", 1)
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_migrate_what_was_given_arguments(self):
        """They were for what the step was before, and are not counted any more."""
        self.submit(LONG, LONG, after={1: 0})
        self.assertEqual("DONE", self.steer("retry", "better", 1))
        self.assertEqual(["6"], self.job("bytes"))
        self.define("e", LONG, SHORT, after={1: 0})
        self.assertEqual("DONE", self.migrate("e", 2, 1))
        self.assertEqual(["0"], self.job("bytes"))
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", "a1"))

    def test_too_large_to_be_sent(self):
        """Nobody has had it: there is nothing to take back, and the job goes back without it ..."""
        self.submit(LONG, UNDOES, after={1: 0}, revert=LONG)
        self.record("A")
        self.record("L", 1)
        self.assertEqual(["D", "W"], self.step(1)[0:3:2])
        self.assertEqual(["D", "R"], [self.step(0)[1], self.step(0)[2]])

    def test_too_large_to_be_resent(self):
        """... but where another scheduler has sent it ..."""
        self.submit(LONG)
        self.call("drive", JOB, NONCES[1], "me", 1, 0)
        self.record("L")
        self.assertEqual(["U", "P"], self.step(0)[0:3:2])

    def test_too_large_to_be_sent_once_more(self):
        """... or an attempt before may have done it."""
        self.submit(CAPPED)
        self.record("T")
        self.await_mark(0)
        self.drive(0)
        self.record("L")
        self.assertEqual(["U", "P"], self.step(0)[0:3:2])

    def test_an_undo_too_large_that_nobody_wants(self):
        """The job has turned by then: the step is where it goes."""
        self.submit(LONG, LONG, after={1: 0}, revert=LONG)
        self.record("A")
        self.record("A", 1)
        self.steer("disable")
        self.assertEqual("R", self.step(1)[2])
        self.steer("enable")
        self.record("L", 1)
        self.assertEqual(["A", "W"], self.step(1)[0:3:2])
        self.assertEqual(["PROCESSED", "0"], self.job("phase", "open"))

    def test_parked_for_good_is_told(self):
        """Also where its last failure came while the job was ending: then it was not parked. It is not sent
        again when that goes on."""
        self.submit(FAILS, SHORT)
        self.record("P")
        self.record("T", 1)
        self.assertEqual("W", self.step(1)[2])
        answer = self.call("steer", JOB, "retry", "", 0, 0, "-", "me", NONCES[2], 0, "", "", 0, "", 0)
        self.assertEqual(["DONE", "1 A PARKED"], [answer[0], answer[3].rpartition(" ")[0]])
        self.assertEqual(["P", "1"], self.step(1)[2:5:2])
        self.assertIn(f"{JOB} {answer[3].split()[-1]}", self.index("owed"))

    def test_parked_with_a_next_try_is_told(self):
        """The same, of one that is tried now and then."""
        self.submit(FAILS, TRIED)
        self.record("P")
        self.record("T", 1)
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual("P", self.step(1)[2])
        self.assertGreater(int(self.step(1)[6]), self.now())
        self.assertEqual(1, len([o for o in self.index("owed") if "PARKED" in self.call("inspect", "notice", *o.split(), 0)]))

    def test_parked_for_good_while_it_was_parked(self):
        """It was tried now and then, and will not be any more."""
        self.submit(TRIED)
        self.record("T")
        self.redis.set("skew", 700000)
        self.await_mark(0)
        self.drive(0)
        self.assertIn("PARKED", self.alerts(self.record("P")))
        self.assertEqual(["P", "0"], self.step(0)[2:7:4])
        self.assertEqual(2, len(self.index("owed")))

    def test_a_deferral_that_comes_again(self):
        """It had the step sent off anew: that request is what may be lost, and goes out once more ..."""
        self.submit(DIES)
        deferred = self.step(0)[5]
        self.assertEqual("RECORDED", self.reply("F", deferred, retry_after=1)[0])
        self.assertEqual(["R", "2"], self.step(0)[2:5:2])
        answer = self.reply("F", deferred, redelivered=1, retry_after=1)
        self.assertEqual("ALREADY", answer[0])
        self.assertIn(self.step(0)[5], answer[3].split())

    def test_a_deferral_that_comes_too_late(self):
        """... which a request that another cause has sent off does not: of the deferral nobody has heard before."""
        self.submit(LIVES)
        deferred = self.step(0)[5]
        self.redis.set("skew", 30000)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual(["R", "2"], self.step(0)[2:5:2])
        self.assertEqual("STALE", self.reply("F", deferred, redelivered=1, retry_after=1)[0])

    def test_what_kills_is_not_sent_again(self):
        """It was parked, and the end of the job has laid it down; nobody has said a word of it since."""
        self.submit(SHORT, FAILS)
        self.die(0)
        self.drive(0)
        self.record("P", 1)
        self.assertIn("settled", self.events())
        self.assertEqual("DONE", self.steer("retry", "", 1))
        self.assertEqual(["P", "0"], self.step(0)[2:7:4])
        self.assertEqual("1", self.step(0)[4])

    def test_marked_in_a_hold_where_the_job_ends(self):
        """Its Recover is lost: it is named again, and the job ends though nobody lets it go on."""
        self.submit(SHORT, FAILS)
        self.assertEqual("DONE", self.steer("pause"))
        self.record("P", 1)
        self.await_mark(0)
        self.redis.set("skew", 6000)
        self.assertIn(JOB, self.expire())
        self.drive(0)
        self.assertEqual(["FAILED"], self.job("outcome"))

    def test_retry_of_one_that_the_end_laid_down(self):
        """It was parked, and still is by its counts."""
        self.submit(FAILS, LONG, CAPPED, LONG, after={3: 1})
        self.record("P", 1)
        self.record("F", 2)  # it counts for nothing
        self.record("P", 0)
        self.assertEqual(["W", "W"], [self.step(i)[2] for i in (1, 2)])
        self.assertEqual(("WRONG_STATE", "NOT_FAILED"), self.steer("retry", "", 3))
        self.assertEqual("DONE", self.steer("retry", "", 1, 2))
        self.assertEqual(["R", "0"], self.step(1)[2:8:5])
        self.assertEqual(["R", "0"], self.step(2)[2:8:5])

    def test_resolved_keeps_its_result(self):
        """What a person says is there, is there with the result that it had; what is not has none."""
        self.submit(LONG, LONG, revert=LONG)
        self.record("A", result="done")
        self.assertEqual("DONE", self.steer("disable"))
        self.record("P")
        self.assertEqual("P", self.step(0)[2])
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.assertEqual(("R", "done"), (self.step(0)[2], self.redis.hget(f"{KEYS}data:{JOB}", "r0")))
        self.record("P")
        self.assertEqual("DONE", self.steer("resolve", 0, "D", ""))
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", "r0"))

    def test_started_is_started(self):
        """Also where the clock steps back to before `start_at`, and the job turns twice."""
        self.submit(LONG, start_at=self.now() + 3000)
        self.redis.set("skew", 4000)
        self.drive()
        self.assertEqual("R", self.step(0)[2])
        self.redis.set("skew", 0)
        self.steer("disable")
        self.steer("enable")
        self.assertEqual("PROCESSING", self.job("phase")[0])
        self.record("A")
        self.assertEqual(("A", "W"), (self.step(0)[0], self.step(0)[2]))
        self.assertEqual(1, self.events().count("settled"))

    def test_refused_commands_overtake_nothing(self):
        """One issued before it is still heard."""
        self.submit(LONG)
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.steer("retry", "", 0, issued_at=self.now() + 1000))
        self.record("P")
        self.assertEqual("DONE", self.steer("retry", "", issued_at=self.now()))

    def test_a_clock_that_is_ahead(self):
        """It shuts out those that were issued before it by their own clocks for five minutes."""
        self.submit(LONG)
        self.assertEqual("UNCHANGED", self.steer("enable", issued_at=10**15))
        self.assertEqual(("SUPERSEDED", "ORDER"), self.steer("disable", issued_at=self.now()))
        self.redis.set("skew", 301000)
        self.assertEqual("DONE", self.steer("disable", issued_at=self.now()))

    def test_paused_past_its_time(self):
        """A person's hold takes the place of the one for its deadline: a turn does not end it."""
        self.submit(LONG, complete_by=self.now() + 60000)
        self.redis.set("skew", 60000)
        self.drive()
        self.assertIn("held", self.events())
        self.assertEqual("DONE", self.steer("pause"))
        self.assertEqual("UNCHANGED", self.steer("pause"))
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual("paused", self.job("hold")[0])

    def test_a_failed_job_is_paused_and_mended(self):
        """What was given wrongly is changed before anything is sent again."""
        self.submit(FAILS)
        self.record("P")
        self.assertIn("settled", self.events())
        self.assertEqual("DONE", self.steer("pause"))
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.steer("retry", "better", 0))
        self.assertEqual("DONE", self.steer("resolve", 0, "D", ""))
        self.assertEqual("W", self.step(0)[2])
        self.assertEqual("DONE", self.steer("retry", "better", 0))
        self.assertEqual("W", self.step(0)[2])
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(("R", "better"), (self.step(0)[2], self.redis.hget(f"{KEYS}data:{JOB}", "a0")))

    def test_a_renewed_lease_after_a_jump(self):
        """It was given after the clock had jumped: the jump does not make it longer."""
        self.submit(BEATING)
        before = self.now() + 1  # the lease of the dispatch is older than that
        self.redis.set("skew", 3600000)
        self.call("expire", 0, 1, 0, 0, 1, 3600000, before, self.now())
        self.call("renew", JOB, self.step(0)[5], "0.5", "", 0, "")
        self.redis.set("skew", 3662000)
        self.call("expire", 0, 1, 0, 0, 1, 3600000, before, before + 3600000)
        self.assertEqual("M", self.step(0)[2])

    def test_what_nobody_has_begun_does_not_count(self):
        """Its request may stand in its queue still: it is sent again, and waits twice as long. Once it was to be parked
        by then, a person hears of that."""
        self.submit(SHORT)
        for n in range(1, 4):
            self.assertEqual("R", self.step(0)[2])
            self.await_mark(0)
            self.assertEqual("?", self.step(0)[5])
            answer = self.call("drive", JOB, NONCES[n], "me", 0, 0)
            self.assertEqual(["SILENT"], self.alerts(answer))
            self.assertEqual(["R", str(n), "0"], [self.step(0)[2], self.step(0)[10], self.step(0)[8]])
            token = self.step(0)[5]
            (request,) = [words for words in map(str.split, answer) if words[5:6] == [token]]
            wait = int(SHORT.split()[1])
            self.assertEqual(wait * 2 ** n, int(request[7]))
        self.assertEqual(3, self.events().count("silent"))
        self.assertNotIn("expired", self.events())
        self.assertEqual(["SERVED"], self.alerts(self.record("A")))

    def test_what_an_agent_has_told_of_counts(self):
        """Its lease is its own from then on: what is left of `lock` since it got the request."""
        self.submit("10000 3600000 0 1 1 1 2 2 0 -1 PP|")
        before = self.now()
        self.assertEqual(["RENEWED", "1"], self.call("renew", JOB, self.step(0)[5], "-1", "", 9000, "")[:2])
        self.assertIn(int(self.step(0)[6]), range(before + 1000, self.now() + 1001))
        self.redis.set("skew", 1001)
        self.await_mark(0)
        self.assertEqual(["0", "1"], [self.step(0)[10], self.step(0)[8]])

    def test_progress_of_one_that_died_takes_nothing(self):
        """The broker has given the request to another agent, whose lease is longer."""
        self.submit("10000 3600000 0 1 1 1 2 2 0 -1 PP|")
        self.call("renew", JOB, self.step(0)[5], "-1", "", 10, "")
        self.redis.set("skew", 5000)
        before = self.now()
        self.call("renew", JOB, self.step(0)[5], "-1", "", 0, "")
        until = self.step(0)[6]
        self.call("renew", JOB, self.step(0)[5], "-1", "", 4000, "")
        self.assertEqual(until, self.step(0)[6])
        self.assertGreaterEqual(int(until), before + 10000)

    def test_what_comes_back_begun_is_left_to_its_lease(self):
        """Its agent has died, or only lost its connection."""
        self.submit(LONG)
        token = self.step(0)[5]
        self.call("renew", JOB, token, "-1", "", 0, "")
        self.assertEqual("BEGUN", self.reply("N", token)[0])
        self.assertEqual(["R", token], self.step(0)[2:6:3])
        self.assertEqual("RECORDED", self.reply("A", token)[0])

    def test_a_reply_that_names_another_step(self):
        """Its agent has mixed up two requests: nothing is recorded. A name that no step has is no name of another one."""
        self.submit(LONG, LONG, names=["first", "second"])
        token = self.step(0)[5]
        answer = self.reply("A", token, step="second")
        self.assertEqual(("OTHER_STEP", ["OTHER_STEP"]), (answer[0], self.alerts(answer)))
        self.assertEqual(["R", token], self.step(0)[2:6:3])
        self.assertEqual("RECORDED", self.reply("A", token, step="first")[0])
        self.assertEqual("RECORDED", self.reply("A", self.step(1)[5], step="anything")[0])

    def test_tokens_of_one_call(self):
        """None says anything of another: beyond the step they have no six digits in common. A history shows a digest of
        each, and none of the digits."""
        self.submit(*[LONG] * 20)
        tokens = [self.step(i)[5] for i in range(20)]
        for i, token in enumerate(tokens):
            self.assertRegex(token, rf"^{i}\.[A-Za-z0-9_-]{{22}}$")
        pieces = collections.Counter(digits[k:k + 6] for _, _, digits in (t.partition(".") for t in tokens)
                                     for k in range(17))
        self.assertEqual(20 * 17, len(pieces))
        self.record("A")
        self.record("N", 1)  # which withdraws its token, and sends it again
        self.reply("A", tokens[1])  # too late
        told = str(self.redis.lrange(f"{KEYS}hist:{JOB}", 0, -1)) + str(self.redis.hget(f"{KEYS}data:{JOB}", "l1"))
        for token in tokens:
            self.assertIn(wire.token_id(token), told)
            self.assertNotIn(token[:token.index(".") + 7], told)
        self.assertEqual("STALE", self.reply("A", wire.token_id(tokens[2]))[0])

    def test_the_record_of_a_step_is_short(self):
        """Also in flight, once its job was turned: at most 64 bytes, beyond which Redis, as it comes, keeps the job in three
        times the memory."""
        self.submit(*[LONG] * 100, revert=UNDOES)
        self.record("A", 99)
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual("R", self.step(99)[2])
        self.assertLessEqual(len(" ".join(self.step(99))), 64)

    def test_a_token_of_an_earlier_build(self):
        """It is good until its flight has ended."""
        self.submit(LONG)
        record = self.step(0)
        record[5] = "0.9f2c41d07be83a65"
        self.redis.hset(f"{KEYS}job:{JOB}", 0, " ".join(record))
        self.assertEqual("STALE", self.reply("A", "0.9f2c41d07be83a66")[0])
        self.assertEqual("RENEWED", self.call("renew", JOB, record[5], "0.5", "", 0, "")[0])
        self.assertEqual("RECORDED", self.reply("A", record[5])[0])

    def test_tokens_of_two_calls(self):
        """The same step of two jobs, sent by two calls."""
        self.submit(LONG)
        first = self.step(0)[5]
        self.redis.delete(f"{KEYS}job:{JOB}")
        self.call("submit", JOB, "d", "d", "", 0, NONCES[5], "me", "A", 0, 0, "", 0, "", "", "")
        self.assertNotEqual(first, self.step(0)[5])

    def test_job_of_another_owner(self):
        """For whoever is not its owner there is no such job: no command, no question, and its id is taken."""
        self.define("d", LONG)
        self.assertEqual("CREATED", self.submit_call(owner="ann")[0])
        root = self.step(0)[5]
        for command in ("cancel", "kill", "pause", "disable"):
            self.assertEqual("UNKNOWN_JOB", self.call("steer", JOB, command, "", 0, 0, "-", "me", NONCES[2], 0, "", "bob")[0])
        self.assertEqual(["UNKNOWN"], self.call("inspect", "job", JOB, 0, 1, 1, "bob"))
        self.assertEqual(["UNKNOWN"], self.call("inspect", "history", JOB, 1, 9, "bob"))
        self.assertEqual("CONFLICT", self.submit_call(owner="bob", reply_to="bob.replies")[0])
        self.assertEqual((root, None), (self.step(0)[5], self.redis.hget(KEYS + "data:" + JOB, "reply_to")))
        self.assertEqual("ALREADY", self.submit_call(owner="ann")[0])
        self.assertEqual("FOUND", self.call("inspect", "job", JOB, 0, 1, 1, "ann")[0])
        self.assertEqual("FOUND", self.call("inspect", "history", JOB, 1, 9, "ann")[0])
        self.assertEqual("FOUND", self.call("inspect", "job", JOB, 0, 1, 1, "")[0], "an operator")
        self.assertEqual("DONE", self.steer("pause", owner="ann"))
        self.assertEqual("DONE", self.steer("resume"))

    def test_job_without_an_owner(self):
        """From before owners were asked for: it is for operators alone, and a torn one is not mended for others."""
        self.submit(LONG)
        self.assertEqual("UNKNOWN_JOB", self.call("steer", JOB, "kill", "", 0, 0, "-", "me", NONCES[2], 0, "", "bob")[0])
        self.assertEqual("CONFLICT", self.submit_call(owner="bob")[0])
        self.redis.hset(KEYS + "job:" + JOB, "n", "torn")
        self.assertEqual("UNKNOWN_JOB", self.call("steer", JOB, "kill", "", 0, 0, "-", "me", NONCES[2], 0, "", "bob")[0])
        self.assertEqual("torn", self.job("n")[0])
        self.assertEqual("DONE", self.steer("kill"))

    def test_list_by_the_rarest_label(self):
        """Whatever comes first: the store looks through the jobs that have the label which fewest have."""
        self.define("d", LONG)
        for i in range(20):
            labels = "4:=ann" + ("6:rare=1" if i == 0 else "")
            self.assertEqual("CREATED", self.submit_call(job=f"j{i}", labels=labels)[0])
        for labels in (("=ann", "rare=1"), ("rare=1", "=ann")):
            answer = self.call("inspect", "jobs", "+inf", "", 0, 5, "", "", "", "", "", *labels)
            self.assertEqual(("1", "j0"), (answer[5], answer[6]))
            self.assertEqual(answer[6], answer[4], "it has looked no further")

    def test_no_start_beyond_the_horizon(self):
        self.define("d", LONG)
        now = self.redis.time()[0] * 1000
        self.assertEqual("TOO_FAR", self.submit_call(start_at=now + 120000, limits=(60000, 0, 0))[0])
        self.assertFalse(self.job("created")[0])
        self.assertEqual("CREATED", self.submit_call(start_at=now + 30000, limits=(60000, 0, 0))[0])
        self.assertEqual("CREATED", self.submit_call(start_at=FAR // 100, job="two")[0], "where there is none")

    def test_jobs_that_a_user_may_have(self):
        """So many, until one of them is forgotten; what is there already is ALREADY."""
        self.define("d", LONG)
        ann, bob = {"owner": "ann", "labels": "4:=ann"}, {"owner": "bob", "labels": "4:=bob"}
        two = (0, 2, 0)
        self.assertEqual(["CREATED", "CREATED", "TOO_MANY", "ALREADY"],
                         [self.submit_call(job=job, limits=two, **ann)[0] for job in ("a", "b", "c", "a")])
        self.assertEqual("CREATED", self.submit_call(job="c", limits=two, **bob)[0])
        self.call("steer", "a", "kill", "", 0, 0, "-", "me", NONCES[2], 0, "", "", 0)
        self.forget_all()
        self.assertEqual("CREATED", self.submit_call(job="d", limits=two, **ann)[0])

    def taken_by(self, user):
        return int(self.redis.hget(KEYS + "users", user) or 0)

    def test_bytes_that_a_user_may_have(self):
        """What a job takes, about, counts until it is forgotten: its input, its labels, and itself."""
        self.define("d", LONG)
        ann = {"owner": "ann", "labels": "4:=ann", "limits": (0, 0, 10000)}
        self.assertEqual("CREATED", self.submit_call(job="a", data=("input", "x" * 1000), **ann)[0])
        first = self.taken_by("ann")
        self.assertTrue(3000 < first < 5000, first)
        self.assertEqual("TOO_MANY", self.submit_call(job="b", data=("input", "x" * (10001 - 2 * first + 1000)), **ann)[0])
        self.assertEqual("CREATED", self.submit_call(job="c", data=("input", "x" * (10000 - 2 * first + 1000)), **ann)[0])
        self.assertEqual(10000, self.taken_by("ann"))
        self.call("steer", "a", "kill", "", 0, 0, "-", "me", NONCES[2], 0, "", "", 0)
        self.forget_all()
        self.assertEqual(10000 - first, self.taken_by("ann"))
        self.call("steer", "c", "kill", "", 0, 0, "-", "me", NONCES[2], 0, "", "", 0)
        self.forget_all()
        self.assertFalse(self.redis.exists(KEYS + "users"))
        self.define("d", LONG)
        labels = "".join(f"{len(label)}:{label}" for label in [f"{n}={'v' * 256}" for n in range(10, 42)])
        ann = {"owner": "ann", "labels": "4:=ann" + labels, "limits": (0, 0, 10**6)}
        self.assertEqual("CREATED", self.submit_call(job="l", data=("labels", labels), **ann)[0])
        self.assertLess(30000, self.taken_by("ann"))
        if not SIMULATED:
            of_job = [key for key in self.redis.keys() if JOB_KEYS.search(key)]
            self.assertLess(32, len(of_job))
            takes = sum(self.redis.memory_usage(key, samples=0) for key in of_job)
            self.assertTrue(takes * 0.7 < self.taken_by("ann") < takes * 1.5, (takes, self.taken_by("ann")))

    def test_bytes_of_a_job_from_before(self):
        """A build before 45 has counted its input, and says no cost."""
        self.submit(LONG)
        data = f"{KEYS}data:{JOB}"
        self.redis.hset(data, mapping={"index": "4:=ann", "input": "x" * 60})
        self.redis.hset(KEYS + "users", "ann", 100)
        self.steer("kill")
        self.forget_all()
        self.assertEqual(40, self.taken_by("ann"))

    def test_commands_count_for_their_owner(self):
        """They are kept, with their reasons. Once he has taken what he may only an end is good."""
        self.define("d", LONG)
        self.submit_call(owner="ann", labels="4:=ann", limits=(0, 0, 10000))
        for n in range(100):
            answer = self.steer("resume" if n % 2 else "pause", owner="ann", most=10000, said="ann " + "r" * 1000)
            if answer != "DONE":
                break
        self.assertEqual("TOO_MANY", answer)
        self.assertTrue(10000 <= self.taken_by("ann") < 12000)
        self.assertLess(n, 10)
        self.assertEqual("DONE", self.steer("resume" if n % 2 else "pause"), "of an operator")
        self.assertEqual("DONE", self.steer("kill", owner="ann", most=10000))
        self.forget_all()
        self.assertFalse(self.redis.exists(KEYS + "users"))

    def test_name_of_a_registered_workflow(self):
        """A definition that comes along with a job may have it only where it is one of its versions."""
        line = ["r", "0 0 0 0 0 0 0 0 0 0 PP||0 1 00|||0", "0", f"{LONG}|0 0 00||||a|x", "xa", 0]
        for digest, version, registered in (("good", 1, 1), ("evil", 1, 0), ("evil2", 2, 0), ("free", 0, 0)):
            name = "order" if version else "other"
            self.assertEqual("DEFINED", self.call("define", digest, name, version, 1, "blob", 1, registered,
                                                  "job", "P 1 0", *line)[0])
        self.assertEqual("NAME_TAKEN", self.submit_call(definition="evil")[0])
        self.assertEqual("NAME_TAKEN", self.submit_call(definition="evil2")[0])
        self.assertEqual(0, self.redis.exists(KEYS + "job:" + JOB))
        self.assertEqual("CREATED", self.submit_call(definition="good")[0])
        self.assertEqual("ALREADY", self.submit_call(definition="evil")[0], "what was recorded before is not judged anew")
        self.assertEqual("CREATED", self.submit_call(definition="free", job="two")[0])

    def test_a_reply_of_another_actor(self):
        """The broker says whose agents have sent it: it counts only for a step of theirs. Nor does Progress count
        otherwise. Where the broker does not say, the token alone decides."""
        self.submit(LONG, LONG, LONG, names=["first", "second", "third"], actors=["stock", "stock", "payments"])
        token = self.step(0)[5]
        answer = self.reply("A", token, step="first", actor="payments")
        self.assertEqual(("OTHER_ACTOR", ["OTHER_ACTOR"]), (answer[0], self.alerts(answer)))
        self.assertEqual("OTHER_ACTOR", self.call("renew", JOB, token, "0.5", "", 0, "payments")[0])
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", "p0"))
        self.assertEqual(["R", token], self.step(0)[2:6:3])
        self.assertEqual("RENEWED", self.call("renew", JOB, token, "0.5", "", 0, "stock")[0])
        self.assertEqual("RECORDED", self.reply("A", token, step="first", actor="stock")[0])
        self.assertEqual("RECORDED", self.reply("A", self.step(1)[5])[0])

    def test_a_large_reply_of_another_actor(self):
        """That the job has no room for a result is told to the agents of its step only: a failure of it would follow."""
        self.submit(LONG, names=["first"], actors=["stock"])
        self.redis.hset(f"{KEYS}job:{JOB}", "bytes", DATA_MAX)
        self.assertEqual("OTHER_ACTOR", self.reply("A", self.step(0)[5], "x", actor="payments")[0])
        self.assertEqual("DATA_FULL", self.reply("A", self.step(0)[5], "x", actor="stock")[0])

    def test_an_undo_of_another_actor(self):
        """What takes a step back may have an actor of its own."""
        self.submit(LONG, LONG, revert=UNDOES, names=["first", "second"], actors=["stock", "stock"],
                    revert_actor="claims")
        self.record("A", 0)
        self.assertEqual("DONE", self.steer("disable"))
        token = self.step(0)[5]
        self.assertEqual("OTHER_ACTOR", self.reply("D", token, actor="stock")[0])
        self.assertEqual("RECORDED", self.reply("D", token, actor="claims")[0])

    def test_a_reply_of_a_job_whose_steps_have_no_actors(self):
        """An earlier build has stored its definition: whose agents have sent it is not compared."""
        self.submit(LONG, revert=UNDOES, names=["first"])
        self.assertEqual("RECORDED", self.reply("A", self.step(0)[5], actor="anybody")[0])
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual("RECORDED", self.reply("D", self.step(0)[5], actor="anybody")[0])

    def test_a_reply_of_a_job_whose_steps_have_no_names(self):
        """An earlier build has stored its definition: what a reply names is not compared."""
        self.submit(LONG)
        self.redis.hset(f"{KEYS}def:d", "xfirst", 1)
        self.assertEqual("RECORDED", self.reply("A", self.step(0)[5], step="first")[0])

    def test_names_of_a_definition_that_an_earlier_build_has_stored(self):
        """Its steps get them when it is defined again, beside its jobs."""
        self.submit(LONG, LONG)
        self.redis.hset(f"{KEYS}def:d", "named", "1")  # as builds before 42 have it
        before = self.redis.hgetall(f"{KEYS}def:d")
        self.define("d", LONG, LONG, names=["first", "second"], actors=["stock", "stock"])
        after = self.redis.hgetall(f"{KEYS}def:d")
        self.assertEqual({"0", "1", "xfirst", "xsecond", "named"}, {k for k in after if after[k] != before.get(k)})
        self.assertEqual([], self.index("defs"))
        token = self.step(0)[5]
        self.assertEqual("OTHER_STEP", self.reply("A", token, step="second")[0])
        self.assertEqual("OTHER_ACTOR", self.reply("A", token, actor="payments")[0])
        self.assertEqual("RECORDED", self.reply("A", token, step="first")[0])

    def test_a_submit_of_a_definition_that_an_earlier_build_has_stored(self):
        """The scheduler that brings it along is to store it again, in this partition, too. One that only knows its name
        need not, and one of before could not."""
        self.submit(LONG)
        again = ("submit", "other", "d", "d", "", 0, NONCES[5], "me", "A", 0, 0, "", 0, "", "", "")
        for named, code in (("1", "UNKNOWN_DEFINITION"), ("0", "CREATED")):
            self.redis.hset(f"{KEYS}def:d", "named", named)
            self.assertEqual(code, self.call(*again)[0])

    def test_a_definition_that_names_no_actors(self):
        """From a scheduler of before 42: one that names them is still to come."""
        self.define("d", LONG, names=["first"])
        self.assertEqual("0", self.redis.hget(f"{KEYS}def:d", "named"))
        self.define("d", LONG, names=["first"], actors=["stock"])
        self.assertEqual("2", self.redis.hget(f"{KEYS}def:d", "named"))
        self.submit(LONG, names=["first"], actors=["stock"])
        self.assertEqual("OTHER_ACTOR", self.reply("A", self.step(0)[5], actor="payments")[0])

    def test_naming_that_is_cut_off(self):
        """The scheduler dies after the first piece: a definition that is used stays, however long that takes."""
        self.submit(LONG)
        self.redis.hdel(f"{KEYS}def:d", "named")
        self.assertEqual(["MORE"], self.call("define", "d", "", 0, 1, "", 0, 0))
        self.redis.zadd(f"{KEYS}defs", {"d": 0})  # as an earlier build may have left it
        self.redis.set("skew", 3_700_000)
        self.expire()
        self.redis.set("skew", 3_800_000)
        self.expire()
        self.call("forget", 10**9, 9)
        self.assertTrue(self.redis.exists(f"{KEYS}def:d"))

    def test_a_definition_that_is_named_before_it_is_used(self):
        """It is still one that nobody uses."""
        self.define("d", LONG)
        self.redis.hdel(f"{KEYS}def:d", "named")
        self.define("d", LONG, names=["first"])
        self.assertEqual(["d"], self.index("defs"))

    def test_what_an_agent_has_rejected(self):
        """Nobody has waited in vain, nor does anything count: it is tried again after a while."""
        self.submit(LONG)
        self.assertEqual(["REJECTED"], self.alerts(self.record("J")))
        self.assertEqual(["U", "B", "0", "0"], [self.step(0)[k] for k in (0, 2, 7, 8)])
        self.redis.flushall()
        self.submit(LONG)
        self.redis.set("skew", 59500)  # likewise just before its wait is over
        self.record("J")
        self.assertEqual("B", self.step(0)[2])

    def test_what_waits_where_another_copy_was_sent(self):
        """It may have an agent: it is left to its lease, also where nobody wants it any more."""
        self.submit(LONG)
        token = self.step(0)[5]
        self.call("drive", JOB, NONCES[1], "me", 1, 0)
        self.assertIn(token, str(self.call("unsent", JOB, NONCES[1], "me", 1, token)))
        self.assertEqual("DONE", self.steer("cancel"))
        self.assertNotIn(token, str(self.call("unsent", JOB, NONCES[1], "me", 2, token)))
        self.assertEqual(["R", token], self.step(0)[2:6:3])
        self.assertNotIn("unsent", self.events())

    def test_more_has_waited_than_a_call_mints(self):
        """An answer may have requests of its own, and those of a piece of the cursor."""
        steps = BUDGET + 20
        self.submit(*[LONG] * steps)
        tokens = [self.step(i)[5] for i in range(steps)]
        answer = self.call("unsent", JOB, NONCES[1], "me", 1, *tokens)
        asked = {words[5] for words in map(str.split, answer) if len(words) > 5}
        self.assertEqual(set(), set(tokens) - asked)

    def test_what_has_waited_twice(self):
        """It was wanted at first, and is not any more: it is withdrawn, and nothing is in flight."""
        self.submit(LONG)
        token = self.step(0)[5]
        self.assertIn(token, str(self.call("unsent", JOB, NONCES[1], "me", 9, token)))
        self.assertEqual("DONE", self.steer("pause"))
        self.assertNotIn(token, str(self.call("unsent", JOB, NONCES[1], "me", 10, token)))
        self.assertEqual(["D", "W", "-"], [self.step(0)[k] for k in (0, 2, 5)])
        self.assertIn("unsent", self.events())

    def test_a_question_about_what_waited_comes_late(self):
        """A connection that was given up carries a call out when its repetition was answered, and the request was sent:
        that is not withdrawn, in whatever order late ones come."""
        self.submit(LONG)
        token = self.step(0)[5]
        self.assertIn(token, str(self.call("unsent", JOB, NONCES[1], "me", 3, token)))
        self.assertIn(token, str(self.call("unsent", JOB, NONCES[1], "me", 1, token)))
        self.assertEqual("DONE", self.steer("pause"))
        for late in (3, 2):
            self.assertNotIn(token, str(self.call("unsent", JOB, NONCES[1], "me", late, token)))
            self.assertEqual(["R", token], self.step(0)[2:6:3])

    def test_evidence_of_another_token(self):
        """That the one before had an agent shows nothing of this one."""
        self.submit(SHORT)
        token = self.step(0)[5]
        self.die(0)
        self.assertEqual("STALE", self.call("taken", JOB, token)[0])
        self.assertEqual("UNKNOWN_JOB", self.call("taken", "other", token)[0])
        self.assertEqual("DONE", self.retry_all())
        self.await_mark(0)
        self.assertEqual(["2", "0"], [self.step(0)[10], self.step(0)[8]])

    def test_what_nobody_began_stays_so(self):
        """Also where a person says so: a migration may still change it."""
        self.submit(LONG)
        self.steer("pause")
        self.record("N")
        self.assertEqual("DONE", self.steer("resolve", 0, "D", ""))
        self.assertEqual(("1", "1"), (self.step(0)[4], self.step(0)[10]))

    def test_resolve_in_a_paused_job_that_turned(self):
        """What comes before a step is known though nothing may be sent."""
        self.submit(LONG, LONG, LONG, after={1: 0, 2: 1}, revert=LONG)
        self.record("A")
        self.record("P", 1)
        self.steer("pause")
        self.assertEqual("DONE", self.steer("disable"))
        self.assertEqual(("WRONG_STATE", "WAITING"), self.steer("resolve", 0, "D", ""))
        self.assertEqual("DONE", self.steer("resolve", 1, "D", ""))
        self.assertEqual(["W", "W"], [self.step(i)[2] for i in range(2)])
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["R", "W"], [self.step(i)[2] for i in range(2)])

    def test_where_a_job_does_not_go(self):
        """Once it stands elsewhere, or is about to, it is not said to go there already."""
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
        self.submit(UNDOES)
        self.record("P")
        self.assertEqual(["ERROR", "COMPENSATED"], self.job("phase", "outcome"))
        self.assertEqual("UNCHANGED", self.steer("disable"))

    def register(self, digest, version):
        return self.call("define", digest, "w", version, 0, digest, 1, 1)[0]

    def test_a_version_is_one_definition(self):
        """Whichever was registered last, the newest is the one with the greatest number."""
        self.assertEqual(["DEFINED"] * 2, [self.register("two", 2), self.register("one", 1)])
        self.assertEqual("CONFLICT", self.register("other", 2))
        self.assertEqual(["FOUND", "two"], self.call("inspect", "workflow", "w"))

    def test_the_same_again(self):
        """A job's id is good for that job only; whoever asks again is told where he asked last."""
        self.submit(LONG)
        self.assertEqual("CONFLICT", self.submit_call("other")[0])
        self.assertEqual("ALREADY", self.submit_call(reply_to="there")[0])
        self.assertEqual("there", self.redis.hget(f"{KEYS}data:{JOB}", "reply_to"))

    def test_where_it_was_submitted_before(self):
        """Those are kept, the newest first, each once, and four of them; one without an address is none."""
        self.submit(LONG)
        for i in (*range(7), 3, 3):
            self.submit_call(reply_to=f"q{i}")
        self.assertEqual(["q3", "2:q60:2:q50:2:q40:2:q20:"],
                         self.redis.hmget(f"{KEYS}data:{JOB}", "reply_to", "earlier"))
        self.record("A")
        notice = self.call("inspect", "notice", JOB, self.job("seq")[0], 1000)
        self.assertEqual(["4", "q6", "", "q5", "", "q4", "", "q2", ""], notice[-9:])

    def test_another_state_is_a_failure(self):
        """Whoever was asked to do it says that it is undone."""
        self.submit(LONG)
        self.record("D")
        self.assertEqual(("U", "P", "1"), (self.step(0)[0], self.step(0)[2], self.step(0)[7]))

    def test_retention(self):
        """Nothing is forgotten while somebody is to hear of it, nor before its time, nor on the word of a clock
        that has jumped; and then nothing is left."""
        self.submit(LONG, labels="3:a=b")
        self.assertEqual([JOB], self.redis.zrange(f"{KEYS}l:a=b", 0, -1))
        self.record("A")
        self.assertEqual("0", self.call("forget", 0, 10)[0])
        (owed,) = self.redis.zrange(f"{KEYS}owed", 0, -1)
        self.call("settle_owed", *owed.split())
        self.assertEqual("0", self.call("forget", 60000, 10)[0])
        self.call("expire", 0, 1, 0, 0, 1, 0, 0, 0)
        self.redis.set("skew", 3600000)
        self.assertEqual("0", self.call("forget", 60000, 10)[0])
        self.redis.set("skew", 0)
        self.assertEqual("1", self.call("forget", 0, 10)[0])
        names = [f"job:{JOB}", f"data:{JOB}", f"hist:{JOB}", "l:a=b", "jobs", "settled", "def:d"]
        self.assertEqual(0, self.redis.exists(*(KEYS + name for name in names)))

    def test_retention_after_a_jump(self):
        """What had ended before the clock jumped is kept for as long as without that; what ends later, no longer."""
        minute, hour = 60000, 3600000

        def ends():
            self.submit(LONG)
            self.record("A")
            for owed in self.redis.zrange(f"{KEYS}owed", 0, -1):
                self.call("settle_owed", *owed.split())

        def forgotten_at(skew):
            self.redis.set("skew", skew)
            self.call("expire", 0, 1, 0, 0, 1, 0, 0, 0)
            return int(self.call("forget", 10 * minute, 10)[0])

        ends()
        before = self.now() + 1
        self.redis.set("skew", hour)
        self.call("expire", 0, 1, 0, 0, 1, hour, before, before)
        self.assertEqual([0, 1], [forgotten_at(hour + 9 * minute), forgotten_at(hour + 11 * minute)])
        ends()
        self.assertEqual([0, 1], [forgotten_at(hour + 20 * minute), forgotten_at(hour + 22 * minute)])

    def test_follow_ups_of_what_comes_twice(self):
        """They are asked for again where the message was delivered before: who did that may have died over them.
        Whoever says the same once more gets nothing sent twice."""

        def sent(name, *arguments):
            answer = self.call(name, *arguments)
            sent = answer[2].split()[-1]
            return answer[0], answer[3].split()[0:6:5] if sent == "1" else sent

        def submit(redelivered):
            return "submit", JOB, "d", "d", "", redelivered, NONCES[0], "me", "A", 0, 0, "", 0, "", "", ""

        def record(redelivered):
            return "record", "me", "A", JOB, root, redelivered, NONCES[1], 0, "", "", "", 0, "", "", ""

        def steer(redelivered):
            return "steer", JOB, "enable", "once", 0, 0, "-", "me", NONCES[2], redelivered, "", ""

        def drive(redelivered):
            return "drive", JOB, NONCES[3], "me", redelivered, 1

        self.submit(LONG, LONG, after={1: 0})
        root = self.step(0)[5]
        self.assertEqual(("ALREADY", "0"), sent(*submit(0)))
        self.assertEqual(("ALREADY", ["0", root]), sent(*submit(1)))
        self.record("A")
        next_ = ["1", self.step(1)[5]]
        self.steer("enable", command_id="once")
        for call, code in ((record, "ALREADY"), (steer, "UNCHANGED"), (drive, "DRIVEN")):
            with self.subTest(call.__name__):
                self.assertEqual((code, "0"), sent(*call(0)))
                self.assertEqual((code, next_), sent(*call(1)))

    def test_who_drove_it_last(self):
        """Nobody while it waits for its time."""
        self.submit(LONG, LONG, start_at=FAR)
        self.assertEqual([None], self.job("locked_by"))
        self.redis.flushall()
        self.submit(LONG, LONG)
        self.assertEqual(["me"], self.job("locked_by"))
        for who in ("you", "me"):
            self.call("record", who, "A", JOB, self.step(int(who == "me"))[5], 0, NONCES[1], 0, "", "", "", 0, "", "", "")
            self.assertEqual([who], self.job("locked_by"))

    def test_progress_of_another_token(self):
        """What is not in flight, or not any more, renews nothing."""
        self.submit(BEATING)
        token, till = self.step(0)[5:7]
        self.assertEqual("STALE", self.call("renew", JOB, f"0.{NONCES[8]}", "0.5", "", 0, "")[0])
        self.assertEqual(till, self.step(0)[6])
        self.assertEqual("RENEWED", self.call("renew", JOB, token, "0.5", "", 0, "")[0])
        self.assertGreater(till, self.step(0)[6])
        self.record("A")
        there = self.step(0)
        self.assertEqual("STALE", self.call("renew", JOB, token, "0.7", "", 0, "")[0])
        self.assertEqual(there, self.step(0))

    def test_late_evidence_is_of_the_steps_own_actor(self):
        """What another actor's agent makes up leaves nothing on the step."""
        self.submit(LONG, actors=["stock"], names=["a"])
        for actor, kept in (("payments", None), ("stock", "1"), ("", "2")):
            self.assertEqual("STALE", self.reply("A", "0.madeup", "x", actor=actor)[0])
            late = self.redis.hget(f"{KEYS}data:{JOB}", "l0")
            self.assertEqual(kept, late and late.split()[0], actor)

    def test_late_is_who_was_withdrawn(self):
        """A reply is as good after its lease, by the clock, as before, until somebody has looked."""
        self.submit(SHORT, SHORT)
        token = self.step(1)[5]
        servers.wait_for(lambda: self.now() > int(self.step(0)[6]) + 1, "its lease to end")
        self.record("A")
        self.assertEqual("A", self.step(0)[0])
        self.die(1)
        self.assertEqual("STALE", self.reply("A", token)[0])

    def test_a_bound_is_mended(self):
        """One that is later than the record says, and one that is not there."""
        for score in (FAR, None):
            self.redis.flushall()
            self.submit(LONG)
            self.redis.zrem(f"{KEYS}due", JOB)
            if score:
                self.redis.zadd(f"{KEYS}due", {JOB: score})
            self.assertEqual("due", self.call("sweep", "")[2])
            self.assertLessEqual(self.redis.zscore(f"{KEYS}due", JOB), self.now())

    def test_a_call_has_an_end(self):
        """So many steps are touched; the others stand in the cursor."""
        self.define("d", *[LONG] * 400)
        answer = self.submit_call()
        self.assertEqual(("1", "250", ["r:250"]), (answer[2].split()[3], answer[2].split()[-1], self.job("cursor")))
        self.drive()
        self.assertEqual([""], self.job("cursor"))
        self.steer("disable")
        self.assertEqual(["t:250"], self.job("cursor"))

    def test_the_history_has_an_end(self):
        self.submit(LONG)
        for _ in range(300):
            self.steer("pause")
            self.steer("resume")
        self.assertEqual(1000, len(self.events()))

    def test_an_outage_has_waits_of_an_hour(self):
        """At most: until the request is sent again, and until it comes back."""
        self.submit(LONG)
        record = self.step(0)
        record[10] = "30"
        self.redis.hset(f"{KEYS}job:{JOB}", 0, " ".join(record))
        self.record("X")
        self.assertEqual("B", self.step(0)[2])
        self.assertAlmostEqual(int(self.step(0)[6]), self.now() + 3600000, delta=60000)
        self.redis.set("skew", 3601000)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual("R", self.step(0)[2])
        self.assertAlmostEqual(int(self.step(0)[6]), self.now() + 3660000, delta=60000)

    def test_a_notice_has_a_limit(self):
        """A result that does not fit is named without what it is."""
        self.submit(LONG, LONG)
        self.record("A", 0, "0123456789")
        self.record("A", 1, "abcdefghij")
        (owed,) = self.redis.zrange(f"{KEYS}owed", 0, -1)
        self.assertEqual(["2", "0", "0123456789", "1", "", "0"],
                         self.call("inspect", "notice", *owed.split(), 15, 0, 1)[-6:])

    def test_what_goes_on_is_not_listed_as_failed(self):
        self.submit(FAILS)
        self.record("P")
        self.assertEqual([JOB], self.redis.zrange(f"{KEYS}failed", 0, -1))
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual([], self.redis.zrange(f"{KEYS}failed", 0, -1))

    def test_refusals_that_help(self):
        self.submit(LONG, SHORT)
        self.record("A", result="one")
        self.assertEqual(("WRONG_STATE", "NOT_FAILED"), self.steer("retry", "other", 0))
        self.assertEqual("UNCHANGED", self.steer("resolve", 0, "A", "one"))
        self.assertEqual(("WRONG_STATE", "THERE"), self.steer("resolve", 0, "A", "other"))
        self.steer("pause")
        self.die(1)
        self.assertEqual(("WRONG_STATE", "DUE"), self.steer("retry", "", 1))

    def test_version(self):
        build = re.search(r"^local BUILD = (\d+)$", LIBRARY, re.M)[1]
        self.assertEqual(build, "".join(self.call("version")))

    def test_replies_that_name_no_request(self):
        self.submit(LONG)
        for token in ("", "0", "0.x", "1.00", "0.00"):
            self.assertEqual("STALE", self.reply("A", token)[0])
            self.assertEqual("UNKNOWN_JOB", self.reply("A", token, job="another")[0])
            self.assertNotEqual("RENEWED", self.call("renew", JOB, token, "0.5", "", 0, "")[0])
        self.assertEqual(["D", "R"], self.step(0)[0:3:2])

    def test_no_room_for_more_data(self):
        """A result, arguments or both that would be too much are refused, and nothing is changed."""
        self.submit(LONG, LONG, LONG)
        self.record("T", 1)
        self.record("X", 2)
        self.redis.hset(f"{KEYS}job:{JOB}", "bytes", DATA_MAX)
        events = self.events()
        self.assertEqual("DATA_FULL", self.reply("A", self.step(0)[5], "x")[0])
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
        self.assertEqual(["0 0 2001", *(text for i in range(2001) for text in (str(i), f"of {i}"))], answer[-4003:])

    def test_a_page_of_large_errors(self):
        """Ends where it has become large enough, with one step at least; whoever asks goes on from there."""
        self.submit(LONG, LONG, LONG, LONG)
        for i, size in enumerate((1100000, 600000, 400000, 600000)):
            self.redis.hset(f"{KEYS}data:{JOB}", f"e{i}", "x" * size)
        for first, count in ((0, 1), (1, 2), (3, 1)):
            page = self.call("inspect", "job", JOB, first, 4, 0)
            self.assertEqual([str(count), str(first)], page[-6 * count - 1:][:2])

    def test_jobs_with_all_of_these_labels(self):
        def jobs(*labels, phase="", workflow=""):
            return self.call("inspect", "jobs", "+inf", "", 0, 1, phase, workflow, "", "", "", *labels)[6:7]

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

    def test_a_definition_that_no_job_came_for(self):
        self.submit(LONG)
        self.define("e", LONG)
        self.assertEqual(["e"], self.index("defs"))
        self.call("forget", FAR, 9)
        self.assertEqual(1, self.redis.exists(f"{KEYS}def:e"))
        self.redis.zadd(f"{KEYS}defs", {"e": self.now() - 3600000})
        self.call("forget", FAR, 9)
        self.assertEqual([0, 1], [self.redis.exists(f"{KEYS}def:{name}") for name in "ed"])
        self.assertEqual([], self.index("defs"))

    def test_a_definition_that_lost_a_step(self):
        """What needs that step fails, before it has changed anything of the job; a sweep calls the job torn."""
        self.submit(LONG, LONG, after={1: 0})
        self.redis.hdel(f"{KEYS}def:d", 1)
        before = self.redis.hgetall(f"{KEYS}job:{JOB}")
        with self.assertRaisesRegex(redis.ResponseError, "definition d has no step 1"):
            self.record("A")
        torn, why = self.call("look", "sweep", "")[2:]
        self.assertEqual(("torn", "definition d has no step 1"), (torn, why[-26:]))
        self.assertEqual(before, self.redis.hgetall(f"{KEYS}job:{JOB}"))
        self.assertEqual("DONE", self.steer("pause"))

    def test_forgotten_once_all_is_told(self):
        """Also what the turns before came to."""
        self.submit(LONG)
        self.record("A")
        self.assertEqual("DONE", self.steer("disable"))
        succeeded, compensated = sorted(self.index("owed"), key=lambda owed: int(owed.split()[1]))
        self.call("settle_owed", *compensated.split())
        self.assertEqual(["0", "0"], self.call("forget", 0, 9)[:2])
        self.assertIn("SUCCEEDED", self.call("inspect", "notice", *succeeded.split(), 1000))
        for _ in range(2):
            self.call("settle_owed", *succeeded.split())
        self.assertEqual(["0"], self.job("owes"))
        self.assertEqual(["1", "0"], self.call("forget", 0, 9)[:2])
        keys = [f"{KEYS}{kind}:{JOB}" for kind in ("job", "data", "hist")]
        self.assertEqual(0, self.redis.exists(*keys))

    def test_forgotten_once_told_though_not_counted(self):
        """A build before 22 has settled it, and did not count what it owes: whether that is told before the job
        settles again or after, the counter is of what was settled since."""
        for before in (True, False):
            self.redis.flushall()
            self.submit(LONG)
            self.record("A")
            self.redis.hdel(f"{KEYS}job:{JOB}", "owes")
            (succeeded,) = self.index("owed")
            self.assertEqual(["0", "0"], self.call("forget", 0, 9)[:2])
            if before:
                self.call("settle_owed", *succeeded.split())
            self.assertEqual("DONE", self.steer("disable"))
            self.call("settle_owed", *succeeded.split())
            self.assertEqual(["0", "0"], self.call("forget", 0, 9)[:2])
            (compensated,) = self.index("owed")
            self.call("settle_owed", *compensated.split())
            self.assertEqual(["1", "0"], self.call("forget", 0, 9)[:2])

    def test_forgotten_though_its_labels_are_damaged(self):
        self.submit(LONG, labels="6:site=a4:x=yy")
        self.redis.hset(f"{KEYS}data:{JOB}", "index", "6:site=ax=yy")
        self.record("A")
        (owed,) = self.index("owed")
        self.call("settle_owed", *owed.split())
        self.assertEqual(["1", "0"], self.call("forget", 0, 9)[:2])
        self.assertEqual([[], []], [self.index(name) for name in ("jobs", "l:site=a")])

    def test_indexes_that_name_what_is_not_there(self):
        """It is left out of them, and nobody is asked to see to it."""
        self.submit(LONG)
        self.record("A")
        for name in ("due", "open"):
            self.redis.zadd(f"{KEYS}{name}", {"another": 0, JOB: 1})
        self.redis.zadd(f"{KEYS}owed", {"another 1": 0})
        self.redis.zadd(f"{KEYS}settled", {"another": 0})
        self.assertEqual(["1", "1"], self.call("forget", 0, 1)[:2])
        self.assertEqual([JOB], self.index("settled"))
        self.assertEqual(["0", "0"], self.expire()[4:])
        self.assertEqual([], self.index("due"))
        self.assertEqual(1, len(self.index("owed")))
        mended = [self.call("sweep", "") for _ in range(3)]
        self.assertEqual([["another", "open"], [JOB, "open"], [""]], [place[1:] for place in mended])
        self.assertEqual([], self.index("open"))

    def test_a_step_that_waits_for_nothing(self):
        """It counts one that has arrived, or nobody has sent it off; a sweep finds that out, and has it done."""
        for waiting in range(2):
            self.redis.flushall()
            self.submit(LONG, LONG, after={1: 0})
            steps = {"0": "A A W 1 1 - 0 0 0 0 0", "1": f"D A W 0 0 - 0 0 0 {waiting} 0"}
            self.redis.hset(f"{KEYS}job:{JOB}", mapping={**steps, "open": 1, "busy": 0})
            self.assertEqual([JOB, "1"], self.call("sweep", "")[1:])
            self.assertIn("mended", self.events())
            self.assertEqual(["1", JOB, "0", "1", "1", "0"], self.expire()[4:])
            self.drive(1)
            self.assertEqual("R", self.step(1)[2])
            self.record("A", 1)
            self.assertEqual(["SUCCEEDED", "0"], self.job("outcome", "busy"))

    def test_a_job_that_is_not_looked_at_in_time(self):
        """It is not among those that are due, or too late; a sweep has it looked at at once."""
        self.submit(LONG)
        self.assertEqual([JOB], self.call("sweep", "")[1:])
        for lose in (lambda: self.redis.zrem(f"{KEYS}due", JOB), lambda: self.redis.zadd(f"{KEYS}due", {JOB: FAR})):
            lose()
            self.assertEqual([JOB, "due"], self.call("sweep", "")[1:])
            self.assertLessEqual(int(self.redis.zscore(f"{KEYS}due", JOB)), self.now())
            self.expire()
            self.assertEqual([JOB], self.call("sweep", "")[1:])

    def test_a_sweep_while_jobs_end(self):
        """Those behind the one that was swept last move up, and none is passed over."""
        for created in (5, 6):
            self.submit(LONG)
            self.redis.zadd(f"{KEYS}open", {JOB: 5, "second": created, "third": created})
            swept = self.call("sweep", "")
            self.redis.zrem(f"{KEYS}open", JOB)
            found = [swept[1]]
            while swept[0]:
                swept = self.call("sweep", swept[0])
                found.append(swept[1])
            self.assertEqual([JOB, "second", "third", ""], found)
            self.redis.flushall()

    def test_a_clock_that_steps_back_in_a_sweep(self):
        """What that sweep has seen by then lies too far ahead again: another one is asked for."""
        self.submit(LONG)
        self.expire()
        for skew in (-5000, -10000):
            self.redis.set("skew", skew)
            self.assertEqual("1", self.expire()[3])
            if skew == -5000:
                swept = self.call("sweep", "")[0]
        self.assertEqual(["", ""], self.call("sweep", swept))
        self.assertEqual("1", self.expire()[3])
        self.assertEqual(["", ""], self.call("sweep", self.call("sweep", "")[0]))
        self.assertEqual("0", self.expire()[3])

    def test_looks_change_nothing(self):
        """They answer as the call would."""
        self.submit(SHORT, FAILS)
        self.redis.set("skew", 5000)
        expired = self.expire("look")
        self.assertEqual(["1", JOB, "1", "1", "0", "0"], expired[4:])
        self.assertEqual("R", self.step(0)[2])
        self.assertEqual(expired[4:], self.expire()[4:])
        self.assertEqual("M", self.step(0)[2])
        self.redis.zadd(f"{KEYS}open", {"another": 0})
        for _ in range(2):
            self.assertEqual(["another", "open"], self.call("look", "sweep", "")[1:])
        self.steer("kill")
        (owed,) = self.index("owed")
        self.redis.set("skew", 15000)
        expired = self.expire("look")
        self.assertEqual(["0", "1", *owed.split()], expired[4:])
        self.assertEqual(expired[4:], self.expire()[4:])
        self.call("settle_owed", *owed.split())
        self.assertEqual(["1", "0"], self.call("look", "forget", 0, 9)[:2])
        self.assertEqual(["1", "0"], self.call("forget", 0, 9)[:2])
        self.assertEqual(["0", "0"], self.call("forget", 0, 9)[:2])

    def test_retry_while_the_end_lays_steps_down(self):
        """Those that it has not come to keep their timers."""
        last = BUDGET + 49
        self.submit(FAILS, *[CAPPED] * last)
        self.record("T", 1)
        self.record("T", last)
        self.record("P")
        self.assertEqual([f"l:{BUDGET}"], self.job("cursor"))
        self.assertEqual(["W", "B"], [self.step(i)[2] for i in (1, last)])
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.drive()
        self.assertEqual([""], self.job("cursor"))
        self.assertEqual(["R", "B"], [self.step(i)[2] for i in (1, last)])

    def test_migrate_what_is_in_flight(self):
        """Nobody took the attempt before, and no agent has told of this one: it is withdrawn, and undone in case."""
        self.submit(LONG)
        self.redis.set("skew", 61000)
        self.record("N")
        token = self.step(0)[5]
        self.assertEqual(["R", "2", "1"], [self.step(0)[i] for i in (2, 4, 10)])
        self.define("e", SHORT, revert=LONG)
        self.assertEqual("DONE", self.migrate("e", 1, 0))
        self.assertIn("withdrawn", self.events())
        self.assertEqual(["U", "D", "R"], self.step(0)[:3])
        self.assertEqual("STALE", self.reply("A", token)[0])
        self.record("D")
        self.assertEqual(["D", "A", "R"], self.step(0)[:3])

    def test_migrate_what_was_silent(self):
        """It did not come back: an agent without Progress may be at it, or have done it. Nor may one that has taken the next."""
        self.submit(SHORT)
        self.define("e", LONG)
        self.await_mark(0)
        self.assertIn("silent", self.events())
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.migrate("e", 1, 0))
        self.drive(0)
        self.assertEqual("R", self.step(0)[2])
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.migrate("e", 1, 0))
        for show, why in ((lambda token: self.call("taken", JOB, token), "IN_FLIGHT"), (lambda _: self.record("J"), "UNKNOWN")):
            self.redis.flushall()
            self.submit(LONG)
            self.define("e", SHORT)
            self.redis.set("skew", 61000)
            self.record("N")
            show(self.step(0)[5])
            self.assertEqual(("WRONG_STATE", why), self.migrate("e", 1, 0))

    def test_told_too_late(self):
        """An agent that has had a request for longer than its lease must not begin it: that is no evidence."""
        self.submit(LONG)
        token, till = self.step(0)[5], self.step(0)[6]
        self.assertEqual("STALE", self.call("renew", JOB, token, "0.5", "", 60000, "")[0])
        self.assertEqual([token, till], self.step(0)[5:7])
        self.assertEqual("RENEWED", self.call("renew", JOB, token, "0.5", "", 59000, "")[0])
        self.assertEqual("RENEWED", self.call("renew", JOB, token, "0.5", "", 60000, "")[0])

    def test_rejected_after_it_was_begun(self):
        """Its agent has told of it: the lease decides, and the death counts."""
        self.submit(LONG)
        token = self.step(0)[5]
        self.assertEqual("RENEWED", self.call("renew", JOB, token, "0.5", "", 0, "")[0])
        self.assertEqual("BEGUN", self.reply("J", token)[0])
        self.assertEqual("R", self.step(0)[2])

    def test_the_wait_after_deaths(self):
        """It doubles where nothing but a queue has shown them, and is as at first once an agent has told of one."""
        self.submit("1 1 0 1 1 1 1 9 0 -1 PP|")
        self.die(0)
        self.assertEqual("1", self.step(0)[10])
        self.drive(0)
        self.call("renew", JOB, self.step(0)[5], "0.5", "", 0, "")
        self.await_mark(0)
        self.assertEqual(("2", "0"), (self.step(0)[8], self.step(0)[10]))

    def test_migrate_what_an_agent_has_told_of(self):
        self.submit(LONG)
        self.redis.set("skew", 61000)
        self.record("N")
        self.assertEqual("RENEWED", self.call("renew", JOB, self.step(0)[5], "0.5", "", 0, "")[0])
        self.define("e", SHORT)
        self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.migrate("e", 1, 0))

    def test_migrate_to_what_is_gone(self):
        self.submit(LONG)
        self.assertEqual("MOVED", self.migrate("e", 1))

    def test_migrated_before_its_time(self):
        self.submit(LONG, start_at=self.now() + 3000)
        self.define("e", LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 2))
        self.drive()
        self.assertEqual(["PENDING", None], self.job("phase", "cursor"))
        self.assertNotIn("dispatched", self.events())
        self.redis.set("skew", 4000)
        self.drive()
        self.assertEqual(["R", "R"], [self.step(i)[2] for i in range(2)])

    def test_migrated_after_a_retry_of_all(self):
        """It was held meanwhile: what was parked still begins anew."""
        self.submit(LONG, LONG)
        self.record("T")
        self.assertEqual(["P", "1"], [self.step(0)[2], self.step(0)[7]])
        self.steer("pause")
        self.assertEqual("DONE", self.retry_all())
        self.define("e", LONG, LONG, LONG)
        self.assertEqual("DONE", self.migrate("e", 3))
        self.assertEqual("P", self.step(0)[2])
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["R", "0"], [self.step(0)[2], self.step(0)[7]])

    def test_migrated_after_a_resume(self):
        """Not all steps were looked at by then."""
        self.submit(*[LONG] * (BUDGET + 1))
        self.steer("pause")
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual([f"w:{BUDGET}"], self.job("cursor"))
        self.define("e", *[LONG] * (BUDGET + 2))
        self.assertEqual("DONE", self.migrate("e", BUDGET + 1))
        self.assertIn("w:0", *self.job("cursor"))

    def test_migrate_what_does_not_go_forward(self):
        self.submit(FAILS, LONG)
        self.define("e", LONG, LONG, LONG)
        self.record("P")
        self.assertEqual(("WRONG_STATE", "ENDING"), self.migrate("e", 3))
        self.steer("disable")
        self.assertEqual(("WRONG_STATE", "BACK"), self.migrate("e", 3))

    def test_a_paused_job_is_not_tried_again(self):
        """All is undone, but it has another try: that begins once it is resumed."""
        self.submit(LONG, UNDOES, after={1: 0}, revert=LONG, tries=2)
        self.record("A")
        self.record("P", 1)
        self.record("D", 1)
        self.steer("pause")
        self.record("D")
        self.assertEqual(["PROCESSING", "D", "0"], self.job("phase", "desired", "open"))
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["PROCESSING", "A"], self.job("phase", "desired"))
        self.assertEqual(["A", "R"], self.step(0)[1:3])

    def test_a_failed_job_is_paused_and_resumed(self):
        """It stays FAILED; nothing is sent."""
        self.submit(FAILS)
        self.record("P")
        self.steer("pause")
        self.assertEqual("DONE", self.steer("resume"))
        self.assertEqual(["ERROR", "", None], self.job("phase", "hold", "cursor"))
        self.assertEqual(1, self.events().count("dispatched"))
        self.assertEqual(("WRONG_STATE", "FAILED"), self.steer("resume"))

    def test_past_its_time(self):
        """The job is held, ends or goes back, as its definition says."""
        for on_deadline, fields in (("P", ["deadline", None, "A"]), ("F", [None, "DEADLINE", "A"]),
                                    ("C", [None, "", "D"])):
            self.redis.flushall()
            self.submit(LONG, on_deadline=on_deadline, complete_by=self.now() + 60000)
            self.redis.set("skew", 60000)
            self.drive()
            self.assertEqual(fields, self.job("hold", "ending", "desired"))

    def test_retry_all_while_the_job_ends(self):
        """It has no step that failed, but goes on all the same."""
        self.submit(LONG, LONG, after={1: 0}, on_deadline="F", complete_by=self.now() + 60000)
        self.redis.set("skew", 60000)
        self.drive()
        self.assertEqual(["DEADLINE"], self.job("ending"))
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual([""], self.job("ending"))
        self.record("A")
        self.assertEqual("R", self.step(1)[2])

    def test_retry_of_one_of_those_that_failed(self):
        """The other still has: the job ends as before."""
        self.submit(FAILS, SHORT)
        self.record("P")
        self.record("T", 1)
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.assertEqual("DONE", self.steer("retry", "", 1))
        self.record("A", 1)
        self.assertEqual(["FAILED", "PERMANENT", "0"], self.job("outcome", "reason", "failed"))
        self.assertEqual(2, self.events().count("settled"))

    def failure(self):
        """What has decided last how the job ends, and the error of that step."""
        text = self.job("failure")[0]
        return [text.split("|")[-1], self.redis.hget(f"{KEYS}data:{JOB}", "failure_back" if "|" in text else "failure")]

    def test_which_failure_has_decided(self):
        """The first one on each way. What a later one says of the same way changes nothing."""
        self.submit(UNDOES, LONG, LONG, names="abc", revert=FAILS)
        self.record("A", 1)
        self.record("P", error=an_error("declined"))
        self.assertEqual(["a A PERMANENT 0 PERMANENT", shown("declined")], self.failure())
        self.record("T", 2, error=an_error("stopped"))
        self.record("D", error="")
        self.assertEqual(["a A PERMANENT 0 PERMANENT", shown("declined")], self.failure())
        self.record("P", 1, error=an_error("cannot be taken back"))
        self.record("P", 2, error=an_error("nor this"))
        self.assertEqual(["COMPENSATION_FAILED"], self.job("outcome"))
        self.assertEqual(["b D PERMANENT 1 PERMANENT", shown("cannot be taken back")], self.failure())

    def test_a_failure_is_forgotten_when_the_job_goes_on(self):
        self.submit(UNDOES, names="a", revert=LONG, tries=2)
        self.record("P", error=an_error("declined"))
        self.record("D")
        self.assertEqual(["A", "2"], self.job("desired", "tried"))
        self.assertEqual([""], self.job("failure"))
        self.record("P", error=an_error("declined again"))
        self.record("D")
        self.assertEqual(["COMPENSATED", "FAILURE", "a A PERMANENT 0 PERMANENT"], self.job("outcome", "reason", "failure"))
        self.assertEqual(shown("declined again"), self.failure()[1])
        self.steer("enable")
        self.record("A")
        self.assertEqual(["SUCCEEDED", ""], self.job("outcome", "failure"))

    def test_a_failure_that_is_left(self):
        """A person had the other step tried again."""
        self.submit(LONG, LONG, names="ab", revert=FAILS)
        self.record("A")
        self.record("A", 1)
        self.steer("disable")
        self.record("P", error=an_error("first"))
        self.record("P", 1, error=an_error("second"))
        self.assertEqual(["a D PERMANENT 0 PERMANENT", shown("first")], self.failure())
        self.steer("retry", "", 0)
        self.assertEqual([""], self.job("failure"))
        self.record("D")
        self.assertEqual(["COMPENSATION_FAILED", "|b D PERMANENT 1 PERMANENT"], self.job("outcome", "failure"))
        self.assertEqual(shown("second"), self.failure()[1])

    def test_why_it_goes_back_stays_known(self):
        """Also where its undo has failed, and a person has that tried again."""
        self.submit(UNDOES, LONG, names="ab", actors="xy", revert=FAILS, revert_actor="z")
        self.record("A", 1)
        self.record("P", error=an_error("declined"), class_="DECLINED")
        self.record("D")
        self.record("P", 1, error=an_error("cannot"), class_="STUCK")
        self.assertEqual(["ended", "b", "z", "STUCK"], self.needs())
        self.steer("retry", "", 1)
        self.record("D", 1)
        self.assertEqual(["COMPENSATED", "FAILURE"], self.job("outcome", "reason"))
        self.assertEqual(["a A PERMANENT 0 DECLINED", shown("declined")], self.failure())
        self.assertEqual(["ended", "a", "x", "DECLINED"], self.needs())

    def test_errors_that_are_none(self):
        """What cannot be read as one is left out."""
        for error in ("\x0a", "\x0a\x7fBAD", "\x0b\x01", "\xff" * 20, "BAD"):
            with self.subTest(error):
                self.redis.flushall()
                self.submit(FAILS, names="a")
                self.record("P", error=error)
                self.assertEqual(["FAILED"], self.job("outcome"))

    def test_failures_that_no_agent_reports(self):
        self.submit("1 1 0 1 1 1 1 1 0 -1 PC|", names="a")
        self.die(0)
        self.drive(0)
        self.assertEqual(["COMPENSATED", "a A DEATHS 0 DEATHS"], self.job("outcome", "failure"))
        self.redis.flushall()
        self.submit(LONG, names="a", on_deadline="C", complete_by=self.now() + 60000)
        self.redis.set("skew", 60000)
        self.drive()
        self.assertEqual(["- A DEADLINE - DEADLINE", ""], self.failure())

    def test_a_notice_says_what_has_decided(self):
        self.submit(UNDOES, names="a")
        self.record("P", error=an_error("declined"))
        *_, owed = sorted(self.index("owed"), key=lambda member: int(member.split()[1]))
        answer = self.call("inspect", "notice", *owed.split(), 0)
        self.assertEqual(["COMPENSATED", "FAILURE", "", "a A PERMANENT 0 PERMANENT", shown("declined")],
                         [answer[-11], *answer[-6:-2]])
        self.steer("enable")  # the end that is still to be told was what it was
        answer = self.call("inspect", "notice", *owed.split(), 0)
        self.assertEqual(["a A PERMANENT 0 PERMANENT", shown("declined")], answer[-4:-2])
        self.call("settle_owed", *owed.split())
        self.assertEqual([None] * 2, self.redis.hmget(f"{KEYS}data:{JOB}", "w" + owed.split()[1], "v" + owed.split()[1]))

    def agents(self):
        """Of each step the agent that has had it last."""
        page = self.call("inspect", "job", JOB, 0, 9, 0)
        n = int(self.job("n")[0])
        return page[-6 * n + 5::6]

    def test_who_has_answered(self):
        """Each attempt in the history, the last one with the step; one that does not say is nobody."""
        self.submit(CAPPED, LONG, LONG)
        self.assertEqual(["", "", ""], self.agents())
        self.record("T", agent="a-1")
        self.record("A", 1, agent="b-1")
        self.record("P", 2)
        self.assertEqual(["a-1", "b-1", ""], self.agents())
        self.await_mark(0)
        self.drive(0)
        self.record("A", agent="a-2")
        self.assertEqual(["a-2", "b-1", ""], self.agents())
        answered = [entry.split()[2:] for entry in self.history() if entry.split()[2] in ("done", "failed")]
        self.assertEqual([["a-1"], ["b-1"], [], ["a-2"]], [words[4:] for words in answered])

    def test_who_has_died(self):
        """Of a dispatch that nobody answered it is the agent whose Progress has named it."""
        self.submit(LONG, CAPPED)
        self.record("T", 1, agent="b-1")
        self.call("renew", JOB, self.step(0)[5], "0.5@a-1", "", 0, "")
        self.redis.set("skew", 600_000)
        self.expire()
        self.await_mark(1)
        self.drive(1)
        self.taken(1)
        self.redis.set("skew", 1_200_000)
        self.expire()
        died = [entry.split()[2:] for entry in self.history() if entry.split()[2] == "expired"]
        self.assertEqual([["expired", "0", "1"], ["expired", "1", "2"]], [words[:3] for words in died])
        self.assertEqual([["a-1"], []], [words[4:] for words in died])
        self.assertEqual(["a-1", "b-1"], self.agents())

    def needs(self):
        """What the job needs a person for, as the lists and the job itself have it."""
        kinds = [kind for kind in ("parked", "deadline", "ended") if self.index(f"needs:{kind}")]
        self.assertEqual([JOB] if kinds else [], self.index("needs"))
        kind, since, *about = (self.job("attention")[0] or "").split() or ["", "0"]
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
        self.assertIn("command acknowledge - ann is on it", self.history()[-1])
        self.assertEqual("UNCHANGED", self.steer("acknowledge"))
        self.record("P", 0, class_="NO_ROOM")
        self.assertEqual(["parked", "a", "x", "NO_ROOM"], self.needs())
        self.assertEqual(["2"], self.job("parked"))
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual("parked", self.needs()[0])  # the other one
        self.steer("retry", "", 1)
        self.assertEqual([""], self.needs())
        self.assertEqual(("WRONG_STATE", "NO_NEED"), self.steer("acknowledge"))

    def test_another_parked_step_is_named(self):
        """The one that was parked last; since when stays."""
        self.submit(LONG, LONG, names="ab", actors="xy")
        self.record("P", class_="CA")
        self.record("P", 1, class_="CB")
        self.assertEqual(["parked", "b", "y", "CB"], self.needs())

    def test_acknowledged_and_then_past_its_deadline(self):
        """That is news: so it is on the list again."""
        self.submit(LONG, names="a", actors="x", complete_by=self.now() + 60_000)
        self.record("P", class_="DECLINED")
        self.steer("acknowledge")
        self.assertEqual([""], self.needs())
        self.redis.set("skew", 60_000)
        self.drive()
        self.assertEqual("parked", self.needs()[0])

    def test_acknowledged_and_then_parked_for_good(self):
        self.submit(TRIED, names="a", actors="x")
        self.record("T", class_="BUSY")
        self.steer("acknowledge")
        self.redis.set("skew", 600_001)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual(["PARKED"], self.alerts(self.record("P", class_="DECLINED")))
        self.assertEqual("parked", self.needs()[0])
        self.assertEqual("DECLINED", self.job("attention")[0].split()[-1])

    def test_parked_until_it_has_succeeded(self):
        """Also while it is tried again: that is no news, and no reason to look elsewhere."""
        self.submit(TRIED, names="a", actors="x")
        self.assertEqual(["PARKED"], self.alerts(self.record("T", class_="BUSY")))
        for skew in (600_001, 1_200_002):
            self.redis.set("skew", skew)
            self.await_mark(0)
            self.drive(0)
            self.assertEqual("R", self.step(0)[2])
            self.assertEqual("parked", self.job("attention")[0].split()[0])
            self.assertEqual([], self.alerts(self.record("T")))
        self.redis.set("skew", 1_800_003)
        self.await_mark(0)
        self.drive(0)
        self.record("A")
        self.assertEqual(["SUCCEEDED", "", "0"], self.job("outcome", "attention", "parked"))
        self.assertEqual([], self.index("needs"))

    def test_what_an_older_build_has_parked_needs_a_person(self):
        """It is on the list once a sweep has come by."""
        self.submit(LONG, names="a", actors="x")
        self.record("T")
        self.redis.hdel(f"{KEYS}job:{JOB}", "k0", "parked", "attention")
        self.redis.zrem(f"{KEYS}needs", JOB)
        self.redis.zrem(f"{KEYS}needs:parked", JOB)
        self.assertEqual([""], self.needs())
        for _ in range(3):
            self.assertEqual([], self.call("sweep", "")[2:])
            self.assertEqual(["parked", "a", "x", "EXHAUSTED"], self.needs())
        self.assertEqual(["1"], self.job("parked"))

    def test_an_end_that_nobody_asked_for_needs_a_person(self):
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

    def test_which_ends_need_a_person(self):
        for name, kind, want, definition in (
                ("compensated", "P", "ended", {}), ("ordinary", "P", "", {"expected": 1}),
                ("cancelled", "", "", {}), ("done", "A", "", {})):
            with self.subTest(name):
                self.redis.flushall()
                self.submit(UNDOES, names="a", actors="x", revert=LONG, revert_actor="y", **definition)
                if kind:
                    self.record(kind)
                else:
                    self.steer("cancel")
                    self.record("A")
                if kind != "A":
                    self.assertEqual([""], self.needs())
                    self.record("D")
                self.assertEqual(want, self.needs()[0])
                self.assertEqual(["COMPENSATED"] if want else [],
                                 [m.split()[4] for m in self.history() if " attention " in m and len(m.split()) > 4]
                                 or [m.split()[3] for m in self.history() if " attention " in m])

    def test_an_undo_that_failed_needs_a_person(self):
        self.submit(UNDOES, names="a", actors="x", revert=FAILS, revert_actor="y")
        self.record("P", class_="DECLINED")
        self.assertEqual(["COMPENSATION_FAILED"], self.alerts(self.record("P", class_="STUCK")))
        self.assertEqual(["ended", "a", "y", "STUCK"], self.needs())

    def test_why_it_is_parked_outlasts_its_deadline(self):
        self.submit(LONG, names="a", actors="x", complete_by=self.now() + 5_000)
        self.record("P", class_="DECLINED")
        self.redis.set("skew", 5_000)
        self.drive()
        self.assertEqual(["deadline"], self.job("hold"))
        self.assertEqual(["parked", "a", "x", "DECLINED"], self.needs())

    def test_letters_of_others(self):
        """Those that no scheduler answers for within a minute are news, to one of them, with their number."""
        def letters(there, own=0, minutes=1):
            """A scheduler has looked at drover.dead."""
            self.passed += minutes * 60_000
            self.redis.set("skew", self.passed)
            answer = self.call("told", "", "letters", "", there, own)
            self.assertEqual("NEWS" if answer[1] != "0" else "KNOWN", answer[0])
            return int(answer[1])

        self.passed = 0
        self.assertEqual(0, letters(5))  # what was there before
        self.assertEqual((0, 2), (letters(7), letters(7)))
        self.assertEqual(0, letters(7))
        # one that another scheduler has put there, which says so a little later
        self.assertEqual((0, 0), (letters(8, minutes=0.5), letters(8, own=1, minutes=0.5)))
        self.assertEqual((0, 0), (letters(8), letters(8)))
        # that scheduler says so before it can be seen; it and two of others come
        self.assertEqual((0, 0, 2), (letters(8, own=1), letters(11, minutes=0.5), letters(11)))
        # schedulers put some there all the time; what was seen a minute ago counts
        self.assertEqual((0, 0, 0), (letters(20), letters(30, own=9), letters(40, own=10)))
        self.assertEqual((0, 0), (letters(50, own=21), letters(50)))
        # somebody has read some
        self.assertEqual((0, 0, 1), (letters(3), letters(4), letters(4)))
        # one that never comes covers nothing up for long
        self.assertEqual((0, 0, 0), (letters(4, own=1), letters(4), letters(4)))
        self.assertEqual((0, 1), (letters(5), letters(5)))

    def test_past_its_deadline_a_job_needs_a_person(self):
        self.submit(LONG, names="a", actors="x", complete_by=self.now() + 60_000)
        self.redis.set("skew", 60_000)
        self.drive()
        self.assertEqual(["deadline", "-", "-", "DEADLINE"], self.needs())
        self.steer("resume")
        self.assertEqual([""], self.needs())

    def listed(self, needs="any", class_="", actor="", *labels):
        answer = self.call("inspect", "jobs", "+inf", "", 0, 10, "", "", needs, class_, actor, *labels)
        return int(answer[5])

    def test_a_list_of_what_needs_a_person(self):
        self.submit(LONG, names="a", actors="x")
        self.assertEqual((1, 0), (self.listed(""), self.listed()))
        self.record("P", class_="DECLINED")
        self.assertEqual((1, 1, 0, 0), tuple(map(self.listed, ("any", "parked", "deadline", "ended"))))
        self.assertEqual((1, 0), (self.listed(class_="DECLINED"), self.listed(class_="OTHER")))
        self.assertEqual((1, 0), (self.listed(actor="x"), self.listed("any", "DECLINED", "y")))
        self.assertEqual(["0", "0", "1", "0", "0"], self.call("forget", FAR, 1))

    SILENT = "20000 20000 0 1 1 1 9 2 0 -1 PP 3600000|"  # parked after two deaths, and tried again after an hour

    def fall_silent(self):
        """Its agent has the request, and is not heard of again."""
        self.taken(0)
        self.redis.set("skew", int(self.redis.get("skew") or 0) + int(self.step(0)[6]) - self.now() + 1)
        self.await_mark(0)
        answer = self.call("drive", JOB, NONCES[1], "me", 0, 0)
        return self.alerts(answer)

    def wait_out(self, ms):
        """The step is parked for so long; then it is tried."""
        self.assertEqual("P", self.step(0)[2])
        left = int(self.step(0)[6]) - self.now()
        self.assertTrue(ms - 10_000 < left <= ms, left)
        self.redis.set("skew", int(self.redis.get("skew") or 0) + left + 1)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual("R", self.step(0)[2])

    def test_silence_ends(self):
        """One dispatch after the interval, then after twice as long; the alert is told once."""
        self.submit(self.SILENT, names="a", actors="x")
        self.assertEqual([], self.fall_silent())
        self.assertEqual("R", self.step(0)[2])
        self.assertEqual(["PARKED"], self.fall_silent())
        self.assertEqual(["parked", "a", "x", "DEATHS"], self.needs())
        self.wait_out(3_600_000)
        self.assertEqual([], self.fall_silent())
        self.wait_out(7_200_000)
        self.assertEqual("parked", self.job("attention")[0].split()[0])
        self.record("T")  # somebody is there again: deaths are counted anew
        self.assertEqual(("B", "0"), (self.step(0)[2], self.step(0)[8]))

    def test_a_deferral_ends_a_silence(self):
        """An agent has answered: it is tried again when that one says, and deaths are counted anew."""
        self.submit(self.SILENT, names="a")
        self.fall_silent()
        self.fall_silent()
        self.wait_out(3_600_000)
        self.reply("F", self.step(0)[5], retry_after=5000)
        self.assertEqual(("B", "0"), (self.step(0)[2], self.step(0)[8]))
        self.redis.set("skew", int(self.redis.get("skew")) + 6000)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual("R", self.step(0)[2])

    def test_a_round_that_does_not_get_through(self):
        """No queue took it: nothing of the silence is over, and its round is still to come."""
        self.submit(self.SILENT, names="a")
        self.fall_silent()
        self.fall_silent()
        self.wait_out(3_600_000)
        self.reply("X", self.step(0)[5])
        self.redis.set("skew", int(self.redis.get("skew")) + 10_000)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual("R", self.step(0)[2])

    def test_silence_ends_within_a_day(self):
        self.submit(self.SILENT, names="a")
        self.fall_silent()
        self.fall_silent()
        for hours in (1, 2, 4, 8, 16, 24, 24):
            self.wait_out(hours * 3_600_000)
            self.fall_silent()

    def test_silence_that_does_not_end(self):
        """Where its policy says never, and in a job of before its definition could say when."""
        for terms, renewed in ((self.SILENT.replace("3600000", "0"), 0), (self.SILENT, FAR), (self.SILENT.replace(" 3600000", ""), 0)):
            with self.subTest(terms):
                self.redis.flushall()
                self.submit(terms, names="a")
                if renewed:
                    self.redis.hset(f"{KEYS}def:d", "renewed", renewed)
                self.fall_silent()
                self.fall_silent()
                self.assertEqual(("P", "0"), (self.step(0)[2], self.step(0)[6]))

    def bounded(self, terms=LONG, **definition):
        """A job that must be complete in ten seconds; else it is taken back."""
        self.submit(terms, names="a", revert=LONG, on_deadline="C", complete_by=self.now() + 10_000, **definition)

    def test_no_lease_beyond_the_deadline(self):
        """Neither wait nor lease is longer than what is left; an undo has what it is given."""
        self.bounded()
        left = int(self.step(0)[6]) - self.now()
        self.assertTrue(15_000 < left <= 20_000, left)  # ten to wait, ten to work
        self.record("A")
        self.steer("disable")
        left = int(self.step(0)[6]) - self.now()
        self.assertTrue(110_000 < left <= 120_000, left)

    def test_a_wait_that_is_over_before_the_deadline(self):
        """What comes back after its whole wait was not thrown away: it waits for an agent again, and not for a backoff."""
        self.submit(LONG, names="a", on_deadline="C", complete_by=self.now() + 90_000)
        self.redis.set("skew", 60_000)
        self.record("N")
        self.assertEqual(("R", "2"), (self.step(0)[2], self.step(0)[4]))

    def test_a_lease_where_the_deadline_parks(self):
        self.submit(LONG, names="a", on_deadline="P", complete_by=self.now() + 10_000)
        self.assertGreater(int(self.step(0)[6]) - self.now(), 110_000)

    def test_work_past_the_deadline_is_not_wanted(self):
        self.bounded()
        renew = ("renew", JOB, self.step(0)[5], "0.5", "", 0, "")
        self.assertEqual(["RENEWED", "1"], self.call(*renew)[:2])
        self.redis.set("skew", 10_001)
        self.assertEqual(["RENEWED", "0"], self.call(*renew)[:2])

    def test_nothing_is_sent_past_the_deadline(self):
        """It was not noticed yet: the job is about to be taken back. Nor is a request sent again."""
        self.submit(LONG, LONG, LONG, names="abc", after={1: 0}, on_deadline="C", complete_by=self.now() + 10_000)
        self.redis.set("skew", 5_000)
        (request,) = self.call("unsent", JOB, NONCES[3], "me", 1, self.step(2)[5])[3:4]
        wait = int(request.split()[7])
        self.assertTrue(0 < wait <= 5_000, wait)
        self.redis.set("skew", 10_001)
        self.record("A")
        self.assertEqual(["W", "A"], [self.step(1)[2] if self.job("1")[0] else "W", *self.job("desired")])
        self.assertEqual("0", self.call("unsent", JOB, NONCES[4], "me", 2, self.step(2)[5])[2].split()[-1])
        self.assertEqual("W", self.step(2)[2])
        self.drive()
        self.assertEqual(["D"], self.job("desired"))

    def test_a_lease_that_the_deadline_ends_is_no_death(self):
        self.submit(LONG, names="a", on_deadline="F", complete_by=self.now() + 10_000)
        self.taken(0)
        self.drive()
        self.redis.set("skew", 21_000)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual(["FAILED", "DEADLINE"], self.job("outcome", "reason"))
        self.assertEqual("0", self.step(0)[8])

    def fail_and_undo(self):
        self.record("P")
        self.record("D")

    def test_a_wait_between_two_tries(self):
        self.submit(UNDOES, names="a", revert=LONG, tries=4, interval=60_000, coefficient=3)
        for wait in (60_000, 180_000):
            self.fail_and_undo()
            self.assertEqual(["PROCESSING", "D", "0"], self.job("phase", "desired", "open"))
            left = int(self.job("next_try")[0]) - self.now()
            self.assertTrue(wait - 10_000 < left <= wait)
            self.drive()
            self.assertEqual(["D"], self.job("desired"))
            self.assertEqual("0", self.expire()[4])
            self.redis.set("skew", int(self.redis.get("skew") or 0) + left + 1)
            self.assertEqual("1", self.expire()[4])
            self.drive()
            self.assertEqual(["A", "0"], self.job("desired", "next_try"))
        self.fail_and_undo()
        self.assertEqual("DONE", self.steer("disable"))  # nor is it tried again
        self.assertEqual(["COMPENSATED", "REQUESTED", "0"], self.job("outcome", "reason", "next_try"))

    def test_cancelled_between_two_tries(self):
        self.submit(UNDOES, names="a", revert=LONG, tries=4, interval=60_000)
        self.fail_and_undo()
        self.assertEqual("DONE", self.steer("cancel"))
        self.assertEqual(["CANCELLED", "REQUESTED"], self.job("outcome", "reason"))
        self.assertEqual([""], self.needs())

    def test_no_wait_beyond_the_deadline(self):
        """The next try would begin too late."""
        self.submit(UNDOES, names="a", revert=LONG, tries=2, interval=60_000, complete_by=self.now() + 30_000)
        self.fail_and_undo()
        self.assertEqual(["COMPENSATED"], self.job("outcome"))

    def test_a_wait_is_paused(self):
        self.submit(UNDOES, names="a", revert=LONG, tries=2, interval=60_000)
        self.fail_and_undo()
        self.steer("pause")
        self.redis.set("skew", 60_001)
        self.drive()
        self.assertEqual(["D"], self.job("desired"))
        self.steer("resume")
        self.assertEqual(["A"], self.job("desired"))

    def test_other_arguments_on_the_way_back(self):
        """What waits for its undo is not to be done."""
        self.submit(LONG, LONG, after={1: 0}, revert=LONG)
        self.record("A")
        self.record("A", 1)
        self.steer("disable")
        self.assertEqual(["A", "W"], self.step(0)[0:3:2])
        self.assertEqual(("WRONG_STATE", "BACK"), self.steer("retry", "other arguments", 0))

    def change(self, name, step, what="actor", arguments=""):
        return self.steer("change", name, what, arguments, step)

    def refs(self, *names):
        return [self.redis.hget(f"{KEYS}def:{name}", "refs") for name in names]

    def park(self, *steps, **definition):
        """A job whose first step may have been done, and is parked."""
        self.submit(*(steps or (LONG,)), **definition)
        self.record("T")
        self.assertEqual(["U", "P"], self.step(0)[0:3:2])

    def test_change_of_the_lease(self):
        """The same work, under the same key; what was counted against it is forgiven."""
        self.park()
        self.define("e", "90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual("DONE", self.change("e", "0t", "lock_ms"))
        _, _, state, turn, attempt, _, till, failures, *_ = self.step(0)
        self.assertEqual(["R", "1", "2", "0"], [state, turn, attempt, failures])
        self.assertGreater(int(till), self.now() + 145_000)
        self.assertEqual([None, "1"], self.refs("d", "e"))
        self.assertEqual(["1"], self.job("turn"))
        self.assertIn("changed", self.events())

    def test_change_of_the_lease_of_an_undo(self):
        self.submit(LONG, revert=LONG)
        self.record("A")
        self.steer("disable")
        self.record("T")
        self.assertEqual(["D", "P"], self.step(0)[1:3])
        turn = self.step(0)[3]
        self.define("e", LONG, revert="90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual(("WRONG_STATE", "BACK"), self.change("e", 0))
        self.assertEqual("DONE", self.change("e", "0t", "revert.lock_ms"))
        self.assertEqual(["D", "R", turn], self.step(0)[1:4])
        self.assertGreater(int(self.step(0)[6]), self.now() + 145_000)

    def test_change_of_what_was_not_done(self):
        """No agent has had it: another actor does it, under another key."""
        self.submit(LONG)
        self.record("L")
        self.assertEqual(["D", "P"], self.step(0)[0:3:2])
        self.define("e", SHORT)
        self.assertEqual("DONE", self.change("e", 0))
        self.assertEqual(["D", "A", "R", "2", "2"], self.step(0)[:5])
        self.assertEqual([None, "1"], self.refs("d", "e"))

    def test_change_of_what_may_have_been_done(self):
        """It is undone as it was, and then done as it is to be; meanwhile the job begins nothing else."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=LONG)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=SHORT)
        key = self.step(0)[3]
        self.assertEqual("DONE", self.change("e", 0))
        self.assertEqual(["U", "D", "R", "2"], self.step(0)[:4])
        self.assertEqual(key, self.step(0)[12])  # what the undo takes back
        self.assertGreater(int(self.step(0)[6]), self.now() + 60_000)  # by the terms of before
        self.assertEqual(["1", "1"], self.refs("d", "e"))
        self.record("A", 1)
        self.assertEqual("W", self.step(2)[2])
        self.assertEqual(("WRONG_STATE", "CHANGING"), self.change("e", 2))
        self.assertEqual(("WRONG_STATE", "CHANGING"), self.migrate("e", 3))
        self.record("D")
        self.assertEqual(["D", "A", "R", "4"], self.step(0)[:4])
        self.assertLess(int(self.step(0)[6]), self.now() + 60_000)
        self.assertEqual("R", self.step(2)[2])
        self.assertEqual([None, "1"], self.refs("d", "e"))
        self.assertEqual([["0"], ["0", "actor"]], [self.noted("changing")[0], self.noted("edited")[0]])
        self.assertEqual([""], self.job("waits_for"))
        self.assertFalse(self.redis.hexists(f"{KEYS}data:{JOB}", "change"))

    def test_arguments_of_what_may_have_been_done(self):
        """The undo has those of before."""
        self.park(revert=LONG)
        self.assertEqual("DONE", self.steer("change", "d", "arguments", "others", 0))
        self.assertEqual(["U", "D", "R"], self.step(0)[:3])
        self.assertFalse(self.redis.hexists(f"{KEYS}data:{JOB}", "a0"))
        self.record("D")
        self.assertEqual("others", self.redis.hget(f"{KEYS}data:{JOB}", "a0"))
        self.assertEqual(["1"], self.refs("d"))
        self.assertEqual(["D", "A", "R"], self.step(0)[:3])

    def test_an_undo_on_the_way_forward_that_was_parked(self):
        """It succeeds when it is tried again: its step is forward work from then on, which is not parked."""
        tried = "60000 60000 0 1 1 1 1 1 0 1 PP|"
        self.park(revert=tried)
        self.define("e", LONG, revert=tried)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("T")
        self.await_mark(0)
        self.drive(0)
        self.assertEqual(["D", "R"], self.step(0)[1:3])
        self.assertEqual([JOB], self.index("needs:parked"))
        self.record("D")
        self.assertEqual(["A", "R"], self.step(0)[1:3])
        self.assertEqual([], self.index("needs:parked"))

    def test_change_of_what_nothing_takes_back(self):
        self.park()
        self.define("e", SHORT)
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.change("e", 0))
        self.assertEqual(["1", "0"], self.refs("d", "e"))
        self.assertEqual("DONE", self.change("e", "0!"))
        self.assertEqual(["D", "A", "R", "2"], self.step(0)[:4])
        self.assertEqual([["0"]], self.noted("anew"))

    def test_change_of_what_is_under_way(self):
        self.submit(LONG, LONG, after={1: 0})
        self.define("e", SHORT, SHORT, after={1: 0})
        for step in ("0", "0t", "0!"):
            self.assertEqual(("WRONG_STATE", "IN_FLIGHT"), self.change("e", step))
        self.record("A")
        for step in ("0", "0t", "0!"):
            self.assertEqual(("WRONG_STATE", "NOT_FAILED"), self.change("e", step))
        self.assertEqual(["1", "0"], self.refs("d", "e"))

    def test_change_before_it_begins(self):
        self.submit(LONG, LONG, after={1: 0})
        self.define("e", LONG, SHORT, after={1: 0})
        self.assertEqual("DONE", self.change("e", 1))
        self.assertEqual("W", self.step(1)[2])
        self.record("A")
        self.assertEqual("R", self.step(1)[2])
        self.assertLess(int(self.step(1)[6]), self.now() + 60_000)

    def test_change_of_a_job_that_has_ended(self):
        self.submit(FAILS)
        self.record("P")
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.define("e", LONG)
        self.assertEqual("DONE", self.change("e", "0!"))
        self.assertEqual(["PROCESSING", ""], self.job("phase", "outcome"))
        self.assertEqual("R", self.step(0)[2])
        self.record("A")
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))
        self.assertEqual(("WRONG_STATE", "SUCCEEDED"), self.change("e", 0))

    def test_change_that_is_overtaken(self):
        """The job is turned, or ended, before the step is undone: it stays as it is."""
        for command, code in (("disable", "TURNED"), ("kill", "TURNED")):
            with self.subTest(command):
                self.redis.flushall()
                self.park(revert=LONG)
                self.define("e", LONG, revert=LONG)
                self.assertEqual("DONE", self.change("e", 0))
                self.assertEqual("DONE", self.steer(command))
                self.assertEqual([code], self.noted("unchanged")[0])
                self.assertEqual(["1", None], self.refs("d", "e"))
                self.assertEqual([""], self.job("waits_for"))

    def test_change_that_a_person_overtakes(self):
        """It is done, somebody says: then it is not changed any more, and the others go on."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=LONG)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("T")  # the undo
        self.assertEqual(["U", "D", "P"], self.step(0)[:3])
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.record("A", 1)
        self.assertEqual([["NOT_FAILED", "0"]], self.noted("unchanged"))
        self.assertEqual(["1", None], self.refs("d", "e"))
        self.assertEqual("R", self.step(2)[2])

    def test_change_whose_undo_fails_for_good(self):
        """It is dropped, and what else the job has to do goes on."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=FAILS)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=FAILS)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("A", 1)
        self.assertEqual("W", self.step(2)[2])
        self.record("P")  # the undo
        self.assertEqual(["U", "D", "F"], self.step(0)[:3])
        self.assertEqual([["FAILED", "0"]], self.noted("unchanged"))
        self.assertEqual(([""], False), (self.job("waits_for"), self.redis.hexists(f"{KEYS}data:{JOB}", "change")))
        self.assertEqual(["1", None], self.refs("d", "e"))
        self.assertEqual("R", self.step(2)[2])
        self.record("A", 2)
        self.assertEqual(["COMPENSATION_FAILED"], self.job("outcome"))

    def test_change_that_a_person_overtakes_late(self):
        """The same, where the others have been held up before: nothing but that word is to come."""
        self.park(LONG, LONG, LONG, after={2: 1}, revert=LONG)
        self.define("e", SHORT, LONG, LONG, after={2: 1}, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        self.record("T")  # the undo
        self.record("A", 1)
        self.assertEqual("W", self.step(2)[2])
        self.assertEqual("DONE", self.steer("resolve", 0, "A", ""))
        self.assertEqual("R", self.step(2)[2])
        self.assertEqual([["NOT_FAILED", "0"]], self.noted("unchanged"))

    def test_keys_of_a_change_that_is_not_carried_out(self):
        """The job ends before: what is done afterwards has another key than the undo."""
        self.submit(LONG, FAILS, revert=LONG)
        self.record("T")
        self.define("e", SHORT, FAILS, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        undone = self.step(0)[3]
        self.record("P", 1)
        self.record("D")
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.retry_all()
        self.assertEqual(["D", "A", "R"], self.step(0)[:3])
        self.assertNotEqual(undone, self.step(0)[3])

    def test_an_undo_that_was_sent_keeps_its_key(self):
        """A change finds its undo under way before: it is the same work."""
        self.submit(LONG, revert=LONG)
        self.steer("disable")
        self.record("T")
        self.steer("enable")
        self.record("T")
        self.assertEqual(["U", "D", "P"], self.step(0)[:3])
        key = self.step(0)[3]
        self.assertEqual("DONE", self.change("d", 0, "arguments", "new"))
        self.assertEqual(["U", "D", "R", key], self.step(0)[:4])

    def test_timers_wait_for_a_change(self):
        """A parked step whose try is due while a change waits has it afterwards."""
        soon = "60000 60000 0 1 1 1 1 1 0 1 PP|"
        self.submit(LONG, soon, revert=LONG)
        self.record("T")
        self.record("T", 1)
        self.define("e", SHORT, soon, revert=LONG)
        self.assertEqual("DONE", self.change("e", 0))
        servers.wait_for(lambda: int(self.step(1)[6]) < self.now(), "its time")
        self.expire()
        self.drive(1)
        self.assertEqual("P", self.step(1)[2])
        self.record("D")
        self.await_mark(1)
        self.drive(1)
        self.assertEqual("R", self.step(1)[2])

    def test_a_death_after_the_deadline_counts(self):
        """A person has the job go on: no lease is cut any more."""
        self.submit(DIES, revert=LONG, on_deadline="F", complete_by=self.now() + 60_000)
        self.record("T")
        self.redis.set("skew", 61_000)
        self.call("drive", JOB, NONCES[1], "me", 0)
        self.assertEqual(["FAILED"], self.job("outcome"))
        self.retry_all()
        self.assertEqual("R", self.step(0)[2])
        self.taken(0)
        self.redis.set("skew", 161_000)
        self.expire()
        self.assertEqual("expired", self.events()[-1])

    def test_an_older_job_stays_one(self):
        """A change gives it nothing else than what it says."""
        self.park()
        self.redis.hset(f"{KEYS}def:d", "renewed", FAR)
        self.define("e", "90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual("DONE", self.change("e", "0t"))
        self.assertEqual(str(FAR), self.redis.hget(f"{KEYS}def:e", "renewed"))

    def test_change_while_it_is_paused(self):
        self.park(revert=LONG)
        self.define("e", SHORT, revert=LONG)
        self.steer("pause")
        self.assertEqual("DONE", self.change("e", 0))
        self.assertEqual(["U", "D", "W"], self.step(0)[:3])
        self.steer("resume")
        self.assertEqual(["U", "D", "R"], self.step(0)[:3])
        self.record("D")
        self.assertEqual(["D", "A", "R"], self.step(0)[:3])
        self.assertLess(int(self.step(0)[6]), self.now() + 60_000)

    def test_migrate_what_may_have_been_done(self):
        """Of two such steps the job waits for both; then it has the newer version."""
        self.park(LONG, LONG, revert=LONG)
        self.record("T", 1)
        self.define("e", SHORT, SHORT, LONG, revert=SHORT)
        self.assertEqual("DONE", self.migrate("e", 3, 0, 1))
        self.assertEqual(["2"], self.job("n"))
        self.record("D")
        self.assertEqual(["D", "W"], self.step(0)[0:3:2])
        self.assertEqual(["1", "1"], self.refs("d", "e"))
        self.record("D", 1)
        self.assertEqual(["3"], self.job("n"))
        self.assertEqual([["D", "A", "R"]] * 3, [self.step(i)[:3] for i in range(3)])
        self.assertEqual([None, "1"], self.refs("d", "e"))
        self.assertEqual(1, self.events().count("migrated"))
        keys = [line[3] for line in (self.step(0), self.step(1))]
        self.assertEqual(["7", "7"], keys)

    def test_migrate_to_another_lease(self):
        """Begun steps keep their work, and its key."""
        self.park(LONG, LONG)
        self.record("A", 1)
        self.define("e", "90000 60000 0 1 1 1 1 1 0 -1 PP|", "90000 60000 0 1 1 1 1 1 0 -1 PP|")
        self.assertEqual("DONE", self.migrate("e", 2, "0t", "1t"))
        self.assertEqual(["U", "P"], self.step(0)[0:3:2])
        self.assertEqual(["A", "W"], self.step(1)[0:3:2])
        self.assertEqual("DONE", self.steer("retry", "", 0))
        self.assertEqual(["U", "A", "R", "1"], self.step(0)[:4])
        self.assertGreater(int(self.step(0)[6]), self.now() + 145_000)
        self.record("A")
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_migrate_what_nothing_takes_back(self):
        self.park()
        self.define("e", SHORT)
        self.assertEqual(("WRONG_STATE", "UNKNOWN"), self.migrate("e", 1, 0))
        self.assertEqual("DONE", self.migrate("e", 1, "0!"))
        self.assertEqual(["D", "A", "R", "3"], self.step(0)[:4])
        self.assertEqual([["0"]], self.noted("anew"))

    def steps_told(self):
        """What has happened at steps since the last time, for the client that asks for it."""
        code, facts, *rest = self.call("step_events", JOB)
        self.assertEqual("FOUND", code)
        self.assertEqual(self.job("open") + ["2"], facts.split()[1:])
        self.assertEqual(["", "", "me.here", "", ""], rest[:5])
        entries = [rest[5 + k:8 + k] for k in range(0, len(rest) - 5, 3)]
        return [(*entry.split()[2:], step, error) for entry, step, error in entries]

    def test_step_events(self):
        """Each once; the error without details, the agent where it is known."""
        self.define("d", TRIED, LONG, after={1: 0}, names=("a", "b"), revert=LONG)
        answer = self.submit_call(reply_to="me.here", events="reply")
        self.assertEqual("2", answer[2].split()[4])
        self.assertEqual([("dispatched", "1", "A", "-", "a", "")], self.steps_told())
        self.assertEqual([], self.steps_told())
        token = self.step(0)[5]
        renewals = [self.call("renew", JOB, token, "0.5@agent-7", "", 0, "")[4] for _ in range(2)]
        self.assertEqual(["1", "0"], renewals)
        self.assertEqual([("began", "1", "A", "agent-7", "a", "")], self.steps_told())
        answer = self.record("T", error=an_error("first"), agent="agent-7")
        self.assertEqual("2", answer[2].split()[4])
        self.assertEqual([("failed", "1", "A", "agent-7", "a", shown("first")), ("parked", "1", "A", "-", "a", shown("first"))],
                         self.steps_told())
        self.steer("retry", "", 0)
        self.record("A")
        self.assertEqual([("dispatched", "2", "A", "-", "a", ""), ("done", "2", "A", "-", "a", ""),
                          ("dispatched", "1", "A", "-", "b", "")], self.steps_told())
        self.steer("disable")
        self.record("T", 1)
        self.record("D", 1)
        self.assertEqual([("failed", "1", "A", "-", "b", ""), ("dispatched", "2", "D", "-", "b", ""),
                          ("undone", "2", "D", "-", "b", ""), ("dispatched", "3", "D", "-", "a", "")],
                         [told if told[0] != "failed" else (*told[:2], "A", *told[3:]) for told in self.steps_told()])

    def test_step_events_that_nobody_wants(self):
        for events, flag in (("job", "0"), ("step", "1")):
            with self.subTest(events):
                self.redis.flushall()
                self.define("d", BEATING)
                self.assertEqual(flag, self.submit_call(events=events)[2].split()[4])
                self.assertEqual("0", self.call("renew", JOB, self.step(0)[5], "0.5@agent-7", "", 0, "")[4])
                self.assertEqual(["UNKNOWN_JOB"], self.call("step_events", JOB))
                self.assertNotIn("began", self.events())
                self.assertFalse(self.redis.hexists(f"{KEYS}data:{JOB}", "heard"))

    def test_step_events_of_many(self):
        """More than are told at a time: the last ones."""
        steps = 400
        self.define("d", *[LONG] * steps)
        self.submit_call(reply_to="me.here", events="reply")
        self.drive()
        for i in range(steps):
            self.record("T", i)  # dispatched, failed, parked
        told = self.call("step_events", JOB)[7:]
        self.assertEqual(1000, len(told) // 3)
        self.assertEqual(str(len(self.events())), told[-3].split()[0])

    def test_retry_all_once_more(self):
        """The first has not come to all steps, and what it began has been parked again."""
        last = BUDGET + 49
        self.submit(*[LONG] * (last + 1))
        self.record("T")
        self.record("T", last)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["R", "P"], [self.step(i)[2] for i in (0, last)])
        self.steer("pause")
        self.record("T")
        self.assertEqual("DONE", self.retry_all())
        self.steer("resume")
        for _ in range(3):
            self.drive()
        self.assertEqual(["R", "R"], [self.step(i)[2] for i in (0, last)])
        self.assertEqual([""], self.job("cursor"))

    def test_more_failed_steps_than_are_listed(self):
        """All of them count."""
        self.submit(LONG, LONG, revert=FAILS)
        self.record("A", 0)
        self.record("A", 1)
        self.steer("disable")
        self.record("P", 0)
        listed = "9" * 1000
        self.redis.hset(f"{KEYS}job:{JOB}", "failed", listed)
        self.record("P", 1)
        self.assertEqual(["COMPENSATION_FAILED", listed, "0 2"], self.job("outcome", "failed", "stuck"))

    def test_results_that_a_notice_has_no_room_for(self):
        """They are told to be there; smaller ones behind them are told whole."""
        self.submit(LONG, LONG, LONG)
        for i, result in enumerate(("0123456789", "", "abcde")):
            self.record("A", i, result)
        (owed,) = self.index("owed")
        for room, results in ((15, ["0123456789", "abcde"]), (14, ["0123456789", ""]), (9, ["", "abcde"])):
            answer = self.call("inspect", "notice", *owed.split(), room, 0, 1, 2)
            self.assertEqual(["2", "0", results[0], "2", results[1], "0"], answer[-6:])

    def test_what_is_not_the_same(self):
        """A name, a job or a command_id that stands for something else already is refused."""
        self.assertEqual(["DEFINED"], self.call("define", "w1", "w", 1, 1, "blob", 1, 1))
        self.assertEqual(["CONFLICT"], self.call("define", "w2", "w", 1, 1, "blob", 1, 1))
        self.submit(LONG)
        again = self.call("submit", JOB, "other", "d", "", 0, NONCES[0], "me", "A", 0, 0, "", 0, "", "", "")
        self.assertEqual("CONFLICT", again[0])
        self.assertEqual("DONE", self.steer("pause", command_id="one"))
        self.assertEqual("CONFLICT", self.steer("resume", command_id="one"))
        self.assertEqual(["paused"], self.job("hold"))

    def test_what_is_not_known(self):
        by_name = self.call("submit", JOB, "d", "", "nobody", 0, NONCES[0], "me", "A", 0, 0, "", 0, "", "", "")
        self.assertEqual("UNKNOWN_WORKFLOW", by_name[0])
        self.assertEqual("UNKNOWN_JOB", self.call("drive", JOB, NONCES[1], "me", 0)[0])
        self.assertEqual(["UNKNOWN"], self.call("inspect", "history", JOB, 1, 9))
        self.submit(LONG)
        self.assertEqual("UNSUPPORTED", self.steer("dance"))
        moved = self.call("steer", JOB, "retry", "", 0, 0, "-", "me", NONCES[2], 0, "another", "", 0, "", 0)
        self.assertEqual("MOVED", moved[0])

    def test_history_has_a_cap(self):
        self.submit(LONG)
        self.redis.rpush(f"{KEYS}hist:{JOB}", *[f"{n} 0 filled" for n in range(3, 1002)])
        self.redis.hset(f"{KEYS}job:{JOB}", "seq", 1001)
        self.record("A")
        answer = self.call("inspect", "history", JOB, 1003, 9)
        self.assertEqual(["FOUND", "d", "4", "0", "1"], answer[:5])
        self.assertEqual(["1003", "settled"], [answer[5].split()[i] for i in (0, 2)])
        self.assertEqual(["1", "2"], self.call("inspect", "history", JOB, 1001, 2)[3:5])
        self.assertEqual(["0", "3"], self.call("inspect", "history", JOB, 1001, 3)[3:5])

    def owed_alert(self, reason, *about):
        """The one notice that is owed is this alert; it is asked for again until somebody was told."""
        (owed,) = self.index("owed")
        notice = self.call("inspect", "notice", *owed.split(), 0)
        self.assertEqual(["ALERT", "PROCESSING", reason, " ".join(about)],
                         [notice[-11], notice[-10], notice[-6], notice[-5]])
        self.redis.set("skew", 6000 + int(self.redis.get("skew") or 0))
        self.assertEqual(["1", *owed.split()], self.expire()[-3:])
        self.call("settle_owed", *owed.split())
        self.assertEqual([[], ["0"]], [self.index("owed"), self.job("owes")])

    def test_each_notice_has_its_tries(self):
        self.submit(LONG, LONG)
        self.record("T")
        self.record("T", 1)
        first, second = self.index("owed")
        self.redis.zadd(f"{KEYS}owed", {first: 0})
        for _ in range(2):
            self.assertEqual(["1", *first.split()], self.expire()[-3:])
            self.redis.zadd(f"{KEYS}owed", {first: 0})
        self.assertEqual("2", self.call("inspect", "notice", *first.split(), 0)[-12])
        self.assertEqual("0", self.call("inspect", "notice", *second.split(), 0)[-12])
        self.call("settle_owed", *first.split())
        self.assertIsNone(self.redis.hget(f"{KEYS}data:{JOB}", "n" + first.split()[1]))

    def test_owed_that_it_is_parked(self):
        """Whoever was to tell of it may be gone; a reply that comes again is no reason to."""
        self.submit(LONG)
        token = self.step(0)[5]
        self.assertIn("PARKED", self.alerts(self.record("T")))
        answer = self.call("record", "me", "T", JOB, token, 1, NONCES[3], 0, "", "", "", 0, "", "", "")
        self.assertEqual("ALREADY", answer[0])
        self.assertNotIn("PARKED", self.alerts(answer))
        self.assertEqual("1", self.step(0)[7])
        self.owed_alert("PARKED", "0", "0")

    def test_owed_that_its_undo_is_parked(self):
        self.submit(LONG, revert=LONG)
        self.record("A")
        (ended,) = self.index("owed")
        self.call("settle_owed", *ended.split())
        self.steer("disable")
        self.assertIn("PARKED", self.alerts(self.record("T")))
        self.owed_alert("PARKED", "0", "1")

    def test_owed_that_it_is_parked_by_deaths(self):
        self.submit(SHORT)
        self.die(0)
        self.assertIn("PARKED", self.alerts(self.call("drive", JOB, NONCES[1], "me", 0, 0)))
        self.assertNotIn("PARKED", self.alerts(self.call("drive", JOB, NONCES[1], "me", 1, 0)))
        self.assertEqual(["P", "0"], [self.step(0)[2], self.step(0)[6]])
        self.owed_alert("PARKED", "0", "0")

    def test_owed_that_the_deadline_holds_it(self):
        self.submit(LONG, complete_by=self.now() + 60000)
        self.redis.set("skew", 61000)
        self.assertIn("DEADLINE", self.alerts(self.call("drive", JOB, NONCES[1], "me", 0)))
        self.assertEqual(["deadline", "2"], self.job("hold", "late"))
        self.assertNotIn("DEADLINE", self.alerts(self.call("drive", JOB, NONCES[1], "me", 1)))
        self.owed_alert("DEADLINE")

    def test_parked_by_failures_after_it_was_by_deaths(self):
        """It stood for good meanwhile, until the job turned: that is news."""
        self.submit(LONG, revert=DIES)
        self.record("A")
        self.steer("disable")
        self.record("T")
        self.redis.set("skew", 700000)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual("DONE", self.steer("enable"))
        self.taken(0)
        self.redis.set("skew", 745000)
        self.await_mark(0)
        self.drive(0)
        self.assertEqual(["P", "0"], [self.step(0)[2], self.step(0)[6]])
        self.assertEqual("DONE", self.steer("cancel"))
        self.assertIn("PARKED", self.alerts(self.record("T")))

    def test_tries_after_a_turn(self):
        """What had used them up has all of them again, though it is the same undo."""
        twice = "60000 60000 0 1 1 1 2 1 0 -1 PP|"
        self.submit(LONG, revert=twice)
        self.record("A")
        self.steer("disable")
        self.record("T")
        self.await_mark(0)
        self.drive(0)
        self.record("T")
        self.assertEqual("P", self.step(0)[2])
        key = self.step(0)[3]
        self.assertEqual("DONE", self.steer("enable"))
        self.record("T")
        self.assertEqual(["D", "B", key], self.step(0)[1:4])

    def test_parked_as_before_is_no_news(self):
        """It was given one more try."""
        self.submit(TRIED)
        self.record("T")
        (owed,) = self.index("owed")
        self.redis.set("skew", 700000)
        self.await_mark(0)
        self.drive(0)
        self.assertNotIn("PARKED", self.alerts(self.record("T")))
        self.assertEqual([owed], self.index("owed"))
        self.assertEqual(["P", "2"], self.step(0)[2:8:5])

    def test_retried_past_its_time(self):
        """Who has it go on knows that: its bound holds no more."""
        self.submit(FAILS, complete_by=self.now() + 60000)
        self.record("P")
        self.redis.set("skew", 61000)
        self.assertEqual("DONE", self.retry_all())
        self.assertEqual(["1"], self.job("late"))
        self.drive()
        self.assertEqual([None, "PROCESSING"], self.job("hold", "phase"))
        self.assertEqual("R", self.step(0)[2])

    def test_migrate_away_what_nobody_had(self):
        self.submit(LONG, LONG)
        self.define("e", LONG)
        self.record("X", 1)
        self.assertEqual("DONE", self.migrate("e", 1, 1, gone=1))
        self.assertIsNone(self.redis.hget(f"{KEYS}job:{JOB}", 1))
        self.assertEqual(["1", "1"], self.job("open", "n"))
        self.record("A")
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_replies_while_the_end_lays_steps_down(self):
        last = BUDGET + 49
        self.submit(FAILS, *[CAPPED] * last)
        self.record("T", last)
        self.record("P")
        self.assertEqual([f"l:{BUDGET}"], self.job("cursor"))
        self.record("A", 1)
        self.assertEqual(["A", "W"], self.step(1)[0:3:2])
        self.assertEqual(["W", ""], [self.step(last)[2], *self.job("cursor")])

    def test_a_sweep_that_was_overtaken(self):
        """What it had counted of a step before the job changed says nothing: the next round looks at it."""
        self.submit(LONG, LONG, after={1: 0})
        self.redis.hset(f"{KEYS}job:{JOB}", 1, "D A W 0 0 - 0 0 0 7 0")
        self.assertEqual([JOB], self.call("sweep", f"0 {JOB} 1 1 0 9999 1 0 1 1 0 0 0")[1:])
        self.assertEqual([JOB, "1"], self.call("sweep", "")[1:])
        self.assertEqual("1", self.step(1)[9])

    def sweep_all(self):
        """What a round mends."""
        cursor, mended = "", []
        while True:
            cursor, _, *places = self.call("sweep", cursor)
            mended += places
            if not cursor:
                return mended

    def test_counters_that_are_wrong(self):
        """A job whose steps are all done stands still by what it counts: a sweep counts again, and it ends."""
        for field, wrong in (("open", 1), ("open", 2), ("busy", 1)):
            self.redis.flushall()
            self.submit(LONG, LONG)
            self.record("A")
            right = self.job("open", "busy")
            self.redis.hset(f"{KEYS}job:{JOB}", field, int(self.job(field)[0]) + wrong)
            self.assertEqual([f"count:{field}"], self.sweep_all())
            self.assertEqual(right, self.job("open", "busy"))
            self.assertIn("mended", self.events())
            self.assertEqual([], self.sweep_all())
            self.record("A", 1)
            self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_a_job_that_counts_a_step_too_many(self):
        """All its steps are done, so nothing else will happen to it: what the sweep mends has it driven to its end."""
        for failing, outcome in ((False, "SUCCEEDED"), (True, None)):
            self.redis.flushall()
            self.submit(LONG, FAILS)
            self.record("A")
            self.redis.hincrby(f"{KEYS}job:{JOB}", "busy" if failing else "open", 1)
            self.record("P" if failing else "A", 1)
            self.assertEqual("PROCESSING", *self.job("phase"))
            self.assertEqual(["count:busy" if failing else "count:open"], self.sweep_all())
            self.assertEqual(["1", JOB], self.expire()[4:6])
            self.drive()
            self.assertEqual(["PROCESSED" if outcome else "ERROR", outcome or "FAILED"], self.job("phase", "outcome"))

    def test_a_job_that_counts_a_step_too_few(self):
        """It would end while a step of it goes on."""
        self.submit(LONG, LONG, LONG)
        self.redis.hset(f"{KEYS}job:{JOB}", "open", 2)
        self.assertEqual(["count:open"], self.sweep_all())
        for i in range(3):
            self.assertEqual("PROCESSING", *self.job("phase"))
            self.record("A", i)
        self.assertEqual(["SUCCEEDED"], self.job("outcome"))

    def test_what_is_stuck_is_counted_again(self):
        """A job that is ending, or held, is counted as well."""
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

    def test_a_count_across_calls(self):
        """A job with more steps than one call reads; what happens to it between two calls is not miscounted."""
        steps = [LONG] * (BUDGET + 20)
        self.submit(*steps)
        while self.job("cursor")[0]:
            self.drive()
        self.redis.hset(f"{KEYS}job:{JOB}", "open", 3)
        swept = self.call("sweep", "")
        self.record("A", 0)
        swept = self.call("sweep", swept[0])
        self.assertEqual([JOB], swept[1:])
        self.assertEqual(["count:open"], self.sweep_all())
        self.assertEqual([str(len(steps) - 1)], self.job("open"))

    def test_a_count_while_a_step_comes_to_rest(self):
        """A lease has ended in a job that is ending: that the step rests is no entry of the history, and is not
        miscounted either."""
        self.submit(SHORT, FAILS, *[LONG] * (BUDGET + 20))
        while self.job("cursor")[0]:
            self.drive()
        self.taken(0)
        self.record("P", 1)
        while self.job("cursor")[0]:
            self.drive()
        self.await_mark(0)
        swept, seq = self.call("sweep", ""), self.job("seq")
        self.drive(0)
        self.assertEqual(["W", seq], [self.step(0)[2], self.job("seq")])
        right = self.job("open", "busy")
        self.assertEqual([JOB], self.call("sweep", swept[0])[1:])
        self.assertEqual([], self.sweep_all())
        self.assertEqual(right, self.job("open", "busy"))

    def torn_or_done(self, name, value):
        """A job with that field, of three steps; one beside it, whose lease ends. Return: whether a sweep calls it torn."""
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
        self.assertLess(int(self.expire()[4]), 2)
        self.assertNotIn("gone", self.index("due"))
        mended = self.sweep_all()
        if "torn" in mended:
            self.assertEqual("torn", mended[0])
            self.expire()
            return True
        for _ in range(3):
            for i in range(3):
                with contextlib.suppress(AssertionError):  # that step was lost, and waits: it is STALE
                    self.record("A", i)
            self.sweep_all()
            self.expire()
            self.drive(0, 1, 2)
        self.assertEqual(["PROCESSED"], self.job("phase"), (name, value))
        return False

    def test_torn_jobs(self):
        """Any one field lost or changed: the job ends as it would, or a sweep calls it torn, and a kill ends it. Those
        beside it go on."""
        self.submit(LONG, LONG, LONG, after={1: 0}, complete_by=self.now() + 10**9)
        torn = set()
        for name in ["0", "1", "2", *self.redis.hgetall(f"{KEYS}job:{JOB}")]:
            for value in (None, "", "x", "-1", str(10**20)):
                with self.subTest(name=name, value=value):
                    if self.torn_or_done(name, value):
                        torn.add(name)
                        self.steer("kill")
                        self.assertEqual(["ERROR"], self.job("phase"))
                        self.assertEqual([], self.index("open"))
                        self.assertEqual([], [place for place in self.sweep_all() if place != "open"])
        self.assertLessEqual({"n", "turn", "seq", "def", "desired", "phase", "0", "1", "2"}, torn)

    def lived(self):
        """A job that has lived through much, and has most of the fields that a job can have."""
        self.redis.flushall()
        self.submit(LONG, LONG, LONG, after={1: 0}, complete_by=self.now() + 10**9, labels="4:a=bc")
        for queue in "ab":
            self.submit_call(reply_to=queue)
        last = self.step(2)[5]
        self.call("drive", JOB, NONCES[1], "me", 1, 2)
        self.call("unsent", JOB, NONCES[1], "me", 1, last)
        self.call("taken", JOB, last)
        self.call("renew", JOB, last, "0.5", "half way", 10, "")
        self.reply("A", f"0.{NONCES[3]}")  # too late
        self.record("T")  # it is parked, and a person is to know
        for i, command in enumerate(("disable", "enable", "pause", "resume")):
            self.assertEqual("DONE", self.steer(command, command_id=f"c{i}", issued_at=self.now()))

    def is_torn(self):
        """What a supervisor does; a sweep may say that the job cannot be read."""
        for index in ("owed", "due"):
            for member in self.index(index):
                self.redis.zadd(f"{KEYS}{index}", {member: 0})
        self.redis.zadd(f"{KEYS}due", {"gone": 1})
        self.expire()
        self.assertNotIn("gone", self.index("due"))
        return "torn" in self.sweep_all()

    def goes_on(self):
        """What schedulers do: whatever they ask has an answer."""
        seqs = [owed.split()[1] for owed in self.index("owed") if owed.startswith(f"{JOB} ")]
        for seq in seqs:
            self.call("inspect", "notice", JOB, seq, 1000)
        self.submit_call(reply_to="c")
        for i in (0, 2):
            token = self.step(i)[5]
            self.call("renew", JOB, token, "-1", "", 10, "")
            self.call("unsent", JOB, NONCES[1], "me", 2, token)
            self.reply("T", token)
        self.call("inspect", "job", JOB, 0, 10, 1)
        self.steer("disable", command_id="d", issued_at=self.now())
        for seq in seqs:
            self.call("settle_owed", JOB, seq)
        self.call("forget", 10**9, 9)

    def test_a_damaged_notice_is_told(self):
        """How often it was asked for is not known; and those beside it are told."""
        for damage in ("x", "nan", str(2**63 - 1), str(10**20)):
            with self.subTest(damage):
                self.tell_damaged(damage)

    def tell_damaged(self, damage):
        self.lived()
        (owed,) = self.index("owed")
        seq = owed.split()[1]
        self.redis.hset(f"{KEYS}data:{JOB}", f"n{seq}", damage)
        self.redis.set(f"{KEYS}data:other", "x")
        self.redis.zadd(f"{KEYS}owed", {owed: 2, "other 7": 1, "damaged": 0})
        self.assertEqual(["1", JOB, seq], self.expire()[-3:])
        self.assertEqual([owed], self.index("owed"))
        self.assertEqual("4", self.call("inspect", "notice", JOB, seq, 1000)[10])  # the last one

    def test_after_a_step_back_all_is_due(self):
        """What was due by the clock of before lies too far ahead, by less than what a sweep mends in any case, too."""
        for skew in (-60_000, -3_600_000):
            with self.subTest(skew):
                self.redis.flushall()
                self.submit(LONG)
                self.expire()
                self.redis.set("skew", skew)
                self.assertEqual("1", self.expire()[3])
                self.sweep_all()
                self.assertLessEqual(self.redis.zscore(f"{KEYS}due", JOB), self.now())

    def test_after_a_step_back_a_look_begins_anew(self):
        """A look in pieces has seen moments of the clock of before, which lie too far ahead. The sweep that mends
        when the job is due may have begun before the step back, too."""
        self.submit(*[LONG] * (BUDGET + 1), after={BUDGET: 1})
        before = self.now()
        self.redis.zadd(f"{KEYS}due", {JOB: before})
        self.expire()
        self.assertEqual(str(BUDGET), self.job("scan")[0].split()[0])
        self.redis.zadd(f"{KEYS}due", {JOB: before})
        swept = self.call("sweep", "")[0]
        self.redis.set("skew", -3_600_000)
        self.assertEqual("1", self.expire()[3])
        self.assertEqual([JOB, "due"], self.call("sweep", swept)[1:])
        self.sweep_all()
        for _ in range(3):  # two pieces, and a third where one was left
            self.expire()
        self.assertEqual([""], self.job("scan"))
        self.assertLessEqual(int(self.job("due")[0]), self.now() + 120_000)

    def test_what_is_owed_cannot_be_read(self):
        """It can be told all the same, so that it is not owed for ever."""
        self.submit(LONG)
        self.record("A")
        seq = self.job("seq")[0]
        for damage in ("", "x", "SUCCEEDED", "SUCCEEDED PROCESSED x 1 0  "):
            self.redis.hset(f"{KEYS}data:{JOB}", f"s{seq}", damage)
            self.assertRegex(" ".join(self.call("inspect", "notice", JOB, seq, 1000)), NOTICE)

    def test_what_is_owed_cannot_be_counted(self):
        """The job ends all the same, and what it owes from here on counts."""
        self.submit(LONG)
        self.redis.hset(f"{KEYS}job:{JOB}", "owes", "x")
        self.record("A")
        self.assertEqual(["PROCESSED", "1"], self.job("phase", "owes"))

    def test_torn_in_any_way(self):
        """Of a job that has lived through much: neither stops those beside it, and each can be killed."""
        self.lived()
        fields = [(kind, name) for kind in ("job", "data") for name in self.redis.hgetall(f"{KEYS}{kind}:{JOB}")]
        names = {name for _, name in fields}
        self.assertLessEqual({"owes", "commands", "earlier", "p2", "t2", "c2", "u2", "l0", "e0", "held", "ordered"}, names)
        for kind, name in fields:
            for value in (None, "", "x", "-5", "3:abc", "7000000000", str(2**63 - 1), str(10**20)):
                with self.subTest(kind=kind, name=name, value=value):
                    self.lived()
                    if value is None:
                        self.redis.hdel(f"{KEYS}{kind}:{JOB}", name)
                    else:
                        self.redis.hset(f"{KEYS}{kind}:{JOB}", name, value)
                    if not self.is_torn():
                        self.goes_on()
                    self.steer("kill", command_id="k")
                    self.assertIn(self.job("phase")[0], ("ERROR", "PROCESSED"))
                    for owed in self.index("owed"):
                        self.assertRegex(" ".join(self.call("inspect", "notice", *owed.split(), 1000)), NOTICE)
                    self.assertFalse(self.is_torn())


if __name__ == "__main__":
    tap.main()
