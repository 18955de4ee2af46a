# SPDX-License-Identifier: Apache-2.0
"""The clients of examples/ keep the rules of docs/PROTOCOL.md, in each language. The tests of Node
are skipped if npm is missing or reaches no registry."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import authority
import examples
import servers
import tap
import wire

# Fewer seconds between two publishes of a client than in real use.
OFTEN = {
    "python": ("inactivity_timeout=5", "inactivity_timeout=0.5"),
    "node": ("setInterval(again, 5000)", "setInterval(again, 500)"),
}


@examples.with_languages
class Clients(examples.TestCase):
    """The rules for clients."""

    def take_and_reply(self, actor):
        self.client.reply(
            self.client.consume_step(actor), result=wire.payload(b"done", "text/plain")
        )

    def ended(self, program, code, *words):
        """Expects a client's exit code, and a text in its output."""
        found, output = program.end()
        self.assertEqual(code, found, output)
        for word in words:
            self.assertIn(word, output)
        for word in ("Traceback", "    at "):
            self.assertNotIn(word, output)

    @examples.each_language
    def each_twice(self, language):
        """A repeated Submit waits for the same job, even if it has ended; another one is a
        conflict."""
        first = self.submit(language, "job", "grüß Gott", "hand")
        self.client.until(lambda: self.c.store.job("job"), "the job")
        second = self.submit(language, "job", "grüß Gott", "hand")
        servers.wait_for(lambda: "ALREADY" in second.text(), "a second Receipt")
        self.ended(self.submit(language, "job", "other", "hand"), 6, "CONFLICT")
        first.kill()  # messages that are still to come go to the second client
        request = self.client.consume_step("hand")
        self.assertEqual("grüß Gott".encode(), request.input.data)
        self.client.reply(request, result=wire.payload("süß".encode(), "text/plain; charset=utf-8"))
        self.ended(second, 0, "OUTCOME_SUCCEEDED", "süß")
        third = self.submit(language, "job", "grüß Gott", "hand")
        self.ended(third, 0, "ALREADY", "OUTCOME_SUCCEEDED", "süß")
        self.assertEqual(1, self.c.dispatches("job"))

    @examples.each_language
    def each_refused(self, language):
        self.ended(self.submit(language, "no id", "x", "hand"), 1, "REJECTED job_id")
        self.ended(self.submit(language, "job", "x", "no actor"), 1, "definition.steps[0].actor")
        self.ended(self.submit(language, "job"), 2)

    @examples.each_language
    def each_cancelled(self, language):
        program = self.submit(language, "job", "x", "hand", "hand")
        request = self.client.consume_step("hand")
        self.client.control("job", cancel=wire.Cancel())
        self.client.reply(request)
        self.ended(program, 4, "OUTCOME_CANCELLED")

    @examples.each_language
    def each_repeats(self, language):
        """A Submit that got lost is sent again unchanged, until there is a Receipt."""
        scheduler = self.c.schedulers[0]
        scheduler.stop()
        often = examples.with_change(examples.CLIENTS[language], *OFTEN[language], self.directory)
        program = self.start([*often, "job", "x", "hand"])
        lost = servers.wait_for(lambda: self.client.get("drover.submit"), "a Submit")
        again = servers.wait_for(lambda: self.client.get("drover.submit"), "the same again")
        self.assertEqual(lost[1], again[1])
        scheduler.start()
        self.take_and_reply("hand")
        self.ended(program, 0, "OUTCOME_SUCCEEDED")

    @examples.each_language
    def each_connection_lost(self, language):
        others = self.connections()
        program = self.submit(language, "job", "x", "hand")
        servers.wait_for(lambda: "CREATED" in program.text(), "the Receipt")
        self.cut_off(others)
        self.ended(program, 7, "RabbitMQ")


class Many(examples.TestCase):
    """The client that submits many jobs in a message."""

    def begin(self):
        return self.cluster()

    def submit_many(self, lines):
        """Returns the exit code, and what was said of each job."""
        path = self.directory / "jobs"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        program = self.start([*examples.command("clients/submit_many.py"), "demo", str(path)])
        code, output = program.end()
        self.assertNotIn("Traceback", output)
        said = [line.split(" ", 1) for line in output.splitlines()]
        self.assertEqual(len(lines), len(said), output)
        return code, dict(said)

    def test_many(self):
        """More jobs than a message may have; the same again waits for the same jobs."""
        jobs = [f"job{i}" for i in range(250)]
        for _ in range(2):
            code, said = self.submit_many([f"{job} grüß Gott" for job in jobs])
            self.assertEqual((0, dict.fromkeys(jobs, "OUTCOME_SUCCEEDED")), (code, said))
        self.assertEqual([1, "grüß Gott".encode()],
                         [self.c.dispatches("job249"), self.result("job249")])

    def result(self, job):
        (step,) = self.client.control(job, query=wire.Query(with_data=True)).status.steps
        return step.result.data

    def test_refused(self):
        """One of them: the others go on."""
        code, said = self.submit_many(["good x", "no/name x"])
        self.assertEqual((1, "OUTCOME_SUCCEEDED"), (code, said["good"]))
        self.assertIn("REJECTED job_id", said["no/name"])


@examples.with_languages
class OverTls(examples.TestCase):
    """Clients and agents over TLS, with certificates of their own."""

    own_servers = True

    @classmethod
    def setUpClass(cls):
        cls.rabbit, cls.redis = servers.Rabbit(tls=True), servers.Redis()
        for server in (cls.rabbit, cls.redis):
            cls.addClassCleanup(server.close)
            server.begin()
        for server in (cls.rabbit, cls.redis):
            server.await_start()

    @examples.each_language
    def each_with_certificates(self, language):
        own = self.rabbit.tls.authority.issue_client(language)
        self.options += ["--cert-file", str(own.cert), "--key-file", str(own.key)]
        self.start_agent(language)
        before = self.c.rabbit.rabbitmqctl("list_connections", "peer_cert_subject")
        self.assertIn(f"CN={language}", before)
        code, output = self.submit(language, "job", "hello", language).end()
        self.assertEqual(0, code, output)
        self.assertIn(f"OUTCOME_SUCCEEDED hello, {language}", output)

    @examples.each_language
    def each_distrusts(self, language):
        """An authority that has not signed the broker's certificate ends the client."""
        others = authority.Authority(self.directory / "others")
        self.options = ["--ca-file", str(others.ca)]
        code, output = self.submit(language, "job", "hello", language).end()
        self.assertEqual(7, code, output)
        self.assertRegex(output, "RabbitMQ: .*(certificate|CERTIFICATE)")


if __name__ == "__main__":
    tap.main()
