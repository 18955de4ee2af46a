# SPDX-License-Identifier: Apache-2.0
"""What becomes of a handler that runs when a fault strikes its agent: it ends well where its lease allows that, and
is killed at the end of its lease, also where SIGTERM does not end it. A docstring begins with the cells that its
test covers."""

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
        """Exit codes that a handler has told; none where it was killed."""
        lines = (self.notes.directory / "effects.log").read_text().splitlines()
        return [int(words[6]) for words in map(str.split, lines) if words[1] == "END" and int(words[5]) == pid]

    def await_kill(self):
        servers.wait_for(lambda: servers.gone(self.handler), "the handler to be killed")
        self.assertEqual([], self.ends(self.handler))

    def settle_after(self, kind, deaths):
        """The agent that killed it has said nothing: so many leases have ended."""
        self.settle(kind)
        self.assertEqual(deaths, len(self.c.store.events(trial.JOB, "expired")))
        self.assertEqual(len(trial.KINDS[kind]) + deaths, self.c.dispatches(trial.JOB))

    def test_deadline(self):
        """B6.F6: it does not end in time."""
        c = self.begin()
        with self.running(c.agents, "stuck") as agent:
            self.await_kill()
        servers.wait_for(lambda: agent.records("lease_over"), "it to be dropped")
        self.settle_after("stuck", 1)

    def test_zombie(self):
        """B6.F12: its agent stands until others have done the work; then it is killed."""
        c = self.begin(agents=2)
        with self.running(c.agents, "stuck") as agent:
            self.stand(agent)
            self.assertFalse(servers.gone(self.handler))
            self.resume(agent)
            self.await_kill()
        servers.wait_for(lambda: agent.records("lease_over"), "it to be dropped")
        self.settle("stuck")

    def test_zombie_that_has_done_it(self):
        """B6.F12: or it has ended well meanwhile; the agent does not say so."""
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

    def test_stopped(self):
        """B6.F19: its agent finishes what runs."""
        self.stop("in_time")
        self.assertEqual([0], self.ends(self.handler))
        self.settle_after("in_time", 0)

    def test_stopped_and_stuck(self):
        """B6.F19: and kills what does not end in time."""
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
        """B6.F20: it ends with its agent, and its successor does the work."""
        c = self.begin()
        with self.running(c.agents, "long") as agent:
            self.notes.fault("SIGKILL", agent.name)
            agent.kill()
            self.await_kill()
        self.restarted(agent)
        self.settle("long")
        self.assertEqual(len(trial.KINDS["long"]) + 1, len(self.begun()))

    def test_clock_ahead(self):
        """B6.F11: ten minutes forward end nothing early."""
        self.jump("in_time", "+10m")
        self.assertEqual([0], self.ends(self.handler))
        self.settle_after("in_time", 0)

    def test_clock_back(self):
        """B6.F11: ten minutes back, and it is killed when its lease ends."""
        self.jump("stuck", "-10m")
        self.await_kill()
        self.settle_after("stuck", 1)

    def jump(self, kind, by):
        """The agent's clock, when it begins something else beside."""
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
