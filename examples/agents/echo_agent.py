#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent in Python, one step at a time

    protoc -I proto --python_out=build proto/drover/v1/*.proto
    AMQP_URL=amqp://... PYTHONPATH=build python3 examples/agents/echo_agent.py [ACTOR]

For amqps:// see --help. On SIGTERM it finishes its work and ends. If it loses the connection it
exits with 1 and must be started again.
"""
import argparse
import os
import signal
import ssl
import sys
import threading
import time

import pika
from drover.v1 import task_pb2, types_pb2
from google.protobuf.message import DecodeError

parser = argparse.ArgumentParser()
parser.add_argument("--ca-file", help="for amqps://: authorities (PEM); else the system's")
parser.add_argument("--cert-file", help="certificate of this client (PEM), if the broker wants one")
parser.add_argument("--key-file", help="its private key (PEM)")
parser.add_argument("actor", nargs="?", default="echo")
options = parser.parse_args()
ACTOR = options.actor
leaving = threading.Event()


def run(request):
    """Returns the result of the step before, or else the job's input, with the actor's name
    appended. A step may run more than once: pass request.idempotency_key to the services that you
    call, and stop the work after lock_ms."""
    given = request.results[0].payload if request.results else request.input
    data = given.data + b", " + ACTOR.encode()
    return types_pb2.Payload(content_type=given.content_type, data=data)


def work(request, reply):
    try:
        if request.desired == types_pb2.STATE_DISABLED:
            reply.error.verdict = types_pb2.VERDICT_PERMANENT  # any other error is tried again
            raise NotImplementedError("taking back")
        reply.result.CopyFrom(run(request))
        reply.achieved = request.desired
    except Exception as problem:
        reply.error.message = repr(problem)


def say(channel, expires_ms=None, **fields):
    """Publishes a reply, which must not be lost, or a Progress, which is of no use later."""
    is_reply = expires_ms is None
    kept = pika.BasicProperties(content_type="application/protobuf",
                                delivery_mode=2 if is_reply else 1,
                                expiration=None if is_reply else str(expires_ms))
    body = task_pb2.Replies(**fields).SerializeToString()
    channel.basic_publish(f"drover.reply.{ACTOR}", "reply", body, kept, mandatory=is_reply)


def answer(connection, channel, request, received):
    """Returns the reply, or None if the lease has ended: then no reply is sent."""
    reply = task_pb2.StepReply(job_id=request.job_id, step=request.step, token=request.token)
    done = threading.Event()

    def thread():  # this thread must keep up the heartbeats of the connection
        work(request, reply)
        connection.add_callback_threadsafe(done.set)

    threading.Thread(target=thread, daemon=True).start()
    lease = request.lock_ms / 1000
    for share in (0.25, 1):
        while not done.is_set() and time.monotonic() < received + share * lease:
            left = received + share * lease - time.monotonic()
            connection.process_data_events(time_limit=max(left, 0))
        if share < 1 and not done.is_set():
            # Evidence that this agent has begun: if it crashes, LockedUntil ends with its lease.
            elapsed = int((time.monotonic() - received) * 1000)
            about = {"job_id": request.job_id, "step": request.step, "token": request.token}
            progress = task_pb2.Progress(**about, fraction=-1, elapsed_ms=elapsed)
            say(channel, max(request.lock_ms - elapsed, 1), progress=[progress])
    return reply if time.monotonic() < received + lease else None


def serve(connection, channel, tag, body):
    received = time.monotonic()
    try:
        requests = task_pb2.Requests.FromString(body).requests
    except DecodeError:
        requests = []
    good = [r for r in requests if r.job_id and r.token and r.lock_ms > 0]
    if not good or len(good) < len(requests):  # for a person; a requeued message would come back
        dead = pika.BasicProperties(delivery_mode=2, headers={"drover-reason": "MALFORMED"})
        channel.basic_publish("drover.dead", "", body, dead)
    for request in good:
        reply = answer(connection, channel, request, received)
        if reply:
            say(channel, replies=[reply])
    channel.basic_ack(tag)  # last: without it the message is delivered again


def open_channel(connection, queue):
    """Returns a channel once queue and exchange exist: a scheduler makes them before it sends the
    first request for the actor."""
    while not leaving.is_set():
        channel = connection.channel()
        try:
            channel.queue_declare(queue, passive=True)
            channel.exchange_declare(f"drover.reply.{ACTOR}", passive=True)
            return channel
        except pika.exceptions.ChannelClosedByBroker as problem:
            if problem.reply_code != 404:
                raise
            connection.sleep(1)


def parameters_of():
    parameters = pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/%2F"))
    if parameters.ssl_options:  # amqps://
        context = ssl.create_default_context(cafile=options.ca_file)  # verifies chain and host
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file)
        parameters.ssl_options = pika.SSLOptions(context)
    return parameters


def main():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leaving.set())
    connection = pika.BlockingConnection(parameters_of())
    channel = open_channel(connection, f"drover.task.{ACTOR}")
    if not channel:
        return connection.close()
    channel.confirm_delivery()  # a publish returns when the broker has the message, or raises
    channel.basic_qos(prefetch_count=1)  # a request must begin when it arrives, as its lease does
    for method, _, body in channel.consume(f"drover.task.{ACTOR}", inactivity_timeout=0.5):
        if leaving.is_set():
            return connection.close()  # gives back a request that may have arrived
        if method:
            serve(connection, channel, method.delivery_tag, body)
    return "the queue is gone"


try:
    sys.exit(main())
except (pika.exceptions.AMQPError, OSError) as problem:
    sys.exit(f"RabbitMQ: {problem!r}")
