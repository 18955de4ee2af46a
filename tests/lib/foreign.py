# SPDX-License-Identifier: Apache-2.0
"""Foreign agents: they do only what docs/PROTOCOL.md asks of every agent."""

import threading

import pika

import client
import wire


class Agent(threading.Thread):
    """Serves one actor, one request at a time, and acknowledges when the reply is confirmed.

    work(request) does the work on this thread, and returns True if it is done; False: no reply is
    ever sent. progress: whether the agent sends Progress when it begins.
    """

    def __init__(self, c, actor, work, progress=False):
        super().__init__(daemon=True)
        self._client, self._work, self._progress = c, work, progress
        self._queue = f"drover.task.{actor}"
        self._stopping = threading.Event()
        self.taken = []  # tokens, in order
        self.start()

    def run(self):
        while not self._stopping.is_set():
            try:
                self._serve()
            except client.LOST:  # the queue does not exist yet
                self._stopping.wait(0.05)

    def _serve(self):
        connection = pika.BlockingConnection(self._client._parameters)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=1)
        for method, _, body in channel.consume(self._queue, inactivity_timeout=0.1):
            if self._stopping.is_set():
                break
            if method:
                for request in wire.Requests.FromString(body).requests:
                    self._do(channel, request)
                channel.basic_ack(method.delivery_tag)
        connection.close()

    def _do(self, channel, request):
        self.taken.append(request.token)
        about = {"job_id": request.job_id, "step": request.step, "token": request.token}
        if self._progress:
            self._say(channel, request.actor, progress=[wire.Progress(**about, fraction=-1)])
        if self._work(request):
            self._say(
                channel, request.actor, replies=[wire.StepReply(**about, achieved=request.desired)]
            )

    @staticmethod
    def _say(channel, actor, **fields):
        body = wire.Replies(**fields).SerializeToString()
        channel.basic_publish(
            f"drover.reply.{actor}", "reply", body, pika.BasicProperties(delivery_mode=2),
            mandatory=True,
        )

    def stop(self):
        self._stopping.set()
        self.join()
