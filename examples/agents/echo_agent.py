#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent for the actor "echo": the result of a step is the job's input

    protoc -I proto --python_out=. proto/drover/v1/*.proto
    PYTHONPATH=. python3 examples/agents/echo_agent.py [amqp://user:password@host/vhost]
"""
import sys
import time

import pika
from drover.v1 import task_pb2
from google.protobuf.message import DecodeError


def run(request):  # hand request.idempotency_key to whatever you call
    return request.input


def on_requests(channel, method, _properties, body):
    received = time.monotonic()
    replies = task_pb2.Replies()
    try:
        requests = task_pb2.Requests.FromString(body).requests
    except DecodeError:
        requests = []
    if not requests or not all(r.job_id and r.token and r.lock_ms > 0 for r in requests):
        dead = pika.BasicProperties(delivery_mode=2, headers={"drover-reason": "MALFORMED"})
        channel.basic_publish("drover.dead", "", body, dead)
        requests = []
    for request in requests:
        reply = task_pb2.StepReply(job_id=request.job_id, step=request.step, token=request.token)
        try:
            reply.result.CopyFrom(run(request))
            reply.achieved = request.desired
        except Exception as problem:  # transient unless the verdict says otherwise
            reply.error.message = str(problem)
        if time.monotonic() - received < request.lock_ms / 1000:  # else say nothing
            replies.replies.append(reply)
    if replies.replies:  # returns when the broker has it, or raises: then it is delivered again
        kept = pika.BasicProperties(delivery_mode=2, content_type="application/protobuf")
        channel.basic_publish("drover.replies", "reply", replies.SerializeToString(), kept, True)
    channel.basic_ack(method.delivery_tag)


url = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@localhost/%2F"
agent = pika.BlockingConnection(pika.URLParameters(url)).channel()
agent.confirm_delivery()
agent.basic_qos(prefetch_count=1)  # what arrives is begun at once, so its lease starts now
agent.basic_consume("drover.task.echo", on_requests)
agent.start_consuming()
