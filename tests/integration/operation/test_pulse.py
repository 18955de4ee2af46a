# SPDX-License-Identifier: Apache-2.0
"""A daemon that is alive and does not consume notices that, and exits. One that was stopped for a
while, or whose broker takes no messages, does not."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import frozen
import health
import servers
import tap
import wire

HEARTBEAT_S = 1
STALL_S = 3 * HEARTBEAT_S  # the least that is allowed


def short_stall(stall=f"{STALL_S}s"):
    heartbeat = {"rabbitmq": {"heartbeat": f"{HEARTBEAT_S}s"}}
    return health.settings({role: heartbeat for role in health.ROLES}, pulse="200ms", stall=stall)


class Pulse(cluster.TestCase):
    def freeze(self, daemon, thread):
        try:
            found = frozen.without_a_lock(daemon, thread)
        except PermissionError as error:
            self.skipTest(f"no ptrace: {error}")
        self.addCleanup(found.release)
        return found

    def stalls(self, c, daemon, thread):
        """One of the threads hangs: the daemon is connected, and nothing comes through."""
        health.await_ready(*c.daemons)
        stopped = self.freeze(daemon, thread)
        self.gives_up(c, daemon, thread, stopped.gone)

    def gives_up(self, c, daemon, what, gone):
        others = [d for d in c.daemons if d is not daemon]
        health.await_reason("pulse: none has come back for", daemon)
        self.assertEqual(200, health.ask(daemon, "/livez")[0])
        self.assertEqual(1, health.metrics(daemon)["drover_broker_up"])
        servers.wait_for(gone, f"{daemon.name} to give up")
        daemon.await_stop()
        self.assertEqual([1], daemon.exit_codes)
        daemon.exit_codes.clear()
        (record,) = daemon.records("stalled")
        tap.narrate(f"{daemon.name} {what}: gave up, {record['pulse_age_ms']} ms after a pulse")
        self.assertGreaterEqual(record["pulse_age_ms"], 1000 * STALL_S)
        self.assertTrue(all(d.alive() for d in others))

    def test_agent(self):
        """Another agent does the work that was sent to the hanging one."""
        with frozen.threads_at_work():
            c = self.cluster(settings=short_stall())
        (hanging,) = c.agents
        self.stalls(c, hanging, "bus-consume")
        c.add_agent()
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_scheduler(self):
        with frozen.threads_at_work():
            c = self.cluster(settings=short_stall())
        (hanging,) = c.schedulers
        self.stalls(c, hanging, "bus-consume")
        hanging.start()
        c.await_ready()
        health.await_ready(hanging)
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_publishing(self):
        """The other direction: a daemon that cannot publish hangs as well."""
        with frozen.threads_at_work():
            c = self.cluster(settings=short_stall())
        self.stalls(c, c.agents[0], "bus-publish")

    def test_broker_reads_nothing(self):
        """The connection hangs at the broker's end."""
        c = self.cluster(settings=short_stall())
        (agent,) = c.agents
        health.await_ready(*c.daemons)
        with c.rabbit.deaf(c.name, "drover-agent bus-publish"):
            self.gives_up(c, agent, "broker", lambda: not agent.alive())

    def test_supervisor(self):
        """A supervisor consumes nothing; its pulses are the answers to its inspections."""
        with frozen.threads_at_work():
            c = self.cluster(settings=short_stall())
        self.stalls(c, c.supervisors[0], "bus-publish")

    def test_never(self):
        """With health.stall = 0 the daemon only reports it."""
        with frozen.threads_at_work():
            c = self.cluster(supervisors=0, settings=short_stall(stall=0))
        (agent,) = c.agents
        health.await_ready(agent)
        with self.freeze(agent, "bus-consume"):
            servers.wait_for(
                lambda: health.metrics(agent)["drover_pulse_age_seconds"] > 2 * STALL_S,
                "a long stall",
            )
            self.assertEqual(503, health.readiness(agent)[0])
        # the thread finds its connection closed by the broker, and makes another
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
