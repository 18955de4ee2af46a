# SPDX-License-Identifier: Apache-2.0
"""The clients of examples/ keep the rules of docs/PROTOCOL.md, in each language. What is in Node is
skipped where npm is not there or reaches no registry."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import examples
import servers
import tap
import wire

# Seconds between two tries to be heard are fewer here than where nobody waits for a test.
OFTEN = {
    "python": ("inactivity_timeout=5", "inactivity_timeout=0.5"),
    "node": ("setInterval(again, 5000)", "setInterval(again, 500)"),
}


@examples.with_languages
class Clients(examples.TestCase):
    """The rules for clients."""

    def take_and_reply(self, actor):
        self.client.reply(self.client.consume_step(actor), result=wire.payload(b"done", "text/plain"))

    def ended(self, program, code, *words):
        """A client's exit code, and what it must have said."""
        found, said = program.end()
        self.assertEqual(code, found, said)
        for word in words:
            self.assertIn(word, said)
        for word in ("Traceback", "    at "):
            self.assertNotIn(word, said)

    @examples.each_language
    def each_twice(self, language):
        """The same again waits for the same job, also when it is over; other words are a conflict."""
        first = self.submit(language, "job", "grüß Gott", "hand")
        self.client.until(lambda: self.c.store.job("job"), "the job")
        second = self.submit(language, "job", "grüß Gott", "hand")
        servers.wait_for(lambda: "ALREADY" in second.text(), "a second Receipt")
        self.ended(self.submit(language, "job", "other", "hand"), 6, "CONFLICT")
        first.kill()  # what is still to be told has moved to the second
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
        """A Submit that got lost is sent again, the same, until there is a Receipt."""
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


if __name__ == "__main__":
    tap.main()
