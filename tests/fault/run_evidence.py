# SPDX-License-Identifier: Apache-2.0
"""Evidence of a run, read from its folder; evidence.py writes it

    world.json     the setup: see World
    client.log     what the client has sent and received, in order
    history.log    "<job> <entry>": each job's history, copied out of the store as it grew
    effects.log    the effects of handlers, see effect.c
    trace.log      the messages that went through the broker
    faults.log     the faults, and when they struck
    store.json     the store at the end
"""

import base64
import collections
import json

from google.protobuf import json_format

import wire
from store_library import schema

KINDS = {
    kind.DESCRIPTOR.name: kind
    for kind in (wire.Workflow, wire.Submit, wire.Control, wire.Receipt, wire.JobEvent, wire.Answer)
}

Violation = collections.namedtuple("Violation", "rule job step text")
Violation.__str__ = lambda v: " ".join(filter(None, (v.rule, v.job, v.step, v.text)))

Seen = collections.namedtuple("Seen", "at message")
Fault = collections.namedtuple("Fault", "at what who")
Run = collections.namedtuple("Run", "at key attempt back pid limit ends")
# EFFECT, UNDO, ..., in their order
Effect = collections.namedtuple("Effect", "at what key run_key pid")
# @since: the earliest time at which it can have happened; @at: when the trace recorded it.
Passed = collections.namedtuple("Passed", "since at way place redelivered resent kind body")


class World:
    """The setup of a run; rules about fields that are not given are not checked."""

    FIELDS = {
        "partitions": 16,
        "journaled": ["effect"],  # actors whose handler is effect.c
        "actors_of_tests": [],  # actors whose handlers write no effects.log
        "durable": True,  # nothing that the store has acknowledged may be lost
        # The primary shows what no replica has confirmed yet, so an entry may be lost of which the
        # client has not heard.
        "replicated": False,
        "forgets": False,  # except jobs that have ended, after a short retention
        "scan_ms": None,  # the period of supervisors
        "lease_ms": None,  # the lease of the lead of a partition
        "settle_within_ms": None,  # after the last fault and the last message of a client
        "listens": False,  # the client receives all alerts
        # How late something may be once faults are over: a connection is tried again after at most
        # 10 s, a lease that a supervisor has postponed is inspected after 5 s, and the rest is for
        # a busy machine.
        "late_ms": 30000,
        "complete": True,  # the evidence covers the run to its end
        "ended_at": 0,  # when the store was read
        "slack_ms": 2000,  # for a busy machine
    }

    def __init__(self, fields):
        unknown = set(fields) - set(self.FIELDS)
        if unknown:
            raise ValueError(f"world.json: {unknown}")
        vars(self).update({**self.FIELDS, **fields})


class Job:
    def __init__(self, job_id):
        self.id = job_id
        self.submits, self.receipts, self.events = [], [], []  # Seen
        self.commands = []  # Seen
        self.history = []  # entries, see entry_of()
        self.lost = []  # entries that the store has forgotten
        self.runs, self.effects = [], []

    @property
    def accepted(self):
        return [r for r in self.receipts if r.message.code in
                (wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY)]

    def definition(self, workflows):
        """The definition that the client has submitted; None if there is none, or its name is
        unknown."""
        for _, submit in self.submits:
            if submit.definition.steps:
                return submit.definition
            return workflows.get(submit.workflow)
        return None

    def add_entry(self, entry):
        """Adds an entry. If its seq existed before with another content the store went back in
        time."""
        seq = int(entry.seq)
        first = int(self.history[0].seq) if self.history else seq
        at = seq - first
        if at < len(self.history):
            if self.history[at] == entry:
                return
            self.lost += self.history[at:]
            del self.history[at:]
        self.history.append(entry)


def entry_of(text):
    """An entry of a history, with its text. `about` has the words after the event, `what` the event
    and these words."""
    entry = schema.words("history_entry", text)
    begin = len(vars(entry))
    words = text.split(" ")
    entry.about, entry.what, entry.text = words[begin:], " ".join(words[begin - 1:]), text
    return entry


def _lines(path):
    """The lines of a file, which need not exist; an incomplete last line is left out."""
    if path.exists():
        for line in path.read_text(errors="replace").splitlines(True):
            if line.endswith("\n"):
                yield line.rstrip("\n")


class Evidence:
    def __init__(self, directory):
        self.jobs = {}
        self.workflows = {}  # by "name@version", and by name the newest one
        self.answers = collections.defaultdict(list)
        self.strays = []  # runs of keys without a job
        world = directory / "world.json"
        self.world = World(json.loads(world.read_text()) if world.exists() else {})
        self.faults = [Fault(**json.loads(line)) for line in _lines(directory / "faults.log")]
        self.has_trace = (directory / "trace.log").exists()
        self.trace = [self._passed(json.loads(line)) for line in _lines(directory / "trace.log")]
        store = directory / "store.json"
        self.store = json.loads(store.read_text()) if store.exists() else None
        self._read_client(directory)
        for line in _lines(directory / "history.log"):
            job_id, _, text = line.partition(" ")
            self.job(job_id).add_entry(entry_of(text))
        self._read_effects(directory)

    def job(self, job_id):
        return self.jobs.setdefault(job_id, Job(job_id))

    def faults_over(self):
        """When the last fault began or ended: 0 without one."""
        return max((f.at for f in self.faults), default=0)

    def blind(self, since, until):
        """Whether the trace may be incomplete in this time."""
        if not self.has_trace:
            return True
        began = {}  # who says so -> since when
        for fault in self.faults:
            if fault.what == "trace lost":
                began.setdefault(fault.who, fault.at)
            elif fault.what == "trace again" and fault.who in began:
                if began.pop(fault.who) <= until and fault.at >= since:
                    return True
        return any(at <= until for at in began.values())

    @staticmethod
    def _passed(fields):
        body = base64.b64decode(fields.pop("body"))
        return Passed(body=body, **{"since": 0, **fields})

    def _read_client(self, directory):
        for line in _lines(directory / "client.log"):
            record = json.loads(line)
            message = json_format.ParseDict(record["message"], KINDS[record["kind"]]())
            seen = Seen(record["at"], message)
            if record["kind"] == "Workflow":
                self.workflows[f"{message.name}@{message.version}"] = message
                self.workflows[message.name] = message
            elif record["kind"] == "Control":
                self.job(message.job_id).commands.append(seen)
            elif record["kind"] == "Answer":
                self.answers[message.command_id].append(seen)
            else:
                job = self.job(message.job_id)
                {"Submit": job.submits, "Receipt": job.receipts, "JobEvent": job.events}[
                    record["kind"]
                ].append(seen)

    def _read_effects(self, directory):
        """Reads runs: a run begins, has effects or not, and ends; a run that is killed has no end.
        """
        ends, begun = {}, []
        for line in _lines(directory / "effects.log"):
            at, what, key, attempt, direction, pid, detail = line.split(" ")
            job = self.jobs.get(key.split("/")[0])
            if not job:
                self.strays.append(key)
            elif what == "BEGIN":
                ends[pid] = []
                run = Run(int(at), key, int(attempt), direction == "undo", pid, int(detail),
                          ends[pid])
                begun.append(run)
                job.runs.append(run)
            elif what == "END":
                ends.get(pid, []).append((int(at), int(detail)))
            else:
                job.effects.append(Effect(int(at), what, detail, key, pid))
