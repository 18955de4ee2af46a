# SPDX-License-Identifier: Apache-2.0
"""What foreign programs may send, over the real broker: properties and headers of every kind,
sizes, text, and JSON in all its spellings. What is allowed arrives unchanged; anything else is
refused with a reason that says what would be right."""

import base64
import datetime
import decimal
import json
import pathlib
import re
import resource
import struct
import subprocess
import sys

import pika
import pika.exceptions

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import servers
import tap
import wire

MIB = 1024 * 1024
JSON_REPLIES = "json.replies"
TEXT = "Größe 漢字 🚚 e\u0301"  # characters of one to four bytes, and a combining one
NOT_UTF8 = {
    "no lead byte": b"\xff\xfe\xfd\xfc",
    "cut": b"abc\xc3",
    "overlong": b"a\xc0\xafb",
    "a surrogate": b"\xed\xa0\x80.",
}


class Raw(pika.BasicProperties):
    """Headers given as the bytes of their table, because pika can write only some of the types."""

    FLAG_HEADERS = 1 << 13

    def __init__(self, table):
        super().__init__()
        self._table = table

    def encode(self):
        return [struct.pack(">HI", self.FLAG_HEADERS, len(self._table)), self._table]


def raw_entry(name, kind, value):
    return bytes([len(name)]) + name + kind + value


# A value of every type that RabbitMQ lets through, by the letter of the type.
RAW_VALUES = {
    b"t": b"\1",
    b"b": b"\xff",
    b"B": b"\xff",
    b"s": b"\xff\xfe",
    b"u": b"\xff\xfe",
    b"I": b"\xff" * 4,
    b"i": b"\xff" * 4,
    b"l": b"\xff" * 8,
    b"L": b"\xff" * 8,
    b"f": struct.pack(">f", -1.5),
    b"d": struct.pack(">d", 1e300),
    b"D": b"\2" + struct.pack(">i", -7),
    b"S": b"\0\0\0\4" + b"\0\xff\n\0",
    b"x": b"\0\0\0\4" + b"\0\xff\n\0",
    b"T": struct.pack(">Q", 2**63),
    b"V": b"",
}


def sized(data):
    return struct.pack(">I", len(data)) + data


# All of them in an array, in a table, and in one another.
RAW_VALUES[b"A"] = sized(b"".join(kind + value for kind, value in RAW_VALUES.items()))
RAW_VALUES[b"F"] = sized(b"".join(raw_entry(k, k, value) for k, value in RAW_VALUES.items()))
RAW_VALUES[b"A"] = sized(b"F" + RAW_VALUES[b"F"] + b"A" + RAW_VALUES[b"A"])

HEADERS = {
    "number": 2**62,
    "decimal": decimal.Decimal("1.23"),
    "time": datetime.datetime(2026, 1, 31, tzinfo=datetime.timezone.utc),
    "binary": bytes(range(256)),
    "nothing": None,
    "yes": True,
    "text": TEXT,
    "array": [1, "two", [3, {"four": []}], None],
    "table": {"a": {"b": {"c": [{"d": b"\0"}]}}, "empty": {}},
    "long": "x" * 60000,
    "drover-publish": "ours",  # names that Drover itself sets
    "drover-resent": [],
    "drover-job": {"not": "text"},
    "x-death": [{"queue": "q", "count": 1}],
}


def nested(depth):
    """Returns arrays nested to this depth."""
    value = sized(b"")
    for _ in range(depth):
        value = sized(b"A" + value)
    return raw_entry(b"deep", b"A", value)


class Wire(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.kept = self.directory / "kept"
        keep = {"name": "*", "command": ["/bin/sh", "-c", f"cat >'{self.kept}'"]}
        actors = [cluster.BUILTIN, {"name": "keep", "handler": "exec", "actions": [keep]}]
        self.c = self.cluster(settings={"agent": {"agent": {"actors": actors}}})
        self.client = self.c.client
        self.client.call(lambda c: c.queue_declare(JSON_REPLIES, durable=True))

    # --- helpers ---

    def start_late(self):
        """Starts an agent of the actor `late`. A test can take a request from the queue before, and
        publish it again afterwards."""
        self.c.add_agent({"agent": {"actors": [{**cluster.BUILTIN, "name": "late"}]}})

    def succeeds(self, job_id):
        event = self.client.settled(job_id)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        return event

    def succeeds_without_client(self, job_id):
        """Waits for a job that has no client to send its event to."""
        servers.wait_for(lambda: self.c.store.job(job_id).get("outcome"), f"the end of {job_id}")
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.client.status(job_id).outcome)

    def nothing_dead(self):
        self.assertEqual((0, 0), self.client.queue(self.client.DEAD))

    def next_dead_letter(self, reason, body):
        """Expects body as the next dead letter, with a reason that begins like this."""
        said, letter = self.client.dead_letter()
        self.assertTrue((said or "").startswith(reason), said)
        self.assertEqual(body, letter)

    def next_json(self):
        """Returns the next message in JSON: (kind, content, properties)."""
        properties, body = servers.wait_for(
            lambda: self.client.get(JSON_REPLIES), "an answer in JSON"
        )
        self.assertEqual("application/json", properties.content_type)
        self.assertTrue(body, f"an empty {properties.type}")
        return properties.type.removeprefix("drover.v1."), json.loads(body), properties

    def send_json(self, message, exchange="drover.submit", key="submit", **properties):
        """Sends a message in JSON, text as it is, and returns the answer."""
        body = message if isinstance(message, (str, bytes)) else json.dumps(message)
        properties.setdefault("reply_to", JSON_REPLIES)
        self.client.publish(exchange, key, body, **properties)
        return self.next_json()[1]

    def created(self, message, **properties):
        receipt = self.send_json(message, **properties)
        self.assertEqual("RECEIPT_CODE_CREATED", receipt["code"], receipt)

    def refused(self, message, field, reason, **properties):
        """Expects that a Submit in JSON is rejected with this field and reason."""
        receipt = self.send_json(message, **properties)
        self.assertEqual("RECEIPT_CODE_REJECTED", receipt["code"], receipt)
        self.assertEqual(field, receipt.get("field", ""))
        self.assertIn(reason, receipt["reason"])
        return receipt

    def control(self, message, **properties):
        return self.send_json(message, "drover.control", "control", **properties)

    # --- properties and headers ---

    def test_no_properties(self):
        for job_id, body in (
            ("protobuf", wire.submit("protobuf", wire.chain(2)).SerializeToString()),
            ("json", json.dumps({"jobId": "json", "definition": {"steps": [
                {"name": "a", "actor": "demo", "action": "noop"}]}})),
        ):
            self.client.call(lambda c, b=body: c.basic_publish("drover.submit", "submit", b))
            self.succeeds_without_client(job_id)
        self.nothing_dead()

    def test_strange_properties(self):
        """The types do not fit the body, and all other properties have a value."""
        strange = {
            "content_type": "application/octet-stream",
            "content_encoding": "gzip",
            "type": "no.such.Message",
            "app_id": TEXT,
            "cluster_id": "x",
            "priority": 255,
            "delivery_mode": 1,
            "timestamp": 0,
            "user_id": self.c.rabbit.user,
            "headers": HEADERS,
        }
        submit = wire.submit("protobuf", wire.chain(1), reply_to=self.client.REPLIES)
        self.client.publish("drover.submit", "submit", submit, **strange)
        self.succeeds("protobuf")
        self.assertEqual(self.c.rabbit.user, self.client.status("protobuf").submitter)
        steps = [{"name": "a", "actor": "demo", "action": "noop"}]
        self.created({"jobId": "json", "definition": {"steps": steps}}, **strange)
        self.assertEqual("OUTCOME_SUCCEEDED", self.next_json()[1]["outcome"])
        self.assertEqual("ANSWER_CODE_DONE", self.control({"jobId": "json", "query": {}},
                                                          **strange)["code"])
        self.client.submit(wire.submit("by-hand", [wire.step("only", actor="late")]))
        requests = wire.Requests(requests=[self.client.consume_step("late")])
        self.start_late()
        self.client.publish("drover.tasks", "late", requests, **strange)  # the agent reads them too
        self.succeeds("by-hand")
        self.nothing_dead()

    def test_headers_of_every_kind(self):
        """A value of each type, also in the one header that schedulers read."""
        for name in (b"h", b"traceparent"):
            for kind, value in RAW_VALUES.items():
                with self.subTest(kind, name=name):
                    job_id = f"{name.decode()}-{kind.decode()}"
                    submit = wire.submit(job_id, wire.chain(1), reply_to=self.client.REPLIES)
                    raw, body = Raw(raw_entry(name, kind, value)), submit.SerializeToString()
                    self.client.call(lambda c, r=raw, b=body: c.basic_publish(
                        "drover.submit", "submit", b, r))
                    self.assertEqual("", self.succeeds(job_id).traceparent)
        self.nothing_dead()

    def test_traceparent(self):
        """The header counts if the field is empty; an unusable one does no harm."""
        sound = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        cases = {"sound": sound, "x" * 128: "x" * 128, "x" * 129: "", "a\nb": "", b"\xff\xfe": "",
                 5: "", "": ""}
        for i, (header, kept) in enumerate({sound: sound, **cases}.items()):
            with self.subTest(header):
                submit = wire.submit(f"job-{i}", wire.chain(1), reply_to=self.client.REPLIES)
                self.client.publish("drover.submit", "submit", submit,
                                    headers={"traceparent": header})
                self.assertEqual(kept if header != "sound" else "sound",
                                 self.succeeds(f"job-{i}").traceparent)

    def test_deep_headers(self):
        """Headers nested as deep as a frame allows. Code that decodes them by recursion needs the
        stack for it, even if the limit of the process gives its threads less than usual."""
        limits = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (MIB, limits[1]))
        try:
            self.c.schedulers[0].stop()
            self.c.schedulers[0].start()
        finally:
            resource.setrlimit(resource.RLIMIT_STACK, limits)
        submit = wire.submit("deep", wire.chain(1), reply_to=self.client.REPLIES)
        properties, body = Raw(nested(26000)), submit.SerializeToString()
        self.client.call(lambda c: c.basic_publish("drover.submit", "submit", body, properties))
        self.succeeds("deep")

    def test_expiration(self):
        """The expiration of a message is not inherited by requests or events."""
        steps = [wire.step("only", actor="hand", wait_ms=45000)]
        submit = wire.submit("patient", steps, reply_to=self.client.REPLIES)
        self.client.publish("drover.submit", "submit", submit, expiration="60000")
        self.client.receipt("patient")
        properties, body = servers.wait_for(
            lambda: self.client.get("drover.task.hand"), "the request"
        )
        self.assertLessEqual(int(properties.expiration), 45000)
        self.assertGreater(int(properties.expiration), 0)
        request = wire.Requests.FromString(body).requests[0]
        reply = wire.StepReply(job_id="patient", step="only", token=request.token,
                               achieved=request.desired)
        self.client.publish("drover.replies", "reply", wire.Replies(replies=[reply]),
                            expiration="60000")
        self.succeeds("patient")

    def test_properties_of_a_request(self):
        """The properties are for routing and for people, and agree with the body."""
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        steps = [wire.step("only", actor="hand", wait_ms=45000)]
        self.client.submit(wire.submit("traced", steps, traceparent=trace))
        properties, body = servers.wait_for(
            lambda: self.client.get("drover.task.hand"), "the request"
        )
        (request,) = wire.Requests.FromString(body).requests
        self.assertEqual(("drover.v1.Requests", "application/protobuf", request.token, 1),
                         (properties.type, properties.content_type, properties.message_id,
                          properties.delivery_mode))
        said = {name: value for name, value in properties.headers.items()
                # set by the bus and by the broker
                if name not in ("drover-publish", "x-delivery-count")}
        self.assertEqual({"drover-job": "traced", "drover-step": "only", "drover-attempt": 1,
                          "traceparent": trace}, said)

    def test_expired(self):
        """A Submit that expires unread leaves nothing behind, and can be repeated."""
        self.c.schedulers[0].stop()
        submit = wire.submit("impatient", wire.chain(1), reply_to=self.client.REPLIES)
        self.client.publish("drover.submit", "submit", submit, expiration="1")
        servers.wait_for(lambda: self.client.queue("drover.submit")[0] == 0, "the Submit to expire")
        self.c.schedulers[0].start()
        self.client.submit(submit)
        self.succeeds("impatient")
        self.assertEqual([wire.RECEIPT_CODE_CREATED],
                         [receipt.code for receipt in self.client.receipts["impatient"]])
        self.nothing_dead()

    def test_correlation(self):
        """It comes back unchanged, up to 255 bytes, the most that AMQP allows."""
        for i, correlation in enumerate(("x" * 255, ("é" * 127) + "x", TEXT, "a b\tc")):
            with self.subTest(correlation):
                steps = [{"name": "only", "actor": "hand"}]
                message = {"jobId": f"job-{i}", "definition": {"steps": steps}}
                self.client.publish("drover.submit", "submit", json.dumps(message),
                                    reply_to=JSON_REPLIES, correlation_id=correlation)
                self.assertEqual(correlation, self.next_json()[2].correlation_id)
                query = json.dumps({"jobId": f"job-{i}", "query": {}})
                self.client.publish("drover.control", "control", query,
                                    reply_to=JSON_REPLIES, correlation_id=correlation)
                self.assertEqual(correlation, self.next_json()[2].correlation_id)
                self.client.reply(self.client.consume_step("hand"))
                kind, _, properties = self.next_json()
                self.assertEqual(("JobEvent", correlation), (kind, properties.correlation_id))
        with self.assertRaises(pika.exceptions.ShortStringTooLong):  # the client library refuses it
            self.client.publish("drover.submit", "submit", b"", correlation_id="x" * 256)

    def test_repeated_with_another_reply_to(self):
        """A repeated Submit with another reply_to and correlation_id moves the messages that are
        still to come."""
        submit = wire.submit("moved", [wire.step("only", actor="hand")])
        self.client.publish("drover.submit", "submit", submit, reply_to="nobody.reads",
                            correlation_id="first")
        request = self.client.consume_step("hand")
        self.client.publish("drover.submit", "submit", submit, reply_to=JSON_REPLIES,
                            correlation_id="second")
        seen = []

        def take():
            found = self.client.get(JSON_REPLIES)
            if found:
                seen.append((found[0].type, found[0].correlation_id))
            return found

        servers.wait_for(take, "a Receipt")
        self.client.reply(request)
        servers.wait_for(take, "the terminal event")
        self.assertEqual([("drover.v1.Receipt", "second"), ("drover.v1.JobEvent", "second")], seen)
        self.c.await_idle()
        self.nothing_dead()

    def test_direct_reply_to(self):
        """A client that waits on its channel gets the event. After one has left, the outbox is
        empty."""
        got = []

        def submit_and_wait(channel):
            channel.basic_consume("amq.rabbitmq.reply-to", auto_ack=True, on_message_callback=(
                lambda _channel, _method, properties, body: got.append((properties.type, body))))
            properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
            for job_id in ("waits", "leaves"):
                steps = [wire.step("only", actor="hand")]
                body = wire.submit(job_id, steps).SerializeToString()
                channel.basic_publish("drover.submit", "submit", body, properties)
            servers.wait_for(
                lambda: channel.connection.process_data_events() or len(got) == 2, "two Receipts"
            )
            requests = {r.job_id: r for r in [self.client_step("hand"), self.client_step("hand")]}
            self.other.reply(requests["waits"])
            servers.wait_for(
                lambda: channel.connection.process_data_events() or len(got) == 3, "the event"
            )
            return requests["leaves"]

        self.other = client.Client(self.c.rabbit, self.c.name)
        self.addCleanup(self.other.close)
        request = self.client.call(submit_and_wait)
        self.assertEqual(["drover.v1.Receipt"] * 2 + ["drover.v1.JobEvent"],
                         [kind for kind, _ in got])
        self.client.close()
        self.other.reply(request)
        self.succeeds_without_client("leaves")
        self.c.await_idle()
        self.nothing_dead()

    def client_step(self, actor):
        return self.other.consume_step(actor)

    # --- sizes ---

    def drover_get(self, job_id):
        rabbit = self.c.rabbit
        url = f"amqp://{rabbit.user}:{rabbit.password}@{servers.HOST}:{rabbit.port}/{self.c.name}"
        done = subprocess.run(
            [wire.BUILD / "cli" / "drover", "get", job_id, "--data", "-o", "json"],
            env={**cluster.own_environment(), "DROVER_URL": url}, stdout=subprocess.PIPE,
            timeout=120, check=True,
        )
        return json.loads(done.stdout)

    def test_a_mebibyte(self):
        """A payload with NULs arrives byte for byte: at an agent, at a program, in a status."""
        kind = "application/octet-stream"
        data = (bytes(range(256)) + b"\0" * 256) * 2048
        data = data[: MIB - len(kind)]
        steps = [wire.step("one", actor="keep"), wire.step("two", actor="hand", after=["one"])]
        protobuf = wire.submit("protobuf", steps, input=wire.payload(data, kind))
        definition = {"steps": [{"name": "one", "actor": "keep", "action": "noop"},
                                {"name": "two", "actor": "hand", "action": "noop",
                                 "after": ["one"]}]}
        text = base64.b64encode(data).decode()
        json_form = {"jobId": "json", "definition": definition,
                     "input": {"contentType": kind, "data": text}}
        for job_id in ("protobuf", "json"):
            with self.subTest(job_id):
                self.kept.unlink(missing_ok=True)
                if job_id == "json":
                    self.created(json_form)
                else:
                    self.client.submit(protobuf)
                request = self.client.consume_step("hand")
                self.assertEqual((kind, data), (request.input.content_type, request.input.data))
                self.assertEqual(data, self.kept.read_bytes())
                self.client.reply(request)
                self.succeeds_without_client(job_id)
                status = self.drover_get(job_id)
                self.assertEqual({"contentType": kind, "data": text}, status["input"])
                answer = self.client.control(job_id, query=wire.Query(with_data=True))
                self.assertEqual(data, answer.status.input.data)
        status = self.control({"jobId": "json", "query": {"withData": True}})
        while "status" not in status:  # the terminal event came first
            status = self.next_json()[1]
        self.assertEqual(text, status["status"]["input"]["data"])
        self.nothing_dead()

    def test_one_byte_too_many(self):
        """The content type counts."""
        steps = [{"name": "a", "actor": "demo", "action": "noop"}]
        data = base64.b64encode(b"\0" * (MIB - 1)).decode()
        submit = {"jobId": "job", "definition": {"steps": steps},
                  "input": {"contentType": "ab", "data": data}}
        self.refused(submit, "input", "must be at most 1048576 bytes, not 1048577")
        submit["input"]["contentType"] = "a"
        self.created(submit)

    def test_a_job_id_of_megabytes(self):
        """The rejection does not contain the id."""
        long = "x" * (4 * MIB - 1000)
        receipt = self.refused({"jobId": long}, "job_id", "must be 1 to 128 characters")
        self.assertNotIn("jobId", receipt)
        submit = wire.Submit(job_id=long, reply_to=self.client.REPLIES)
        self.client.publish("drover.submit", "submit", submit)
        receipt = self.client.receipt("")
        self.assertEqual((wire.RECEIPT_CODE_REJECTED, "job_id"), (receipt.code, receipt.field))

    def test_text_that_json_must_escape(self):
        """An answer in JSON is valid even if its text consists of characters that must be
        escaped."""
        data = b"\1" * (MIB - len("text/plain"))
        steps = [wire.step(f"s{i}", actor="hand") for i in range(8)]
        self.client.submit(wire.submit("job", steps, input=wire.payload(data, "text/plain")))
        error = wire.Error(
            message="\1" * 1024, details="\1" * 16384, verdict=wire.VERDICT_PERMANENT
        )
        for i in range(8):
            request = self.client.consume_step("hand")
            if i % 2:
                self.client.reply(request, error=error)
            else:
                result = wire.payload(b"\1" * (256 * 1024 - 10), "text/plain")
                self.client.reply(request, result=result)
        for event in ("done", "failed"):
            servers.wait_for(
                lambda e=event: len(self.c.store.events("job", e)) == 4, f"four {event}"
            )
        seen, results = {}, 0
        while len(seen) < 8:
            query = {"fromStep": len(seen), "withData": True}
            status = self.control({"jobId": "job", "query": query})["status"]
            self.assertEqual(data, base64.b64decode(status["input"]["data"]))
            for step in status["steps"]:
                seen[step["name"]] = step
        for step in seen.values():
            if "result" in step:
                results += 1
                self.assertEqual(256 * 1024 - 10, len(base64.b64decode(step["result"]["data"])))
            else:
                self.assertEqual("\1" * 16384, step["lastError"]["details"])
        self.assertEqual(4, results)

    # --- text ---

    def test_text(self):
        """UTF-8 wherever people write text, in both ways, in protobuf and in JSON."""
        labels = [wire.Label(name=TEXT, value=TEXT)]
        text = wire.payload(TEXT.encode(), "text/plain; charset=utf-8")
        steps = [wire.step("only", actor="hand", arguments=text, heartbeat_ms=10000)]
        self.client.submit(wire.submit("job", steps, input=text, labels=labels))
        request = self.client.consume_step("hand")
        for payload in (request.input, request.arguments):
            self.assertEqual(TEXT, payload.data.decode())
        self.assertEqual([(TEXT, TEXT)], [(x.name, x.value) for x in request.labels])
        progress = wire.Progress(job_id="job", step="only", token=request.token, note=TEXT)
        self.client.publish("drover.replies", "reply", wire.Replies(progress=[progress]))
        servers.wait_for(lambda: self.client.status("job").steps[0].note == TEXT, "the note")
        error = wire.Error(message=TEXT, details=TEXT + "\n\t" + TEXT, **{"class": TEXT})
        self.client.reply(request, error=error)
        request = self.client.consume_step("hand")
        self.assertEqual((TEXT, TEXT), (getattr(request.last_error, "class"),
                                        request.last_error.message))
        answer = self.control({"jobId": "job", "query": {"withData": True}})
        status = answer["status"]
        self.assertEqual([{"name": TEXT, "value": TEXT}], status["labels"])
        self.assertEqual(TEXT, status["input"]["text"])
        self.assertEqual(TEXT + "\n\t" + TEXT, status["steps"][0]["lastError"]["details"])
        answer = self.control({"jobId": "job", "commandId": "c", "reason": TEXT, "cancel": {}})
        self.assertEqual("ANSWER_CODE_DONE", answer["code"])
        self.assertIn(TEXT, " ".join(word for e in self.c.store.history("job") for word in e.about))
        self.client.reply(request)
        event = self.client.settled("job")
        self.assertEqual((TEXT, TEXT), (event.labels[0].name, event.labels[0].value))
        self.nothing_dead()

    def test_long_text_is_cut_between_characters(self):
        """An error message that is too long is cut to valid UTF-8."""
        for i, message in enumerate(
            ("é" * 600, "x" + "é" * 600, "漢" * 600, "🚚" * 600, "xy" + "🚚" * 600)
        ):
            job_id = f"job-{i}"
            self.client.submit(wire.submit(job_id, [wire.step("only", actor="hand")]))
            self.client.reply(self.client.consume_step("hand"),
                              error=wire.Error(message=message, verdict=wire.VERDICT_PERMANENT))
            kept = servers.wait_for(
                lambda j=job_id: self.client.status(j).steps[0].last_error.message, "the message"
            )
            self.assertTrue(message.startswith(kept) and 1020 < len(kept.encode()) <= 1024)

    def test_not_utf8_in_protobuf(self):
        placeholder = "@@@@"
        payload = wire.payload(b"x", placeholder)
        step = lambda **fields: [wire.step("only", **fields)]
        submits = {
            "job_id": wire.submit(placeholder, wire.chain(1)),
            "workflow": wire.Submit(job_id="job", workflow=placeholder),
            "definition.name": wire.Submit(
                job_id="job", definition=wire.Workflow(name=placeholder)
            ),
            "definition.steps[0].name": wire.submit("job", [wire.step(placeholder)]),
            "definition.steps[0].after[0]": wire.submit("job", step(after=[placeholder])),
            "definition.steps[0].arguments.content_type": wire.submit(
                "job", step(arguments=payload)
            ),
            "input.content_type": wire.submit("job", wire.chain(1), input=payload),
            "labels[0].name": wire.submit(
                "job", wire.chain(1), labels=[wire.Label(name=placeholder)]
            ),
            "labels[0].value": wire.submit(
                "job", wire.chain(1), labels=[wire.Label(name="a", value=placeholder)]
            ),
            "traceparent": wire.submit("job", wire.chain(1), traceparent=placeholder),
            "reply_to": wire.submit("job", wire.chain(1), reply_to=placeholder),
        }
        replies = self.client.receipts.setdefault("", [])
        for field, submit in submits.items():
            for what, junk in NOT_UTF8.items():
                with self.subTest(what, field=field):
                    body = submit.SerializeToString().replace(placeholder.encode(), junk)
                    self.client.publish("drover.submit", "submit", body,
                                        reply_to=self.client.REPLIES)
                    self.client.until(lambda: replies, "a Receipt")
                    receipt = replies.pop()
                    self.assertEqual(
                        (wire.RECEIPT_CODE_REJECTED, field, "must be UTF-8"),
                        (receipt.code, receipt.field, receipt.reason),
                    )
                    # without an address for the answer
                    self.client.publish("drover.submit", "submit", body)
                    self.next_dead_letter(f"MALFORMED {field} must be UTF-8", body)
        self.others_not_utf8(placeholder)
        self.assertEqual([], self.c.store.jobs())

    def others_not_utf8(self, placeholder):
        error = wire.StepReply(
            job_id="j", step="s", token="t", error=wire.Error(message=placeholder)
        )
        cancel = wire.Control(job_id="j", command_id="c", reason=placeholder, cancel=wire.Cancel())
        request = wire.StepRequest(job_id="j", step="s", token="t", workflow=placeholder)
        for exchange, key, message, reason in (
            ("drover.replies", "reply", wire.Replies(replies=[error]),
             "INVALID replies[0].error.message must be UTF-8"),
            ("drover.control", "control", cancel, "MALFORMED reason must be UTF-8"),
            ("drover.tasks", "demo", wire.Requests(requests=[request]),
             "INVALID requests[0].workflow must be UTF-8"),
        ):
            body = message.SerializeToString().replace(placeholder.encode(), b"ab\xffc")
            self.client.publish(exchange, key, body)
            self.next_dead_letter(reason, body)

    def test_not_utf8_in_json(self):
        for what, junk in NOT_UTF8.items():
            with self.subTest(what):
                body = b'{"jobId": "job", "input": {"text": "' + junk + b'"}}'
                self.refused(body, "", "unable to decode byte 0x")
        for escape in ("\\ud800", "\\udc00x", "\\ud800\\u0041"):
            with self.subTest(escape):
                self.refused('{"jobId": "job", "input": {"text": "' + escape + '"}}', "",
                             "invalid Unicode")

    def test_reasons_are_utf8(self):
        """Also reasons that quote only a part of a long text."""
        for before in range(4):
            for letter in ("é", "漢", "🚚"):
                name = "x" * before + letter * 60
                for receipt in (
                    self.refused({name: 1}, "", "has no field"),
                    self.refused({"jobId": "job", "desired": name}, "desired", "is no State"),
                ):
                    self.assertNotIn("\ufffd", receipt["reason"])
                    quoted = re.search(r'"(x*(.)\2*)"', receipt["reason"]).group(1)
                    self.assertTrue(name.startswith(quoted) and 60 < len(quoted.encode()) <= 64)

    def test_nul_in_json(self):
        """A value of the client may contain NUL; text that Drover reads may not."""
        steps = [{"name": "only", "actor": "hand"}]
        for i, given in enumerate(({"text": "a\0b"}, {"json": {"x": ["a\0b", "\0"]}})):
            self.created({"jobId": f"job-{i}", "definition": {"steps": steps}, "input": given})
            data = self.client.consume_step("hand").input.data
            self.assertEqual(given.get("json", "a\0b"), json.loads(data) if i else data.decode())
            answer = self.control({"jobId": f"job-{i}", "query": {"withData": True}})
            kept = answer["status"]["input"]
            found = kept.get("json") or base64.b64decode(kept["data"]).decode()
            self.assertEqual(given.get("json", "a\0b"), found)
        for field, message in {
            "job_id": {"jobId": "a\0b"},
            "reply_to": {"jobId": "job", "replyTo": "a\0b"},
            "desired": {"jobId": "job", "desired": "ACTIVE\0"},
            "priority": {"jobId": "job", "priority": "1\0"},
            "complete_by": {"jobId": "job", "completeBy": "1\0"},
            "input.data": {"jobId": "job", "input": {"data": "aGVs\0"}},
            "labels[0].name": {"jobId": "job", "labels": [{"name": "\0"}]},
        }.items():
            with self.subTest(field):
                self.refused(message, field, "must not have NUL")

    # --- fields ---

    def test_unknown_fields(self):
        """Protobuf: they are dropped, so the same Submit without them is equal. JSON: they are
        refused by name, because most of them are typing errors."""
        unknown = b"\xfa\x3e\x03new" + b"\xf8\x3e\x96\x01" + b"\xf9\x3e12345678" + b"\xfd\x3e1234"
        plain = wire.submit("job", [wire.step("only", actor="late")], reply_to=self.client.REPLIES)
        step = plain.definition.steps[0].SerializeToString()
        newer = wire.submit("job", [wire.Step()], reply_to=self.client.REPLIES)
        newer.definition.steps[0].MergeFromString(step + unknown)
        body = newer.SerializeToString() + unknown
        self.assertNotIn(unknown, plain.SerializeToString())
        self.assertEqual(2, body.count(unknown))
        self.client.publish("drover.submit", "submit", body)
        request = self.client.consume_step("late")
        self.start_late()
        self.client.publish("drover.submit", "submit", plain)
        receipts = self.client.until(
            lambda: len(self.client.receipts.get("job", [])) == 2 and self.client.receipts["job"],
            "two receipts",
        )
        self.assertEqual([wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY],
                         [receipt.code for receipt in receipts])
        for_agent = wire.Requests(requests=[request]).SerializeToString() + unknown
        self.client.publish("drover.tasks", "late", for_agent)
        self.succeeds("job")
        query = wire.Control(job_id="job", command_id="q", reply_to=self.client.REPLIES,
                             query=wire.Query()).SerializeToString()
        self.client.publish("drover.control", "control", query + unknown)
        self.client.until(lambda: "q" in self.client.answers, "an answer")
        self.nothing_dead()

    def test_unknown_fields_in_json(self):
        steps = [{"name": "a", "actor": "demo", "lease": 5}]
        self.refused({"jobId": "job", "jobName": 1}, "", 'has no field "jobName"')
        self.refused({"jobId": "job", "definition": {"steps": steps}}, "definition.steps[0]",
                     'has no field "lease"')
        self.refused({"jobId": "job", "input": {"xml": 1}}, "input", 'has no field "xml"')
        self.refused('{"jobId": "a", "job_id": "a"}', "job_id", "is given twice")
        self.refused({"jobId": "job", "input": {"text": "a", "data": ""}}, "input.data",
                     "is given twice")
        for exchange, key, message, field, name in (
            ("drover.control", "control", {"jobId": "a", "stop": {}}, "", "stop"),
            ("drover.control", "control", {"jobId": "a", "query": {"data": 1}}, "query", "data"),
            ("drover.replies", "reply", {"replies": [{"job": "a"}]}, "replies[0]", "job"),
            ("drover.tasks", "demo", {"requests": [{"job": "a"}]}, "requests[0]", "job"),
        ):
            with self.subTest(message):
                body = json.dumps(message)
                self.client.publish(exchange, key, body)
                words = f'{field} has no field "{name}"'.strip()
                self.next_dead_letter(f"INVALID {words}", body.encode())

    def test_spellings(self):
        """The same Submit in every spelling is answered ALREADY; another Submit is a CONFLICT."""
        steps = [wire.step("a", lock_ms=30000), wire.step("b", after=["a"], take_none=True,
                 lock_ms=45000, retry=wire.Policy(backoff_coefficient=2.5, maximum_attempts=3))]
        data = b"\xfb\xff\xfe\0x"  # its base64 has all characters in which the two alphabets differ
        submit = wire.submit("job", steps, desired=wire.STATE_ACTIVE, priority=3,
                             complete_by=253402300799999, events=wire.EVENTS_STEP,
                             input=wire.payload(data, "x/y"))
        self.client.submit(submit)
        self.succeeds("job")
        camel = {
            "jobId": "job",
            "definition": {"steps": [
                {"name": "a", "actor": "demo", "action": "noop", "lockMs": "30000"},
                {"name": "b", "actor": "demo", "action": "noop", "after": ["a"], "takeNone": True,
                 "lockMs": "45000", "retry": {"backoffCoefficient": 2.5, "maximumAttempts": 3}},
            ]},
            "desired": "STATE_ACTIVE",
            "priority": 3,
            "completeBy": "253402300799999",
            "events": "EVENTS_STEP",
            "input": {"contentType": "x/y", "data": "+//+AHg="},
        }
        snake = json.loads(re.sub(r'"([a-z]+[A-Z]\w*)":', lambda found: '"' + re.sub(
            "([A-Z])", lambda x: "_" + x.group(1).lower(), found.group(1)) + '":',
            json.dumps(camel)))
        self.assertIn("job_id", snake)
        text = json.dumps(camel)
        spellings = {
            "lowerCamelCase": text,
            "as in the .proto": json.dumps(snake),
            "mixed": json.dumps(
                {"job_id": "job", **{k: v for k, v in camel.items() if k != "jobId"}}
            ),
            "backwards": json.dumps(dict(reversed(camel.items()))),
            "on many lines": json.dumps(camel, indent="\t") + "\r\n ",
            "numbers": text.replace('"30000"', "30000")
            .replace('"45000"', "45000.0")
            .replace('"253402300799999"', "253402300799999"),
            "exponents": text.replace('"30000"', "3e4").replace('"45000"', "4.5E+4"),
            "numbers as strings": text.replace('"priority": 3', '"priority": "3"').replace(
                '"maximumAttempts": 3', '"maximumAttempts": "3"'
            ),
            "short enums": text.replace("STATE_ACTIVE", "ACTIVE").replace("EVENTS_STEP", "STEP"),
            "enums as numbers": text.replace('"STATE_ACTIVE"', "2").replace('"EVENTS_STEP"', "2"),
            "base64 unpadded": text.replace("+//+AHg=", "+//+AHg"),
            "base64 for URLs": text.replace("+//+AHg=", "-__-AHg="),
            "base64 for URLs, unpadded": text.replace("+//+AHg=", "-__-AHg"),
            "base64 of both alphabets": text.replace("+//+AHg=", "+__+AHg="),
            "nulls": text[:-1] + ', "workflow": null, "labels": null, "startAt": null}',
            "defaults": text[:-1] + ', "workflow": "", "labels": [], "startAt": "0"}',
            "escapes": text.replace("job", "\\u006aob").replace("noop", "n\\u006fop"),
        }
        self.assertEqual(len(spellings), len(set(spellings.values())))
        for what, body in spellings.items():
            with self.subTest(what):
                self.assertEqual("RECEIPT_CODE_ALREADY", self.send_json(body)["code"])
                self.assertEqual("OUTCOME_SUCCEEDED", self.query_outcome())
        for what, body in {
            "another lease": text.replace("30000", "30001"),
            "other data": text.replace("+//+AHg=", "+//+AHk="),
            "another enum": text.replace("EVENTS_STEP", "EVENTS_JOB"),
        }.items():
            with self.subTest(what):
                self.assertEqual("RECEIPT_CODE_CONFLICT", self.send_json(body)["code"])

    def query_outcome(self):
        """Returns what a Query in JSON says, because no event is sent a second time."""
        return self.control({"job_id": "job", "query": {"max_steps": 1}})["status"]["outcome"]

    def test_wrong_types_in_json(self):
        for given, field, reason in (
            ({"jobId": 5}, "job_id", "must be a string"),
            ({"priority": -1}, "priority", "must be a whole number of 32 bits, not negative"),
            ({"priority": 2**32}, "priority", "must be a whole number of 32 bits"),
            ({"startAt": 1.5}, "start_at", "must be a whole number of 64 bits"),
            ({"startAt": "9223372036854775808"}, "start_at", "must be a whole number of 64 bits"),
            ({"startAt": "soon"}, "start_at", "must be a whole number of 64 bits"),
            ({"desired": "ON"}, "desired", '"ON" is no State'),
            ({"desired": 17}, "desired", "must be STATE_ACTIVE or STATE_DISABLED"),
            ({"labels": {}}, "labels", "must be an array"),
            ({"input": "x"}, "input", "must be an object"),
            ({"input": {"data": "a"}}, "input.data", "must be base64"),
            ({"input": {"data": "a b c d="}}, "input.data", "must be base64"),
        ):
            with self.subTest(given):
                definition = {"steps": [{"name": "a", "actor": "demo"}]}
                message = {"jobId": "job", "definition": definition, **given}
                self.refused(message, field, reason)

    # --- commands ---

    def test_control_in_json(self):
        """The answer has the same encoding, wherever the reply queue is named, and the same id and
        text."""
        self.client.submit(wire.submit("job", [wire.step("only", actor="hand")]))
        request = self.client.consume_step("hand")
        by_field = {"jobId": "job", "commandId": "q-1", "replyTo": JSON_REPLIES, "query": {}}
        self.client.publish("drover.control", "control", json.dumps(by_field))
        kind, answer, _ = self.next_json()
        self.assertEqual(("Answer", "q-1", "ANSWER_CODE_DONE"),
                         (kind, answer["commandId"], answer["code"]))
        self.assertEqual("STEP_STATE_RUNNING", answer["status"]["steps"][0]["state"])
        answer = self.control({"jobId": "job", "query": {"fromStep": 1}}, message_id="q-2")
        self.assertEqual("q-2", answer["commandId"])
        self.assertNotIn("steps", answer["status"])
        seq = int(answer["status"]["seq"])
        cancel = {"jobId": "job", "commandId": "c-1", "cancel": {}}
        superseded = ("18446744073709551615", seq + 1, str(seq + 1))
        for i, wrong in enumerate(superseded):
            self.assertEqual("ANSWER_CODE_SUPERSEDED", self.control(
                {**cancel, "commandId": f"s-{i}", "ifSeq": wrong})["code"])
        self.assertEqual("ANSWER_CODE_DONE", self.control({**cancel, "if_seq": str(seq)})["code"])
        self.assertEqual("ANSWER_CODE_DONE", self.control(cancel)["code"])
        self.assertEqual("ANSWER_CODE_UNCHANGED",
                         self.control({**cancel, "commandId": "c-2"})["code"])
        self.assertEqual("ANSWER_CODE_INVALID",
                         self.control({**cancel, "cancel": None, "pause": {}})["code"])
        self.assertEqual("ANSWER_CODE_UNKNOWN_WORKFLOW", self.control(
            {**cancel, "commandId": "c-3", "cancel": None, "migrate": {"workflow": "w"}})["code"])
        self.assertEqual("ANSWER_CODE_UNKNOWN_JOB",
                         self.control({"jobId": "nobody", "query": {}})["code"])
        self.client.reply(request)
        self.assertEqual(wire.OUTCOME_CANCELLED, self.client.settled("job").outcome)
        self.client.submit(wire.submit("done", wire.chain(1)))
        self.succeeds("done")
        self.assertEqual("ANSWER_CODE_WRONG_STATE",
                         self.control({**cancel, "jobId": "done"})["code"])
        self.nothing_dead()

    def test_bad_control_in_json(self):
        """The answer says what is wrong, in the same encoding and with the sender's names. Nothing
        else happens."""
        for message, reason in (
            ({"jobId": "a", "query": {}, "cancel": {}}, "cancel: only one of its kind"),
            ({"jobId": "a", "cancel": {}}, "command_id: "),
            ({"jobId": "a", "query": {"maxSteps": -1}}, "query.max_steps: "),
            ({"jobId": "a", "query": True}, "query: must be an object"),
            ({"jobId": "a", "query": {}, "stop": 1}, 'has no field "stop"'),
            ({"jobId": "a", "query": {"data": 1}}, 'query: has no field "data"'),
            ({"jobId": "a b", "query": {}}, "job_id: "),
            ({"query": {}}, "job_id: "),
            ('{"jobId": ', ""),
        ):
            with self.subTest(message):
                answer = self.control(message)
                self.assertEqual("ANSWER_CODE_INVALID", answer["code"])
                self.assertTrue(answer["reason"].startswith(reason), answer)
                if isinstance(message, dict):
                    self.assertEqual(message.get("jobId", ""), answer.get("jobId", ""))
        by_field = {"jobId": "a", "commandId": "c-2", "replyTo": JSON_REPLIES, "kill": {}, "if": 1}
        self.client.publish("drover.control", "control", json.dumps(by_field))
        answer = self.next_json()[1]
        self.assertEqual(("ANSWER_CODE_INVALID", "c-2"), (answer["code"], answer["commandId"]))
        self.nothing_dead()

    def test_bad_control(self):
        """In protobuf: a wrong Control, a body that is none, an empty one. Without an address for
        the answer the message is a dead letter."""
        bad_name = wire.Control(job_id="a b", query=wire.Query()).SerializeToString()
        bodies = {
            "bad-name": (bad_name, "job_id: "),
            "empty": (b"", "job_id: "),
            "cut": (bad_name[:-1], "is no protobuf"),
            "oversized": (bad_name + b"\0" * (4 * MIB), "TOO_LARGE"),
        }
        for command, (body, reason) in bodies.items():
            with self.subTest(command):
                self.client.publish("drover.control", "control", body, message_id=command,
                                    reply_to=self.client.REPLIES)
                answer = self.client.until(lambda c=command: self.client.answers.get(c),
                                           "an answer")
                self.assertEqual(wire.ANSWER_CODE_INVALID, answer.code)
                self.assertTrue(answer.reason.startswith(reason), answer.reason)
        self.nothing_dead()
        for properties in ({}, {"reply_to": "drover.submit"}):
            self.client.publish("drover.control", "control", bad_name, **properties)
            self.next_dead_letter("INVALID ", bad_name)

    # --- agents that use JSON ---

    def test_replies_in_json(self):
        """Every form of a result, errors, and Progress with its answer."""
        names = ["json", "text", "data", "none", "error"]
        steps = [wire.step(name, actor="hand", heartbeat_ms=20000) for name in names]
        last = wire.step("last", actor="hand", after=names)
        self.client.submit(wire.submit("job", [*steps, last]))
        requests = {}
        for _ in names:
            request = self.client.consume_step("hand")
            requests[request.step] = request

        def send(content):
            self.client.publish("drover.replies", "reply", json.dumps(content),
                                reply_to=JSON_REPLIES)

        token = {name: {"jobId": "job", "step": name, "token": r.token}
                 for name, r in requests.items()}
        send({"progress": [{**token["json"], "fraction": 0.5, "note": TEXT}]})
        kind, answers, _ = self.next_json()
        self.assertEqual("ProgressAnswers", kind)
        answer = answers["answers"][0]
        self.assertEqual((True, requests["json"].token), (answer["wanted"], answer["token"]))
        self.assertGreater(int(answer["lockedUntil"]), int(answer["now"]))
        send({"replies": [
            {**token["json"], "achieved": "STATE_ACTIVE", "result": {"json": {"a": [1, None]}}},
            {**token["text"], "achieved": "ACTIVE", "result": {"text": TEXT}, "durationMs": "5"},
        ]})
        send({"replies": [
            {**token["data"], "achieved": 2, "result": {"content_type": "x/y", "data": "AP_-"}},
            {"job_id": "job", "step": "none", "token": requests["none"].token, "achieved": 2,
             "duration_ms": 5},
            {**token["error"], "error": {"class": "c", "message": TEXT, "verdict": "TRANSIENT",
                                         "effect": "EFFECT_NONE", "retryAfterMs": "100"}},
        ]})
        retried = self.client.consume_step("hand")
        self.assertEqual(("error", TEXT, wire.EFFECT_NONE), (
            retried.step, retried.last_error.message, retried.last_error.effect))
        send({"replies": [{**token["error"], "token": retried.token, "achieved": "STATE_ACTIVE"}]})
        request = self.client.consume_step("hand")
        results = {r.step: (r.payload.content_type, r.payload.data) for r in request.results}
        self.assertEqual({
            "json": ("application/json", b'{"a":[1,null]}'),
            "text": ("text/plain; charset=utf-8", TEXT.encode()),
            "data": ("x/y", b"\0\xff\xfe"),
        }, results)
        self.client.reply(request)
        self.succeeds("job")
        self.nothing_dead()

    def test_requests_in_json(self):
        """drover-agent reads requests in JSON, and replies in JSON."""
        replies = []

        def on_message(channel, method, properties, body):
            replies.append((properties.content_type, body))
            channel.basic_ack(method.delivery_tag)

        self.client.submit(wire.submit("job", [wire.step("only", actor="late")],
                                       input=wire.payload(TEXT.encode(), "text/plain")))
        request = self.client.consume_step("late")
        listener = client.Listener(self.client, on_message, exchange="drover.reply.late")
        self.addCleanup(listener.stop)
        self.start_late()
        message = {"requests": [{
            "jobId": "job", "step": "only", "actor": "late", "action": "echo", "desired": "ACTIVE",
            "token": request.token, "idempotency_key": request.idempotency_key, "turn": 1,
            "lockMs": request.lock_ms, "input": {"text": TEXT}}]}
        self.client.publish("drover.tasks", "late", json.dumps(message))
        event = self.succeeds("job")
        self.assertEqual(TEXT, event.results[0].payload.data.decode())
        content_type, body = servers.wait_for(lambda: replies, "the reply")[0]
        self.assertEqual("application/json", content_type)
        self.assertEqual({"text": TEXT}, {
            k: v for k, v in json.loads(body)["replies"][0]["result"].items() if k == "text"})
        self.nothing_dead()


if __name__ == "__main__":
    tap.main()
