# SPDX-License-Identifier: Apache-2.0
"""If the broker restarts, it loses all transient requests and replies: each of these dispatches is
sent again at once, under its token, and nothing is counted. Of quorum queues nothing is lost, and
nothing is sent again."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cluster
import servers
import tap
import wire

JOBS = 20
LOCK_MS = 1_000
SHORT_MS = 15_000
WAIT_MS = 600_000  # a step whose dispatch is not sent again waits for the end of this


class Transient(cluster.TestCase):
    own_servers = True
    replication = "none"
    resent = 1  # times that each dispatch is sent again

    def begin(self, **counts):
        kind = {"rabbitmq": {"replication": self.replication}}
        return self.cluster(settings=dict.fromkeys(("scheduler", "agent", "supervisor"), kind),
                            **counts)

    def submit(self, c, wait_ms=WAIT_MS):
        for number in range(JOBS):
            step = wire.step("s", lock_ms=LOCK_MS, wait_ms=wait_ms)
            c.client.submit(wire.submit(f"job{number}", [step]))

    def await_requests(self, c, count):
        servers.wait_for(lambda: c.client.queue("drover.task.demo")[0] == count,
                         f"{count} requests to wait")

    def restart(self, c):
        self.rabbit.restart()
        c.await_ready()

    def check(self, c):
        """Every job succeeds, long before a lease would have ended."""
        jobs = [f"job{number}" for number in range(JOBS)]
        for end in c.client.all_settled(jobs, timeout=120):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, end.outcome)
        for event, times in (("silent", 0), ("expired", 0), ("resent", self.resent),
                             ("dispatched", 1), ("done", 1),
                             ("failed", 0), ("unstarted", 0), ("parked", 0)):
            self.assertEqual([times] * JOBS, [len(c.store.events(job, event)) for job in jobs],
                             event)

    def test_requests_in_their_queue(self):
        c = self.begin(agents=0)
        self.submit(c)
        self.await_requests(c, JOBS)
        # unacknowledged Submits would be sent again and cost no lease
        self.rabbit.await_acknowledged(c.name, "drover.submit")
        self.restart(c)
        c.add_agent()
        self.check(c)

    def test_replies_in_their_queue(self):
        c = self.begin()
        c.agents[0].stop()
        self.submit(c)
        self.await_requests(c, JOBS)
        c.schedulers[0].stop()
        c.agents[0].start()
        self.await_requests(c, 0)
        c.agents[0].stop()  # it has sent all its replies
        servers.wait_for(lambda: c.client.queue("drover.replies")[0] > 0, "the replies")
        self.rabbit.restart()
        self.assertEqual(self.resent == 0, c.client.queue("drover.replies")[0] > 0)
        c.await_ready()
        c.schedulers[0].start()
        c.agents[0].start()
        self.check(c)


    def test_longer_than_leases(self):
        """The broker is away until all leases are over: that says nothing about the agents."""
        c = self.begin(agents=0)
        self.submit(c, SHORT_MS)
        self.await_requests(c, JOBS)
        self.rabbit.await_acknowledged(c.name, "drover.submit")
        self.rabbit.kill()
        ends = max(int(c.store.steps(f"job{number}")[0].until) for number in range(JOBS))
        servers.wait_for(lambda: c.store.redis.time()[0] * 1000 > ends, "all leases to be over")
        self.rabbit.start()
        c.await_ready()
        c.add_agent()
        self.check(c)


class Persistent(Transient):
    replication = "quorum"
    resent = 0
    test_longer_than_leases = None  # the queue of requests itself knows that they are too old


if __name__ == "__main__":
    tap.main()
