# SPDX-License-Identifier: Apache-2.0
"""If a queue is deleted or purged, its messages are lost, whatever their type: the requests of that
actor, or of all for the queue of replies, are sent again at once, under their tokens, and nothing
is counted."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cluster
import servers
import tap
import wire

JOBS = 20
LOCK_MS = 60_000
WAIT_MS = 600_000  # a step whose dispatch is not sent again waits for the end of this
TASKS, REPLIES = "drover.task.demo", "drover.replies"
OTHER = "other"  # an actor without agents


class Queues(cluster.TestCase):
    replication = "none"

    def begin(self, **counts):
        kind = {"rabbitmq": {"replication": self.replication}}
        return self.cluster(settings=dict.fromkeys(("scheduler", "agent", "supervisor"), kind),
                            **counts)

    def submit(self, c, **step):
        for number in range(JOBS):
            c.client.submit(wire.submit(
                f"job{number}", [wire.step("s", lock_ms=LOCK_MS, wait_ms=WAIT_MS, **step)]))

    def await_count(self, c, queue, count):
        servers.wait_for(lambda: c.client.queue(queue)[0] == count, f"{count} in {queue}")

    def await_dispatches(self, c):
        servers.wait_for(lambda: all(c.dispatches(f"job{n}") for n in range(JOBS)), "dispatches")

    def delete(self, c, queue):
        c.client.call(lambda channel: channel.queue_delete(queue))

    def check(self, c, jobs=range(JOBS), resent=1, unroutable=0):
        """These jobs succeed, long before a lease would have ended."""
        names = [f"job{number}" for number in jobs]
        for end in c.client.all_settled(names, timeout=120):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, end.outcome)
        for event, times in (("silent", 0), ("expired", 0), ("done", 1),
                             ("dispatched", 1 + unroutable), ("unroutable", unroutable),
                             ("unstarted", 0), ("failed", 0), ("parked", 0)):
            self.assertEqual([times] * len(names), self.counts(c, event, names), event)
        if resent is not None:
            self.assertEqual([resent] * len(names), self.counts(c, "resent", names))

    def counts(self, c, event, names):
        return [len(c.store.events(job, event)) for job in names]

    def losses(self, daemons, actor="demo"):
        return sum(record["actor"] == actor
                   for daemon in daemons for record in daemon.records("requests_lost"))

    def test_consumed_by_agents(self):
        """Both agents report it, and both schedulers may record it: each request is sent once."""
        c = self.begin(agents=2, schedulers=2)
        for agent in c.agents:
            agent.pause()
        self.submit(c)
        self.await_dispatches(c)
        c.client.submit(wire.submit("other", [wire.step("s", actor=OTHER, wait_ms=WAIT_MS)]))
        self.await_count(c, f"drover.task.{OTHER}", 1)
        self.delete(c, TASKS)
        for agent in c.agents:
            agent.resume()
        self.check(c, resent=None)
        # the agents had some of them already, and answered these before they read of the deletion
        resent = self.counts(c, "resent", [f"job{n}" for n in range(JOBS)])
        self.assertEqual({0, 1}, set(resent) | {0})
        self.assertEqual(2, self.losses(c.agents))
        self.assertEqual(1, c.client.queue(f"drover.task.{OTHER}")[0])  # it was not lost
        self.assertEqual([], c.store.events("other", "resent"))

    def test_no_agent(self):
        """An agent that starts finds that the queue is gone, and has the requests sent again."""
        c = self.begin(agents=0)
        self.submit(c)
        self.await_count(c, TASKS, JOBS)
        self.delete(c, TASKS)
        c.add_agent()
        self.check(c)
        self.assertEqual(1, self.losses(c.agents))

    def test_found_by_scheduler(self):
        """A scheduler that is to send one more request finds it, and makes the queue anew."""
        c = self.begin(agents=0)
        self.submit(c)
        self.await_count(c, TASKS, JOBS)
        c.schedulers[0].stop()
        self.delete(c, TASKS)
        c.schedulers[0].start()
        c.client.submit(wire.submit("job20", [wire.step("s", wait_ms=WAIT_MS)]))
        servers.wait_for(lambda: c.client.queue(TASKS)[0] > JOBS, "all requests")
        c.add_agent()
        self.check(c)
        self.assertEqual(0, self.losses(c.agents))
        self.assertEqual(1, self.losses(c.schedulers))

    def test_returned_to_scheduler(self):
        """The scheduler was connected before: its request comes back."""
        c = self.begin(agents=0)
        self.submit(c, retry={"initial_interval_ms": 100})
        self.await_count(c, TASKS, JOBS)
        self.delete(c, TASKS)
        c.client.submit(wire.submit("job20", [
            wire.step("s", wait_ms=WAIT_MS, retry={"initial_interval_ms": 100})]))
        servers.wait_for(lambda: c.client.queue(TASKS)[0] > JOBS, "all requests")
        c.add_agent()
        self.check(c)
        # the second request waited while the loss was recorded, so it may have been lost, too
        self.check(c, [JOBS], unroutable=1)

    def test_replies(self):
        c = self.begin()
        c.agents[0].stop()
        self.submit(c)
        self.await_count(c, TASKS, JOBS)
        c.schedulers[0].stop()
        c.agents[0].start()
        self.await_count(c, TASKS, 0)
        c.agents[0].stop()  # it has sent all its replies
        servers.wait_for(lambda: c.client.queue(REPLIES)[0] > 0, "the replies")
        self.delete(c, REPLIES)
        c.agents[0].start()
        servers.wait_for(c.agents[0].up, "the agent")
        self.assertIsNone(c.client.find(REPLIES))  # only a scheduler makes it anew
        c.schedulers[0].start()
        self.check(c)

    def test_replies_of_two_schedulers(self):
        """Both notice that their queue is deleted, and go on."""
        c = self.begin(schedulers=2)
        before = self.losses(c.schedulers, "*")
        self.delete(c, REPLIES)
        servers.wait_for(lambda: self.losses(c.schedulers, "*") == before + 2, "both to notice it")
        c.await_ready()
        self.submit(c)
        self.check(c, resent=0)

    def test_purged(self):
        """That cannot be noticed: a person says it."""
        c = self.begin(agents=0)
        self.submit(c)
        self.await_count(c, TASKS, JOBS)
        c.client.call(lambda channel: channel.queue_purge(TASKS))
        said = c.drover("resend", "demo", "--reason", "purged by mistake")
        self.assertEqual("the requests in flight of demo are sent again\n", said.stdout)
        self.await_count(c, TASKS, JOBS)
        c.add_agent()
        self.check(c)
        (asked,) = c.schedulers[0].records("resend_asked")
        self.assertEqual(("demo", "purged by mistake"), (asked["actor"], asked["why"]))

    def test_resend_of_all_actors(self):
        c = self.begin(agents=0)
        self.submit(c)
        c.client.submit(wire.submit("other", [wire.step("s", actor=OTHER, wait_ms=WAIT_MS)]))
        for queue, count in ((TASKS, JOBS), (f"drover.task.{OTHER}", 1)):
            self.await_count(c, queue, count)
            c.client.call(lambda channel, name=queue: channel.queue_purge(name))
        c.drover("resend", "*")
        for queue, count in ((TASKS, JOBS), (f"drover.task.{OTHER}", 1)):
            self.await_count(c, queue, count)

    def test_resend_of_nothing(self):
        """An actor that no job uses; and a name that no actor can have."""
        c = self.begin(agents=0)
        self.submit(c)
        self.await_count(c, TASKS, JOBS)
        self.assertEqual(0, c.drover("resend", "nobody").returncode)
        wrong = c.drover("resend", "no body")
        self.assertEqual(1, wrong.returncode)
        self.assertIn("resend.actor", wrong.stderr)
        c.add_agent()
        self.check(c, resent=0)


class Quorum(Queues):
    replication = "quorum"


if __name__ == "__main__":
    tap.main()
