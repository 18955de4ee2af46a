# SPDX-License-Identifier: Apache-2.0
"""The agents of examples/ keep the rules of docs/PROTOCOL.md, in each language. The tests of Node
are skipped if npm is missing or reaches no registry."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import examples
import servers
import tap
import wire


# Replacements for an agent's run(), in Python and in Node.
FAILS_ONCE = {
    "python": """\
def run(request):
    if request.attempt == 1:
        raise RuntimeError("grün is not ready")
    return types_pb2.Payload(content_type="text/plain", data=request.idempotency_key.encode())


""",
    "node": """\
async function run ({ attempt, idempotencyKey }) {
  if (attempt === 1) throw new Error('grün is not ready')
  return { contentType: 'text/plain', data: Buffer.from(idempotencyKey) }
}
""",
}
# The first attempt ends after its lease.
LATE_ONCE = {
    "python": """\
def run(request):
    if request.attempt > 1:
        return types_pb2.Payload(data=b"in time")
    time.sleep(2 * request.lock_ms / 1000)
    return types_pb2.Payload(data=b"late")


""",
    "node": """\
async function run ({ attempt, lockMs }) {
  if (attempt > 1) return { data: Buffer.from('in time') }
  await new Promise(resolve => setTimeout(resolve, 2 * lockMs))
  return { data: Buffer.from('late') }
}
""",
}
# Begins, and ends when the test makes a file.
WAITS = {
    "python": """\
def run(request):
    open({begun!r}, "a").write(request.job_id + "\\n")
    while not os.path.exists({go!r}):
        time.sleep(0.05)
    return types_pb2.Payload()


""",
    "node": """\
async function run ({{ jobId }}) {{
  const fs = await import('node:fs')
  fs.appendFileSync({begun!r}, jobId + '\\n')
  while (!fs.existsSync({go!r})) await new Promise(resolve => setTimeout(resolve, 50))
}}
""",
}


@examples.with_languages
class Agents(examples.TestCase):
    """The rules for agents."""

    def setUp(self):
        super().setUp()
        self.replies, self.requests = [], []
        bindings = [(f"drover.reply.{language}", "") for language in examples.AGENTS] + [
            ("drover.tasks", "node")
        ]
        for exchange, key in bindings:
            if not key:  # as a scheduler declares it before the first request
                self.client.call(
                    lambda channel, name=exchange: channel.exchange_declare(
                        name, "fanout", durable=True
                    )
                )
            listener = client.Listener(self.client, self.on_message, exchange=exchange, keys=(key,))
            self.addCleanup(listener.stop)

    def on_message(self, channel, method, _properties, body):
        if method.exchange != "drover.tasks":
            self.replies.extend(wire.Replies.FromString(body).replies)
        elif body.startswith(b"\n"):
            self.requests.extend(wire.Requests.FromString(body).requests)
        channel.basic_ack(method.delivery_tag)

    def one(self, job, actor, **fields):
        """Submits a job of one step."""
        self.client.submit(wire.submit(job, [wire.step("only", actor=actor, **fields)]))

    def succeeded(self, job):
        event = self.client.settled(job)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        return event.results[0].payload.data if event.results else None

    def waiting_agent(self, language):
        """Starts an agent whose steps begin, and then wait for the file go; the file begun has the
        jobs."""
        self.begun, self.go = self.directory / "begun", self.directory / "go"
        self.begun.touch()
        handler = WAITS[language].format(begun=str(self.begun), go=str(self.go))
        return self.start_agent(language, handler)

    def await_begun(self, count):
        def lines():
            text = self.begun.read_text().splitlines()
            return text if len(text) >= count else None

        return servers.wait_for(lines, f"{count} steps to begin")

    def stop_agent(self, program):
        """Stops an agent as an operator would: no request is left unacknowledged."""
        program.terminate()
        self.assertEqual((0, ""), program.end())

    def await_queue(self, actor, requests):
        """Waits until the broker has so many requests and no agent."""
        queue = f"drover.task.{actor}"
        servers.wait_for(lambda: self.client.queue(queue)[1] == 0, "no consumer")
        self.assertEqual((requests, 0), self.client.queue(queue))

    @examples.each_language
    def each_starts_before_its_queue(self, language):
        """The agent waits until a scheduler has made the queue, whatever its type. It can be
        stopped meanwhile, too."""
        ended = self.start_agent(language, queue=False)
        waiting_agent = self.start_agent(language, queue=False)
        servers.wait_for(lambda: len(self.connections()) > 2, "the agents to connect")
        self.stop_agent(ended)
        self.assertTrue(waiting_agent.alive(), waiting_agent.text())
        self.one("job", language)
        self.succeeded("job")
        self.stop_agent(waiting_agent)

    @examples.each_language
    def each_fails_then_succeeds(self, language):
        """An error is transient and has a message; each attempt has the same key."""
        program = self.start_agent(language, FAILS_ONCE[language])
        self.one("job", language, retry=wire.Policy(initial_interval_ms=100))
        self.assertEqual(b"job/only/1", self.succeeded("job"))
        servers.wait_for(lambda: len(self.replies) == 2, "two replies")
        self.assertIn("grün is not ready", self.replies[0].error.message)
        self.assertEqual(wire.VERDICT_UNSPECIFIED, self.replies[0].error.verdict)
        self.stop_agent(program)

    @examples.each_language
    def each_late(self, language):
        """The result of work that ends after the lease is not sent, and the request is
        acknowledged."""
        program = self.start_agent(language, LATE_ONCE[language])
        self.one("job", language, lock_ms=500, wait_ms=2000)
        self.assertEqual(b"in time", self.succeeded("job"))
        self.stop_agent(program)
        self.await_queue(language, 0)
        self.c.await_idle()
        self.assertEqual({(wire.STATE_ACTIVE, b"in time")},
                         {(reply.achieved, reply.result.data) for reply in self.replies})
        self.assertGreater(self.c.dispatches("job"), 1)

    @examples.each_language
    def each_malformed(self, language):
        """A malformed message goes to drover.dead unchanged, and is not given back; good requests
        among bad ones are done."""
        self.make_queue(language)
        self.one("good", language)
        good = self.client.consume_step(language)
        batch = wire.Requests(requests=[wire.StepRequest(job_id="no-token"), good])
        bodies = [
            b"\xff\xff\xff",
            b"",
            b'{"requests": []}',
            wire.Requests(requests=[wire.StepRequest()]).SerializeToString(),
            batch.SerializeToString(),
        ]
        program = self.start_agent(language)
        for body in bodies:
            self.client.publish("drover.tasks", language, body)
            reason, letter = self.client.dead_letter()
            self.assertEqual(("MALFORMED", body), (reason, letter))
        self.assertEqual(b", " + language.encode(), self.succeeded("good"))
        self.stop_agent(program)
        self.await_queue(language, 0)
        self.assertEqual((0, 0), self.client.queue(self.client.DEAD))

    @examples.each_language
    def each_taking_back(self, language):
        """Undos are refused for good, because the steps of these agents have no revert."""
        self.make_queue(language)
        self.one("job", language)
        request = self.client.consume_step(language)
        request.desired = wire.STATE_DISABLED
        self.start_agent(language)
        self.client.publish("drover.tasks", language, wire.Requests(requests=[request]))
        servers.wait_for(lambda: self.replies, "a reply")
        self.assertEqual(wire.VERDICT_PERMANENT, self.replies[0].error.verdict)
        self.assertEqual(wire.STATE_UNSPECIFIED, self.replies[0].achieved)

    def test_copy_node(self):
        """A copy of a request that is being worked on is not begun; both are acknowledged."""
        program = self.waiting_agent("node")
        self.one("job", "node")
        self.await_begun(1)
        servers.wait_for(lambda: self.requests, "its request")
        self.client.publish("drover.tasks", "node", wire.Requests(requests=self.requests[:1]))
        self.one("other", "node")
        self.await_begun(2)
        self.go.touch()
        self.succeeded("job")
        self.succeeded("other")
        self.assertEqual(["job", "other"], self.begun.read_text().splitlines())
        self.stop_agent(program)
        self.await_queue("node", 0)

    @examples.each_language
    def each_ends_when_told(self, language):
        """The agent takes no more than it can begin; asked to end, it finishes these and leaves the
        others."""
        program = self.waiting_agent(language)
        prefetch = {"python": 1, "node": 10}[language]
        jobs = [f"job-{i}" for i in range(prefetch + 2)]
        for job in jobs:
            self.one(job, language)
        begun = self.await_begun(prefetch)
        queue = f"drover.task.{language}"
        servers.wait_for(lambda: self.client.queue(queue)[0] == 2, "two requests to be left")
        program.terminate()
        if language == "node":  # it cancels its consumer first
            servers.wait_for(lambda: self.client.queue(queue)[1] == 0, "no consumer")
        self.assertTrue(program.alive())
        self.go.touch()
        self.assertEqual((0, ""), program.end())
        for job in begun:
            self.succeeded(job)
        self.assertEqual(sorted(begun), sorted(self.begun.read_text().splitlines()))
        self.await_queue(language, 2)
        self.start_agent(language)
        for job in jobs:
            self.succeeded(job)
            self.assertEqual(1, self.c.dispatches(job))

    @examples.each_language
    def each_connection_lost(self, language):
        """The agent ends, with the reason; the next one gets the same request."""
        others = self.connections()
        program = self.waiting_agent(language)
        self.one("job", language)
        self.await_begun(1)
        self.cut_off(others)
        code, output = program.end()
        self.assertEqual(1, code, output)
        self.assertIn("RabbitMQ", output)
        self.assertNotIn("Traceback", output)
        self.assertNotIn("    at ", output)
        self.start_agent(language)
        self.succeeded("job")
        self.assertEqual(1, self.c.dispatches("job"))


if __name__ == "__main__":
    tap.main()
