# SPDX-License-Identifier: Apache-2.0
"""The stories of Redis with Sentinels, for reach.py

A story is a function of the part and of its folder, as in reach_rabbit.py. Each has a primary, two
replicas, three Sentinels and daemons of its own, because the primary moves. Tests read the store
through a port of their own, which follows the primary (Front), and are on neither side of a cut.
"""

import contextlib
import shutil
import time

import cluster
import client
import evidence
import partition
import proxy
import sentinels
import servers
import wire
import workload

RATE = 100  # jobs a second
CUT_S = 20
BEFORE_S = 3  # of work before the fault
LEASE_MS = 2000
DOWN_AFTER_MS = 2000  # as docs/OPERATIONS.md asks for
# What docs/OPERATIONS.md promises, in s, of a machine that has other work as well.
MOVED_S = 5
LOST_S = 5
ALONE = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "3")
STRICT = ("--appendfsync", "always", *ALONE)
CONFIRMED = {"durability": "strict", "replicas": 1}


class Part:
    name = "sentinel"

    def __init__(self):
        self.rabbit = None

    def __enter__(self):
        self.rabbit = servers.Rabbit()
        self.rabbit.start()
        return self

    def __exit__(self, *_exception):
        self.rabbit.close()

    def mend(self):
        """Nothing: each story has servers of its own, and ends its cuts."""

    def keep_logs(self, where):
        shutil.copyfile(self.rabbit.log, where / "rabbitmq.log")


class Front:
    """A port that leads to the primary; see proxy.py. For cluster.Cluster."""

    tls = None

    def __init__(self, server):
        self._proxy = proxy.Proxy(server.port)
        self.port = self._proxy.port
        self.addresses = [(servers.HOST, self.port)]

    def lead_to(self, server):
        self._proxy.lead_to(server.port)

    def close(self):
        self._proxy.close()


class Work:
    """A client that submits jobs at a steady rate, and hears what becomes of them."""

    def __init__(self, c):
        self._c = c
        self.submitted = {}  # job -> when, monotonic
        self.alerts = []  # (reason, job)
        self._listener = client.Listener(c.client, self._on_event, exchange="drover.events")

    def _on_event(self, channel, method, _properties, body):
        event = wire.JobEvent.FromString(body)
        if event.kind == wire.EVENT_KIND_ALERT:
            self.alerts.append((event.reason, event.job_id))
        channel.basic_ack(method.delivery_tag)

    def close(self):
        self._listener.stop()

    def _submit(self, job_id):
        self._c.client.submit(wire.submit(job_id, wire.chain(2, actor="effect", lock_ms=LEASE_MS)))

    def go_on(self, done):
        """Submits until a condition holds."""
        due = time.monotonic()
        while not done():
            job_id = f"job-{len(self.submitted)}"
            self._submit(job_id)
            self.submitted[job_id] = time.monotonic()
            self._c.client.pump()
            due += 1 / RATE
            time.sleep(max(due - time.monotonic(), 0))

    def go_on_for(self, seconds):
        until = time.monotonic() + seconds
        self.go_on(lambda: time.monotonic() >= until)

    def await_receipts(self):
        """A client repeats a Submit without a Receipt."""
        def answered():
            return len(self._c.client.receipts) == len(self.submitted)

        with contextlib.suppress(servers.ServerError):
            self._c.client.until(answered, "receipts", 30)
        for job_id in set(self.submitted) - set(self._c.client.receipts):
            self._submit(job_id)
        self._c.client.until(answered, "all receipts")

    def answered(self):
        return len(self._c.client.receipts)

    def gone(self):
        there = set(self._c.store.jobs())
        return {job_id for job_id in self._c.client.receipts if job_id not in there}

    def named(self):
        return [job_id for reason, job_id in self.alerts if reason == "JOB_LOST"]

    def heard(self, reason):
        return any(word == reason for word, _ in self.alerts)

    def judge_losses(self, gone):
        """Return: what is wrong with the alerts about lost jobs."""
        if gone:
            with contextlib.suppress(servers.ServerError):
                servers.wait_for(lambda: len(self.named()) >= len(gone), "alerts", 30)
        wrong = [f"{job_id} is lost, and no alert names it" for job_id in gone - set(self.named())]
        if self.heard("STORE_LOSS_UNKNOWN"):
            wrong.append("STORE_LOSS_UNKNOWN, although no job was forgotten")
        wrong += [f"{job_id} is named, and is not lost" for job_id in set(self.named()) - gone]
        return wrong

    def end(self, gone):
        """Submits lost jobs again. Return: the jobs that have not ended well."""
        for job_id in gone:
            self._submit(job_id)
        with contextlib.suppress(servers.ServerError):
            servers.wait_for(lambda: self._c.store.total("settled") == len(self.submitted),
                             "all jobs to end", 120)
            self._c.await_idle()
        ends = self._c.store.progress(list(self.submitted))
        return [f"{job_id} has ended {end}" for job_id, end in zip(self.submitted, ends)
                if end != (0, "PROCESSED")]


class World:
    """The servers and daemons of a story. settings: more of the group `redis`."""

    def __init__(self, part, where, options=(), settings=None, durable=False):
        self._undone = contextlib.ExitStack()
        try:
            self._begin(part, where, options, settings, durable)
        except BaseException:
            self._undone.close()
            raise

    def _begin(self, part, where, options, settings, durable):
        self.group = self._undone.enter_context(
            sentinels.Group(options=options, down_after_ms=DOWN_AFTER_MS, apart=True))
        self.old = self.group.primary
        self.front = Front(self.old)
        self._undone.callback(self.front.close)
        redis = {**self.group.settings(), **(settings or {})}
        self.c = cluster.Cluster(
            part.rabbit, self.front, where,
            cluster.merged(evidence.settings(where / "evidence", concurrency=32),
                           {role: {"redis": redis} for role in ("scheduler", "supervisor")}),
            "effect")
        self.stopped = self.work = None
        self._undone.callback(self._stop)
        if partition.inside():
            self._undone.callback(partition.heal)  # so that daemons can end
        self.c.start(2, 2, 2)
        self.collector = evidence.Collector(self.c, where / "evidence", {
            "scan_ms": 100, "lease_ms": 1000, "settle_within_ms": workload.SETTLE_WITHIN_MS,
            "durable": durable, "replicated": True})
        self.work = Work(self.c)

    def _stop(self):
        """Ends the daemons, and keeps what is wrong with how they ended."""
        if self.stopped is None:
            self.work and self.work.close()
            self.stopped = self.c.stop()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return self._undone.__exit__(*exception)

    def fault(self, what):
        """Return: when, monotonic."""
        self.collector.fault(what, "redis")
        return time.monotonic()

    def users(self):
        return self.c.schedulers + self.c.supervisors

    def use(self, server):
        """Has the test read another server."""
        self.front.lead_to(server)

    def use_it(self, server):
        """Whether all daemons are connected to this server."""
        def last(daemon):
            ports = [r["port"] for r in daemon.records("store_primary")]
            return ports[-1] if ports else None

        return all(d.up() and last(d) == server.known_port for d in self.users())

    def moved(self, since):
        """When the last daemon was connected again, in s after a fault; by the daemons' logs,
        because this process may be busy with what comes then."""
        return max(cluster.logged_at(d.records("store_up")[-1]) for d in self.users()) - since

    def ups(self):
        return [len(d.records("store_up")) for d in self.users()]

    def await_moved(self, before):
        """Goes on with the work until another server is the primary, and all daemons have come to
        it. @before: ups() before the fault. Return: the new primary."""
        self.work.go_on(lambda: self.group.named() not in (None, self.old))
        self.named = time.monotonic()
        new = self.group.await_failover(self.old)
        self.work.go_on(lambda: self.use_it(new) and all(
            now > then for now, then in zip(self.ups(), before)))
        self.use(new)
        return new

    def await_replica(self, since=None):
        """Waits until the old primary is a replica. @since: when that became possible; None: now.
        """
        since = since or time.monotonic()
        self.group.await_replica(self.old)
        self.demoted = time.monotonic() - since

    def judge(self):
        """Return: what is wrong, and the lost jobs."""
        self.work.await_receipts()
        gone = self.work.gone()
        wrong = self.work.judge_losses(gone)
        wrong += self.work.end(gone)
        wrong += self.collector.judge()
        self._stop()
        return wrong + self.stopped, gone

    def lost_for(self, gone, since):
        """For how long after the fault jobs were accepted that are lost, in s."""
        return max((self.work.submitted[job_id] - since for job_id in gone), default=0)


def figures(world, gone, since, moved):
    return (f"{len(world.work.submitted)} jobs, {len(gone)} lost, accepted within "
            f"{world.lost_for(gone, since):.1f} s of the fault; another primary was named after "
            f"{world.named - since:.1f} s, all daemons were there after {moved:.1f} s, and the old "
            f"one was a replica {world.demoted:.1f} s after the fault had ended")


# --- the stories ---


# What breaks the primary of a world, and what mends it.
KILL = (lambda world: world.old.kill(), lambda world: world.old.start())
FREEZE = (lambda world: world.old.pause(), lambda world: world.old.resume())
CUT = (lambda world: world.group.cut_off(world.old), lambda world: world.group.heal())


def _fail(part, where, fault, hold_s=0, options=(), settings=None, durable=False):
    """@hold_s: the fault lasts as long at least."""
    break_, mend = fault
    with World(part, where, options, settings, durable) as world:
        world.work.go_on_for(BEFORE_S)
        ups = world.ups()
        since = world.fault("failover")
        break_(world)
        world.await_moved(ups)
        moved = world.moved(since)
        world.work.go_on(lambda: time.monotonic() - since >= hold_s)
        mend(world)
        world.await_replica()
        world.fault("replica again")
        world.work.go_on_for(1)
        wrong, gone = world.judge()
        if moved > MOVED_S:
            wrong.append(f"the daemons have moved after {moved:.1f} s")
        if not durable and world.lost_for(gone, since) > LOST_S:
            wrong.append(f"{world.lost_for(gone, since):.1f} s of work are lost")
        if durable:
            wrong += [f"{job_id} is lost" for job_id in gone]
        return wrong, figures(world, gone, since, moved)


def killed(part, where):
    """The primary is killed, and comes back as a replica."""
    return _fail(part, where, KILL)


def frozen(part, where):
    """The primary stands still, and goes on."""
    return _fail(part, where, FREEZE, CUT_S / 2)


def cut_off(part, where):
    """The primary is cut off from replicas and Sentinels; the daemons reach both sides."""
    return _fail(part, where, CUT, CUT_S)


def strict_killed(part, where):
    """As killed, with strict durability: nothing is lost."""
    return _fail(part, where, KILL, 0, STRICT, CONFIRMED, durable=True)


def strict_cut_off(part, where):
    """As cut_off, with strict durability: nothing is lost."""
    return _fail(part, where, CUT, CUT_S, STRICT, CONFIRMED, durable=True)


def _cut_off_together(part, where, options, settings=None, durable=False):
    with World(part, where, options, settings, durable) as world:
        world.work.go_on_for(BEFORE_S)
        ups = world.ups()
        since = world.fault("failover")
        world.group.cut_off(world.old, servers.HOST)
        world.work.go_on(lambda: world.group.named() not in (None, world.old))
        world.named = time.monotonic()
        new = world.group.await_failover(world.old)
        world.work.go_on(lambda: time.monotonic() - since >= LOST_S)
        answered = world.work.answered()
        world.work.go_on(lambda: time.monotonic() - since >= CUT_S)
        late = world.work.answered() - answered
        world.group.heal()
        healed = world.fault("whole again")
        world.work.go_on(lambda: all(now > then for now, then in zip(world.ups(), ups)))
        moved = world.moved(healed)
        world.use(new)
        world.await_replica(healed)
        world.work.go_on_for(1)
        wrong, gone = world.judge()
        if world.lost_for(gone, since) > LOST_S:
            wrong.append(f"{world.lost_for(gone, since):.1f} s of work are lost")
        if moved > MOVED_S:
            wrong.append(f"the daemons have moved {moved:.1f} s after the network was whole again")
        if late:
            wrong.append(f"{late} Receipts although no replica has the jobs")
        if durable:
            wrong += [f"{job_id} is lost" for job_id in gone]
        return wrong, figures(world, gone, since, CUT_S + moved)


def cut_off_together(part, where):
    """The primary is cut off together with the daemons, and takes writes for min-replicas-max-lag
    only. Each lost job is named."""
    return _cut_off_together(part, where, ALONE)


def strict_cut_off_together(part, where):
    """As cut_off_together, with strict durability: nothing is lost."""
    return _cut_off_together(part, where, STRICT, CONFIRMED, durable=True)


CUTS = [cut_off, cut_off_together, strict_cut_off, strict_cut_off_together]
Part.STORIES = [killed, frozen, strict_killed, *CUTS]
Part.CUTS = set(CUTS)  # they need a network of their own
