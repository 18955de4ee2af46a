# SPDX-License-Identifier: Apache-2.0
"""The client of a run: submits the jobs of a workload, steers them, and waits until nothing moves any more"""

import collections
import heapq
import time

import redis

import cluster
import servers
import wire
import workload

FINISHED = ("PROCESSED", "ERROR")
ACCEPTED = (wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY)


def rests(job):
    """@job: its record. Whether it has ended, or only a person can bring it further."""
    if job.get("phase") in FINISHED or job.get("hold"):
        return True
    states = {text.split(" ")[2] for key, text in job.items() if key.isdigit()}
    return "P" in states and not states & set("RBM")


class Driver:
    def __init__(self, c):
        self._client, self._store = c.client, c.store
        self.submits = {}  # job -> its Submit
        self._commands = []  # a heap of (when, number, job, fields)
        self._numbers = 0

    def submit(self, job):
        """@job: a workload.Job; its commands follow in their time, while tick() is called."""
        self._client.submit(job.submit)
        self.submits[job.submit.job_id] = job.submit
        for after_ms, fields in job.commands:
            self._numbers += 1
            heapq.heappush(self._commands, (time.monotonic() + after_ms / 1000, self._numbers,
                                            job.submit.job_id, fields))

    def tick(self):
        while self._commands and self._commands[0][0] <= time.monotonic():
            _, _, job_id, fields = heapq.heappop(self._commands)
            self._client.command(job_id, **fields)
        self._client.pump()

    def accepted(self):
        return {job_id for job_id, receipts in self._client.receipts.items()
                if any(receipt.code in ACCEPTED for receipt in receipts)}

    def repeat(self):
        """Submits again what has no receipt, as a client does who wants to be sure."""
        for job_id in set(self.submits) - self.accepted():
            self._client.submit(self.submits[job_id])

    def ended(self):
        return len(self._client.events)

    def summary(self):
        """How many have ended how, at last, and how many wait for a person."""
        ends = collections.Counter(
            wire.Outcome.Name(max(events, key=lambda e: e.seq).outcome)[len("OUTCOME_"):]
            for events in self._client.events.values())
        ends["waiting"] = len(self.submits) - self.ended()
        return ", ".join(f"{count} {name}" for name, count in sorted(ends.items()))

    def await_rest(self, timeout=workload.SETTLE_WITHIN_MS / 1000):
        """Until every job has ended or waits for a person, and everybody was told."""
        try:
            servers.wait_for(self._at_rest, "all to be at rest", timeout * cluster.SLOW)
        except servers.ServerError:
            pass  # the checker says what is not
        self._client.pump()

    def _at_rest(self):
        self.tick()
        if self._commands or len(self.accepted()) < len(self.submits):
            return False
        try:
            pipeline = self._store.redis.pipeline(transaction=False)
            for job_id in self.submits:
                pipeline.hgetall(self._store.partition(job_id) + "job:" + job_id)
            return all(rests(job) for job in pipeline.execute()) and self._store.total("owed") == 0
        except redis.ConnectionError:
            return False
