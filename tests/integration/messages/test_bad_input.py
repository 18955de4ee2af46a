# SPDX-License-Identifier: Apache-2.0
"""Bad input over the real broker: each message is rejected, becomes a dead letter, or is ignored
and counted. The queue moves on, and nothing of the message is left in Redis."""

import json
import base64
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

MIB = 1024 * 1024


# An address of direct reply-to in RabbitMQ's form, of a node that the broker does not know.


def address_of(node):
    """Returns an address of direct reply-to for a process of this node."""
    process = (
        bytes((131, 88, 119, len(node)))
        + node.encode()
        + bytes((0, 0, 3, 9, 0, 0, 0, 0, 0, 0, 0, 1))
    )
    return f"amq.rabbitmq.reply-to.{base64.b64encode(process).decode()}.a2V5"


GONE_NODE = "amq.rabbitmq.reply-to.g1h3D3JlcGx5QDEyNzA5NTk5MAAAAAMAAAAAZmVkYw==.a2V5"


class Case(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.c = self.cluster()
        self.client = self.c.client
        self.keys_before = self.c.store.keys()

    def good_job(self, job_id="good"):
        """Runs a good job: the queue moves on, and the messages behind the bad one are handled."""
        self.client.submit(wire.submit(job_id, wire.chain(2)))
        event = self.client.settled(job_id)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)

    def nothing_left(self, but=()):
        """Checks that only these jobs are left, complete and ended, and no other key is new."""
        self.c.await_idle()
        self.assertEqual(sorted(but), sorted(self.c.store.jobs()))
        new = set(self.c.store.keys()) - set(self.keys_before)
        indexes = ("}:settled", "}:jobs")
        # `told` has that a scheduler raises an alert about dead letters in this minute.
        known = [
            ":job:", ":data:", ":hist:", ":def:", "}:leader", "}:supervisors", "}:clock", "}:defs",
            "}:told", *indexes,
        ]
        self.assertEqual([], [key for key in new if not any(k in key for k in known)])
        for kind in (":job:", ":data:", ":hist:"):
            jobs = sorted(key.partition(kind)[2] for key in new if kind in key)
            self.assertEqual(sorted(but), jobs, kind)
        for index in indexes:
            names = [key for key in new if key.endswith(index)]
            jobs = [job for name in names for job in self.c.store.redis.zrange(name, 0, -1)]
            self.assertEqual(sorted(but), sorted(jobs), index)

    def rejected(self, submit, field, reason=""):
        """Expects a rejection of the Submit that names the field, and that nothing is left of
        it."""
        self.client.submit(submit)
        receipt = self.client.receipt(submit.job_id)
        self.assertEqual(wire.RECEIPT_CODE_REJECTED, receipt.code)
        self.assertEqual(field, receipt.field)
        self.assertIn(reason, receipt.reason)
        self.assertNotEqual("", receipt.reason)
        self.assertNotIn(submit.job_id, self.c.store.jobs())

    def next_dead_letter(self, reason, body):
        """Expects the body as the next dead letter, with a reason that begins like this."""
        found, letter = self.client.dead_letter()
        self.assertTrue((found or "").startswith(reason), found)
        self.assertEqual(body, letter)


class BadInput(Case):
    # --- bodies that are no message ---

    def test_no_message_at_all(self):
        """B1.F15 B8.F15 B14.F15: a dead letter with its reason, and the queue moves on."""
        whole = wire.submit("cut", wire.chain(3)).SerializeToString()
        for exchange, key, message, missing in (
            ("drover.submit", "submit", "Submit", "job_id must be 1 to 128 characters"),
            ("drover.replies", "reply", "Replies", "replies must be given"),
            ("drover.control", "control", "Control", "job_id must be 1 to 128 characters"),
            ("drover.expired", "", "Requests", "requests must be given"),
        ):
            no_protobuf = f"MALFORMED is no protobuf of drover.v1.{message}"
            for what, body, reason in (
                ("malformed", b"\xff\xff\xff\xff not protobuf", no_protobuf),
                ("malformed JSON", b'{"jobId": "x", ', "MALFORMED is no JSON object: line 1: "),
                ("JSON of another kind", b'{"bogus": 1}', 'INVALID has no field "bogus"'),
                ("a JSON array", b"[1, 2]", no_protobuf),
                ("empty", b"", f"INVALID {missing}"),
                ("cut", whole[:-3], no_protobuf),
            ):
                with self.subTest(what, exchange=exchange):
                    self.client.publish(exchange, key, body)
                    self.next_dead_letter(reason, body)
        self.good_job()
        self.nothing_left(but=["good"])

    def test_reasons_of_dead_letters(self):
        for body, reason in ((b"\xff\xff\xff", "MALFORMED"), (b"", "INVALID job_id")):
            with self.subTest(reason):
                self.client.publish("drover.submit", "submit", body)
                self.next_dead_letter(reason, body)
        self.client.publish("drover.submit", "submit", b'{"jobId": "x", "workflow": "y", "no": 1}')
        reason, _ = self.client.dead_letter()
        self.assertIn("no", reason)
        self.good_job()
        self.nothing_left(but=["good"])

    def test_two_messages_in_one_body(self):
        """Two Submits in one body merge, as protobuf does it: the second id wins, and the
        definition has the steps of both, which have the same names."""
        one = wire.submit("glued-1", wire.chain(2))
        two = wire.submit("glued-2", wire.chain(2), reply_to=self.client.REPLIES)
        body = one.SerializeToString() + two.SerializeToString()
        self.client.publish("drover.submit", "submit", body)
        receipt = self.client.receipt("glued-2")
        self.assertEqual(wire.RECEIPT_CODE_REJECTED, receipt.code)
        self.assertEqual("definition.steps[2].name", receipt.field)
        self.good_job()
        self.nothing_left(but=["good"])

    def test_oversized(self):
        body = b"\x0a\x01x" + b"\x00" * (4 * MIB)
        self.client.publish("drover.submit", "submit", body)
        reason, letter = self.client.dead_letter()
        self.assertTrue(reason.startswith("TOO_LARGE"), reason)
        self.assertEqual(body[: len(letter)], letter)
        self.client.publish("drover.submit", "submit", body, reply_to=self.client.REPLIES)
        receipt = self.client.receipt("")
        self.assertEqual(wire.RECEIPT_CODE_REJECTED, receipt.code)
        self.good_job()
        self.nothing_left(but=["good"])

    def test_answered_in_kind(self):
        """JSON gets JSON back."""
        self.client.publish(
            "drover.submit",
            "submit",
            json.dumps({"jobId": "j", "definition": {"steps": []}, "replyTo": "json.replies"}),
        )
        # The queue did not exist: the rejection cannot be delivered, and nothing waits for it.
        self.client.call(lambda c: c.queue_declare("json.replies", durable=True))
        self.client.publish(
            "drover.submit",
            "submit",
            json.dumps({"jobId": "j", "definition": {"steps": []}, "replyTo": "json.replies"}),
        )
        properties, body = servers.wait_for(
            lambda: self.client.get("json.replies"), "the rejection"
        )
        receipt = json.loads(body)
        self.assertEqual("application/json", properties.content_type)
        self.assertEqual("RECEIPT_CODE_REJECTED", receipt["code"])
        self.assertEqual("definition.steps", receipt["field"])
        self.good_job()
        self.nothing_left(but=["good"])

    # --- Submits that break a rule ---

    def test_unknown_workflow(self):
        self.rejected(wire.Submit(job_id="a", workflow="nowhere"), "workflow")
        self.rejected(wire.Submit(job_id="b", workflow="nowhere@7"), "workflow")
        self.rejected(wire.Submit(job_id="c", workflow="no where"), "workflow")
        self.rejected(wire.Submit(job_id="d"), "workflow")
        self.good_job()
        self.nothing_left(but=["good"])

    def test_definitions(self):
        step = wire.step
        cycle = [step("a", after=["c"]), step("b", after=["a"]), step("c", after=["b"])]
        cases = {
            "cycle": (cycle, "definition.steps[0].after", "cycle"),
            "itself": ([step("a", after=["a"])], "definition.steps[0].after", "itself"),
            "unknown": ([step("a", after=["b"])], "definition.steps[0].after[0]", ""),
            "doubled": ([step("a"), step("a")], "definition.steps[1].name", ""),
            "nameless": ([step("")], "definition.steps[0].name", ""),
            "over-long": ([step("n" * 129)], "definition.steps[0].name", ""),
            "letters": ([step("a b")], "definition.steps[0].name", ""),
            "no actor": ([step("a", actor="")], "definition.steps[0].actor", ""),
            "lease": ([step("a", lock_ms=-1)], "definition.steps[0].lock_ms", ""),
            "take": (
                [step("b"), step("c"), step("a", after=["b"], take=["c"])],
                "definition.steps[2].take[0]",
                "",
            ),
            "none": ([], "definition.steps", ""),
            "10 001": ([step(f"s{i}") for i in range(10001)], "definition.steps", "10000"),
        }
        for what, (steps, field, reason) in cases.items():
            with self.subTest(what):
                job_id = what.replace(" ", "-")
                self.client.submit(wire.submit(job_id, steps))
                receipt = self.client.receipt(job_id)
                self.assertEqual(wire.RECEIPT_CODE_REJECTED, receipt.code)
                self.assertTrue(receipt.field.startswith(field), receipt)
                self.assertIn(reason, receipt.reason)
        self.good_job()
        self.nothing_left(but=["good"])

    def test_limits(self):
        chain = wire.chain(1)
        big = wire.payload(b"x" * (MIB + 1))
        labels = [wire.Label(name=f"l{i}", value="v") for i in range(33)]
        self.rejected(wire.submit("input", chain, input=big), "input")
        self.rejected(
            wire.submit("arguments", [wire.step("a", arguments=big)]),
            "definition.steps[0].arguments",
        )
        self.rejected(wire.submit("labels", chain, labels=labels), "labels")
        self.rejected(wire.submit("priority", chain, priority=10), "priority")
        self.rejected(wire.submit("start", chain, start_at=-1), "start_at")
        self.rejected(wire.submit("bad id", chain), "job_id")
        self.good_job()
        self.nothing_left(but=["good"])

    def test_no_job_id(self):
        """Without job_id and message_id a Submit is refused; a message_id alone is the job id."""
        bare = wire.submit("", wire.chain(1), reply_to=self.client.REPLIES)
        self.client.publish("drover.submit", "submit", bare)
        receipt = self.client.receipt("")
        self.assertEqual(wire.RECEIPT_CODE_REJECTED, receipt.code)
        self.assertEqual("job_id", receipt.field)
        self.client.publish("drover.submit", "submit", bare, message_id="from-property")
        self.assertEqual(wire.RECEIPT_CODE_CREATED, self.client.receipt("from-property").code)
        self.client.settled("from-property")
        self.nothing_left(but=["from-property"])

    def test_reply_to_a_system_queue(self):
        """It is refused, and nothing is sent there. Without another address the Submit is a dead
        letter."""
        for reply_to in ("drover.submit", "drover.task.demo", "amq.rabbitmq.trace"):
            with self.subTest(reply_to, where="field"):
                submit = wire.submit("evil", wire.chain(1), reply_to=reply_to)
                self.client.publish("drover.submit", "submit", submit)
                self.next_dead_letter("INVALID reply_to", submit.SerializeToString())
            with self.subTest(reply_to, where="property"):
                submit = wire.submit("evil", wire.chain(1))
                self.client.publish("drover.submit", "submit", submit, reply_to=reply_to)
                self.next_dead_letter("INVALID reply_to", submit.SerializeToString())
        self.good_job()
        self.nothing_left(but=["good"])

    def test_invalid_direct_reply_to(self):
        """It is refused, because the broker would close the connection over it. In the field
        reply_to no such address is valid."""
        for reply_to in (
            "amq.rabbitmq.reply-to.!!!!.key",
            "amq.rabbitmq.reply-to.AAAA.key",
            "amq.rabbitmq.reply-to.",
        ):
            submit = wire.submit("evil", wire.chain(1))
            self.client.publish("drover.submit", "submit", submit, reply_to=reply_to)
            self.next_dead_letter("INVALID reply_to", submit.SerializeToString())
        for reply_to in (GONE_NODE, "amq.rabbitmq.reply-to"):
            submit = wire.submit("evil", wire.chain(1), reply_to=reply_to)
            self.client.publish("drover.submit", "submit", submit)
            self.next_dead_letter("INVALID reply_to", submit.SerializeToString())
        self.good_job()
        self.assertEqual([], self.c.schedulers[0].records("bus_disconnected"))
        self.nothing_left(but=["good"])

    def test_direct_reply_to_of_an_unknown_node(self):
        """A scheduler cannot tell that the node is gone. The broker may close the scheduler's
        connection over it, at most twice for the Receipt. The jobs of others go on."""
        submit = wire.submit("lonely", wire.chain(1))
        self.client.publish("drover.submit", "submit", submit, reply_to=GONE_NODE)
        servers.wait_for(
            lambda: self.c.store.job("lonely").get("phase") == "PROCESSED", "the job to end"
        )
        self.good_job()
        lost = self.c.schedulers[0].records("bus_disconnected")
        refused = self.c.schedulers[0].records("bus_publish_refused")
        self.assertLessEqual(len(lost), 3)
        self.assertEqual(bool(lost), bool(refused))
        # The first message is isolated, with an alert and a dead letter that has the cause; later
        # ones are not even sent.
        if lost:
            reason, letter = self.client.dead_letter()
            self.assertRegex(reason, "^ISOLATED reply_to amq.rabbitmq.reply-to.* 5[0-9][0-9] ")
            self.assertEqual("lonely", wire.Receipt.FromString(letter).job_id)
            (isolated,) = self.c.schedulers[0].records("publish_isolated")
            self.assertEqual(GONE_NODE, isolated["key"])
            self.assertIn("ISOLATED", [r["reason"] for r in self.c.schedulers[0].records("alert")])

    def test_direct_reply_to_of_many_unknown_nodes(self):
        """Any number of such nodes costs the scheduler two connections; its jobs go on, and those
        of others."""
        for n in range(30):
            self.client.publish(
                "drover.submit", "submit", wire.submit(f"lonely-{n}", wire.chain(1)),
                reply_to=address_of(f"reply@{n}"),
            )
        for n in range(30):
            servers.wait_for(
                lambda: self.c.store.job(f"lonely-{n}").get("phase") == "PROCESSED",
                "the job to end",
            )
        self.good_job()
        lost = self.c.schedulers[0].records("bus_disconnected")
        self.assertLessEqual(len(lost), 3)
        self.assertEqual(bool(lost), bool(self.c.schedulers[0].records("publish_isolated")))

    def test_reply_to_a_queue_that_is_gone(self):
        """B2.F16 B10.F16: the job is not affected. The notification is tried five times within an
        hour, then it is a dead letter."""
        submit = wire.submit("lonely", wire.chain(1), reply_to="nobody.reads")
        self.client.publish("drover.submit", "submit", submit)
        store = self.c.store
        partition = store.partition("lonely")
        servers.wait_for(
            lambda: store.redis.zcard(partition + "owed") == 1, "a notification in the outbox"
        )
        tries = "n" + store.job("lonely")["seq"]
        store.redis.hset(partition + "data:lonely", tries, 4)  # as if most of the hour had passed
        store.redis.zadd(partition + "owed", {member: 0 for member in
                                              store.redis.zrange(partition + "owed", 0, -1)})
        reason, letter = self.client.dead_letter()
        self.assertEqual("UNDELIVERABLE reply_to nobody.reads", reason)
        event = wire.JobEvent.FromString(letter)
        self.assertEqual(("lonely", wire.OUTCOME_SUCCEEDED), (event.job_id, event.outcome))
        self.nothing_left(but=["lonely"])

    def test_same_id(self):
        """A repeated Submit is ALREADY, another one under the id is CONFLICT; neither runs."""
        self.client.submit(wire.submit("twice", wire.chain(2)))
        self.client.settled("twice")
        cost = self.c.dispatches("twice")
        self.client.submit(
            wire.submit("twice", wire.chain(2), traceparent="not part of the content")
        )
        self.client.submit(wire.submit("twice", wire.chain(3)))
        receipts = self.client.until(
            lambda: len(self.client.receipts["twice"]) >= 3 and self.client.receipts["twice"],
            "three receipts",
        )
        self.assertEqual(
            {wire.RECEIPT_CODE_ALREADY, wire.RECEIPT_CODE_CONFLICT}, {r.code for r in receipts[1:]}
        )
        self.assertEqual(cost, self.c.dispatches("twice"))
        self.nothing_left(but=["twice"])

    # --- replies that do not count ---

    def one_by_hand(self, job_id="by-hand"):
        """Submits a job of one step that this test serves; returns the request."""
        parks = wire.Policy(on_permanent=wire.RECOURSE_PARK)
        self.client.submit(wire.submit(job_id, [wire.step("only", actor="hand", retry=parks)]))
        self.client.receipt(job_id)
        return self.client.consume_step("hand")

    def job_fields(self, job_id):
        """Returns all fields of the job's record that a reply could change."""
        fields = self.c.store.job_at_rest(job_id)
        return {k: v for k, v in fields.items() if k not in ("updated", "locked_by")}

    def unchanged_by(self, job_id, act):
        """Expects that the replies which act() sends change nothing."""
        before = self.job_fields(job_id)
        act()
        servers.wait_for(lambda: self.client.queue("drover.replies")[0] == 0, "replies to be taken")
        self.good_job(f"behind-{job_id}")
        self.assertEqual(before, self.job_fields(job_id))
        self.assertEqual((0, 0), self.client.queue(self.client.DEAD))

    def test_reply_for_an_unknown_job(self):
        request = wire.StepRequest(job_id="nobody", step="only", token="0.0123456789abcdef")
        self.client.reply(request, achieved=wire.STATE_ACTIVE)
        self.good_job()
        self.assertEqual((0, 0), self.client.queue(self.client.DEAD))
        self.nothing_left(but=["good"])

    def test_reply_with_an_unknown_token(self):
        request = self.one_by_hand()
        other = wire.StepRequest()
        other.CopyFrom(request)
        other.token = "0.0123456789abcdef"
        self.unchanged_by("by-hand", lambda: self.client.reply(other, achieved=wire.STATE_ACTIVE))
        self.client.reply(request)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.client.settled("by-hand").outcome)

    def test_reply_with_a_withdrawn_token(self):
        """B8.F5: the lease has ended and the step is dispatched again: the first answer does not
        count."""
        steps = [wire.step("only", actor="hand", lock_ms=200, wait_ms=200)]
        self.client.submit(wire.submit("late", steps))
        first = self.client.consume_step("hand")
        second = self.client.consume_step("hand")
        self.assertNotEqual(first.token, second.token)
        self.assertEqual(first.idempotency_key, second.idempotency_key)
        self.client.reply(first, result=wire.payload(b"late"))
        request = second
        while not self.client.events.get("late"):
            self.client.reply(request, result=wire.payload(b"in time"))
            self.client.pump()
            letter = self.client.get("drover.task.hand")
            if letter:
                request = wire.Requests.FromString(letter[1]).requests[0]
        event = self.client.settled("late")
        self.assertEqual(b"in time", event.results[0].payload.data)
        self.assertEqual(1, len(self.c.store.events("late", "done")))

    def test_reply_of_an_undo(self):
        """B13.F15: an unreadable reply during an undo is a dead letter, and the undo goes on."""
        step = wire.step("only", actor="hand", revert=wire.Revert(action="undo"))
        self.client.submit(wire.submit("back", [step]))
        self.client.reply(self.client.consume_step("hand"))
        self.client.settled("back")
        self.client.control("back", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        request = self.client.consume_step("hand")
        self.assertEqual("undo", request.action)
        reply = wire.StepReply(
            job_id="back", step="only", token=request.token, achieved=wire.STATE_DISABLED
        )
        whole = wire.Replies(replies=[reply]).SerializeToString()
        nameless = wire.Replies(replies=[wire.StepReply(token=request.token)]).SerializeToString()
        for body, reason in ((whole[:-1], "MALFORMED"), (nameless, "INVALID replies[0].job_id")):
            self.client.publish("drover.replies", "reply", body)
            self.next_dead_letter(reason, body)
        self.assertEqual([], self.c.store.events("back", "undone"))
        self.client.publish("drover.replies", "reply", whole)
        ends = self.client.until(lambda: self.client.events["back"][1:], "its second end")
        self.assertEqual(wire.OUTCOME_COMPENSATED, ends[0].outcome)
        self.assertEqual(1, len(self.c.store.events("back", "undone")))
        self.nothing_left(but=["back"])

    def test_reply_a_second_time(self):
        request = self.one_by_hand()
        self.client.reply(request, result=wire.payload(b"first"))
        event = self.client.settled("by-hand")
        self.assertEqual(b"first", event.results[0].payload.data)

        def again():
            self.client.reply(request, result=wire.payload(b"first"))
            self.client.reply(request, result=wire.payload(b"another"))
            error = wire.Error(**{"class": "late"}, verdict=wire.VERDICT_PERMANENT)
            self.client.reply(request, error=error)

        self.unchanged_by("by-hand", again)
        data = self.c.store.partition("by-hand") + "data:by-hand"
        self.assertIn("first", self.c.store.redis.hget(data, "r0"))
        self.assertEqual(1, len(self.client.events["by-hand"]))

    def test_reply_for_a_step_never_dispatched(self):
        self.client.submit(
            wire.submit("early", [wire.step("a", actor="hand"), wire.step("b", after=["a"])])
        )
        request = self.client.consume_step("hand")
        fake = wire.StepRequest(job_id="early", step="b", token="1.0123456789abcdef")
        beyond = wire.StepRequest(job_id="early", step="z", token="9999.0123456789abcdef")
        strange = wire.StepRequest(job_id="early", step="b", token="-")

        def act():
            for each in (fake, beyond, strange):
                self.client.reply(each, achieved=wire.STATE_ACTIVE)

        self.unchanged_by("early", act)
        self.client.reply(request)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.client.settled("early").outcome)
        self.assertEqual(2, self.c.dispatches("early"))

    def test_bad_reply_in_a_batch(self):
        """One bad reply in a batch is a dead letter; the good ones in it are recorded."""
        request = self.one_by_hand()
        good = wire.StepReply(
            job_id="by-hand", step="only", token=request.token, achieved=wire.STATE_ACTIVE
        )
        batch = wire.Replies(replies=[wire.StepReply(job_id="x y", step="s", token="t"), good])
        self.client.publish("drover.replies", "reply", batch)
        self.next_dead_letter("INVALID replies[0].job_id", batch.SerializeToString())
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.client.settled("by-hand").outcome)
        self.nothing_left(but=["by-hand"])

    def test_result_too_large(self):
        """It is the permanent failure RESULT_TOO_LARGE."""
        request = self.one_by_hand()
        self.client.reply(request, result=wire.payload(b"x" * (256 * 1024 + 1)))
        status = servers.wait_for(lambda: self.parked("by-hand"), "the step to park")
        self.assertEqual("RESULT_TOO_LARGE", getattr(status.last_error, "class"))
        self.good_job()

    def test_sum_of_results_too_large(self):
        """A result for which the job has no room left is too large as well."""
        request = self.one_by_hand()
        key = self.c.store.partition("by-hand") + "job:by-hand"
        # as if results of other steps had filled it
        self.c.store.redis.hset(key, "bytes", 64 * MIB - 10)
        self.client.reply(request, result=wire.payload(b"x" * 100))
        status = servers.wait_for(lambda: self.parked("by-hand"), "the step to park")
        self.assertEqual("RESULT_TOO_LARGE", getattr(status.last_error, "class"))
        self.assertIn("exceed 64 MiB", status.last_error.message)

    def test_request_too_large(self):
        """It is the permanent failure INPUT_TOO_LARGE of a step that no agent had. The steps before
        it are undone."""
        parts = [f"p{i}" for i in range(9)]
        undo = {"revert": wire.Revert(action="undo")}
        self.client.submit(
            wire.submit(
                "by-hand",
                [
                    *(wire.step(name, actor="hand", take_none=True, **undo) for name in parts),
                    wire.step(
                        "sum", actor="hand", after=parts,
                        arguments=wire.payload(b"a" * (MIB - 100)), **undo,
                    ),
                ],
                input=wire.payload(b"i" * (MIB - 100)),
            )
        )
        self.client.receipt("by-hand")
        for _ in parts:
            request = self.client.consume_step("hand")
            self.client.reply(request, result=wire.payload(b"x" * (256 * 1024 - 100)))
        for _ in parts:
            request = self.client.consume_step("hand")
            self.assertEqual(wire.STATE_DISABLED, request.desired)
            self.client.reply(request)
        self.assertEqual(wire.OUTCOME_COMPENSATED, self.client.settled("by-hand").outcome)
        step = self.client.status("by-hand").steps[-1]
        self.assertEqual(("sum", "INPUT_TOO_LARGE"), (step.name, getattr(step.last_error, "class")))
        self.good_job()

    def parked(self, job_id):
        step = self.client.status(job_id).steps[0]
        return step if step.state == wire.STEP_STATE_PARKED else None

    # --- commands and requests ---

    def test_control(self):
        answer = self.client.control("nobody", query=wire.Query())
        self.assertEqual(wire.ANSWER_CODE_UNKNOWN_JOB, answer.code)
        answer = self.client.control("nobody", cancel=wire.Cancel())
        self.assertEqual(wire.ANSWER_CODE_UNKNOWN_JOB, answer.code)
        body = wire.Control(job_id="a b", query=wire.Query()).SerializeToString()
        self.client.publish("drover.control", "control", body)
        self.next_dead_letter("INVALID job_id", body)
        answer = self.client.control("nobody")
        self.assertEqual(wire.ANSWER_CODE_UNSUPPORTED, answer.code)
        self.good_job()
        self.nothing_left(but=["good"])

    def test_agent(self):
        """B5.F15: a message that an agent cannot read is a dead letter, and the next request is
        served."""
        nothing_in_it = wire.Requests(requests=[wire.StepRequest()]).SerializeToString()
        for body, reason in (
            (b"\xff\xff", "MALFORMED is no protobuf of drover.v1.Requests"),
            (b"", "INVALID requests must be given"),
            (nothing_in_it, "INVALID requests[0].lock_ms must be 1 to"),
        ):
            with self.subTest(body):
                self.client.publish("drover.tasks", "demo", body)
                self.next_dead_letter(reason, body)
        self.good_job()
        self.nothing_left(but=["good"])


class Full(Case):
    own_servers = True

    def test_store_is_full(self):
        """New work is refused completely, with an answer if possible, and accepted afterwards."""
        store = self.c.store.redis
        store.config_set("maxmemory", 1)
        try:
            self.client.submit(wire.submit("refused", wire.chain(2)))
            receipt = self.client.receipt("refused")
            self.assertEqual(wire.RECEIPT_CODE_RETRY_LATER, receipt.code)
        finally:
            store.config_set("maxmemory", 0)
        self.nothing_left()
        servers.wait_for(self.accepted, "the scheduler to see that there is room")
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.client.settled("refused").outcome)

    def accepted(self):
        """Submits the job, as a client does after RETRY_LATER. A scheduler asks the store once a
        second how full it is."""
        receipts = self.client.receipts["refused"]
        before = len(receipts)
        self.client.submit(wire.submit("refused", wire.chain(2)))
        self.client.until(lambda: len(receipts) > before, "a receipt")
        return receipts[-1].code != wire.RECEIPT_CODE_RETRY_LATER


if __name__ == "__main__":
    tap.main()
