# SPDX-License-Identifier: Apache-2.0
"""More deliveries of a message than a quorum queue of RabbitMQ 4 allows by itself: nothing is lost,
and nothing is counted wrong. The policy that lifts its limit of 20 is in
deploy/rabbitmq/definitions.json; tests set the same."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import servers
import tap
import wire
from hand import Case, step

TIMES = 25


class DeliveryLimit(Case):
    def test_give_backs_of_one_request(self):
        """A foreign agent gives the request back repeatedly, without having begun it."""
        c = self.begin(agents=0, actor="none")
        c.client.submit(wire.submit("job", [step("a")]))

        def give_back(channel):
            method, _, _ = channel.basic_get("drover.task.hand")
            if method:
                channel.basic_nack(method.delivery_tag, requeue=True)
            return method

        for _ in range(TIMES):
            servers.wait_for(lambda: c.client.call(give_back), "the request")
        request = self.take()
        self.assertEqual((1, 0, 0), (request.attempt, request.failures, request.expiries))
        c.client.reply(request)
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.assertEqual(
            ["created", "dispatched", "done", "settled"],
            [entry.event for entry in c.store.history("job")],
        )

    def test_crashes_over_one_submit(self):
        """Schedulers crash before they have begun the message, so it is no poison message."""
        c = self.begin(agents=0, actor="none", failpoints={})
        (scheduler,) = c.schedulers
        scheduler.fail("store.submit.before=crash")
        c.client.submit(wire.submit("job", [step("a")]))
        scheduler.await_crash()
        for _ in range(TIMES - 1):
            scheduler.fail("store.suspect.before=crash")
            scheduler.start()
            scheduler.await_crash()
        scheduler.start()
        c.client.reply(self.take())
        self.end("job", wire.OUTCOME_SUCCEEDED)
        self.assertEqual(
            ["created", "dispatched", "done", "settled"],
            [entry.event for entry in c.store.history("job")],
        )
        self.assertEqual((0, 1), (c.client.queue(c.client.DEAD)[0], len(c.client.receipts["job"])))


if __name__ == "__main__":
    tap.main()
