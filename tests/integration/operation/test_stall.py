# SPDX-License-Identifier: Apache-2.0
"""The broker stops reading for 20 s under load: no loop is blocked, nothing is lost, and all work
goes on."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

STALL_S = 20
JOBS = 500
NAP = wire.payload(b'{"ms": 100}', "application/json")
STEPS = wire.chain(20, action="sleep", arguments=NAP)
CALLBACK_US = 50_000


class Stall(cluster.TestCase):
    own_servers = True

    def test_memory_alarm(self):
        slots = {"agent": {"agent": {"concurrency": 64}}}
        c = self.cluster(schedulers=2, agents=2, supervisors=2, settings=slots)
        jobs = [f"job-{i}" for i in range(JOBS)]
        for agent in c.agents:
            agent.pause()  # so that all of the load exists when the stall begins
        for job_id in jobs:
            c.client.submit(wire.submit(job_id, STEPS))
        for agent in c.agents:
            agent.resume()
        servers.wait_for(lambda: c.store.events("job-0", "done"), "the first steps")
        self.rabbit.rabbitmqctl("set_vm_memory_high_watermark", "0.00001")
        began = time.monotonic()
        stalled_at = c.store.total("settled")
        self.assertLess(stalled_at, JOBS, "no load left")
        try:
            servers.wait_for(lambda: time.monotonic() - began > STALL_S, "the end of the stall")
            self.assertTrue(all(daemon.alive() for daemon in c.daemons))
            # The broker tells only connections that publish.
            blocked = [daemon.name for daemon in c.daemons if daemon.records("bus_blocked")]
            self.assertTrue(blocked, "the alarm reached no daemon")
            tap.narrate("blocked: " + ", ".join(blocked))
            tap.narrate(f"stalled at {stalled_at} jobs, then {c.store.total('settled')}")
        finally:
            self.rabbit.rabbitmqctl("set_vm_memory_high_watermark", "0.8")
        for event in c.client.all_settled(jobs, 240):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        c.await_idle()
        for daemon in c.daemons:
            daemon.stop()
            times = [r["loop_cpu_max_us"] for r in daemon.records() if "loop_cpu_max_us" in r]
            self.assertTrue(times, f"{daemon.name} does not log its longest loop callback")
            tap.narrate(f"{daemon.name}: longest loop callback {max(times) / 1000} ms CPU")
            self.assertLessEqual(max(times), CALLBACK_US, daemon.name)


if __name__ == "__main__":
    tap.main()
