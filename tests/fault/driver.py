# SPDX-License-Identifier: Apache-2.0
"""The client of a run: submits the jobs of a workload, sends their commands, waits until all jobs
rest, and checks that each has ended as its kind may"""

import collections
import heapq
import shutil
import time

import redis

import cluster
import servers
import wire
import workload
from store_library import schema

FINISHED = ("PROCESSED", "ERROR")
TOGETHER = 5  # jobs in a message
TOGETHER_S = 0.5  # for which a job waits for others
ACCEPTED = (wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY)


def end_of(job):
    """@job: its record. Return: its outcome; HELD or PARKED if only a person can let it go on; ""
    if it still goes on by itself."""
    if job.get("phase") in FINISHED:
        return job["outcome"]
    if job.get("hold"):
        return workload.HELD
    step = schema.letters.STEP
    states = {
        schema.words("step_record", text).state for key, text in job.items() if key.isdigit()
    }
    moves = {step.IN_FLIGHT, step.BACKING_OFF, step.RECOVERY_REQUESTED}
    return workload.PARKED if step.PARKED in states and not states & moves else ""


def empty_folder(directory):
    """Makes the folder empty, without the files of an earlier run."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def reporter(program, directory):
    """A function that reports progress on the standard output and in @directory/log."""

    def say(text):
        print(f"{program}: {text}", flush=True)
        with open(directory / "log", "a", encoding="utf-8") as log:
            log.write(f"{text}\n")

    return say


class Driver:
    together = True  # every other job comes in a message with others, and its answers may

    def __init__(self, c):
        self._client, self._store = c.client, c.store
        self.jobs = {}  # name -> workload.Job, of all submitted jobs
        self._together = []  # Submits that are to be sent in one message
        self._together_since = 0.0
        self._commands = []  # a heap of (when, number, job, fields)
        self._numbers = 0
        self._to_answer = {}  # command -> its job, of the commands that must be answered
        self._asked = {}  # command -> its fields, of these
        # job -> how it has ended, as of the last note_ends(): it may be forgotten since
        self._over = {}
        self._letters = collections.Counter()  # of a job, in drover.dead
        self._strays = []  # other dead letters

    def submit(self, job):
        """@job: a workload.Job; its commands follow in their time, while tick() is called."""
        if self.together and len(self.jobs) % 2:
            self._add(job.submit)
        else:
            self._client.submit(job.submit)
        self.jobs[job.submit.job_id] = job
        for after_ms, fields in job.commands:
            self._numbers += 1
            heapq.heappush(self._commands,
                           (time.monotonic() + after_ms / 1000, self._numbers, job, fields))

    def _add(self, submit):
        submit.batches = True
        if not self._together:
            self._together_since = time.monotonic()
        self._together.append(submit)
        if len(self._together) == TOGETHER:
            self._flush()

    def _flush(self):
        together, self._together = self._together, []
        if together:
            self._client.submit_together(together)

    def tick(self):
        if time.monotonic() >= self._together_since + TOGETHER_S:
            self._flush()
        while self._commands and self._commands[0][0] <= time.monotonic():
            _, _, job, fields = heapq.heappop(self._commands)
            command_id = self._command(job, fields)
            if not job.letters:
                self._to_answer[command_id] = job.submit.job_id
                self._asked[command_id] = fields
        self._client.pump()

    def _command(self, job, fields):
        """Sends a command. Return: its id."""
        return self._client.command(job.submit.job_id, **fields)

    def note_ends(self):
        """Notes the ends of jobs, which may be forgotten later."""
        self._over |= {job_id: end for job_id, end in self._ends().items() if end}

    def accepted(self):
        return {job_id for job_id, receipts in self._client.receipts.items()
                if any(receipt.code in ACCEPTED for receipt in receipts)}

    def repeat(self):
        """Submits all jobs without a Receipt again, as after the broker has lost everything.
        Commands may be lost."""
        self._to_answer.clear()
        for job_id in set(self.jobs) - self.accepted():
            self._client.submit(self.jobs[job_id].submit)

    def is_answered(self):
        self._flush()
        return self.accepted() >= set(self.jobs) and not self._unanswered()

    def ask_again(self):
        """Sends what was not answered once more, as each client does: a Receipt and an Answer are
        sent once, and the broker may refuse them."""
        for job_id in set(self.jobs) - self.accepted():
            self._client.submit(self.jobs[job_id].submit)
        for command_id, job_id in self._unanswered().items():
            self._client.command(job_id, command_id, **self._asked[command_id])

    def ended(self):
        return len(self._client.events)

    # --- at rest ---

    def await_rest(self, timeout=workload.SETTLE_WITHIN_MS / 1000):
        """Waits until every job has ended or waits for a person, and the outbox is empty."""
        try:
            servers.wait_for(self._at_rest, "all to be at rest", timeout * cluster.SLOW)
        except servers.ServerError:
            pass  # wrong() and the checker find what is missing
        self._client.pump()

    def _at_rest(self):
        self.tick()
        if self._together or self._commands or self._unanswered():
            return False
        self._read_letters()
        try:
            return all(self._ends().values()) and self._store.total("owed") == 0
        except redis.ConnectionError:
            return False

    def _unanswered(self):
        return {command_id: job_id for command_id, job_id in self._to_answer.items()
                if command_id not in self._client.answers}

    def _read_letters(self):
        while letter := self._client.get(self._client.DEAD):
            properties, body = letter
            reason = (properties.headers or {}).get("drover-reason")
            # the first field of a Submit and of a Control
            job_id = body[2 : 2 + body[1]].decode(errors="replace")
            if reason == "POISON" and job_id in self.jobs and self.jobs[job_id].letters:
                self._letters[job_id] += 1
            else:
                self._strays.append(f"a dead letter, {reason}: {body[:200]}")

    def _read(self, command, kind, *arguments):
        """Job -> its data in the store."""
        pipeline = self._store.redis.pipeline(transaction=False)
        for job_id in self.jobs:
            getattr(pipeline, command)(self._store.partition(job_id) + kind + job_id, *arguments)
        return dict(zip(self.jobs, pipeline.execute()))

    def _ends(self):
        """Job -> how it has ended, "" if it has not."""
        records, accepted = self._read("hgetall", "job:"), self.accepted()
        ends = {job_id: end_of(records[job_id]) if job_id in accepted else ""
                for job_id in self.jobs}
        ends |= {job_id: end for job_id, end in self._over.items() if not records[job_id]}
        for job_id, job in self.jobs.items():
            if self._letters[job_id] < job.letters:
                ends[job_id] = ""
            elif job.letters and not records[job_id]:
                ends[job_id] = workload.DEAD_LETTER
        return ends

    # --- results ---

    def summary(self):
        """How many jobs of each kind have ended how, one kind per line."""
        kinds = collections.defaultdict(collections.Counter)
        for job_id, end in self._ends().items():
            kinds[self.jobs[job_id].kind][end or "STILL_MOVING"] += 1
        return [f"{kind}: " + ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
                for kind, ends in sorted(kinds.items())]

    def wrong(self):
        """The jobs that have not ended as their kind may, and the commands without an answer, one
        text each."""
        out = []
        for job_id, end in self._ends().items():
            allowed = self.jobs[job_id].ends
            if end not in allowed:
                out.append(f"{job_id} has ended {end or 'not at all'}, and may "
                           f"{' or '.join(sorted(allowed))} only")
        out += [f"{command_id} of {job_id} was not answered"
                for command_id, job_id in self._unanswered().items()]
        return out + self._strays

    def last_to_rest(self):
        """(unix ms of the last history entry of any job, by the store's clock; which job)."""
        entries = self._read("lrange", "hist:", -1, -1)
        return max(
            (int(schema.words("history_entry", last[0]).at), job_id)
            for job_id, last in entries.items() if last
        )
