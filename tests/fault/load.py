# SPDX-License-Identifier: Apache-2.0
"""Jobs at a steady rate, and how long each takes, from a client of RabbitMQ with several nodes

The client does what docs/PROTOCOL.md asks of each: it publishes with confirms, repeats a Submit
that was not confirmed, over another node if need be, and reads its answers from a queue that
outlives a node. It does not repeat a Submit that was confirmed: its job must end.
"""

import contextlib
import threading
import time

import pika

import client
import servers
import wire

PUBLISHERS = 4
QUEUE = "test.load"
PATIENCE_S = 60


class Load:
    """@rate: jobs a second. They begin at once, until stop(). @nodes: that the client knows;
    @prefix: of the names of the jobs; @fields: of each step."""

    def __init__(self, c, rate, nodes=None, prefix="load", steps=3, **fields):
        self._parameters = [p for i, p in enumerate(c.client.parameters)
                            if nodes is None or i in nodes]
        self._arguments = c.rabbit.queue_arguments
        self._rate, self._prefix, self._steps = rate, prefix, wire.chain(steps, **fields)
        self._stopping, self._over = threading.Event(), threading.Event()
        self._due = {}  # job -> when it was to be submitted
        self._took = {}  # job -> how long it has taken
        self.confirmed = set()
        self.errors = []
        c.besides.append(self)
        ready = threading.Event()
        self._consumer = threading.Thread(target=self._consume, args=(ready,), daemon=True)
        self._consumer.start()
        ready.wait(PATIENCE_S)
        self._began = time.monotonic()
        self._publishers = [threading.Thread(target=self._publish, args=(number,), daemon=True)
                            for number in range(PUBLISHERS)]
        for publisher in self._publishers:
            publisher.start()

    def _open(self, first):
        first %= len(self._parameters)
        connection = pika.BlockingConnection(self._parameters[first:] + self._parameters[:first])
        return connection.channel()

    def _publish(self, number):
        """Submits every fourth job."""
        channel, at = None, number
        while not self._stopping.is_set():
            due = self._began + at / self._rate
            if self._stopping.wait(max(due - time.monotonic(), 0)):
                return
            job_id = f"{self._prefix}-{at}"
            self._due.setdefault(job_id, due)
            try:
                if not channel:
                    channel = self._open(number)
                    channel.confirm_delivery()
                body = wire.submit(job_id, self._steps, reply_to=QUEUE).SerializeToString()
                client.publish(channel, "drover.submit", "submit", body,
                               pika.BasicProperties(delivery_mode=2), mandatory=True)
            except (*client.LOST, *client.UNROUTED):  # see client.Client.call
                if channel and channel.connection.is_open:
                    with contextlib.suppress(*client.LOST):
                        channel.connection.close()
                channel = None
                self._stopping.wait(0.1)
                continue
            self.confirmed.add(job_id)
            at += PUBLISHERS

    def _consume(self, ready):
        while not self._over.is_set():
            try:
                channel = self._open(0)
                channel.queue_declare(QUEUE, durable=True, arguments=self._arguments)
                channel.basic_consume(QUEUE, self._take)
                ready.set()
                while not self._over.is_set():
                    channel.connection.process_data_events(time_limit=0.1)
                channel.connection.close()
            except client.LOST:
                self._over.wait(0.1)

    def _take(self, channel, method, properties, body):
        now = time.monotonic()
        if properties.type == "drover.v1.JobEvent":
            event = wire.JobEvent.FromString(body)
            if event.outcome != wire.OUTCOME_SUCCEEDED:
                self.errors.append(f"{event.job_id} has ended {event.outcome}")
            self._took.setdefault(event.job_id, now - self._due[event.job_id])
        channel.basic_ack(method.delivery_tag)

    def end(self):
        """Ends it without a result."""
        self._stopping.set()
        self._over.set()

    # --- questions ---

    def ended(self):
        return len(self._took)

    @staticmethod
    def now():
        """The time, as times() takes it."""
        return time.monotonic()

    def missing(self):
        """The confirmed jobs that have not ended."""
        return self.confirmed - set(self._took)

    def stop(self):
        """Submits no more, and waits for the jobs that were confirmed. Return: what is wrong."""
        self._stopping.set()
        for publisher in self._publishers:
            publisher.join()
        try:
            servers.wait_for(lambda: not self.missing(), "all jobs of the load", PATIENCE_S)
        except servers.ServerError:
            pass
        self._over.set()
        self._consumer.join()
        return self.errors + [f"{job_id} was confirmed, and has not ended"
                              for job_id in sorted(self.missing())]

    def times(self, since, until):
        """How long the jobs took that were due in this time (monotonic), in s, the shortest first;
        those that have not ended count as endless."""
        return sorted(self._took.get(job_id, float("inf")) for job_id, due in self._due.items()
                      if since <= due <= until and job_id in self.confirmed)

    def after(self, until, then):
        """How long after a moment (monotonic) the jobs ended that were due by an earlier one, and
        had not ended; those that have not count as endless."""
        ends = (due + self._took.get(job_id, float("inf")) - then
                for job_id, due in self._due.items() if due <= until and job_id in self.confirmed)
        return sorted(end for end in ends if end > 0)


def figures_of(times):
    if not times:
        return "no jobs"
    return (f"{len(times)} jobs, median {share(times, 50):.2f}, p99 {share(times, 99):.2f}, "
            f"longest {times[-1]:.2f} s")


def share(times, percent):
    """The time within which this share of the jobs has ended."""
    return times[min(len(times) * percent // 100, len(times) - 1)] if times else float("inf")
