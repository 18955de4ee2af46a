# SPDX-License-Identifier: Apache-2.0
"""The stories of RabbitMQ with three nodes, for reach.py

A story is a function of the part and of its folder. It returns what is wrong, one text each, and
its figures. Each has a vhost and daemons of its own, and leaves the nodes as it found them, or to
Part.mend().
"""

import contextlib
import random
import shutil
import threading
import time

import cluster
import driver
import evidence
import load
import partition
import rabbit_cluster
import servers
import wire
import workload

NODES = 3
RATE = 50  # jobs a second
JUDGED_RATE = 8  # of the jobs that the checker judges
# What docs/OPERATIONS.md promises, in s: how long jobs take, and when all daemons are elsewhere.
KILLED_P99_S, KILLED_BACK_S = 2, 1
CUT_OFF_S = 15  # five quarters of net_ticktime, and net_setuptime
FROZEN_S = 26  # two and a half heartbeats, and a second
DIRECT_S = 5
REJOIN_S = 60  # a node that was cut off and does not run after that has to be restarted
CUT_S = 25
LASTING_S = 12  # after that a lost connection leads to the host with which the daemon began
REST_S = 120  # until all jobs have ended, after the last fault
ANSWERED_S = 20  # within which a client has its answer, or repeats its question
FOREVER = float("inf")
SETTLED_S = 3  # for so long nothing moves, where nothing may


class Servers:
    """Those of a part, which make() makes: a RabbitMQ, or several nodes, and a Redis."""

    def __init__(self):
        self.rabbit = self.redis = None

    def __enter__(self):
        self.rabbit, self.redis = self.make()
        try:
            self.rabbit.begin()
            self.redis.start()
            self.rabbit.await_start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception):
        self.rabbit.close()
        self.redis.close()


class Part(Servers):
    name = "rabbit"

    def make(self):
        return rabbit_cluster.RabbitCluster(NODES), servers.Redis()

    def mend(self):
        """Makes all nodes serve again, whatever a story has left behind."""
        if partition.inside():
            self.rabbit.heal()
        for node in self.rabbit.nodes:
            if node.paused:
                node.resume()
        with contextlib.suppress(servers.ServerError):
            self.start_nodes()
            return
        for node in self.rabbit.nodes:  # one that stood still may stay in a partition
            node.restart(hard=True)
            self.rabbit.await_running(NODES)

    def keep_logs(self, where):
        for node in self.rabbit.nodes:
            shutil.copyfile(node.log, where / f"{node.name}.log")

    def start_nodes(self):
        """Starts the nodes that are down, together, and waits until all run."""
        down = [node for node in self.rabbit.nodes
                if not node.process or not node.process.alive()]
        for node in down:
            node.begin()
        for node in down:
            node.await_start()
        self.rabbit.await_running(NODES)


# --- what stories share ---


@contextlib.contextmanager
def daemons(part, where, schedulers=2, agents=2, supervisors=2, more=None):
    """@more: role -> more settings."""
    settings = cluster.merged(evidence.settings(where / "evidence", concurrency=32), more)
    c = cluster.Cluster(part.rabbit, part.redis, where, settings, "effect")
    c.besides = []  # threads of the story
    c.start(schedulers, agents, supervisors)
    part.rabbit.sync()
    try:
        yield c
    except BaseException:
        for thing in c.besides:
            thing.end()
        raise
    finally:
        for node in part.rabbit.nodes:  # so that daemons can end
            if node.paused:
                node.resume()
        c.stop()


class Judged(threading.Thread):
    """Submits jobs of all kinds while a story goes on; the checker judges them."""

    def __init__(self, c, trace=True, seed=1):
        super().__init__(daemon=True)
        self._c = c
        c.besides.append(self)
        self.collector = evidence.Collector(c, c.directory / "evidence", {
            "scan_ms": 100, "lease_ms": 1000, "settle_within_ms": workload.SETTLE_WITHIN_MS,
        }, trace=trace, alone=False)
        self._client = driver.Driver(c)
        self._jobs = workload.Workload(random.Random(seed), strangers=False)
        self._stopping = threading.Event()
        self._wrong = []
        self.start()

    def run(self):
        began = time.monotonic()
        try:
            while not self._stopping.wait(0.02):
                if len(self._client.jobs) < (time.monotonic() - began) * JUDGED_RATE:
                    self._client.submit(self._jobs.job(len(self._client.jobs)))
                self._client.tick()
        except Exception as error:
            self._wrong.append(f"the client: {error!r}")

    def judge(self):
        """Submits no more, and waits until all is at rest. Return: what is wrong."""
        self._stopping.set()
        self.join()
        with contextlib.suppress(servers.ServerError):
            self._c.client.until(self._client.is_answered, "answers", ANSWERED_S)
        if not self._client.is_answered():
            self._client.ask_again()
        self._client.await_rest(REST_S)
        wrong = self._wrong + self._client.wrong()
        return wrong + self.collector.judge()

    def end(self):
        """Ends what goes on besides, after a story that has failed."""
        self._stopping.set()
        self.join()
        with contextlib.suppress(Exception):
            self.collector.finish(complete=False)

    def submitted(self):
        return len(self._client.jobs)


def complaints(c):
    """Ends the daemons. Return: what is wrong with how they ended."""
    return c.stop()


def counts(part, c):
    """The daemons at each node."""
    return [sum(name.endswith("bus-publish") for name in names)
            for names in part.rabbit.connections(c.name)]


def await_daemons(part, c, nodes=range(NODES), but=0, timeout=60):
    """Waits until all daemons are connected, each to one of these nodes, except @but agents.
    Return: after how many seconds."""
    began = time.monotonic()
    links = 2 * (len(c.daemons) - but) - len(c.supervisors)  # these only publish

    def connected():
        names = part.rabbit.connections(c.name)
        return sum(len(names[number]) for number in nodes) == links

    servers.wait_for(connected, f"{links} connections of daemons", timeout)
    return time.monotonic() - began


def link_events(daemon, since, until):
    """Yields (link, when, what) of a daemon's connections after a fault: lost, renewed or
    connected. It renews one by itself, because messages are refused over it."""
    what = {"bus_connected": "connected", "bus_disconnected": "lost"}
    for record in daemon.records():
        event = record["event.name"]
        if event in what and since <= (at := cluster.logged_at(record)) <= until:
            renewed = record.get("why", "").endswith("perhaps over this connection only")
            yield record["link"], at, "renewed" if renewed else what[event]


def back(c, since, until, but=None):
    """When the last connection that was lost at a fault was made again, in s after it; endless if
    one was not. By the logs of the daemons, because a node may accept connections and not answer
    yet."""
    last = since
    for daemon in (each for each in c.daemons if each is not but):
        states = {}
        for link, at, what in link_events(daemon, since, until):
            if what == "connected" and states.get(link) == "lost":
                last = max(last, at)
            if what == "connected" or states.get(link, "connected") == "connected":
                states[link] = what
        if "lost" in states.values():
            return FOREVER
    return last - since


def late(what, took, promised):
    """Return: what is wrong, if something took longer than promised, in s."""
    return [] if took <= promised else [f"{what} after {took:.2f} s, and not {promised} s"]


def shown(numbers):
    return "/".join(f"{number:g}" for number in numbers)


def let_pass(seconds):
    """For a load that has a rate."""
    time.sleep(seconds)


def uneven(spread, what):
    return [] if max(spread) <= 4 and min(spread) >= 2 else [f"{what}: {shown(spread)}, not 3 ± 1"]


# --- the stories ---


def spread(part, where):
    """Nine daemons spread over the nodes. When all nodes have been restarted one after the other
    they sit on two; once the connections to these are closed, they are where they began."""
    with daemons(part, where, 3, 4, 2) as c:
        at_first = counts(part, c)
        wrong = uneven(at_first, "at first")
        for node in part.rabbit.nodes:
            node.evaluate("rabbit_maintenance:drain(), ok")
            node.stop()
            await_daemons(part, c)
            node.start()
            part.rabbit.await_running(NODES)
        after = counts(part, c)
        let_pass(LASTING_S)
        for number in sorted(range(NODES), key=lambda n: -after[n])[:2]:
            part.rabbit.close_connections(number, c.name)
            await_daemons(part, c)
            let_pass(LASTING_S)
        at_last = counts(part, c)
        wrong += uneven(at_last, "after the connections were closed")
        wrong += complaints(c)
    return wrong, f"daemons {shown(at_first)}, restarted {shown(after)}, moved {shown(at_last)}"


def killed(part, where):
    """Each node is killed in turn, under load."""
    wrong, said = [], []
    with daemons(part, where) as c:
        judged, busy = Judged(c, trace=False), load.Load(c, RATE)
        let_pass(5)
        before = busy.times(0, time.monotonic() - 2)
        for number, node in enumerate(part.rabbit.nodes):
            at = time.monotonic()
            judged.collector.fault("killed", node.name)
            node.kill()
            await_daemons(part, c)
            let_pass(max(at + 8 - time.monotonic(), 0))
            said.append((at, time.monotonic()))
            judged.collector.fault("again", node.name)
            node.start()
            part.rabbit.await_running(NODES)
        wrong += busy.stop()
        wrong += judged.judge() + complaints(c)
    texts = [f"before: {load.figures_of(before)}"]
    for number, (at, until) in enumerate(said, 1):
        times, elsewhere = busy.times(at - 2, at + 6), back(c, at, until)
        texts.append(f"node {number}: {load.figures_of(times)}, daemons back after "
                     f"{elsewhere:.2f} s")
        wrong += late(f"node {number}: 99 of 100 jobs ended", load.share(times, 99), KILLED_P99_S)
        wrong += late(f"node {number}: daemons were back", elsewhere, KILLED_BACK_S)
    return wrong, "; ".join(texts)


def moved(part, where):
    """The leaders of all queues move from node to node."""
    with daemons(part, where) as c:
        judged = Judged(c)
        for round_ in range(6):
            number = round_ % NODES
            before = judged.submitted()
            part.rabbit.move_leaders(c.name, number)
            servers.wait_for(
                lambda n=number: set(part.rabbit.leaders(c.name).values()) == {n},
                f"node {number} to lead all queues")
            servers.wait_for(lambda b=before: judged.submitted() >= b + 2 * JUDGED_RATE, "jobs")
        wrong = judged.judge() + complaints(c)
    return wrong, "6 moves"


def traced(part, where):
    """A node is killed and started, and another one stopped and started, while the trace shows each
    message."""
    with daemons(part, where) as c:
        c.client.prefer(2)
        judged = Judged(c)
        for number, end in ((0, "kill"), (1, "stop")):
            node = part.rabbit.nodes[number]
            before = judged.submitted()
            servers.wait_for(lambda b=before: judged.submitted() >= b + 4 * JUDGED_RATE, "jobs")
            with judged.collector.blind():
                judged.collector.fault(end, node.name)
                getattr(node, end)()
                await_daemons(part, c)
            judged.collector.fault("again", node.name)
            node.start()
            part.rabbit.await_running(NODES)
        submitted = judged.submitted()
        wrong = judged.judge() + complaints(c)
    return wrong, f"{submitted} jobs judged"


def two_killed(part, where):
    """Two of three nodes are killed: the third one pauses, and all stands still until they are
    back."""
    with daemons(part, where) as c:
        judged = Judged(c, trace=False)
        servers.wait_for(lambda: judged.submitted() > 4 * JUDGED_RATE, "jobs")
        for node in part.rabbit.nodes[:2]:
            judged.collector.fault("killed", node.name)
            node.kill()
        at = time.monotonic()
        servers.wait_for(lambda: not part.rabbit.serving(), "the last node to pause")
        paused = time.monotonic() - at
        still = c.store.total("settled")
        let_pass(SETTLED_S)
        later = c.store.total("settled")
        began = time.monotonic()
        part.start_nodes()
        took = time.monotonic() - began
        judged.collector.fault("again", "all nodes")
        again = await_daemons(part, c)
        servers.wait_for(lambda: c.store.total("settled") > later, "jobs to go on")
        wrong = [] if later == still else [f"{later - still} jobs ended without a majority"]
        wrong += judged.judge() + complaints(c)
    return wrong, (f"the third paused after {paused:.1f} s, all nodes ran {took:.0f} s after their "
                   f"start, all daemons {again:.1f} s later")


def frozen(part, where):
    """A node does not answer any more, and keeps its connections; later it goes on. The others have
    given it up, and it does not notice: it has to be restarted (docs/OPERATIONS.md)."""
    with daemons(part, where) as c:
        c.client.prefer(1)
        judged, busy = Judged(c, trace=False), load.Load(c, RATE / 5, (1, 2))
        victim, at = part.rabbit.nodes[0], time.monotonic()
        judged.collector.fault("frozen", victim.name)
        victim.pause()
        await_daemons(part, c, timeout=120)
        servers.wait_for(lambda: back(c, at, busy.now()) < FOREVER, "daemons to log it")
        elsewhere = back(c, at, busy.now())
        victim.resume()
        judged.collector.fault("again", victim.name)
        thawed = time.monotonic()
        # It may pause for it, too: then nothing answers this question.
        partitions = "case catch rabbit_node_monitor:partitions() of [] -> 0; _ -> 1 end"
        servers.wait_for(lambda: victim.ask(partitions), "the node to see a partition")
        victim.restart()
        part.rabbit.await_running(NODES)
        rejoined = time.monotonic() - thawed
        wrong = busy.stop() + judged.judge() + complaints(c)
    times = busy.times(at, thawed)
    wrong += late("daemons were elsewhere", elsewhere, FROZEN_S)
    wrong += late("the last job ended", times[-1], FROZEN_S)
    return wrong, (f"daemons elsewhere after {elsewhere:.1f} s; {load.figures_of(times)}; "
                   f"node restarted and whole {rejoined:.0f} s after it went on")


def _rejoins(part):
    """Whether all nodes run soon after the end of a cut."""
    try:
        part.rabbit.await_running(NODES, REJOIN_S)
    except servers.ServerError:
        return False
    return True


def cut_off(part, where):
    """One node is cut off from the others, with leaders of queues and with daemons that could reach
    all nodes, and one agent that knows this node only. RabbitMQ 3.10 may hang in its start when the
    network is whole again: then the node has to be restarted (docs/OPERATIONS.md)."""
    with daemons(part, where) as c:
        victim = part.rabbit.nodes[0]
        address = f"{victim.host}:{victim.port}"
        tied = c.add_agent({"rabbitmq": {"host": address}})
        c.await_ready()
        c.client.prefer(1)
        part.rabbit.move_leaders(c.name, 0)
        judged, busy = Judged(c, trace=False), load.Load(c, RATE / 5, (1, 2))
        there = counts(part, c)[0]
        let_pass(3)
        at = time.monotonic()
        judged.collector.fault("cut off", victim.name)
        part.rabbit.cut_off(0)
        await_daemons(part, c, (1, 2), but=1)
        servers.wait_for(lambda: not victim.serves(), "the node to pause", 60)
        paused = time.monotonic() - at
        let_pass(max(at + CUT_S - time.monotonic(), 0))
        part.rabbit.heal()
        healed = time.monotonic()
        judged.collector.fault("healed", victim.name)
        hung = not _rejoins(part)
        if hung:
            judged.collector.fault("restarted", victim.name)
            victim.restart(hard=True)
            part.rabbit.await_running(NODES)
        rejoined = time.monotonic() - healed
        again = await_daemons(part, c)
        wrong = busy.stop() + judged.judge() + complaints(c)
    times, elsewhere = busy.times(at - 1, healed), back(c, at, healed, but=tied)
    wrong += late("daemons were elsewhere", elsewhere, CUT_OFF_S)
    wrong += late("the last job ended", times[-1], CUT_OFF_S)
    return wrong, (f"{there:g} daemons there, elsewhere after {elsewhere:.1f} s, the node paused "
                   f"after {paused:.1f} s; {load.figures_of(times)}; node "
                   f"{'restarted, and ' if hung else ''}back {rejoined:.1f} s after healing, its "
                   f"agent {again:.1f} s later")


OWED = 20
CLOSINGS = 2  # of the connection, over which a scheduler learns that an address is dead


def _refusals(part, c, ids):
    """Judges the ends of jobs that a client cannot have, because its node is gone. Return: how many
    were refused, and what is wrong. What is refused stays in the outbox. RabbitMQ 4 takes and drops
    what goes to a node that is gone."""
    refused = sum(c.store.job(job)["owes"] != "0" for job in ids)
    wrong = []
    if int(part.rabbit.nodes[1].version().split(".")[0]) < 4 and refused < len(ids):
        wrong.append(f"{len(ids) - refused} of {len(ids)} ends that nobody can have not refused")
    for scheduler in c.schedulers:
        closings = sum("closed by the broker" in record["why"]
                       for record in scheduler.records("bus_disconnected"))
        if closings > CLOSINGS:
            wrong.append(f"{scheduler.name} has lost {closings} connections over one address")
    return refused, wrong


def direct(part, where):
    """The node of a client dies to which replies are owed by direct reply-to: they are refused, and
    the jobs of others go on."""
    with daemons(part, where) as c:
        c.client.prefer(1)
        busy = load.Load(c, RATE / 5, (1, 2))
        alone = _Direct(part.rabbit.nodes[0], c)
        for number in range(OWED):
            alone.submit(f"owed-{number}", 2000)
        servers.wait_for(lambda: alone.pump() >= OWED, "their Receipts")
        at = time.monotonic()
        part.rabbit.nodes[0].kill()
        ids = [f"owed-{number}" for number in range(OWED)]
        servers.wait_for(
            lambda: all(c.store.job(job).get("phase") == "PROCESSED" for job in ids), "their ends")
        ended = time.monotonic() - at
        let_pass(5)
        over = time.monotonic()
        refused, wrong = _refusals(part, c, ids)
        lost = sum(len(d.records("bus_disconnected")) for d in c.schedulers)
        part.rabbit.nodes[0].start()
        part.rabbit.await_running(NODES)
        wrong += busy.stop() + complaints(c)
        times = busy.times(at - 1, over)
    wrong += late("the last job of another client ended", times[-1], DIRECT_S)
    return wrong, (f"{OWED} owed jobs ended after {ended:.1f} s, {refused} of their ends refused, "
                   f"{lost} connections of schedulers lost; others: {load.figures_of(times)}")


class _Direct:
    """A client that gets its answers by direct reply-to."""

    def __init__(self, node, c):
        import pika
        self._connection = pika.BlockingConnection(pika.ConnectionParameters(
            node.host, node.port, c.name, pika.PlainCredentials(node.user, node.password)))
        self._channel = self._connection.channel()
        self._receipts = 0
        self._channel.basic_consume("amq.rabbitmq.reply-to", self._take, auto_ack=True)
        self._pika = pika

    def _take(self, _channel, _method, properties, _body):
        self._receipts += properties.type == "drover.v1.Receipt"

    def submit(self, job_id, ms):
        step = wire.step("s", action="sleep", arguments=wire.payload(str(ms).encode(),
                                                                     "application/json"))
        properties = self._pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        body = wire.submit(job_id, [step]).SerializeToString()
        self._channel.basic_publish("drover.submit", "submit", body, properties, mandatory=True)

    def pump(self):
        self._connection.process_data_events(time_limit=0.1)
        return self._receipts


Part.STORIES = [spread, moved, killed, traced, two_killed, frozen, cut_off, direct]
Part.CUTS = {cut_off}  # they need a network of their own
