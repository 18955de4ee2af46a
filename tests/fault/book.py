# SPDX-License-Identifier: Apache-2.0
"""Evidence of a run, read from its folder; evidence.py writes it

    world.json     what was set up: see World
    client.log     what the client has sent and was told, in its words and its order
    history.log    "<job> <entry>": each job's history, copied out of the store as it grew
    effects.log    what handlers did, see effect.c
    trace.log      what went through the broker
    faults.log     what was done to the system, and when
    store.json     the store when all was over
"""

import base64
import collections
import json

from google.protobuf import json_format

import wire

KINDS = {
    kind.DESCRIPTOR.name: kind
    for kind in (wire.Workflow, wire.Submit, wire.Control, wire.Receipt, wire.JobEvent, wire.Answer)
}

Violation = collections.namedtuple("Violation", "rule job step text")
Violation.__str__ = lambda v: " ".join(filter(None, (v.rule, v.job, v.step, v.text)))

Told = collections.namedtuple("Told", "at message")
Fault = collections.namedtuple("Fault", "at what who")
Run = collections.namedtuple("Run", "at key attempt back pid limit ends")
Deed = collections.namedtuple("Deed", "at what key run_key pid")  # of EFFECT, UNDO, ..., in their order
# @since: before that it cannot have been; @at: it was heard of.
Passed = collections.namedtuple("Passed", "since at way place redelivered resent kind body")


class World:
    """What is known of the set-up; what is not given is not judged."""

    FIELDS = {
        "partitions": 16,
        "journaled": ["effect"],  # actors whose handler is effect.c
        "actors_of_tests": [],  # actors whose answers are no matter of a journal
        "durable": True,  # nothing that the store has acknowledged may be gone
        "forgets": False,  # but jobs that have ended, past a short retention
        "scan_ms": None,  # how often supervisors look
        "lease_ms": None,  # of a supervisor that leads a partition
        "settle_within_ms": None,  # all end so long after the last fault, and the last word of a client
        "listens": False,  # the client hears of all alerts
        # What has to be done may be so late once faults are over: a connection is tried again after 10 s at most, a
        # lease that a supervisor has put off is looked at after 5 s, and the rest is for a busy machine.
        "late_ms": 30000,
        "complete": True,  # the evidence covers the run to its end
        "ended_at": 0,  # when the store was read
        "slack_ms": 2000,  # of a busy machine
    }

    def __init__(self, fields):
        unknown = set(fields) - set(self.FIELDS)
        if unknown:
            raise ValueError(f"world.json: {unknown}")
        vars(self).update({**self.FIELDS, **fields})


class Job:
    def __init__(self, job_id):
        self.id = job_id
        self.submits, self.receipts, self.events = [], [], []  # Told
        self.commands = []  # Told
        self.history = []  # entries as lists of words, the number first
        self.lost = []  # entries that the store has forgotten
        self.runs, self.deeds = [], []

    @property
    def accepted(self):
        return [r for r in self.receipts if r.message.code in
                (wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY)]

    def definition(self, workflows):
        """What the client has asked for; None where nobody did, or by a name that is not known."""
        for _, submit in self.submits:
            if submit.definition.steps:
                return submit.definition
            return workflows.get(submit.workflow)
        return None

    def add_entry(self, words):
        """A number that was there before, with another content: the store went back in time."""
        number = int(words[0])
        first = int(self.history[0][0]) if self.history else number
        at = number - first
        if at < len(self.history):
            if self.history[at] == words:
                return
            self.lost += self.history[at:]
            del self.history[at:]
        self.history.append(words)


def _lines(path):
    """Of a file that need not be there; one that was cut off in writing is left out."""
    if path.exists():
        for line in path.read_text(errors="replace").splitlines(True):
            if line.endswith("\n"):
                yield line.rstrip("\n")


class Book:
    def __init__(self, directory):
        self.jobs = {}
        self.workflows = {}  # "name@version", and name -> the newest one
        self.answers = collections.defaultdict(list)
        self.strays = []  # runs of keys that name no job
        world = directory / "world.json"
        self.world = World(json.loads(world.read_text()) if world.exists() else {})
        self.faults = [Fault(**json.loads(line)) for line in _lines(directory / "faults.log")]
        self.has_trace = (directory / "trace.log").exists()
        self.trace = [self._passed(json.loads(line)) for line in _lines(directory / "trace.log")]
        store = directory / "store.json"
        self.store = json.loads(store.read_text()) if store.exists() else None
        self._read_client(directory)
        for line in _lines(directory / "history.log"):
            job_id, *words = line.split(" ")
            self.job(job_id).add_entry(words)
        self._read_effects(directory)

    def job(self, job_id):
        return self.jobs.setdefault(job_id, Job(job_id))

    def faults_over(self):
        """When the last fault was done, or undone: 0 without one."""
        return max((f.at for f in self.faults), default=0)

    def blind(self, since, until):
        """Whether the trace may lack something of this time."""
        if not self.has_trace:
            return True
        began = None
        for fault in self.faults:
            if fault.what == "trace lost":
                began = fault.at if began is None else began
            elif fault.what == "trace again" and began is not None:
                if began <= until and fault.at >= since:
                    return True
                began = None
        return began is not None and began <= until

    @staticmethod
    def _passed(fields):
        body = base64.b64decode(fields.pop("body"))
        return Passed(body=body, **{"since": 0, **fields})

    def _read_client(self, directory):
        for line in _lines(directory / "client.log"):
            record = json.loads(line)
            message = json_format.ParseDict(record["message"], KINDS[record["kind"]]())
            told = Told(record["at"], message)
            if record["kind"] == "Workflow":
                self.workflows[f"{message.name}@{message.version}"] = message
                self.workflows[message.name] = message
            elif record["kind"] == "Control":
                self.job(message.job_id).commands.append(told)
            elif record["kind"] == "Answer":
                self.answers[message.command_id].append(told)
            else:
                job = self.job(message.job_id)
                {"Submit": job.submits, "Receipt": job.receipts, "JobEvent": job.events}[
                    record["kind"]
                ].append(told)

    def _read_effects(self, directory):
        """A run begins, does something or nothing, and ends, or is killed and does not."""
        ends, begun = {}, []
        for line in _lines(directory / "effects.log"):
            at, what, key, attempt, direction, pid, detail = line.split(" ")
            job = self.jobs.get(key.split("/")[0])
            if not job:
                self.strays.append(key)
            elif what == "BEGIN":
                ends[pid] = []
                run = Run(int(at), key, int(attempt), direction == "undo", pid, int(detail), ends[pid])
                begun.append(run)
                job.runs.append(run)
            elif what == "END":
                ends.get(pid, []).append((int(at), int(detail)))
            else:
                job.deeds.append(Deed(int(at), what, detail, key, pid))
