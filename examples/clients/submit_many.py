#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client in Python that submits many jobs in a message, and reads their answers likewise

    protoc -I proto --python_out=build proto/drover/v1/*.proto
    AMQP_URL=amqp://... PYTHONPATH=build python3 examples/clients/submit_many.py ACTOR FILE

Each line of FILE is a job: its name, a blank, and its input. All have one step, for ACTOR. Prints
each job with its outcome when it has ended. For amqps:// see --help. Exits with 0: all jobs have
succeeded; 1: a job was refused; 2: wrong arguments; 3: a job has another outcome; 7: connection to
RabbitMQ lost. It may be run again with the same file, and goes on waiting.
"""
import argparse
import itertools
import os
import ssl
import sys

import pika
from drover.v1 import control_pb2, event_pb2, submit_pb2, types_pb2

TOGETHER = 100  # Submits in a message, at most
OPEN = 1000  # jobs that have not ended, at most
REFUSED = ("RECEIPT_CODE_REJECTED", "RECEIPT_CODE_CONFLICT")
ACCEPTED = ("RECEIPT_CODE_CREATED", "RECEIPT_CODE_ALREADY")


def submit_of(line, actor):
    job, _, text = line.rstrip("\n").partition(" ")
    submit = submit_pb2.Submit(job_id=job, batches=True)  # its answers may come with others
    submit.input.content_type, submit.input.data = "text/plain; charset=utf-8", text.encode()
    submit.definition.steps.add(name="step", actor=actor, action="echo")
    return submit


def answers_in(kind, body):
    """The answers in a message, which has one or several of a kind."""
    if kind == "drover.v1.Receipts":
        return submit_pb2.Receipts.FromString(body).receipts
    if kind == "drover.v1.JobEvents":
        return event_pb2.JobEvents.FromString(body).events
    alone = {"drover.v1.Receipt": submit_pb2.Receipt, "drover.v1.JobEvent": event_pb2.JobEvent,
             "drover.v1.Answer": control_pb2.Answer}
    return [alone[kind].FromString(body)] if kind in alone else []


class Jobs:
    def __init__(self, send):
        self._send = send
        self.unanswered = {}  # job -> its Submit, until there is a Receipt
        self.open = set()  # jobs that are recorded, and have not ended
        self.code = 0

    def submit(self, submits):
        self.unanswered.update((submit.job_id, submit) for submit in submits)
        for i in range(0, len(submits), TOGETHER):
            self._send("drover.submit", "submit", "drover.v1.Submits",
                       submit_pb2.Submits(submits=submits[i:i + TOGETHER]))

    def take(self, answer):
        if isinstance(answer, submit_pb2.Receipt):
            self._take_receipt(answer)
        elif isinstance(answer, event_pb2.JobEvent):
            self._end(answer.job_id, answer.outcome)
        elif answer.status.outcome:  # of a job that had ended
            self._end(answer.job_id, answer.status.outcome)

    def _take_receipt(self, receipt):
        code = submit_pb2.ReceiptCode.Name(receipt.code)
        if code in ACCEPTED and self.unanswered.pop(receipt.job_id, None):
            self.open.add(receipt.job_id)
        elif code in REFUSED and self.unanswered.pop(receipt.job_id, None):
            print(receipt.job_id, code, receipt.field, receipt.reason)
            self.code = 1
        if code == "RECEIPT_CODE_ALREADY":  # it may have ended long ago
            self._send("drover.control", "control", "drover.v1.Control",
                       control_pb2.Control(job_id=receipt.job_id, query=control_pb2.Query()))

    def _end(self, job, outcome):
        if job in self.open or self.unanswered.pop(job, None):  # an end may come before a Receipt
            self.open.discard(job)
            name = types_pb2.Outcome.Name(outcome)
            print(job, name)
            self.code = self.code or (0 if name == "OUTCOME_SUCCEEDED" else 3)


def parameters_of(options):
    parameters = pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/%2F"))
    if parameters.ssl_options:  # amqps://
        context = ssl.create_default_context(cafile=options.ca_file)  # verifies chain and host
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        parameters.ssl_options = pika.SSLOptions(context)
    return parameters


def main(options, lines):
    parameters = parameters_of(options)
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()  # a publish returns when the broker has the message, or raises
    queue = channel.queue_declare("", exclusive=True).method.queue

    def send(exchange, key, kind, message):
        user = parameters.credentials.username  # the owner; the broker refuses another name
        kept = pika.BasicProperties(delivery_mode=2, reply_to=queue, user_id=user, type=kind)
        channel.basic_publish(exchange, key, message.SerializeToString(), kept, mandatory=True)

    jobs = Jobs(send)
    messages = channel.consume(queue, auto_ack=True, inactivity_timeout=5)
    while True:
        while len(jobs.open) + len(jobs.unanswered) <= OPEN - TOGETHER and (
                some := list(itertools.islice(lines, TOGETHER))):
            jobs.submit([submit_of(line, options.actor) for line in some])
        if not jobs.open and not jobs.unanswered:
            return jobs.code
        method, properties, body = next(messages)
        for answer in answers_in(properties.type, body) if method else ():
            jobs.take(answer)
        if not method:  # repeated until there is a Receipt
            jobs.submit(list(jobs.unanswered.values()))


parser = argparse.ArgumentParser()
parser.add_argument("--ca-file", help="for amqps://: authorities (PEM); else the system's")
parser.add_argument("actor")
parser.add_argument("file", type=argparse.FileType(encoding="utf-8"))
arguments = parser.parse_args()
try:
    sys.exit(main(arguments, arguments.file))
except (pika.exceptions.AMQPError, OSError) as problem:
    print(f"RabbitMQ: {problem!r}", file=sys.stderr)
    sys.exit(7)
