# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: the level of the log changes at once; another changed setting is named and waits for a
restart; a wrong configuration changes nothing. Work in progress goes on."""

import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire


class Reload(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.c = self.cluster(failpoints={})
        (self.scheduler,) = self.c.schedulers
        self.text = self.scheduler.config.read_text()
        self.count = 0

    def reload(self, daemon, text, event):
        """Has a daemon read this text; returns the event that it logs."""
        before = len(daemon.records(event))
        daemon.config.write_text(text)
        daemon.signal(signal.SIGHUP)
        return servers.wait_for(lambda: daemon.records(event)[before:], event)[-1]

    def job(self):
        self.count += 1
        job_id = f"job-{self.count}"
        self.c.client.submit(wire.submit(job_id, wire.chain(2)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.c.client.settled(job_id).outcome)

    def debugs(self):
        return len(self.scheduler.records("step_dispatched"))

    def test_level(self):
        """Up and down, and in each role."""
        self.job()
        self.assertEqual(0, self.debugs())
        more = self.text.replace('level = "info"', 'level = "debug"')
        self.reload(self.scheduler, more, "reloaded")
        self.job()
        seen = self.debugs()
        self.assertGreater(seen, 0)
        self.reload(self.scheduler, self.text, "reloaded")
        self.job()
        self.assertEqual(seen, self.debugs())
        self.assertEqual([], self.scheduler.records("needs_restart"))
        for daemon in self.c.agents + self.c.supervisors:
            self.reload(daemon, daemon.config.read_text(), "reloaded")
            self.assertTrue(daemon.alive())

    def test_needs_restart(self):
        """Only the level changes; the log names the other settings."""
        record = self.reload(
            self.scheduler, self.text + 'drain_timeout = "100ms";\n', "needs_restart"
        )
        self.assertEqual("drain_timeout", record["settings"])
        moved = self.text.replace(f"port = {self.c.redis.known_port}", "port = 1")
        record = self.reload(self.scheduler, moved, "needs_restart")
        self.assertEqual("redis.port", record["settings"])
        self.job()
        (agent,) = self.c.agents
        fewer = agent.config.read_text().replace('name = "effect"', 'name = "other"')
        self.assertEqual("agent.actors", self.reload(agent, fewer, "needs_restart")["settings"])
        self.c.client.submit(wire.submit("served", [wire.step("s", "effect")]))
        self.c.client.settled("served")

    def test_refused(self):
        """A file that is wrong, incomplete, missing or unreadable changes nothing, and the log says
        where it is wrong."""
        debug = self.text.replace('level = "info"', 'level = "debug"')
        name = str(self.scheduler.config)
        for text, where, why in (
            (
                debug + "no_such_setting = 1;\n",
                f"{name}:{debug.count(chr(10)) + 1}",
                "there is no such setting",
            ),
            (debug[: debug.index("password")], name, "syntax error"),
        ):
            record = self.reload(self.scheduler, text, "reload_refused")
            self.assertTrue(record["where"].startswith(where), record)
            self.assertIn(why, record["why"])
        self.scheduler.fail("config.load=1*return")
        self.reload(self.scheduler, debug, "reload_refused")
        self.scheduler.config.unlink()
        self.scheduler.signal(signal.SIGHUP)
        servers.wait_for(lambda: len(self.scheduler.records("reload_refused")) == 4, "the fourth")
        self.job()
        self.assertEqual(0, self.debugs())
        (agent,) = self.c.agents
        alone = agent.config.read_text().replace('handler = "builtin"', 'handler = "no such"')
        self.assertIn("handler", self.reload(agent, alone, "reload_refused")["why"])
        self.job()


if __name__ == "__main__":
    tap.main()
