# SPDX-License-Identifier: Apache-2.0
"""Several Submits in one message, and batches of Receipts and JobEvents, over the real broker."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

JOBS = 60
NOOP = {"name": "a", "actor": "demo", "action": "noop"}


class Submits(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.c = self.cluster(failpoints={})
        self.client = self.c.client

    def publish(self, body, **properties):
        self.client.publish("drover.submit", "submit", body, type="drover.v1.Submits",
                            reply_to=self.client.REPLIES, **properties)

    def submit_all(self, submits):
        for submit in submits:
            self.client.watch(submit)
        self.publish(wire.Submits(submits=submits))

    def completed(self, jobs):
        self.client.until(lambda: set(jobs) <= set(self.client.events), "the end of all jobs")
        for job in jobs:
            self.assertEqual([wire.OUTCOME_SUCCEEDED],
                             [event.outcome for event in self.client.events[job]])
            self.assertEqual([wire.RECEIPT_CODE_CREATED],
                             [receipt.code for receipt in self.client.receipts[job]])

    def test_batches(self):
        """A client that asks for it gets fewer messages than there are jobs; all jobs have a
        Receipt and an end."""
        jobs = [f"job{i}" for i in range(JOBS)]
        self.submit_all([wire.submit(job, wire.chain(2), batches=True) for job in jobs])
        self.completed(jobs)
        self.assertTrue(self.client.batches)
        single = 2 * JOBS - sum(len(batch.receipts if isinstance(batch, wire.Receipts)
                                    else batch.events) for batch in self.client.batches)
        self.assertLess(len(self.client.batches) + single, JOBS)
        self.c.await_idle()

    def test_no_batches(self):
        """A client that does not ask gets each answer by itself."""
        jobs = [f"job{i}" for i in range(JOBS)]
        self.submit_all([wire.submit(job, wire.chain(1)) for job in jobs])
        self.completed(jobs)
        self.assertEqual([], self.client.batches)

    def test_each_is_judged_by_itself(self):
        """One is invalid, one is there already with other content, two are good."""
        self.client.submit(wire.submit("known", wire.chain(1)))
        self.client.settled("known")
        self.submit_all([
            wire.submit("good", wire.chain(1), batches=True),
            wire.submit("invalid", [wire.step("a", after=["a"])], batches=True),
            wire.submit("known", wire.chain(2), batches=True),
            wire.submit("better", wire.chain(1), batches=True),
        ])
        self.completed(["good", "better"])
        self.client.until(lambda: len(self.client.receipts.get("known", [])) == 2 and
                          self.client.receipts.get("invalid"), "all Receipts")
        self.assertEqual(wire.RECEIPT_CODE_CONFLICT, self.client.receipts["known"][1].code)
        self.assertEqual(wire.RECEIPT_CODE_REJECTED, self.client.receipts["invalid"][0].code)
        self.assertEqual((0, 0), self.client.queue(self.client.DEAD))

    def test_json(self):
        """The same in JSON, with answers in JSON."""
        self.client.call(lambda channel: channel.queue_declare("json", durable=True))
        submits = [{"jobId": f"job{i}", "replyTo": "json", "batches": True,
                    "definition": {"steps": [NOOP]}} for i in range(10)]
        self.publish(json.dumps({"submits": submits}))
        found = {"receipts": set(), "events": set()}

        def ended():
            while letter := self.client.get("json"):
                properties, body = letter
                self.assertEqual("application/json", properties.content_type)
                message, kind = json.loads(body), properties.type.removeprefix("drover.v1.")
                name = "receipts" if kind.startswith("Receipt") else "events"
                batch = message[name] if kind in ("Receipts", "JobEvents") else [message]
                found[name].update(one["jobId"] for one in batch)
            return all(len(jobs) == 10 for jobs in found.values())

        servers.wait_for(ended, "all Receipts and ends")

    def test_scheduler_dies_in_the_middle(self):
        """The message is delivered again: each job is recorded once, and ends."""
        jobs = [f"job{i}" for i in range(JOBS)]
        (scheduler,) = self.c.schedulers
        scheduler.fail("store.submit.before=crash@job30")
        self.submit_all([wire.submit(job, wire.chain(1), batches=True) for job in jobs])
        scheduler.await_crash()
        scheduler.start()
        self.client.until(lambda: set(jobs) <= set(self.client.events), "the end of all jobs")
        for job in jobs:
            self.assertEqual(1, len(self.c.store.events(job, "created")))
            self.assertIn(self.client.receipts[job][-1].code,
                          (wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY))

    def test_no_submits(self):
        """What cannot be split is refused as a whole, and says why."""
        self.publish(b"\x0a\x05x")
        self.publish(b"")
        self.client.until(lambda: len(self.client.receipts.get("", [])) == 2, "the refusals")
        self.assertEqual(
            {"is no protobuf of drover.v1.Submits", "must be 1 to 100, not 0"},
            {receipt.reason for receipt in self.client.receipts[""]})


if __name__ == "__main__":
    tap.main()
