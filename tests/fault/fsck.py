# SPDX-License-Identifier: Apache-2.0
"""The store at rest: indexes agree with records, records agree with histories, and every key has an
owner

@store: partition -> key in it -> a hash as a dict, a zset as {member: score}, a list's length, a
string. common/store/head.lua describes keys and fields.
"""

import re

import wire
from run_evidence import Violation
from store_library import LIBRARY, schema

FINISHED = ("PROCESSED", "ERROR")
INDEXES = ("due", "open", "settled", "failed", "jobs", "owed")
OF_JOB = re.compile("(job|data|hist):(?P<job>.+)")


def known_keys():
    """A regular expression for all keys named in the library's head."""
    head = LIBRARY.partition("-- Keys of a partition")[2].partition("\n\n")[0]
    names = re.findall(r"\bp ([a-z]+)(:<)?", head)
    return re.compile("|".join(["meta"] + [name + (":.+" if more else "") for name, more in names]))


class Fsck:
    def __init__(self, evidence, replays):
        self.evidence, self.replays = evidence, replays
        self.violations = []

    def say(self, job, text, step="", rule="I13"):
        self.violations.append(Violation(rule, job, step, text))

    def judge(self):
        if self.evidence.store is not None and self.evidence.world.durable:
            self._kept()
        for name, keys in (self.evidence.store or {}).items():
            self._partition(keys)
            if self.evidence.world.lease_ms and "meta" not in keys:
                self._leader(name, keys.get("leader", "nobody 0 0"))
        return self.violations

    def _kept(self):
        """I1: no run is so long that a job may be forgotten, unless its world says so and the job
        has ended."""
        there = {key for keys in self.evidence.store.values() for key in keys}
        for job in self.evidence.jobs.values():
            ended = job.history and job.history[-1].event == "settled"
            may_go = self.evidence.world.forgets and ended
            if job.history and f"job:{job.id}" not in there and not may_go:
                self.say(job.id, "is no more in the store", rule="I1")

    def _leader(self, partition, leader):
        """L4: a supervisor leads it, or did two leases ago."""
        who, until, _ = leader.split(" ")
        if int(until) < self.evidence.world.ended_at - 2 * self.evidence.world.lease_ms:
            self.say("", f"no supervisor leads {partition}; the last was {who}", rule="L4")

    def _partition(self, keys):
        jobs = {key[4:]: value for key, value in keys.items() if key.startswith("job:")}
        indexes = {name: keys.get(name, {}) for name in INDEXES}
        known = known_keys()
        for key in keys:
            match = OF_JOB.fullmatch(key)
            if not known.fullmatch(key):
                self.say("", f"an unknown key: {key}", rule="M4")
            elif match and match["job"] not in jobs:
                self.say(match["job"], f"{key} is left, and the job is not", rule="M4")
        for name, members in indexes.items():
            for member in members:
                if member.split(" ")[0] not in jobs:
                    self.say(member, f"stands in {name}, and is no job")
        for job_id, record in jobs.items():
            self._job(job_id, record, keys, indexes)
        self._definitions(keys, jobs)

    def _definitions(self, keys, jobs):
        """A definition exists as long as it has references, and has one reference for each job that
        uses it."""
        used = [record["def"] for record in jobs.values()]
        used += [digest for name, digest in keys.get("workflows", {}).items() if "@" in name]
        for key, value in keys.items():
            if key.startswith("def:") and int(value.get("refs", 0)) != used.count(key[4:]):
                self.say("", f"{key} counts {value.get('refs')} users, not {used.count(key[4:])}")
        for digest in set(used):
            if f"def:{digest}" not in keys:
                self.say("", f"definition {digest} is used, and not there")

    def _job(self, job_id, record, keys, indexes):
        finished = record["phase"] in FINISHED
        expected = {"due": not finished, "open": not finished, "settled": finished, "jobs": True,
                    "failed": record["phase"] == "ERROR"}
        for name, there in expected.items():
            if (job_id in indexes[name]) != there:
                self.say(job_id, f"is {record['phase']}, and {'not ' if there else ''}in {name}")
        if not finished and indexes["due"].get(job_id) != float(record["due"]):
            self.say(job_id, f"is due at {record['due']}, and at {indexes['due'].get(job_id)}")
        replay = self.replays.get(job_id)
        if replay and replay.whole and not replay.violations:
            self._against_history(job_id, record, keys, indexes, replay)

    def _against_history(self, job_id, record, keys, indexes, replay):
        if int(record["seq"]) != replay.seq:
            self.say(job_id, f"its history ends at {replay.seq}, its record at {record['seq']}")
            return
        facts = {"outcome": replay.last_outcome(), "turn": str(replay.turn),
                 "desired": "D" if replay.back else "A", "hold": replay.hold}
        if not replay.flights and replay.turn == 1 and replay.settled:
            del facts["desired"]  # it may have been submitted with desired DISABLED
        for name, value in facts.items():
            if record.get(name, "") != value:
                self.say(job_id, f"its {name} is {record.get(name, '')!r}, not {value!r}")
        for seq in [s.seq for s in replay.settlings]:
            there, kept = f"{job_id} {seq}" in indexes["owed"], f"s{seq}" in keys[f"data:{job_id}"]
            if there != kept:
                self.say(job_id, f"notification {seq} is {'' if there else 'not '}in the outbox,"
                                 f" and {'' if kept else 'not '}kept")
            if there and self.evidence.world.complete:
                self.say(job_id, f"notification {seq} is still in the outbox", rule="I11")
        kept = [name[1:] for name in keys[f"data:{job_id}"] if re.fullmatch(r"s\d+", name)]
        for seq in sorted(set(kept) - {str(s.seq) for s in replay.settlings}):
            if f"{job_id} {seq}" not in indexes["owed"]:
                self.say(job_id, f"alert {seq} is not in the outbox, and kept")
            elif self.evidence.world.complete:
                self.say(job_id, f"alert {seq} is still in the outbox", rule="L3")
        if int(record.get("owes", 0)) != len(kept):
            self.say(job_id, f"counts {record.get('owes')} notifications in the outbox,"
                             f" not {len(kept)}")
        if record.get("cursor"):
            return  # a walk has not reached all steps yet
        busy = [i for i in range(len(replay.steps))
                if self._step(job_id, i, record, replay) in "RBMP"]
        opened = sum(not replay.is_there(i, replay.back) for i in range(len(replay.steps)))
        if not replay.settled and record["phase"] == "PROCESSING" and int(record["open"]) != opened:
            self.say(job_id, f"counts {record['open']} open steps, not {opened}")
        if int(record.get("busy", 0)) != len(busy):
            self.say(job_id, f"counts {record.get('busy')} busy steps, not {len(busy)}")

    def _step(self, job_id, i, record, replay):
        """Compares a step's record with its history. Return: its state."""
        text, step, name = record.get(str(i)), replay.steps[i], replay.name(i)
        if not text:
            if step.attempt:
                self.say(job_id, "has no record, and was dispatched", name)
            return "W"
        kept = schema.words("step_record", text)
        since, attempt, waiting = int(kept.since or 1), int(kept.attempt), int(kept.waiting)
        if (kept.state == "R") != bool(step.flying):
            flies = "" if step.flying else "not "
            self.say(job_id, f"is in state {kept.state}, and {flies}in flight", name)
        elif step.flying and step.flying.token != wire.token_id(kept.token):
            self.say(job_id, f"has the token {kept.token}, not {step.flying.token}", name)
        if kept.current not in step.current:
            self.say(job_id, f"is taken for {kept.current}, not {step.current}", name)
        if attempt != step.attempt:
            self.say(job_id, f"counts {attempt} attempts, not {step.attempt}", name, "I9")
        counted = (step.failures, step.expiries)
        counts = (int(kept.failures), int(kept.expiries))
        begun_anew = step.renewed and counts == (0, 0)
        if counts != counted and not begun_anew:
            self.say(
                job_id,
                f"counts {kept.failures} failures and {kept.expiries} expiries, not {counted}",
                name, "I9",
            )
        if step.attempt and int(kept.turn) != step.turn:
            self.say(job_id, f"has a key of turn {kept.turn}, not {step.turn}", name, "I2")
        missing = len(replay.missing(i, replay.back))
        if (not replay.settled and not replay.ending and since == replay.since
                and not replay.is_there(i, replay.back) and waiting != missing):
            self.say(job_id, f"waits for {waiting}, not {missing}", name)
        return kept.state
