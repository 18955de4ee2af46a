# SPDX-License-Identifier: Apache-2.0
"""An agent in Python for steps that take no time: many at once, with a reply for each message

    agent.py ACTOR      serves drover.task.ACTOR until it is killed; the queue must exist

The result of a step is the input of its job. A message is acknowledged when the broker has
confirmed the reply. An agent to copy is in examples/agents.
"""

import os
import sys

import pika
from drover.v1 import task_pb2

ACTOR = sys.argv[1]
PREFETCH = 64
BATCH = 8  # requests in a message
KEPT = pika.BasicProperties(content_type="application/protobuf", delivery_mode=2)


class Agent:
    def __init__(self):
        self.published = 0
        self.waiting = {}  # tags of messages, by the number of the publish of their reply
        self.connection = pika.SelectConnection(
            pika.URLParameters(os.environ["AMQP_URL"]),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.on_open),
            on_close_callback=lambda _connection, problem: sys.exit(str(problem)))

    def on_open(self, channel):
        self.channel = channel
        channel.add_on_close_callback(lambda _channel, problem: sys.exit(str(problem)))
        channel.confirm_delivery(self.on_confirm)
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(f"drover.task.{ACTOR}", self.on_message,
                              callback=lambda _frame: print("ready", flush=True))

    def on_message(self, channel, method, _properties, body):
        replies = task_pb2.Replies()
        for request in task_pb2.Requests.FromString(body).requests:
            replies.replies.add(job_id=request.job_id, step=request.step, token=request.token,
                                achieved=request.desired, result=request.input, batch=BATCH)
        channel.basic_publish(f"drover.reply.{ACTOR}", "reply", replies.SerializeToString(), KEPT)
        self.published += 1
        self.waiting[self.published] = method.delivery_tag

    def on_confirm(self, frame):
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        for number in [n for n in self.waiting if n <= tag] if multiple else [tag]:
            self.channel.basic_ack(self.waiting.pop(number))


Agent().connection.ioloop.start()
