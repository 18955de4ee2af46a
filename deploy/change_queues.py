#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes the type of Drover's queues, which RabbitMQ itself cannot do, with the messages in them

    deploy/change_queues.py --to none|quorum [--url URL] [--actor NAME]...

Messages say who has published them, so the broker takes them from another user only if that has the
tag `impersonator`, for this run only. rabbitmqctl list_users shows the tags of USER, and
rabbitmqctl set_user_tags USER TAGS… replaces them all: name those that the user has, too.

First stop all daemons; clients may go on. Then run this once for a virtual host, with the name of
each actor, and start the daemons with rabbitmq.replication = none or quorum. --url is
amqp://user:password@host:port/vhost (amqp://guest:guest@127.0.0.1:5672/%2F), and the user must be
allowed to configure, write and read everything in the virtual host.

Of each queue of another type the bindings and messages move to a queue ….moving, and from there to
a new queue of the old name. Meanwhile messages go to ….moving, so none is lost. A message may be
moved twice if this program is killed: run it again, it goes on where it was. The order of messages
may change. With --to none the queue drover.marker is declared as well. Exit status: 0 if all queues
have the type, 1 if something prevents that.
"""

import argparse
import sys

import pika

FIXED = {"drover.submit": "submit", "drover.replies": "reply", "drover.control": "control",
         "drover.expired": "", "drover.dead": ""}  # queue, and exchange of the same name -> key
TASKS = "drover.tasks"
MARKER = "drover.marker"


class Wrong(Exception):
    """Something that a person must change first. The text says what."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", required=True, choices=("none", "quorum"),
                        help="the type, as rabbitmq.replication names it")
    parser.add_argument("--url", default="amqp://guest:guest@127.0.0.1:5672/%2F",
                        help="of the broker")
    parser.add_argument("--actor", action="append", default=[], metavar="NAME",
                        help="whose task queue is changed as well")
    return parser.parse_args()


class Broker:
    """A connection, of which a refusal costs only the channel."""

    def __init__(self, url):
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()

    def _try(self, function, *refusals):
        """Returns the answer, or None if the broker refuses with one of these codes."""
        channel = self.connection.channel()
        try:
            answer = function(channel)
        except pika.exceptions.ChannelClosedByBroker as error:
            if error.reply_code not in refusals:
                raise
            return None
        channel.close()
        return answer

    def check_user(self):
        """Checks that messages of other users may be moved, before anything is changed."""
        properties = pika.BasicProperties(user_id="drover-somebody-else")
        try:
            channel = self.connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "drover.no-such-queue", b"", properties)
            channel.close()
        except pika.exceptions.ChannelClosedByBroker as error:
            raise Wrong(f"the user may not move the messages of others ({error.reply_text}): for "
                        "this run, give USER the tag impersonator beside those that it has "
                        "(rabbitmqctl set_user_tags USER TAGS...)") from None

    def find(self, queue):
        """Returns what a passive declare tells of a queue; None if there is none."""
        answer = self._try(lambda channel: channel.queue_declare(queue, passive=True), 404)
        return answer and answer.method

    def declare(self, queue, options):
        """Returns whether the queue has these options, and declares it if there is none."""
        return bool(self._try(
            lambda channel: channel.queue_declare(queue, durable=True, arguments=options), 406))

    def delete(self, queue):
        """Deletes a queue to which nothing is bound. (Quorum queues take no condition.)"""
        found = self.find(queue)
        if found.message_count or found.consumer_count:
            raise Wrong(f"{queue} is in use: stop all daemons, and run this again")
        self.channel.queue_delete(queue)

    def move(self, source, target):
        """Moves all messages; returns how many there were. Over a channel that has not known a
        queue of that name before: RabbitMQ 3.10 fails if its type is another now."""
        channel, count = self.connection.channel(), 0
        channel.confirm_delivery()
        method, properties, body = channel.basic_get(source)
        while method:
            properties.delivery_mode = 2
            channel.basic_publish("", target, body, properties, mandatory=True)
            channel.basic_ack(method.delivery_tag)
            count += 1
            method, properties, body = channel.basic_get(source)
        channel.close()
        return count


def change(broker, queue, exchange, key, options):
    """Gives a queue these options; returns a line that says what was done."""
    moving = f"{queue}.moving"
    here, there = broker.find(queue), broker.find(moving)
    if not here and not there:
        return f"{queue}: there is none, a daemon will declare it"
    if here and here.consumer_count:
        raise Wrong(f"{queue} has {here.consumer_count} consumers: stop all daemons first")
    if here and not there and broker.declare(queue, options):
        return f"{queue}: has the type already"
    if not broker.declare(moving, options):
        raise Wrong(f"{moving} has other options: move its messages by hand, and delete it")
    broker.channel.queue_bind(moving, exchange, key)
    if here and not broker.declare(queue, options):
        broker.channel.queue_unbind(queue, exchange, key)
        broker.move(queue, moving)
        broker.delete(queue)
    broker.declare(queue, options)
    broker.channel.queue_bind(queue, exchange, key)
    broker.channel.queue_unbind(moving, exchange, key)
    moved = broker.move(moving, queue)
    broker.delete(moving)
    return f"{queue}: changed, with {moved} messages"


def declare_marker(broker):
    """Declares the queue by which supervisors notice that the broker has lost messages."""
    broker.channel.exchange_declare(MARKER, "fanout", durable=True)
    if not broker.declare(MARKER, {"x-queue-type": "classic", "x-max-length": 1}):
        raise Wrong(f"{MARKER} has other options than PROTOCOL says: delete it")
    broker.channel.queue_bind(MARKER, MARKER, "")


def main():
    options = arguments()
    kind = {"x-queue-type": "quorum" if options.to == "quorum" else "classic"}
    queues = [(name, name, key, kind) for name, key in FIXED.items()]
    queues += [(f"drover.task.{actor}", TASKS, actor,
                {"x-dead-letter-exchange": "drover.expired", **kind}) for actor in options.actor]
    try:
        broker = Broker(options.url)
        broker.check_user()
        for queue in queues:
            print(change(broker, *queue), flush=True)
        if options.to == "none":
            declare_marker(broker)
    except Wrong as wrong:
        sys.exit(f"change_queues.py: {wrong}")
    except pika.exceptions.AMQPError as error:
        sys.exit(f"change_queues.py: {options.url.rpartition('@')[2]}: {error!r}")


if __name__ == "__main__":
    main()
