# SPDX-License-Identifier: Apache-2.0
"""Collects the evidence of a run of Drover for checker.py

    class Some(cluster.TestCase):
        def test_it(self):
            directory = self.directory / "evidence"
            c = self.cluster(settings=evidence.settings(directory))
            collector = evidence.Collector(c, directory)
            ... submit jobs of the actor "effect", with evidence.arguments(fail=1) and the like ...
            collector.fault("killed", "agent-1")
            ... wait until all is over ...
            self.assertEqual([], collector.judge())

It copies the store's histories as they grow, the messages that pass through the broker, and what
the client sends and receives. Handlers write their effects themselves (effect.c). Nothing of this
depends on what Drover reports about itself.
"""

import base64
import contextlib
import json
import pathlib
import subprocess
import threading
import time

import pika
import pika.exceptions
import redis
from google.protobuf import json_format

import checker
import client
import servers
import wire

EFFECT = wire.BUILD / "tests" / "fault" / "effect"
GONE = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError)
COPY_EVERY_S = 0.2
TRACE = "amq.rabbitmq.trace"
TICK_MS = 100
UP_S = 60  # for the first tick
LAST_TICK_MS = 30000  # for the last tick: after that the trace counts as lost
TRACE_LAG_MS = 100  # of the broker, from a message to its trace
ALERTS = "test.alerts"  # the client's queue for alerts
FINISHED_EVERY = 10  # rounds after which a finished job is read, too


def now_ms():
    return time.time_ns() // 1000000


def actor(directory, name="effect", **fields):
    """An entry of agent.actors whose handler leaves its evidence in @directory."""
    (directory / "state").mkdir(parents=True, exist_ok=True)
    action = {"name": "*", "command": [str(EFFECT), str(directory)], "stdin": "request"}
    return {"name": name, "handler": "exec", "actions": [action], **fields}


def settings(directory, **agent):
    """The settings of a cluster whose agents serve such an actor "effect", and "demo"."""
    demo = {"name": "demo", "handler": "builtin"}
    return {"agent": {"agent": {"actors": [demo, actor(directory)], **agent}}}


def arguments(**how):
    """The arguments of a step of such an actor: how its runs go, see effect.c."""
    return wire.payload(json.dumps(how).encode(), "application/json")


class Log:
    """A file of JSON lines, for several threads."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8")
        self._lock = threading.Lock()

    def add(self, **record):
        with self._lock:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()

    def close(self):
        self._file.close()


class HistoryCopier(threading.Thread):
    """Copies each job's history as it grows, because its length is limited, and the store may lose
    it."""

    def __init__(self, store, jobs, path):
        super().__init__(daemon=True)
        self._redis = redis.Redis(servers.HOST,
                                  store.redis.connection_pool.connection_kwargs["port"],
                                  decode_responses=True)
        self._store, self._jobs = store, jobs
        self._file = open(path, "a", encoding="utf-8")
        self._seen = {}  # job -> its last entry
        self._rounds = 0  # begun so far
        self._stopping = threading.Event()
        self.start()

    def run(self):
        while not self._stopping.wait(COPY_EVERY_S):
            self._rounds += 1
            try:
                self.copy(list(self._jobs), self._rounds % FINISHED_EVERY == 0)
            except GONE:
                pass

    def catch_up(self):
        """Waits for a round that begins after this call; if the store does not change, the copy is
        then complete."""
        before = self._rounds
        servers.wait_for(lambda: self._rounds > before + 1, "the histories to be copied")

    def _key(self, job_id):
        return self._store.partition(job_id) + "hist:" + job_id

    def copy(self, jobs, finished=True):
        due = [j for j in jobs if finished or " settled " not in self._seen.get(j, "")]
        for first in range(0, len(due), 500):
            some = due[first:first + 500]
            pipeline = self._redis.pipeline(transaction=False)
            for job_id in some:
                number = int(self._seen.get(job_id, "0 ").split(" ")[0])
                pipeline.lrange(self._key(job_id), max(number - 1, 0), -1)
            moved = []  # the last entry seen is at another place, or gone with a forgotten job
            for job_id, entries in zip(some, pipeline.execute()):
                seen = self._seen.get(job_id)
                if not seen:
                    self._take(job_id, entries)
                elif entries[:1] == [seen]:
                    self._take(job_id, entries[1:])
                else:
                    moved.append(job_id)
                    pipeline.lrange(self._key(job_id), 0, -1)
            for job_id, entries in zip(moved, pipeline.execute()):
                self._take(job_id, entries)
        self._file.flush()

    def _take(self, job_id, entries):
        for entry in entries:
            self._file.write(f"{job_id} {entry}\n")
        if entries:
            self._seen[job_id] = entries[-1]

    def stop(self, jobs):
        self._stopping.set()
        self.join()
        self.copy(jobs)
        self._file.close()
        self._redis.close()


class Tracer(threading.Thread):
    """Records all messages that the broker takes and delivers (its "firehose"), and when this is
    interrupted.

    If the broker ends, the traces in its queue are lost. So the tracer sends a message of its own,
    a tick, through that queue at short intervals: it has seen everything from before the last tick
    that came back was sent.

    A tick comes back whether or not the broker traces. The trace of a tick shows that it does; the
    broker puts this trace into the queue just before the tick.
    """

    def __init__(self, cluster, log, faults):
        super().__init__(daemon=True)
        self._cluster, self._log, self._faults = cluster, log, faults
        self._ticked = now_ms()  # when the last tick that came back was sent
        self._traced = b""  # the last tick whose trace came
        self._untraced = None  # when the first tick that came back without its trace was sent
        self._stopping, self._up = threading.Event(), threading.Event()
        self.start()
        if not self._up.wait(UP_S):
            self._stopping.set()
            raise servers.ServerError(f"the broker does not trace within {UP_S} s")

    def run(self):
        lost = False
        while not self._stopping.is_set():
            try:
                connection = self._open()
            except (*client.LOST, servers.ServerError, subprocess.TimeoutExpired):
                self._stopping.wait(0.1)
                continue
            if lost:
                self._faults.add(at=now_ms(), what="trace again", who="")
            lost = not self._listen(connection)
            if lost:
                self._faults.add(at=self._ticked - TRACE_LAG_MS, what="trace lost", who="")

    def _open(self):
        connection = pika.BlockingConnection(self._cluster.client._parameters)
        channel, began = connection.channel(), now_ms()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, TRACE, "#")
        channel.basic_consume(queue, self._take, auto_ack=True)
        self._cluster.rabbit.trace(self._cluster.name)
        self._channel, self._queue, self._ticked = channel, queue, began
        return connection

    def _tick(self):
        """Publishes directly to the queue: no one may publish to the exchange of the trace. Return:
        when it was sent."""
        at = now_ms()
        self._channel.basic_publish("", self._queue, str(at).encode())
        return at

    def _listen(self, connection):
        """Return: false if the connection was lost."""
        try:
            sent = 0
            while not self._stopping.is_set():
                if now_ms() - sent >= TICK_MS:
                    sent = self._tick()
                connection.process_data_events(time_limit=TICK_MS / 1000)
            sent = self._tick()
            while self._ticked < sent and now_ms() < sent + LAST_TICK_MS:
                connection.process_data_events(time_limit=TICK_MS / 1000)
            connection.close()
            return self._ticked >= sent
        except client.LOST:
            return False

    def _take(self, _channel, method, properties, body):
        if method.exchange != TRACE:
            self._take_tick(body)
            return
        way, _, place = method.routing_key.partition(".")
        ours = place == self._queue or self._queue in properties.headers.get("routing_keys", ())
        if ours and way == "publish":
            self._traced = body
        if ours or place.startswith("drover.pulse"):
            return
        of_message = properties.headers.get("properties") or {}
        self._log.add(
            since=self._ticked - TRACE_LAG_MS, at=now_ms(), way=way, place=place,
            redelivered=bool(properties.headers.get("redelivered")),
            resent="drover-resent" in (of_message.get("headers") or {}),
            kind=of_message.get("type", ""),
            body=base64.b64encode(body).decode(),
        )

    def _take_tick(self, body):
        self._ticked = int(body)
        if body == self._traced:
            self._up.set()
        elif self._untraced is None:
            self._untraced = self._ticked

    def stop(self):
        """Fails if the broker has not traced all the time: the absence of a message in the trace
        would say nothing."""
        self._stopping.set()
        self.join()
        if self._untraced is not None:
            raise servers.ServerError(f"the broker did not trace at {self._untraced}")


def _read(redis_, key, name, kind):
    """Reads only the names of data, and only the counters of definitions."""
    if name.startswith("data:"):
        redis_.hkeys(key)
    elif name.startswith("def:"):
        redis_.hmget(key, "refs")
    elif kind == "hash":
        redis_.hgetall(key)
    elif kind == "zset":
        redis_.zrange(key, 0, -1, withscores=True)
    elif kind == "list":
        redis_.llen(key)
    else:
        redis_.get(key)


def dump(store):
    """The store in the form that fsck.py reads, all of it at one moment, as supervisors go on
    working.

    Keys that change before that moment, such as a lead that is handed over, may be missing.
    """
    keys = list(store.redis.scan_iter(store.prefix + "*", count=1000))
    kinds = store.redis.pipeline(transaction=False)
    for key in keys:
        kinds.type(key)
    moment = store.redis.pipeline(transaction=True)
    places = []
    for key, kind in zip(keys, kinds.execute()):
        partition, _, name = key.rpartition(":") if key.endswith(":meta") else key.partition("}:")
        places.append((partition, name, kind))
        _read(moment, key, name, kind)
    out = {}
    for (partition, name, kind), value in zip(places, moment.execute()):
        keys_there = out.setdefault(partition, {})
        if not value or value == [None]:
            continue
        if name.startswith("data:"):
            value = dict.fromkeys(value, "")
        elif name.startswith("def:"):
            value = {"refs": value[0]}
        elif kind == "zset":
            value = dict(value)
        keys_there[name] = value
    return out


class Collector:
    """@cluster: started, with a client that has sent nothing yet. @world: see run_evidence.World.

    @trace: whether the broker traces each message, which doubles its load. @alone: whether no other
    client submits jobs; otherwise their histories are copied as well.
    """

    def __init__(self, cluster, directory, world=None, trace=True, alone=True):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._cluster = cluster
        self._jobs, self._alone = set(), alone
        self._world = {"partitions": cluster.store.partitions, "listens": True, **(world or {})}
        self._client = Log(self.directory / "client.log")
        self._faults = Log(self.directory / "faults.log")
        self._trace = Log(self.directory / "trace.log") if trace else None
        self._tracer = Tracer(cluster, self._trace, self._faults) if trace else None
        self._copier = HistoryCopier(cluster.store, self._jobs, self.directory / "history.log")
        cluster.client.watch = self._said
        cluster.client.call(self._listen)

    def _listen(self, channel):
        """Declares a durable queue for all alerts, which also gets those that the trace misses."""
        arguments = self._cluster.rabbit.queue_arguments
        channel.queue_declare(ALERTS, durable=True, arguments=arguments)
        channel.queue_bind(ALERTS, "drover.events", "#.alert")

    def _take_alert(self, channel):
        self._listen(channel)
        _, _, body = channel.basic_get(ALERTS, auto_ack=True)
        if body:
            self._said(wire.JobEvent.FromString(body))
        return body

    def _said(self, message, at=None):
        """@at: when, in unix ms; None: now."""
        kind = message.DESCRIPTOR.name
        if kind == "Submit":
            self._jobs.add(message.job_id)
        fields = json_format.MessageToDict(message, preserving_proto_field_name=True)
        self._client.add(at=at or now_ms(), kind=kind, message=fields)

    def workflow(self, workflow):
        """Records a definition that jobs name."""
        self._said(workflow)

    def fault(self, what, who=""):
        """A fault strikes the system now, or ends: rules about time count from then on."""
        self._faults.add(at=now_ms(), what=what, who=who)

    @contextlib.contextmanager
    def blind(self):
        """During the block a node of the broker goes down or is cut off: messages that it had to
        trace may be lost, and those of others too."""
        self._faults.add(at=now_ms() - TRACE_LAG_MS, what="trace lost", who="node")
        try:
            yield
        finally:
            self._faults.add(at=now_ms(), what="trace again", who="node")

    def catch_up(self):
        """Waits until everything in the store is copied; the store must not change."""
        self._copier.catch_up()

    def _store_at_rest(self):
        """Waits up to two leases (L4) until supervisors lead all partitions again; the checker
        finds those that no one leads."""
        store, lease_ms = self._cluster.store, self._world.get("lease_ms")
        until = time.monotonic() + 2 * (lease_ms or 0) / 1000
        while True:
            out = dump(store)
            led = sum("leader" in keys for keys in out.values()) == store.partitions
            if not lease_ms or led or time.monotonic() > until:
                return out
            time.sleep(0.1)

    def finish(self, complete=True):
        """Ends the collection; @complete: the run is over."""
        self._cluster.client.pump()
        while self._cluster.client.call(self._take_alert):
            pass
        self._copier.stop(self._cluster.store.jobs() if self._alone else list(self._jobs))
        if self._tracer:
            self._tracer.stop()
            self._trace.close()
        store = self._store_at_rest()
        world = {**self._world, "complete": complete, "ended_at": now_ms()}
        (self.directory / "store.json").write_text(json.dumps(store, indent=1))
        (self.directory / "world.json").write_text(json.dumps(world, indent=1))
        self._client.close()
        self._faults.close()

    def judge(self, complete=True):
        """Return: the violations, one text each."""
        self.finish(complete)
        return [str(violation) for violation in checker.judge(self.directory)]
