# SPDX-License-Identifier: Apache-2.0
"""Dispatches that no agent has begun do not count. Agents are slow, absent, come and go, or
restart, while requests stand in their queues past their LockedUntil, behind others with longer
waits. No agent crashes here: no expiry may count, nothing may park, and everything is done in the
end. An agent that crashes with a request still counts."""

import collections
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import foreign
import servers
import tap
import wire

WAIT_MS = 400
LOCK_MS = 3000  # even a busy machine does in that time what takes 100 ms
ABSENT_MS = 200  # lock and wait of an actor that has no agent for sixty leases
LEASES = 60


def step(actor, ms=0, name="s", **fields):
    fields = {"lock_ms": LOCK_MS, "wait_ms": WAIT_MS, **fields}
    if ms:
        fields |= {
            "action": "sleep",
            "arguments": wire.payload(b'{"ms": %d}' % ms, "application/json"),
        }
    return wire.step(name, actor, **fields)


class Case(cluster.TestCase):
    def begin(self, quorum=False):
        queues = {"rabbitmq": {"queue_type": "quorum" if quorum else "classic"}}
        self.c = self.cluster(
            agents=0,
            actor="none",
            settings={role: queues for role in ("scheduler", "agent", "supervisor")},
        )
        self.own, self.naming = threading.local(), threading.Lock()
        self.alerts = collections.Counter()

        def on_event(channel, method, _properties, body):
            event = wire.JobEvent.FromString(body)
            if event.kind == wire.EVENT_KIND_ALERT:
                self.alerts[event.reason] += 1
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(self.c.client, on_event, exchange="drover.events")
        self.addCleanup(listener.stop)

    def submit(self, job_id, *steps):
        """Submits a job; may be called on any thread."""
        if not hasattr(self.own, "client"):
            self.own.client = client.Client(self.rabbit, self.c.name)
        self.own.client.submit(wire.submit(job_id, list(steps)))
        return job_id

    def agent(self, actor, **more):
        """Starts a drover-agent for one actor; may be called on any thread."""
        with self.naming:
            return self.c.add_agent(
                {"agent": {"actors": [{"name": actor, "handler": "builtin"}], **more}}
            )

    def serve(self, actor, work, **how):
        agent = foreign.Agent(self.c.client, actor, work, **how)
        self.addCleanup(agent.stop)
        return agent

    def events(self, jobs, event):
        return [job for job in jobs for _ in self.c.store.events(job, event)]

    def assert_nothing_counted(self, jobs):
        self.assertEqual([], self.events(jobs, "expired"))
        self.assertEqual([], self.events(jobs, "parked"))

    def all_done(self, jobs, timeout=240):
        for event in self.c.client.all_settled(jobs, timeout):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome, event)


class Backlog(Case):
    """All scenarios at the same time, each with an actor of its own."""

    def slow_agent(self):
        """A foreign agent that is slower than the stream of jobs."""
        self.serve("slow", lambda request: time.sleep(0.1) or True)
        for n in range(100):
            yield self.submit(f"slow-{n}", step("slow"))

    def long_before_short(self):
        """One long step before many short ones, and another one behind it."""
        self.agent("long", concurrency=1)
        long = {"lock_ms": 60000, "wait_ms": 60000}
        yield self.submit("long-1", step("long", 4000, **long))
        yield self.submit("long-2", step("long", 4000, **long))
        for n in range(100):
            yield self.submit(f"short-{n}", step("long"))

    def end(self, agent):
        """Stops an agent once it is up, because before that it ignores signals."""
        servers.wait_for(agent.up, "an agent to be up")
        agent.stop()

    def comes_and_goes(self):
        """Agents that run for half a lease at a time; they finish what they have."""
        for n in range(40):
            yield self.submit(f"guest-{n}", step("guests", 100))
        agent = self.agent("guests", concurrency=1)
        for _ in range(4):
            time.sleep(LOCK_MS / 2000)
            self.end(agent)
            time.sleep(LOCK_MS / 2000)
            agent.start()

    def fleet(self):
        """Agents with a backlog that restart one by one."""
        agents = [self.agent("fleet", concurrency=1) for _ in range(2)]
        for n in range(100):
            yield self.submit(f"fleet-{n}", step("fleet", 100))
        for agent in agents * 2:
            self.end(agent)
            agent.start()

    def one_of_two(self):
        """Each job needs two actors, one of which has no agent for sixty leases."""
        self.agent("alive")
        absent = {"lock_ms": ABSENT_MS, "wait_ms": ABSENT_MS}
        jobs = [
            self.submit(f"pair-{n}", step("alive", name="a"), step("dead", name="b", **absent))
            for n in range(8)
        ]
        time.sleep(LEASES * ABSENT_MS / 1000)
        self.assert_nothing_counted(jobs)
        self.serve("dead", lambda request: True)
        return jobs

    def all_at_once(self, quorum):
        self.begin(quorum)
        jobs, failures = [], []

        def run(scenario):
            try:
                jobs.extend(scenario())
            except Exception as error:
                failures.append(error)

        scenarios = [
            self.slow_agent, self.long_before_short, self.comes_and_goes, self.fleet,
            self.one_of_two,
        ]
        threads = [threading.Thread(target=run, args=(scenario,)) for scenario in scenarios]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.all_done(jobs)
        self.assert_nothing_counted(jobs)
        self.assertEqual(0, self.alerts["PARKED"])
        silent = self.events(jobs, "silent")
        tap.narrate(
            f"{len(jobs)} jobs, {sum(map(self.c.dispatches, jobs))} requests, "
            f"{len(silent)} of them without evidence"
        )
        self.assertTrue(silent)  # otherwise nothing was tested

    def test_classic(self):
        self.all_at_once(False)

    def test_quorum(self):
        self.all_at_once(True)


class Expiries(Case):
    RETRY = wire.Policy(maximum_expiries=2, initial_interval_ms=50, jitter=-1)
    SOON = {"lock_ms": 500, "wait_ms": 500, "retry": RETRY}

    def assert_parks(self, job_id):
        servers.wait_for(lambda: self.c.store.events(job_id, "parked"), f"{job_id} to park", 120)
        self.assertEqual(["DEATHS"], [words[-1] for words in self.c.store.events(job_id, "parked")])
        self.assertEqual(2, len(self.c.store.events(job_id, "expired")))

    def test_drover_agent_that_hangs(self):
        """The agent kills the handler at the end of the lease, and sends no reply; each time there
        is evidence."""
        self.begin()
        self.agent("ours")
        # so long that the evidence comes in time on a slow machine
        self.submit("hangs", step("ours", 60000, **self.SOON | {"lock_ms": 3000, "wait_ms": 3000}))
        self.assert_parks("hangs")
        self.assertEqual([], self.c.store.events("hangs", "silent"))

    def test_foreign_agent_with_progress_that_hangs(self):
        self.begin()
        self.serve("foreign", lambda request: False, progress=True)
        self.submit("tells", step("foreign", **self.SOON))
        self.assert_parks("tells")
        self.assertEqual([], self.c.store.events("tells", "silent"))

    def test_foreign_agent_that_hangs(self):
        """It acknowledges at the end of its work, and sends no Progress. From the second dispatch
        on, a scheduler sees by the queue that it has the request."""
        self.begin()
        over = threading.Event()
        for _ in range(8):  # each hangs with the request that it has
            self.serve("foreign", lambda request: over.wait() and False)
        self.addCleanup(over.set)
        self.submit("hangs", step("foreign", **self.SOON))
        self.assert_parks("hangs")
        # on a busy machine a scheduler may inspect the queue too late
        self.assertIn(len(self.c.store.events("hangs", "silent")), range(1, 7))


class Silence(Case):
    def test_one_alert(self):
        """Dispatches without evidence raise one alert for an actor until an agent serves it; they
        park nothing."""
        self.begin()
        retry = wire.Policy(maximum_expiries=1)

        def take(answers):
            got = self.c.client.get("drover.task.hand")  # basic.get makes no consumer
            for request in wire.Requests.FromString(got[1]).requests if got and answers else ():
                self.c.client.reply(request)

        def silent(*jobs):
            """Takes each request, and never answers."""
            take(answers=False)
            return all(len(self.c.store.events(job, "silent")) > 1 for job in jobs)

        def done(*jobs):
            take(answers=True)
            self.c.client.pump()
            return all(job in self.c.client.events for job in jobs)

        for job_id in ("one", "other"):
            self.submit(job_id, step("hand", lock_ms=200, wait_ms=1000, retry=retry))
        servers.wait_for(lambda: silent("one", "other"), "two silences of each", 120)
        servers.wait_for(lambda: self.alerts["SILENT"], "the alert")
        self.assertEqual(1, self.alerts["SILENT"])
        servers.wait_for(lambda: done("one", "other"), "both to be done", 120)
        self.assert_nothing_counted(["one", "other"])
        before = self.alerts["SILENT"]  # more than one if a step was served before the other
        self.submit("later", step("hand", lock_ms=200, wait_ms=1000, retry=retry))
        servers.wait_for(lambda: silent("later"), "two more silences", 120)
        servers.wait_for(lambda: self.alerts["SILENT"] > before, "the next alert")


if __name__ == "__main__":
    tap.main()
