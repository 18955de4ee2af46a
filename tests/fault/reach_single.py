# SPDX-License-Identifier: Apache-2.0
"""The stories of one RabbitMQ node, whose requests and replies are transient, for reach.py

A broker that restarts, or whose queues are deleted, loses what is in flight. All of it must be sent
again at once: the leases of the load last ten minutes, and nothing may count against a step.
A story is a function of the part and of its folder, as in reach_rabbit.py.
"""

import bisect
import contextlib
import shutil

import client
import cluster
import evidence
import load
import proxy
import servers
from reach_rabbit import Judged, Servers, complaints, late, let_pass

RATE = 50  # jobs a second, of three steps each
LEASE = {"wait_ms": 600_000, "lock_ms": 600_000}  # of each step: it must not be waited for
AGAIN_S = 10  # after the fault all that was in flight has ended
BINS_S = (0.5, 1, 2, 5, 10)
COUNTED = ("expired", "silent", "failed", "parked")  # events that count against a step
TASKS, REPLIES = "drover.task.demo", "drover.replies"
ROUNDS = 3
FEW = 4
SILENT_S = 25  # longer than two heartbeats


class Part(Servers):
    name = "single"

    def make(self):
        # what is accepted must not be lost when Redis is killed
        return servers.Rabbit(), servers.Redis(options=["--appendfsync", "always"])

    def mend(self):
        self.rabbit.alarm(False)

    def keep_logs(self, where):
        shutil.copyfile(self.rabbit.log, where / "rabbitmq.log")


# --- what stories share ---


@contextlib.contextmanager
def daemons(part, where, more):
    """@more: role -> more settings."""
    strict = {"redis": {"durability": "strict"}}
    settings = evidence.settings(where / "evidence", concurrency=32)
    for differing in ({"scheduler": strict, "supervisor": strict}, more):
        settings = cluster.merged(settings, differing)
    c = cluster.Cluster(part.rabbit, part.redis, where, settings, "effect")
    c.besides = []  # threads of the story
    c.start(2, 2, 2)
    c.operator = client.Client(part.rabbit, c.name)  # that of the cluster is the judged client's
    try:
        yield c
    except BaseException:
        for thing in c.besides:
            thing.end()
        raise
    finally:
        c.operator.close()
        c.stop()


def await_consumers(c):
    """Waits until all daemons are back, and the marker is there."""
    for queue, consumers in (("drover.submit", 2), (REPLIES, 2), (TASKS, 2)):
        servers.wait_for(lambda q=queue, n=consumers: c.operator.queue(q)[1] == n,
                         f"{consumers} consumers of {queue}")
    servers.wait_for(lambda: c.operator.queue("drover.marker")[0] == 1, "the marker")


def binned(times):
    """A histogram, as text."""
    counts = [0] * (len(BINS_S) + 1)
    for time in times:
        counts[bisect.bisect_left(BINS_S, time)] += 1
    names = [f"≤ {limit:g} s" for limit in BINS_S] + ["later"]
    return ", ".join(f"{count} {name}" for count, name in zip(counts, names) if count) or "none"


def counted(c, jobs):
    """Return: what is wrong: what has counted against steps of these jobs."""
    found = [(job, event) for job in jobs for event in COUNTED if c.store.events(job, event)]
    return [f"{job} has {event}" for job, event in found]


def strike(part, where, fault, rounds=ROUNDS, more=None, backlog=False):
    """Lets a fault strike so often, under load. @fault: a function of the cluster; when it returns
    the fault is over. @more: role -> more settings. @backlog: clients go on submitting during the
    fault; what they submit may take longer."""
    times, wrong = [], []
    with daemons(part, where, more) as c:
        judged, busy = Judged(c, trace=False), load.Load(c, RATE, **LEASE)
        let_pass(3)
        for _ in range(rounds):
            struck = busy.now()
            judged.collector.fault("strikes", "the broker")
            fault(c)
            over = busy.now()
            judged.collector.fault("over", "the broker")
            await_consumers(c)
            let_pass(AGAIN_S)
            times.append((struck, over))
        wrong += busy.stop() + judged.judge()
        wrong += counted(c, busy.confirmed)
        resent = sum(len(c.store.events(job, "resent")) for job in busy.confirmed)
        wrong += complaints(c)
    after = sorted(time for _, over in times for time in busy.after(over, over))
    judged = [time for struck, over in times for time in busy.after(struck, over)]
    wrong += late("the last job in flight ended", max(judged if backlog else after, default=0),
                  AGAIN_S)
    return wrong, (f"{len(busy.confirmed)} jobs, {resent} requests sent again; {len(after)} jobs "
                   f"in flight {rounds} times ended after it: {binned(after)}")


def delete(c, queue):
    c.operator.call(lambda channel: channel.queue_delete(queue))


# --- the stories ---


def killed(part, where):
    """The broker is killed while requests wait in their queue, and started."""

    def fault(c):
        for agent in c.agents:
            agent.pause()
        let_pass(2)
        part.rabbit.kill()
        part.rabbit.start()
        for agent in c.agents:
            agent.resume()

    few = {"agent": {"agent": {"concurrency": FEW}}}  # so an agent has few requests beforehand
    return strike(part, where, fault, more=few)


def killed_with_store(part, where):
    """Redis is killed at the same time, and is back before the broker."""

    def fault(c):
        part.rabbit.kill()
        part.redis.kill()
        part.redis.start()
        part.rabbit.start()

    return strike(part, where, fault)


def restarted(part, where):
    """The broker is stopped as an operator would, and started."""
    return strike(part, where, lambda c: part.rabbit.restart())


def tasks_deleted(part, where):
    """The queue of requests is deleted while agents consume it."""
    return strike(part, where, lambda c: delete(c, TASKS))


def replies_deleted(part, where):
    """The queue of replies is deleted while schedulers consume it."""
    return strike(part, where, lambda c: delete(c, REPLIES))


def purged(part, where):
    """Agents stand still while their queue is purged, and a person says so."""

    def fault(c):
        for agent in c.agents:
            agent.pause()
        let_pass(1)
        c.operator.call(lambda channel: channel.queue_purge(TASKS))
        for agent in c.agents:
            agent.resume()
        said = c.drover("resend", "demo")
        assert said.returncode == 0, said

    return strike(part, where, fault)


def alarmed(part, where):
    """A memory alarm: the broker reads nothing that is published."""

    def fault(c):
        part.rabbit.alarm(True)
        let_pass(5)
        part.rabbit.alarm(False)

    return strike(part, where, fault)


def frozen(part, where, seconds=5):
    """The broker stands still, and goes on with all its connections."""

    def fault(c):
        part.rabbit.pause()
        let_pass(seconds)
        part.rabbit.resume()

    return strike(part, where, fault)


def frozen_long(part, where):
    """The broker stands still until the daemons have given their connections up."""
    return frozen(part, where, SILENT_S)


def cut_off(part, where):
    """All daemons are cut off from the broker, until both sides have given the connections up.
    Clients are not."""
    wire = proxy.Proxy(part.rabbit.known_port)

    def fault(c):
        wire.cut()
        let_pass(SILENT_S)
        wire.heal()

    through = {role: {"rabbitmq": {"port": wire.port}}
               for role in ("scheduler", "agent", "supervisor")}
    with contextlib.closing(wire):
        return strike(part, where, fault, more=through, backlog=True)


Part.STORIES = [killed, killed_with_store, restarted, tasks_deleted, replies_deleted, purged,
                alarmed, frozen, frozen_long, cut_off]
Part.CUTS = set()

