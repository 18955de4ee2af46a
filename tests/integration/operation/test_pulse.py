# SPDX-License-Identifier: Apache-2.0
"""A daemon that is alive and does not consume notices that, and exits. One that was stopped for a
while, or whose broker takes no messages, does not."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import health
import servers
import tap
import wire

HEARTBEAT_S = 1
STALL_S = 3 * HEARTBEAT_S  # the least that is allowed
LINKS = {"mute": "bus-consume", "deaf": "bus-publish"}  # which connection each fault is about


def short_stall(stall=f"{STALL_S}s"):
    heartbeat = {"rabbitmq": {"heartbeat": f"{HEARTBEAT_S}s"}}
    return health.settings({role: heartbeat for role in health.ROLES}, pulse="200ms", stall=stall)


class Pulse(cluster.TestCase):
    def stalls(self, c, daemon, broken):
        """The broker does nothing any more over one connection of the daemon, which stays up."""
        health.await_ready(*c.daemons)
        with broken(c.name, f"drover-{daemon.role} {LINKS[broken.__name__]}"):
            self.gives_up(c, daemon, broken.__name__)

    def gives_up(self, c, daemon, what):
        others = [d for d in c.daemons if d is not daemon]
        health.await_reason("pulse: none has come back for", daemon)
        self.assertEqual(200, health.ask(daemon, "/livez")[0])
        self.assertEqual(1, health.metrics(daemon)["drover_broker_up"])
        servers.wait_for(lambda: not daemon.alive(), f"{daemon.name} to give up")
        daemon.await_stop()
        self.assertEqual([1], daemon.exit_codes)
        daemon.exit_codes.clear()
        (record,) = daemon.records("stalled")
        tap.narrate(f"{daemon.name} {what}: gave up, {record['pulse_age_ms']} ms after a pulse")
        self.assertGreaterEqual(record["pulse_age_ms"], 1000 * STALL_S)
        self.assertTrue(all(d.alive() for d in others))

    def test_agent(self):
        """Another agent does the work that was sent to the hanging one."""
        c = self.cluster(settings=short_stall())
        (hanging,) = c.agents
        self.stalls(c, hanging, c.rabbit.mute)
        c.add_agent()
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_scheduler(self):
        c = self.cluster(settings=short_stall())
        (hanging,) = c.schedulers
        self.stalls(c, hanging, c.rabbit.mute)
        hanging.start()
        c.await_ready()
        health.await_ready(hanging)
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_publishing(self):
        """The other direction: the broker reads nothing that the daemon publishes."""
        c = self.cluster(settings=short_stall())
        self.stalls(c, c.agents[0], c.rabbit.deaf)

    def test_supervisor(self):
        """A supervisor consumes nothing; its pulses are the answers to its inspections."""
        c = self.cluster(settings=short_stall())
        self.stalls(c, c.supervisors[0], c.rabbit.deaf)

    def test_never(self):
        """With health.stall = 0 the daemon only reports it."""
        c = self.cluster(supervisors=0, settings=short_stall(stall=0))
        (agent,) = c.agents
        health.await_ready(agent)
        with c.rabbit.mute(c.name, "drover-agent bus-consume"):
            servers.wait_for(
                lambda: health.metrics(agent)["drover_pulse_age_seconds"] > 2 * STALL_S,
                "a long stall",
            )
            self.assertEqual(503, health.readiness(agent)[0])
        health.await_ready(agent)

    def test_paused(self):
        """The time in which a whole process was stopped does not count as a stall."""
        c = self.cluster(settings=short_stall())
        health.await_ready(*c.daemons)
        began = time.monotonic()
        for daemon in c.daemons:
            daemon.pause()
        servers.wait_for(lambda: time.monotonic() - began > 2 * STALL_S, "a long pause")
        for daemon in c.daemons:
            daemon.resume()
        health.await_ready(*c.daemons)
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        self.assertEqual([], [d.name for d in c.daemons if d.records("stalled")])


class Alarm(cluster.TestCase):
    own_servers = True

    def test_memory_alarm(self):
        """A broker that takes no messages is no reason to exit, however long that lasts."""
        c = self.cluster(settings=short_stall())
        health.await_ready(*c.daemons)
        self.rabbit.rabbitmqctl("set_vm_memory_high_watermark", "0.00001")
        began = time.monotonic()
        try:
            # The broker does not notify a supervisor that publishes nothing.
            health.await_reason("broker: takes no messages", *c.schedulers, *c.agents)
            for daemon in c.schedulers + c.agents:
                self.assertEqual(1, health.metrics(daemon)["drover_broker_blocked"])
            servers.wait_for(lambda: time.monotonic() - began > 2 * STALL_S, "a long alarm")
            self.assertTrue(all(daemon.alive() for daemon in c.daemons))
            self.assertTrue(all(health.ask(daemon, "/livez")[0] == 200 for daemon in c.daemons))
        finally:
            self.rabbit.rabbitmqctl("set_vm_memory_high_watermark", "0.8")
        health.await_ready(*c.daemons)
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)


if __name__ == "__main__":
    tap.main()
