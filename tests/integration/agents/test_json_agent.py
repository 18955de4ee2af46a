# SPDX-License-Identifier: Apache-2.0
"""An agent that speaks JSON only: scheduler.json_actors names its actor."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire


class JsonAgent(cluster.TestCase):
    def begin(self):
        settings = {"scheduler": {"scheduler": {"json_actors": "handy jay"}}}
        return self.cluster(agents=0, settings=settings)

    def take(self, c, actor="jay"):
        """Returns the only request of the next message."""
        properties, body = servers.wait_for(
            lambda: c.client.get(f"drover.task.{actor}"), "a request"
        )
        self.assertEqual("application/json", properties.content_type)
        (request,) = json.loads(body)["requests"]
        return request

    def answer(self, c, request, **fields):
        about = {name: request[name] for name in ("jobId", "step", "token")}
        c.client.publish(
            "drover.replies",
            "reply",
            json.dumps(fields or {"replies": [{**about, "achieved": "STATE_ACTIVE"}]}).encode(),
        )

    def test_without_protobuf(self):
        c = self.begin()
        steps = [wire.step("a", "jay"), wire.step("b", "hand", after=["a"])]
        c.client.submit(
            wire.submit("job", steps, input=wire.payload(b"hello", "text/plain; charset=utf-8"))
        )
        request = self.take(c)
        self.assertEqual(
            (
                "job", "a", "STATE_ACTIVE",
                {"contentType": "text/plain; charset=utf-8", "text": "hello"},
            ),
            tuple(request[name] for name in ("jobId", "step", "desired", "input")),
        )
        self.answer(c, request)
        c.client.reply(c.client.consume_step("hand"))  # other actors have protobuf as before
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_comes_back(self):
        """A request that no agent takes comes back in JSON, and is read."""
        c = self.begin()
        c.client.submit(wire.submit("job", [wire.step("a", "jay", wait_ms=300, lock_ms=60000)]))
        servers.wait_for(lambda: c.store.events("job", "unstarted"), "it to come back")
        request = self.take(c)
        self.assertGreater(request["attempt"], 1)
        self.answer(c, request)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)


if __name__ == "__main__":
    tap.main()
