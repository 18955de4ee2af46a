# SPDX-License-Identifier: Apache-2.0
"""The owner of a job: what one user can do to the jobs and queues of another, with the users of
deploy/ and security.identity = required. Each user tries by hand, with all that an attacker could
know."""

import pathlib
import secrets
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import pika
import pika.exceptions

import cluster
import servers
import tap
import wire

VHOST = "drover"
ADMIN, WORD = "test-admin", secrets.token_hex(16)  # of this test only
ANN, BOB, OPERATOR = "ann", "bob", "drover-operator"
ORDER = """name = "order"; version = 1;
steps = ( { name = "charge"; actor = "payments"; action = "charge";
            retry = { on_permanent = "park"; }; } );
"""
OTHER = ORDER.replace("order", "other")
DENIED = wire.ANSWER_CODE_INVALID


class Hand:
    """A user of the broker with its own rights, on one connection."""

    def __init__(self, test, user):
        self.user = user
        self.connection = test.connect(user)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        self.received = []

    def publish(self, exchange, key, message, **properties):
        body = message if isinstance(message, bytes) else message.SerializeToString()
        properties = {"user_id": self.user, **properties}
        self.channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))

    def submit(self, job, properties=None, **fields):
        """Submits, and returns the Receipt."""
        fields.setdefault("reply_to", self.queue)
        self.publish(
            "drover.submit", "submit", wire.Submit(job_id=job, **fields), **(properties or {})
        )
        return self.await_message(wire.Receipt, lambda m: m.job_id == job)

    def control(self, job, properties=None, **fields):
        """Sends a command, and returns the Answer."""
        command = secrets.token_hex(8)
        message = wire.Control(job_id=job, command_id=command, reply_to=self.queue, **fields)
        self.publish("drover.control", "control", message, **(properties or {}))
        return self.await_message(wire.Answer, lambda m: m.command_id == command)

    def take(self, queue=None):
        """Returns all messages received so far."""
        while True:
            method, properties, body = self.channel.basic_get(queue or self.queue, auto_ack=True)
            if not method:
                return self.received
            self.received.append(
                getattr(wire, properties.type.removeprefix("drover.v1.")).FromString(body)
            )

    def await_message(self, kind, matches):
        """Returns the first message of that kind that matches, and removes it."""

        def matching():
            return [m for m in self.take() if isinstance(m, kind) and matches(m)]

        found = servers.wait_for(matching, f"{kind.__name__} for {self.user}")[0]
        self.received.remove(found)
        return found


class Owners(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = wire.BUILD / "integration" / "test_owners"
        shutil.rmtree(cls.directory, ignore_errors=True)
        cls.secrets = cls.directory / "secrets"
        cls.secrets.parent.mkdir(parents=True)
        subprocess.run(
            [
                sys.executable, "-B", wire.ROOT / "deploy" / "accounts.py", "--dir", cls.secrets,
                "--actor=payments", f"--client={ANN}", f"--client={BOB}",
            ],
            check=True,
        )
        cls.rabbit = servers.Rabbit(
            conf=f"load_definitions = {cls.secrets / 'rabbitmq-definitions.json'}\n"
        )
        cls.redis = servers.Redis()
        servers.start_for(cls, cls.rabbit, cls.redis)
        cls.rabbit.rabbitmqctl("add_user", ADMIN, WORD)
        cls.rabbit.rabbitmqctl("set_permissions", "-p", VHOST, ADMIN, ".*", ".*", ".*")
        workflows = cls.directory / "workflows"
        workflows.mkdir()
        (workflows / "order.cfg").write_text(ORDER)
        (workflows / "other.cfg").write_text(OTHER)
        cls.workflows = str(workflows)
        cls.store = cluster.Store(cls.redis.port, "drover:")
        cls.addClassCleanup(cls.store.redis.close)

    def setUp(self):
        self.store.redis.flushall()
        self.job = f"job-{secrets.token_hex(4)}"

    # --- users ---

    @classmethod
    def password(cls, user):
        return WORD if user == ADMIN else (cls.secrets / f"rabbitmq-{user}").read_text().strip()

    def connect(self, user):
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                servers.HOST, self.rabbit.port, VHOST,
                pika.PlainCredentials(user, self.password(user)),
            )
        )
        self.addCleanup(lambda: connection.is_open and connection.close())
        return connection

    def daemon(self, role, **more):
        user = f"drover-{role}"
        settings = {
            "name": f"{role}-1",
            "log": {"format": "json"},
            "rabbitmq": {
                "host": servers.HOST,
                "port": self.rabbit.port,
                "vhost": VHOST,
                "user": user,
                "password": self.password(user),
                "declare": False,
            },
            "redis": {"host": servers.HOST, "port": self.redis.port},
        }
        directory = self.directory / self.id().rpartition(".")[2]
        directory.mkdir(exist_ok=True)
        daemon = cluster.Daemon(role, f"{role}-1", directory, cluster.merged(settings, more))
        self.addCleanup(daemon.stop)
        daemon.start()
        servers.wait_for(daemon.up, f"{role} to be up")
        return daemon

    def begin(self, definitions="registered", identity="required", alert_command="", **security):
        self.scheduler = self.daemon(
            "scheduler", scheduler={"workflows": self.workflows, "definitions": definitions,
                                    "alert_command": alert_command},
            security={"identity": identity, "operators": OPERATOR, **security})
        self.admin = self.connect(ADMIN).channel()
        for queue in ("drover.dead", "drover.task.payments"):
            self.admin.queue_purge(queue)
        self.ann, self.bob = Hand(self, ANN), Hand(self, BOB)

    def request(self):
        """Returns the next request for payments."""

        def take():
            method, _, body = self.admin.basic_get("drover.task.payments", auto_ack=True)
            return method and wire.Requests.FromString(body).requests[0]

        return servers.wait_for(take, "a request")

    def answer(self, request, data=b""):
        reply = wire.StepReply(
            job_id=request.job_id, step=request.step, token=request.token, achieved=request.desired,
            result=wire.payload(data),
        )
        self.admin.basic_publish(
            "drover.reply.payments", "reply", wire.Replies(replies=[reply]).SerializeToString()
        )

    def dead(self):
        """Returns the reason of the next dead letter."""

        def take():
            method, properties, _ = self.admin.basic_get("drover.dead", auto_ack=True)
            return method and properties.headers["drover-reason"]

        return servers.wait_for(take, "a dead letter")

    def assert_refused(self, receipt, field):
        self.assertEqual(
            (wire.RECEIPT_CODE_REJECTED, field), (receipt.code, receipt.field), receipt
        )

    def command(self, *words, user):
        url = f"amqp://{user}:{self.password(user)}@{servers.HOST}:{self.rabbit.port}/{VHOST}"
        done = subprocess.run(
            [wire.BUILD / "cli" / "drover", *words], text=True, capture_output=True, timeout=120,
            env={**cluster.own_environment(), "DROVER_URL": url},
        )
        return done.returncode, done.stdout + done.stderr

    # --- jobs ---

    def test_end_of_a_job_is_its_owners(self):
        """A user who repeats the Submit of another takes over nothing, and receives nothing."""
        self.begin()
        created = self.ann.submit(self.job, workflow="order", input=wire.payload(b"7"))
        self.assertEqual(wire.RECEIPT_CODE_CREATED, created.code)
        self.assertEqual(wire.RECEIPT_CODE_CONFLICT,
                         self.bob.submit(self.job, workflow="order", input=wire.payload(b"7")).code)
        self.answer(self.request(), b"card 4111")
        self.assertEqual(
            b"card 4111",
            self.ann.await_message(wire.JobEvent, lambda m: True).results[0].payload.data,
        )
        self.assertEqual([], self.bob.take())
        self.assertEqual(ANN, self.ann.control(self.job, query=wire.Query()).status.submitter)

    def test_two_clients_of_one_user_get_the_event(self):
        self.begin()
        second = Hand(self, ANN)
        self.ann.submit(self.job, workflow="order")
        self.assertEqual(wire.RECEIPT_CODE_ALREADY, second.submit(self.job, workflow="order").code)
        self.answer(self.request())
        for hand in (self.ann, second):
            hand.await_message(wire.JobEvent, lambda m: m.job_id == self.job)

    def test_job_of_another_is_unknown(self):
        """No query and no command reaches the job, and the list leaves it out. An operator reaches
        all jobs."""
        self.begin()
        self.ann.submit(self.job, workflow="order", input=wire.payload(b"secret"))
        for name, fields in {
            "query": {"query": wire.Query(with_data=True)},
            "history": {"history": wire.History()},
            "kill": {"kill": wire.Kill()},
            "cancel": {"cancel": wire.Cancel()},
            "pause": {"pause": wire.Pause()},
            "retry": {"retry": wire.Retry()},
            "one step": {"retry": wire.Retry(steps=["charge"])},
            "ahead": {
                "set_desired": wire.SetDesired(desired=wire.STATE_DISABLED),
                "issued_at": int(time.time() * 1000) + 300000,
            },
            "migrate": {"migrate": wire.Migrate(workflow="other")},
        }.items():
            with self.subTest(name):
                answer = self.bob.control(self.job, **fields)
                self.assertEqual(wire.ANSWER_CODE_UNKNOWN_JOB, answer.code, answer)
                self.assertFalse(answer.HasField("status") or answer.history)
        self.assertEqual([], list(self.bob.control("", list_jobs=wire.ListJobs()).jobs))
        self.assertEqual(
            [self.job], [j.job_id for j in self.ann.control("", list_jobs=wire.ListJobs()).jobs]
        )
        self.assertEqual(
            (0, f"{self.job}\n"), self.command("list", "-w", "order", "-o", "id", user=ANN)
        )
        self.assertEqual(
            (0, "no such jobs\n"), self.command("list", "-w", "order", "-o", "id", user=BOB)
        )
        self.assertEqual((0, f"{self.job}\n"), self.command("list", "-o", "id", user=OPERATOR))
        self.assertEqual(0, self.command("cancel", self.job, user=OPERATOR)[0])
        self.assertEqual(
            wire.STATE_DISABLED, self.ann.control(self.job, query=wire.Query()).status.desired
        )

    def test_history_names_the_user(self):
        """The history names the user that the broker has proven before what the sender says of
        itself, and has no token."""
        self.begin()
        self.ann.submit(self.job, workflow="order")
        token = self.request().token
        operator = Hand(self, OPERATOR)
        operator.control(self.job, pause=wire.Pause(), by=ANN, reason="changed my mind")
        answer = self.ann.control(self.job, history=wire.History())
        self.assertIn(
            "drover-operator(ann)", [e.detail for e in answer.history if e.event == "command"][0]
        )
        self.assertIn(
            "drover-operator(ann)", self.ann.control(self.job, query=wire.Query()).status.held_by
        )
        self.assertNotIn(token, str(answer))

    def test_jobs_of_earlier_builds_are_for_operators(self):
        self.begin(identity="off")
        self.ann.submit(self.job, {"user_id": None}, workflow="order")
        self.scheduler.stop()
        self.begin()
        self.assertEqual(
            wire.ANSWER_CODE_UNKNOWN_JOB, self.ann.control(self.job, query=wire.Query()).code
        )
        self.assertEqual(
            wire.RECEIPT_CODE_CONFLICT, self.ann.submit(self.job, workflow="order").code
        )
        self.assertEqual(0, self.command("get", self.job, user=OPERATOR)[0])

    # --- senders ---

    def test_messages_without_a_user_are_refused(self):
        self.begin()
        self.assert_refused(
            self.ann.submit(self.job, {"user_id": None}, workflow="order"), "user_id"
        )
        answer = self.ann.control(self.job, {"user_id": None}, list_jobs=wire.ListJobs())
        self.assertEqual(DENIED, answer.code)
        self.assertIn("user_id", answer.reason)
        with self.assertRaises(pika.exceptions.ChannelClosedByBroker):
            self.bob.submit(self.job, {"user_id": ANN}, workflow="order")

    def test_only_supervisors_send_recover(self):
        """Recover and Notify of other users are refused. Those of a supervisor, under the name of
        its login, count."""
        self.begin()
        soon = int(time.time() * 1000) + 1000
        self.ann.submit(self.job, workflow="order", start_at=soon)
        for command in (
            {"recover": wire.Recover(steps=[0])},
            {"notify": wire.Notify(seq=1, torn=True)},
        ):
            for hand in (self.ann, Hand(self, OPERATOR)):
                answer = hand.control(self.job, **command)
                self.assertEqual(DENIED, answer.code)
                self.assertIn("security.supervisors", answer.reason)
        self.daemon("supervisor", supervisor={"period": "100ms", "lease": "1s"})
        # the step was dispatched, which only a Recover can cause
        self.assertEqual(self.job, self.request().job_id)

    # --- what may be started ---

    def test_definitions(self):
        """Only registered definitions; or any, but none under a registered name."""
        steps = [wire.step("pay-me", "payments", action="refund")]
        self.begin()
        self.assert_refused(
            self.ann.submit(self.job, definition=wire.Workflow(steps=steps)), "definition"
        )
        self.scheduler.stop()
        self.begin(definitions="any")
        for version in (1, 2):
            head = {"name": "order", "version": version}
            self.assert_refused(
                self.ann.submit(self.job, definition=wire.Workflow(steps=steps, **head)),
                "definition.name",
            )
        created = self.ann.submit(
            self.job, definition=wire.Workflow(steps=steps, name="mine", version=1)
        )
        self.assertEqual((wire.RECEIPT_CODE_CREATED, "mine@1"), (created.code, created.workflow))

    def test_only_operators_decide_about_steps(self):
        """If only registered definitions may run, a submitter cannot say that a step is done, or
        what it is to do."""
        self.begin()
        self.ann.submit(self.job, workflow="order")
        request = self.request()
        reply = wire.StepReply(
            job_id=request.job_id, step=request.step, token=request.token,
            error=wire.Error(**{"class": "NO"}, message="no", verdict=wire.VERDICT_PERMANENT),
        )
        self.admin.basic_publish(
            "drover.reply.payments", "reply", wire.Replies(replies=[reply]).SerializeToString()
        )
        servers.wait_for(
            lambda: self.ann.control(self.job, query=wire.Query()).status.steps[0].state
            == wire.STEP_STATE_PARKED,
            "the step to be parked",
        )
        resolve = wire.Resolve(step="charge", state=wire.STATE_ACTIVE)
        retry = wire.Retry(steps=["charge"], arguments=wire.payload(b"0.01"))
        change = wire.Retry(steps=["charge"], change=wire.Step(lock_ms=1000))
        migrate = wire.Migrate(workflow="order", begin_anew=True)
        for command in (
            {"resolve": resolve}, {"retry": retry}, {"retry": change}, {"migrate": migrate},
        ):
            answer = self.ann.control(self.job, **command)
            self.assertEqual(DENIED, answer.code)
            self.assertIn("security.operators", answer.reason)
        operator = Hand(self, OPERATOR)
        answer = operator.control(
            self.job, retry=wire.Retry(steps=["charge"], change=wire.Step(actor="stranger"))
        )
        self.assertEqual(wire.ANSWER_CODE_INVALID, answer.code)
        self.assertIn("no registered workflow has an actor stranger", answer.reason)
        self.assertEqual(wire.ANSWER_CODE_DONE, operator.control(self.job, resolve=resolve).code)

    def test_who_may_start_what(self):
        self.begin(submitters=[{"user": ANN, "workflows": ["order"]}])
        self.assertEqual(
            wire.RECEIPT_CODE_CREATED, self.ann.submit(self.job, workflow="order@1").code
        )
        self.assert_refused(self.ann.submit(f"{self.job}-2", workflow="other"), "workflow")
        self.assert_refused(self.bob.submit(f"{self.job}-3", workflow="order"), "user_id")
        answer = self.ann.control(self.job, migrate=wire.Migrate(workflow="other"))
        self.assertEqual(DENIED, answer.code)
        self.assertIn("migrate.workflow", answer.reason)
        operator = Hand(self, OPERATOR)
        self.assertEqual(
            wire.RECEIPT_CODE_CREATED, operator.submit(f"{self.job}-4", workflow="other").code
        )

    # --- where answers go ---

    def test_scheduler_writes_only_where_the_sender_may(self):
        """The scheduler writes into no queue that the sender has no right to: neither Receipts nor
        events, for good messages and for bad ones."""
        self.begin()
        self.admin.queue_declare("billing.payments", durable=True)
        self.admin.queue_declare(f"{BOB}.inbox", durable=True)
        for queue in ("billing.payments", f"{BOB}.inbox", ANN, f"{ANN}.", f"{ANN}x.inbox"):
            submit = wire.Submit(job_id=self.job, workflow="order", reply_to=queue)
            self.ann.publish("drover.submit", "submit", submit)
            self.assertRegex(self.dead(), "^DENIED reply_to must be a queue ")
            self.ann.publish(
                "drover.submit", "submit", wire.Submit(job_id=self.job, workflow="order"),
                reply_to=queue,
            )
            self.assertRegex(self.dead(), "^DENIED reply_to ")
            self.ann.publish("drover.submit", "submit", b"{", reply_to=queue)
            self.assertRegex(self.dead(), "^MALFORMED")
            control = wire.Control(
                job_id=self.job, command_id="c", query=wire.Query(), reply_to=queue
            )
            self.ann.publish("drover.control", "control", control)
            self.assertRegex(self.dead(), "^DENIED reply_to ")
        for queue in ("billing.payments", f"{BOB}.inbox"):
            self.assertEqual(0, self.admin.queue_declare(queue, passive=True).method.message_count)
            self.admin.queue_delete(queue)
        self.assertFalse(self.store.job(self.job))

    def test_replies_count_without_a_queue_for_answers(self):
        """An agent's queue for answers to its Progress is not named after a user. It gets no
        answers, and the replies count."""
        self.begin()
        self.ann.submit(self.job, workflow="order")
        request = self.request()
        reply = wire.StepReply(
            job_id=request.job_id, step=request.step, token=request.token, achieved=request.desired
        )
        self.admin.queue_declare("some.answers")
        self.admin.basic_publish(
            "drover.reply.payments", "reply", wire.Replies(replies=[reply]).SerializeToString(),
            pika.BasicProperties(reply_to="some.answers"),
        )
        self.ann.await_message(wire.JobEvent, lambda m: m.job_id == self.job)
        self.assertEqual(
            0, self.admin.queue_declare("some.answers", passive=True).method.message_count
        )
        self.admin.queue_delete("some.answers")

    def test_own_queues(self):
        """A durable queue named after its user, a queue named by the broker, and one that the
        settings allow."""
        self.begin(submitters=[{"user": BOB, "replies": "shop-"}, {"user": "*"}])
        self.ann.channel.queue_declare(f"{ANN}.inbox", durable=True)
        self.admin.queue_declare("shop-inbox")
        self.ann.publish("drover.submit", "submit", wire.Submit(job_id=self.job, workflow="order",
                                                                reply_to=f"{ANN}.inbox"))
        servers.wait_for(lambda: self.ann.take(f"{ANN}.inbox"), "the Receipt")
        self.bob.publish(
            "drover.submit",
            "submit",
            wire.Submit(job_id=f"{self.job}-2", workflow="order", reply_to="shop-inbox"),
        )
        servers.wait_for(
            lambda: self.admin.queue_declare("shop-inbox", passive=True).method.message_count,
            "the Receipt",
        )
        self.ann.channel.queue_delete(f"{ANN}.inbox")
        self.admin.queue_delete("shop-inbox")

    # --- alerts ---

    def test_alerts_share_the_command_by_owner(self):
        """The alert of ann comes soon although hundreds of bob came before, and the number of bob's
        that were left out is reported."""
        pages, command = self.directory / "pages", self.directory / "page"
        pages.unlink(missing_ok=True)
        pages.touch()
        command.write_text(f"#!/bin/sh\n{{ cat; echo; }} >>{pages}\nsleep 0.02\n")
        command.chmod(0o755)
        self.begin(definitions="any", alert_command=str(command))
        steps = [wire.step(f"s{i}", f"absent-{i}") for i in range(400)]
        self.bob.submit(self.job, definition=wire.Workflow(steps=steps))
        servers.wait_for(lambda: "absent" in self.scheduler.log.read_text(), "the first alert")
        self.ann.submit(
            f"{self.job}-2", definition=wire.Workflow(steps=[wire.step("fire", "fire-brigade")])
        )
        lines = servers.wait_for(
            lambda: (text := pages.read_text())
            and '"step":"fire"' in text
            and "ALERTS_LEFT_OUT" in text
            and text.split("\n"),
            "both alerts",
        )
        (left_out,) = [line for line in lines if "ALERTS_LEFT_OUT" in line]
        self.assertIn(f'"value":"{BOB}"', left_out)

    # --- identity off ---

    def test_identity_off_is_logged(self):
        self.begin(identity="off", definitions="any")
        self.assertEqual(1, len(self.scheduler.records("identity_off")))
        self.assertEqual(
            wire.RECEIPT_CODE_CREATED,
            self.ann.submit(self.job, {"user_id": None}, workflow="order").code,
        )
        self.assertEqual(wire.ANSWER_CODE_DONE, self.bob.control(self.job, query=wire.Query()).code)


if __name__ == "__main__":
    tap.main()
