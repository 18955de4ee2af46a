# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: runs are finished, requests that were only delivered go to other agents, nothing is done
twice, and each daemon exits with 0."""

import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire


class Drain(cluster.TestCase):
    def naps(self, seconds):
        """Returns an actor whose runs note when they begin and end."""
        script = (
            f'echo "begin $DROVER_STEP" >>"$0"; sleep {seconds}; echo "end $DROVER_STEP" >>"$0"'
        )
        self.log = self.directory / "naps"
        self.log.touch()
        command = ["/bin/sh", "-c", script, str(self.log)]
        return {"name": "nap", "handler": "exec", "actions": [{"name": "*", "command": command}]}

    def begun(self, word="begin"):
        return sorted(line.split()[1] for line in self.log.read_text().splitlines() if word in line)

    def settings(self, seconds, slots):
        actors = [self.naps(seconds), cluster.BUILTIN]
        return {"agent": {"agent": {"concurrency": slots, "actors": actors}}}

    def job_of_naps(self, c, width):
        c.client.submit(wire.submit("job", [wire.step(f"s{i}", "nap") for i in range(width)]))
        c.client.receipt("job")

    def once(self, c, job_id, steps):
        """Expects that the job is done with exactly one dispatch, run and answer for each step."""
        event = c.client.settled(job_id)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual(steps, c.dispatches(job_id))
        self.assertEqual(steps, len(c.store.events(job_id, "done")))

    def test_agent(self):
        """Eight naps on two agents with two slots each; one agent is stopped while it runs two."""
        c = self.cluster(agents=2, settings=self.settings(1.5, slots=2))
        self.job_of_naps(c, 8)
        servers.wait_for(lambda: len(self.begun()) == 4, "four naps to begin")
        c.agents[0].stop()
        self.assertEqual([0], c.agents[0].exit_codes)
        self.once(c, "job", 8)
        self.assertEqual(sorted(f"s{i}" for i in range(8)), self.begun())
        self.assertEqual(self.begun(), self.begun("end"))

    def test_last_agent(self):
        """The agent finishes its run; other requests stay in the queue until there is an agent."""
        c = self.cluster(settings=self.settings(0.8, slots=1))
        self.job_of_naps(c, 3)
        servers.wait_for(lambda: len(self.begun()) == 1, "a nap to begin")
        c.agents[0].stop()
        self.assertEqual([0], c.agents[0].exit_codes)
        self.assertEqual((1, 1), (len(self.begun()), len(self.begun("end"))))
        self.assertEqual((2, 0), c.client.queue("drover.task.nap"))
        c.agents[0].start()
        self.once(c, "job", 3)
        self.assertEqual(3, len(self.begun()))

    def test_second_signal(self):
        """A second signal ends the agent at once, and no program is left behind."""
        pid_file = self.directory / "pid"
        command = [
            "/bin/sh", "-c", 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600', str(pid_file),
        ]
        nap = {"name": "nap", "handler": "exec", "actions": [{"name": "*", "command": command}]}
        c = self.cluster(settings={"agent": {"agent": {"actors": [cluster.BUILTIN, nap]}}})
        c.client.submit(wire.submit("job", [wire.step("s", "nap")]))
        servers.wait_for(pid_file.exists, "the program to begin")
        agent, program = c.agents[0], pathlib.Path("/proc", pid_file.read_text().strip())
        agent.signal(signal.SIGTERM)
        servers.wait_for(lambda: agent.records("stopping"), "the agent to be stopping")
        self.assertTrue(program.exists())
        agent.signal(signal.SIGINT)
        agent.await_stop()
        self.assertEqual([1], agent.exit_codes)
        agent.exit_codes.clear()
        servers.wait_for(lambda: not program.exists(), "the program to be gone")

    def test_scheduler(self):
        """Schedulers are stopped in turn under load, and nothing is lost."""
        c = self.cluster(schedulers=2)
        jobs = [f"job-{i}" for i in range(60)]
        for job_id in jobs:
            c.client.submit(wire.submit(job_id, wire.chain(4)))
        for i, scheduler in enumerate(c.schedulers):
            count = 15 * (i + 1)
            servers.wait_for(lambda n=count: c.store.total("settled") >= n, f"{count} jobs")
            scheduler.stop()
            self.assertEqual([0], scheduler.exit_codes)
            scheduler.start()
            c.await_ready()
        for job_id in jobs:
            self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled(job_id).outcome)
            self.assertEqual(4, len(c.store.events(job_id, "done")))
        c.await_idle()

    def test_without_servers(self):
        """A daemon that never reached its broker and store stops as well."""
        c = self.cluster()
        nowhere = {"rabbitmq": {"port": servers.free_ports(1)[0]}}
        for daemon in (
            c.add_scheduler(merge_store(nowhere)),
            c.add_agent(nowhere),
            c.add_supervisor(merge_store(nowhere)),
        ):
            servers.wait_for(lambda d=daemon: d.records(), f"{daemon.name} to log")
            daemon.stop()
            self.assertEqual([0], daemon.exit_codes, daemon.name)


def merge_store(settings):
    return {**settings, "redis": {"port": settings["rabbitmq"]["port"]}}


if __name__ == "__main__":
    tap.main()
