#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client in Python, in protobuf: submits a job with a step for each actor, and waits for its end

    protoc -I proto --python_out=build proto/drover/v1/*.proto
    AMQP_URL=amqp://... PYTHONPATH=build python3 examples/clients/submit.py JOB INPUT ACTOR...

For amqps:// see --help. Exits with 0: succeeded; 1: refused; 2: wrong arguments; 3: another
outcome; 4: cancelled; 6: another job has this id; 7: connection to RabbitMQ lost. It may be run
again with the same arguments, and goes on waiting.
"""
import argparse
import os
import ssl
import sys

import pika
from drover.v1 import control_pb2, event_pb2, submit_pb2, types_pb2

EXITS = {"OUTCOME_SUCCEEDED": 0, "OUTCOME_CANCELLED": 4, "OUTCOME_COMPENSATED": 4}
REFUSALS = {"RECEIPT_CODE_REJECTED": 1, "RECEIPT_CODE_CONFLICT": 6}


def submit_of(job, text, actors):
    submit = submit_pb2.Submit(job_id=job)
    submit.input.content_type, submit.input.data = "text/plain; charset=utf-8", text.encode()
    for i, actor in enumerate(actors):
        after = [f"step{i - 1}"] if i > 0 else []
        submit.definition.steps.add(name=f"step{i}", actor=actor, action="echo", after=after)
    return submit


def ended(outcome, results):
    name = types_pb2.Outcome.Name(outcome)
    print(name, *(payload.data.decode() for payload in results))
    return EXITS.get(name, 3)


def parameters_of(options):
    parameters = pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/%2F"))
    if parameters.ssl_options:  # amqps://
        context = ssl.create_default_context(cafile=options.ca_file)  # verifies chain and host
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file)
        parameters.ssl_options = pika.SSLOptions(context)
    return parameters


def main(options):
    job, parameters = options.job, parameters_of(options)
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()  # a publish returns when the broker has the message, or raises
    queue = channel.queue_declare("", exclusive=True).method.queue

    def send(exchange, key, message):
        user = parameters.credentials.username  # the owner; the broker refuses another name
        kept = pika.BasicProperties(delivery_mode=2, reply_to=queue, user_id=user)
        channel.basic_publish(exchange, key, message.SerializeToString(), kept, mandatory=True)

    # another content would be a CONFLICT
    submit, recorded = submit_of(job, options.input, options.actor), False
    send("drover.submit", "submit", submit)
    for method, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=5):
        kind = properties.type if method else None
        if kind == "drover.v1.Receipt":
            receipt = submit_pb2.Receipt.FromString(body)
            code = submit_pb2.ReceiptCode.Name(receipt.code)
            print(code, receipt.field, receipt.reason)
            if code in REFUSALS:
                return REFUSALS[code]
            recorded = code in ("RECEIPT_CODE_CREATED", "RECEIPT_CODE_ALREADY")
            if code == "RECEIPT_CODE_ALREADY":  # it may have ended long ago
                query = control_pb2.Query(with_data=True)
                send("drover.control", "control", control_pb2.Control(job_id=job, query=query))
        elif kind == "drover.v1.JobEvent":
            event = event_pb2.JobEvent.FromString(body)
            return ended(event.outcome, [result.payload for result in event.results])
        elif kind == "drover.v1.Answer":
            status = control_pb2.Answer.FromString(body).status
            if status.outcome:
                return ended(status.outcome, [status.steps[-1].result])
        elif not recorded:  # repeated until there is a Receipt
            send("drover.submit", "submit", submit)
    return 7


parser = argparse.ArgumentParser()
parser.add_argument("--ca-file", help="for amqps://: authorities (PEM); else the system's")
parser.add_argument("--cert-file", help="certificate of this client (PEM), if the broker wants one")
parser.add_argument("--key-file", help="its private key (PEM)")
parser.add_argument("job")
parser.add_argument("input")
parser.add_argument("actor", nargs="+")
try:
    sys.exit(main(parser.parse_args()))
except (pika.exceptions.AMQPError, OSError) as problem:
    print(f"RabbitMQ: {problem!r}", file=sys.stderr)
    sys.exit(7)
