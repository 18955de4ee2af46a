#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A foreign agent: it defers requests, reports progress, and leaves the same evidence

    fickle.py PORT VHOST DIRECTORY

Serves the actor "fickle". The arguments of a step say how often it is deferred ("defer"); otherwise
effect.c does it, in DIRECTORY. Keeps the rules for agents of PROTOCOL.md, also when the broker
restarts.
"""

import collections
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import json

import pika
import pika.exceptions
from google.protobuf import json_format

import wire

SLOTS = 8
DEFER_MS = 200
LOST = (pika.exceptions.AMQPError, OSError)
EFFECT = wire.BUILD / "tests" / "fault" / "effect"
PERMANENT = 65


class Work:
    """One request in progress."""

    def __init__(self, request, directory, tag):
        self.request, self.tags = request, [tag]
        self.deadline = time.monotonic() + request.lock_ms / 1000
        self.beat = time.monotonic()
        env = {
            "DROVER_IDEMPOTENCY_KEY": request.idempotency_key,
            "DROVER_ATTEMPT": str(request.attempt),
            "DROVER_DIRECTION": "undo" if request.desired == wire.STATE_DISABLED else "do",
            "DROVER_DEADLINE_MS": str(request.lock_ms),
        }
        self.process = subprocess.Popen([EFFECT, directory], stdin=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, env=env)
        asked = {"arguments": {"json": json.loads(request.arguments.data or b"{}")},
                 "forwardKey": request.forward_key}
        self.process.stdin.write(json.dumps(asked).encode())
        self.process.stdin.close()

    def end(self):
        self.process.kill()
        self.process.wait()


class Fickle:
    def __init__(self, port, vhost, directory):
        self._parameters = pika.ConnectionParameters("127.0.0.1", port, vhost, heartbeat=0)
        self._directory = directory
        self._channel = None
        self._work = {}  # token -> Work
        self._put_off = collections.Counter()

    def serve(self):
        while True:
            try:
                connection = pika.BlockingConnection(self._parameters)
                self._channel = connection.channel()
                self._channel.confirm_delivery()
                self._channel.queue_declare("drover.task.fickle", durable=True, arguments={
                    "x-dead-letter-exchange": "drover.expired"})
                self._channel.queue_bind("drover.task.fickle", "drover.tasks", "fickle")
                self._channel.basic_qos(prefetch_count=SLOTS)
                self._channel.basic_consume("drover.task.fickle", self._on_requests)
                while True:
                    connection.process_data_events(time_limit=0.02)
                    self._inspect_work()
            except LOST:
                time.sleep(0.1)
                for work in self._work.values():
                    work.tags = []  # they ended with the channel; the reply still counts

    def _on_requests(self, _channel, method, _properties, body):
        (request,) = wire.Requests.FromString(body).requests
        how = json.loads(request.arguments.data or b"{}")
        if request.token in self._work:
            self._work[request.token].tags.append(method.delivery_tag)
        elif self._put_off[request.idempotency_key] < how.get("defer", 0):
            self._put_off[request.idempotency_key] += 1
            self._reply(request, [method.delivery_tag], error=wire.Error(
                **{"class": "BUSY"}, verdict=wire.VERDICT_DEFER, retry_after_ms=DEFER_MS))
        else:
            self._work[request.token] = Work(request, self._directory, method.delivery_tag)

    def _reply(self, request, tags, **fields):
        reply = wire.StepReply(job_id=request.job_id, step=request.step, token=request.token,
                               agent="fickle", **fields)
        self._publish(wire.Replies(replies=[reply]))
        self._ack(tags)

    def _publish(self, message):
        self._channel.basic_publish("drover.reply.fickle", "reply", message.SerializeToString(),
                                    pika.BasicProperties(delivery_mode=2))

    def _ack(self, tags):
        for tag in tags:
            self._channel.basic_ack(tag)

    def _inspect_work(self):
        for token, work in list(self._work.items()):
            code = work.process.poll()
            if time.monotonic() >= work.deadline:
                work.end()
                self._ack(work.tags)
                del self._work[token]
            elif code is not None:
                self._report(work, code)
                del self._work[token]
            elif work.request.heartbeat_ms and time.monotonic() >= work.beat:
                work.beat = time.monotonic() + work.request.heartbeat_ms / 2000
                progress = wire.Progress(job_id=work.request.job_id, step=work.request.step,
                                         token=token, fraction=-1)
                self._publish(wire.Replies(progress=[progress]))

    def _report(self, work, code):
        if code == 0:
            self._reply(work.request, work.tags, achieved=work.request.desired)
            return
        verdict = wire.VERDICT_PERMANENT if code == PERMANENT else wire.VERDICT_TRANSIENT
        error = wire.Error(**{"class": f"EXIT_{code}"}, verdict=verdict)
        self._reply(work.request, work.tags, error=error)


def main(port, vhost, directory):
    # Like a power cut: work in progress stays without a reply.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    Fickle(int(port), vhost, directory).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
