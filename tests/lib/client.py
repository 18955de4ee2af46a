# SPDX-License-Identifier: Apache-2.0
"""A client of Drover for tests: submits, asks, and keeps all that it receives

It survives restarts of the broker: its reply queue is durable, and it repeats each call on a new
connection. So one of its publishes can arrive twice, which Drover is made for.
"""

import contextlib
import itertools
import threading

import pika
import pika.exceptions

import servers
import wire

LOST = (pika.exceptions.AMQPConnectionError, pika.exceptions.AMQPChannelError, OSError)
UNROUTED = (pika.exceptions.UnroutableError, pika.exceptions.NackError)
CONFIRM_S = 20
BATCHES = {"Receipts": wire.Receipts, "JobEvents": wire.JobEvents}


def publish(channel, *arguments, **more):
    """basic_publish() over a channel with confirms. The connection is given up if none comes, as by
    a daemon (confirm_ms): RabbitMQ 3.10 may lose one when a node that was frozen goes on."""
    connection = channel.connection._impl
    lost = pika.exceptions.StreamLostError("no confirm")
    timer = connection._adapter_call_later(CONFIRM_S, lambda: connection._terminate_stream(lost))
    try:
        return channel.basic_publish(*arguments, **more)
    finally:
        connection._adapter_remove_timeout(timer)


class Client:
    REPLIES = "test.replies"
    DEAD = "drover.dead"

    def __init__(self, rabbit, vhost):
        # of several nodes pika takes the first that answers
        self.parameters = [
            pika.ConnectionParameters(
                host=host,
                port=port,
                virtual_host=vhost,
                credentials=pika.PlainCredentials(rabbit.user, rabbit.password),
                heartbeat=0,
                blocked_connection_timeout=60,
            )
            for host, port in rabbit.addresses
        ]
        self._parameters = self.parameters  # in the order in which they are tried
        self._user, self._queue_arguments = rabbit.user, rabbit.queue_arguments
        self._connection = None
        self._channel = None
        self._commands = itertools.count(1)
        # gets each Submit, each Control, and each message that the client receives
        self.watch = lambda message: None
        self.batches = []  # of Receipts and JobEvents
        self.receipts = {}  # job -> its Receipts, in order
        self.events = {}  # job -> its JobEvents, in order
        self.answers = {}  # command id -> Answer

    def prefer(self, node):
        """Connects to this node of several first, from now on."""
        self._parameters = self.parameters[node:] + self.parameters[:node]
        self.close()

    def close(self):
        if self._connection and self._connection.is_open:
            with contextlib.suppress(*LOST):  # the broker may have been away meanwhile
                self._connection.close()

    def call(self, function, timeout=60):
        """Calls function(channel), and repeats that on a new channel while the broker is away."""

        def attempt():
            try:
                return (function(self._open()),)
            except UNROUTED as error:
                # its queue had no leader: RabbitMQ 3.10 may refuse all else on this channel, too
                if len(self._parameters) > 1 and isinstance(error, pika.exceptions.NackError):
                    self.close()
                    return None
                raise
            except LOST:
                self._channel = None
                return None

        return servers.wait_for(attempt, "the broker", timeout)[0]

    def _open(self):
        if not self._connection or not self._connection.is_open:
            self._connection = pika.BlockingConnection(self._parameters)
            self._channel = None
        if not self._channel or not self._channel.is_open:
            channel = self._connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(self.REPLIES, durable=True, arguments=self._queue_arguments)
            self._channel = channel
        return self._channel

    # --- out ---

    def publish(self, exchange, key, body=b"", mandatory=True, **properties):
        if not isinstance(body, (bytes, str)):
            body = body.SerializeToString()
        properties = pika.BasicProperties(
            **{"user_id": self._user, "delivery_mode": 2, **properties}
        )
        self.call(lambda c: publish(c, exchange, key, body, properties, mandatory))

    def submit(self, submit):
        self._about_to(submit)
        self.publish("drover.submit", "submit", submit)

    def submit_together(self, submits):
        """Submits several jobs in one message."""
        for submit in submits:
            self._about_to(submit)
        self.publish("drover.submit", "submit", wire.Submits(submits=submits),
                     type="drover.v1.Submits")

    def _about_to(self, submit):
        if not submit.reply_to:
            submit.reply_to = self.REPLIES
        self.watch(submit)

    def command(self, job_id, command_id=None, **command):
        """Sends a command, such as query=wire.Query(), and returns its id. @command_id: it is sent
        again."""
        again = bool(command_id)
        command_id = command_id or f"c{next(self._commands)}"
        message = wire.Control(
            job_id=job_id, command_id=command_id, reply_to=self.REPLIES, **command
        )
        if not again:
            self.watch(message)
        self.publish("drover.control", "control", message)
        return command_id

    def control(self, job_id, **command):
        """Sends a command, and returns its Answer."""
        command_id = self.command(job_id, **command)
        return self.until(lambda: self.answers.get(command_id), f"the answer to {command}")

    def status(self, job_id):
        return self.control(job_id, query=wire.Query()).status

    # --- in ---

    def _take(self, properties, body):
        kind = (properties.type or "").removeprefix("drover.v1.")
        message = {"Receipt": wire.Receipt, "JobEvent": wire.JobEvent, "Answer": wire.Answer,
                   **BATCHES}[kind]()
        message.ParseFromString(body)
        if kind in BATCHES:
            self.batches.append(message)
            for one in (*getattr(message, "receipts", ()), *getattr(message, "events", ())):
                self._file(one)
        else:
            self._file(message)

    def _file(self, message):
        self.watch(message)
        if isinstance(message, wire.Receipt):
            self.receipts.setdefault(message.job_id, []).append(message)
        elif isinstance(message, wire.Answer):
            self.answers[message.command_id] = message
        elif message.kind != wire.EVENT_KIND_STEP:  # that is only for self.watch
            self.events.setdefault(message.job_id, []).append(message)

    def pump(self):
        """Takes all messages from the reply queue. One that was not acknowledged before the
        connection was lost comes again."""

        def take(channel):
            method, properties, body = channel.basic_get(self.REPLIES)
            if method:
                self._take(properties, body)
                channel.basic_ack(method.delivery_tag)
            return method

        while self.call(take):
            pass

    def until(self, condition, what, timeout=60):
        def check():
            self.pump()
            return condition()

        return servers.wait_for(check, what, timeout)

    def receipt(self, job_id, timeout=60):
        """Returns the first Receipt of a job."""
        return self.until(lambda: self.receipts.get(job_id), f"a receipt of {job_id}", timeout)[0]

    def settled(self, job_id, timeout=60):
        """Returns the first terminal JobEvent of a job."""
        return self.all_settled([job_id], timeout)[0]

    def all_settled(self, job_ids, timeout=60):
        job_ids = list(job_ids)
        self.until(
            lambda: all(job_id in self.events for job_id in job_ids),
            f"{len(job_ids)} jobs to settle, {job_ids[0]} ...",
            timeout,
        )
        return [self.events[job_id][0] for job_id in job_ids]

    # --- queues ---

    def find(self, name):
        """Returns (messages, consumers) of a queue, None if there is no such queue."""

        def ask(channel):
            try:
                method = channel.queue_declare(name, passive=True).method
                return method.message_count, method.consumer_count
            except pika.exceptions.ChannelClosedByBroker as error:
                if error.reply_code != 404:
                    raise
                return None

        return self.call(ask)

    def queue(self, name):
        """Returns (messages, consumers) of a queue, (0, 0) if there is no such queue."""
        return self.find(name) or (0, 0)

    def get(self, queue):
        """Removes the next message from a queue; returns (properties, body), or None."""
        method, properties, body = self.call(lambda c: c.basic_get(queue, auto_ack=True))
        return (properties, body) if method else None

    def dead_letter(self, timeout=60):
        """Removes the next dead letter; returns (drover-reason, body)."""
        properties, body = servers.wait_for(lambda: self.get(self.DEAD), "a dead letter", timeout)
        return (properties.headers or {}).get("drover-reason"), body

    def consume_step(self, actor):
        """Takes and acknowledges the next request of an actor; returns its StepRequest."""
        _, body = servers.wait_for(
            lambda: self.get(f"drover.task.{actor}"), f"a request for {actor}"
        )
        requests = wire.Requests()
        requests.ParseFromString(body)
        assert len(requests.requests) == 1, requests
        return requests.requests[0]

    def hold_step(self, actor):
        """Takes the next request of an actor as an agent that does not acknowledge it; returns its
        StepRequest, and a function that ends this agent."""

        def hold():
            connection = pika.BlockingConnection(self._parameters)
            with contextlib.suppress(*LOST):  # a queue that is very new may not answer yet
                method, _, body = connection.channel().basic_get(f"drover.task.{actor}")
                if method:
                    return body, connection.close
            if connection.is_open:
                connection.close()
            return None

        body, end_agent = servers.wait_for(hold, f"a request for {actor}")
        requests = wire.Requests()
        requests.ParseFromString(body)
        return requests.requests[0], end_agent

    def begin(self, request):
        """Sends Progress for a request; if its lease ends without a reply, that is an expiry."""
        progress = wire.Progress(
            job_id=request.job_id, step=request.step, token=request.token, fraction=-1
        )
        self.publish(f"drover.reply.{request.actor}", "reply", wire.Replies(progress=[progress]))

    def reply(self, request, **fields):
        """Reports success for a request, or what the fields say instead."""
        reply = wire.StepReply(
            job_id=request.job_id, step=request.step, token=request.token, agent="test"
        )
        if "error" not in fields:
            reply.achieved = request.desired
        for name, value in fields.items():
            if hasattr(value, "CopyFrom"):
                getattr(reply, name).CopyFrom(value)
            else:
                setattr(reply, name, value)
        self.publish(
            f"drover.reply.{request.actor}" if request.actor else "drover.replies",
            "reply",
            wire.Replies(replies=[reply]),
        )


class Listener(threading.Thread):
    """Collects the messages of an exchange, or serves a queue, on a connection of its own.

    on_message(channel, method, properties, body) runs on this thread and acknowledges.
    """

    def __init__(self, client, on_message, queue=None, exchange=None, keys=("#",)):
        super().__init__(daemon=True)
        self._connection = pika.BlockingConnection(client._parameters)
        self._channel = self._connection.channel()
        if exchange:
            queue = self._channel.queue_declare("", exclusive=True).method.queue
            for key in keys:
                self._channel.queue_bind(queue, exchange, key)
        self._channel.basic_qos(prefetch_count=64)
        self._channel.basic_consume(queue, on_message)
        self._stopping = threading.Event()
        self.start()

    def run(self):
        while not self._stopping.is_set():
            self._connection.process_data_events(time_limit=0.1)
        self._connection.close()

    def stop(self):
        self._stopping.set()
        self.join()
