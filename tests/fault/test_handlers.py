# SPDX-License-Identifier: Apache-2.0
"""A handler that runs when a fault strikes its agent: it ends normally if its lease allows that,
and is killed at the end of its lease, even if SIGTERM does not end it. A docstring begins with the
cells that its test covers."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import servers
import tap
import trial
import wire

OTHER = "other"


class Handlers(trial.Trial):
    def ends(self, pid):
        """The exit codes of a handler; none if it was killed."""
        lines = (self.notes.directory / "effects.log").read_text().splitlines()
        return [int(words[6])
                for words in map(str.split, lines) if words[1] == "END" and int(words[5]) == pid]

    def await_kill(self):
        servers.wait_for(lambda: servers.gone(self.handler), "the handler to be killed")
        self.assertEqual([], self.ends(self.handler))

    def settle_after(self, kind, expiries):
        """The agent that killed the handler sent no reply: waits until so many leases have ended.
        """
        self.settle(kind)
        self.assertEqual(expiries, len(self.c.store.events(trial.JOB, "expired")))
        self.assertEqual(len(trial.KINDS[kind]) + expiries, self.c.dispatches(trial.JOB))

    def test_deadline(self):
        """B6.F6: the handler does not end in time."""
        c = self.begin()
        with self.running(c.agents, "stuck") as agent:
            self.await_kill()
        servers.wait_for(lambda: agent.records("lease_over"), "it to be dropped")
        self.settle_after("stuck", 1)

    def test_zombie(self):
        """B6.F12: its agent stands still until others have done the work; then the handler is
        killed."""
        c = self.begin(agents=2)
        with self.running(c.agents, "stuck") as agent:
            self.stand(agent)
            self.assertFalse(servers.gone(self.handler))
            self.resume(agent)
            self.await_kill()
        servers.wait_for(lambda: agent.records("lease_over"), "it to be dropped")
        self.settle("stuck")

    def test_zombie_that_has_finished(self):
        """B6.F12: the handler has ended normally meanwhile, and the agent does not reply."""
        c = self.begin(agents=2)
        with self.running(c.agents, "long") as agent:
            self.stand(agent)
            self.assertEqual([0], self.ends(self.handler))
            self.resume(agent)
            servers.wait_for(lambda: agent.records("lease_over"), "it to be dropped")
        self.settle("long")

    def stand(self, agent):
        self.notes.fault("stands", agent.name)
        agent.pause()
        self.c.client.settled(trial.JOB, 120)

    def resume(self, agent):
        agent.resume()
        self.notes.fault("over", agent.name)

    def test_drained(self):
        """B6.F19: its agent finishes the run."""
        self.stop("in_time")
        self.assertEqual([0], self.ends(self.handler))
        self.settle_after("in_time", 0)

    def test_drained_and_stuck(self):
        """B6.F19: its agent kills a run that does not end in time."""
        self.stop("stuck")
        self.assertTrue(servers.gone(self.handler))
        self.await_kill()
        self.settle_after("stuck", 1)

    def stop(self, kind):
        c = self.begin()
        with self.running(c.agents, kind) as agent:
            self.notes.fault("SIGTERM", agent.name)
            agent.stop()
            self.assertEqual([0], agent.exit_codes)
        self.restarted(agent)

    def test_killed(self):
        """B6.F20: the handler ends with its agent, and another agent does the work."""
        c = self.begin()
        with self.running(c.agents, "long") as agent:
            self.notes.fault("SIGKILL", agent.name)
            agent.kill()
            self.await_kill()
        self.restarted(agent)
        self.settle("long")
        self.assertEqual(len(trial.KINDS["long"]) + 1, len(self.begun()))

    def test_clock_ahead(self):
        """B6.F11: no run ends early when the clock jumps ten minutes ahead."""
        self.jump("in_time", "+10m")
        self.assertEqual([0], self.ends(self.handler))
        self.settle_after("in_time", 0)

    def test_clock_back(self):
        """B6.F11: the clock steps ten minutes back, and the handler is killed when its lease ends.
        """
        self.jump("stuck", "-10m")
        self.await_kill()
        self.settle_after("stuck", 1)

    def jump(self, kind, by):
        """Sets the agent's clock when it begins another run besides."""
        c = self.begin()
        with self.running(c.agents, kind) as agent:
            agent.fail(f"run.before=1*clock({by})@{OTHER}")
            c.client.submit(wire.submit(OTHER, trial.KINDS["single"]))
            agent.await_hits("run.before")
            self.assertFalse(servers.gone(self.handler))
            self.notes.fault(f"clock {by}", agent.name)
            self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled(OTHER).outcome)
            c.client.settled(trial.JOB, 60)


if __name__ == "__main__":
    tap.main()
