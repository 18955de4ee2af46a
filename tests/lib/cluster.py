# SPDX-License-Identifier: Apache-2.0
"""A complete Drover for one test: daemons with configuration files and a namespace of their own

    class Some(cluster.TestCase):           # one RabbitMQ and one Redis for all tests of the class
        def test_it(self):
            c = self.cluster(agents=2)      # its own vhost and key prefix; removed after the test
            c.client.submit(wire.submit("job", wire.chain(3)))
            c.client.settled("job")
            c.agents[0].kill()

At its end the test fails if a daemon that was not killed has exited with another status than 0, or
if a sanitizer has reported an error.
"""

import atexit
import contextlib
import datetime
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import redis

import client
import servers
import wire
from store_library import schema

STOP_TIMEOUT_S = 60
CRASHED = 86  # FAILPOINT_CRASHED
SANITIZER = re.compile(
    r"ERROR: \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer|Assertion .* failed"
)
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
}
# a prefix of commands, such as valgrind with its options
WRAP = shlex.split(os.environ.get("DROVER_TEST_WRAP", ""))
SLOW = 10 if WRAP else 1  # the factor by which timeouts are longer

_running = set()  # daemons that end with this process


def _kill_all():
    for daemon in list(_running):
        daemon.kill()


atexit.register(_kill_all)


def libconfig(value, indent=0):
    """Returns a value in the syntax of libconfig. None leaves a setting of a group out."""
    pad = "    " * (indent + 1)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}L" if abs(value) >= 2**31 else str(value)
    if isinstance(value, dict):
        lines = [f"{pad}{k} = {libconfig(v, indent + 1)};\n" for k, v in value.items()
                 if v is not None]
        return "{\n" + "".join(lines) + pad[4:] + "}"
    if isinstance(value, (list, tuple)):
        ends = "()" if any(isinstance(item, dict) for item in value) else "[]"
        return ends[0] + ", ".join(libconfig(item, indent + 1) for item in value) + ends[1]
    return json.dumps(value) if not isinstance(value, float) else repr(value)


def merged(base, more):
    """Returns base with the groups and values of more over it."""
    out = dict(base)
    for key, value in (more or {}).items():
        if isinstance(value, dict) and isinstance(out.get(key), dict):
            value = merged(out[key], value)
        out[key] = value
    return out


def own_environment():
    """Returns the environment without settings of Drover, which would override those of the test.
    The added setting lets tests, and `dev` after a killed test, read /proc of a daemon without root
    rights."""
    own = {k: v for k, v in os.environ.items() if not (k.startswith("DROVER_") and "__" in k)}
    return {**own, "DROVER_SECURITY__DUMPABLE": "true"}


def command_environment():
    """The same for the command `drover`. With DROVER_TEST_TLS it knows the authority of the broker.
    """
    environment, rabbit = own_environment(), servers.Rabbit.last
    if servers.TLS and rabbit and rabbit.tls:
        environment["DROVER_RABBITMQ__CA_FILE"] = str(rabbit.tls.ca)
    return environment


def _lines(settings):
    """Yields lines of configuration. None leaves a setting out; "@include" names a file in the same
    folder."""
    for key, value in settings.items():
        if key == "@include" and value is not None:
            yield f'@include "{value}"\n'
        elif value is not None:
            yield f"{key} = {libconfig(value)};\n"


class Daemon:
    """One process of a role. After its end it can be started again under the same name."""

    def __init__(self, role, name, directory, settings, failpoints=None):
        self.role, self.name = role, name
        self._failpoints = directory / f"{name}.failpoints"
        self._can_fail = failpoints is not None
        if self._can_fail:
            self.fail(failpoints)
        self.config = directory / f"{name}.cfg"
        self.log = directory / f"{name}.log"
        self.log.touch()
        self._settings = settings
        self.configure()
        self.exit_codes = []  # of ends that were not kills
        self._process = None
        self._ups = 0

    @property
    def pid(self):
        return self._process.pid

    def configure(self, **groups):
        """Changes settings of these groups, for the next start."""
        self._settings = merged(self._settings, groups)
        self.config.write_text("".join(_lines(self._settings)))

    def _command(self):
        return [*WRAP, wire.BUILD / self.role / f"drover-{self.role}", "--config", self.config]

    def start(self):
        self._ups = len(self.records("bus_up"))
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**own_environment(), **SANITIZER_OPTIONS, **self._failpoint_environment()},
                start_new_session=True,
            )
        _running.add(self)

    def up(self):
        """Whether it has been connected since its last start."""
        return len(self.records("bus_up")) > self._ups

    def alive(self):
        return self._process is not None and self._process.poll() is None

    def signal(self, number):
        self._process.send_signal(number)

    def _ended(self):
        self._process.wait()
        _running.discard(self)

    def kill(self):
        """Sends SIGKILL. If the process had ended before, its exit code is kept."""
        if self._process and self._process.returncode is None:
            self._process.kill()
            self._ended()
            if self._process.returncode != -signal.SIGKILL:
                self.exit_codes.append(self._process.returncode)

    def _handles(self, number):
        """Whether the process has a handler of that signal. It has none for its first moments."""
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
            caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
            return caught and int(caught[1], 16) >> (number - 1) & 1
        return False

    def begin_stop(self):
        """Sends SIGTERM once the process has a handler of it, else the signal itself ends it."""
        servers.wait_for(
            lambda: not self.alive() or self._handles(signal.SIGTERM),
            f"{self.name} to handle SIGTERM",
            STOP_TIMEOUT_S * SLOW,
        )
        if self.alive():
            self.signal(signal.SIGTERM)

    def await_stop(self):
        """Waits for the end, and keeps the exit code."""
        if not self._process or self not in _running:
            return
        try:
            servers.wait_for(lambda: not self.alive(), f"{self.name} to end", STOP_TIMEOUT_S * SLOW)
        except servers.ServerError:
            self.exit_codes.append("does not end")
            self.kill()
            return
        self._ended()
        self.exit_codes.append(self._process.returncode)

    def stop(self):
        self.begin_stop()
        self.await_stop()

    # --- failpoints ---

    def _failpoint_environment(self):
        if not self._can_fail:
            return {}
        return {"DROVER_FAILPOINTS_ALLOW": "1", "DROVER_FAILPOINTS_FILE": str(self._failpoints)}

    def fail(self, spec=""):
        """Sets failpoints, and removes the earlier ones. The cluster must allow failpoints."""
        assert self._can_fail, "cluster(failpoints={})"
        new = self._failpoints.with_suffix(".new")
        new.write_text(spec)
        new.replace(self._failpoints)

    def hits(self, point):
        """Returns how often a failpoint has acted, over all runs of this daemon."""
        return len(re.findall(rf'"drover.point":"{point}"| point={point} ', self.text()))

    def await_hits(self, point, count=1, timeout=60):
        servers.wait_for(
            lambda: self.hits(point) >= count, f"{self.name} to hit {point}", timeout * SLOW
        )

    def await_crash(self, timeout=60):
        """Waits until a failpoint has ended the process, and removes all failpoints, so it can be
        started again."""
        servers.wait_for(lambda: not self.alive(), f"{self.name} to crash", timeout * SLOW)
        self._ended()
        assert self._process.returncode == CRASHED, f"{self.name}: {self._process.returncode}"
        self.fail()

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def text(self):
        return self.log.read_text(errors="replace")

    def records(self, event=None):
        """Returns its log records as dicts, of all events or of one."""
        out = []
        for line in self.text().splitlines():
            with contextlib.suppress(ValueError):
                record = {k.removeprefix("drover."): v for k, v in json.loads(line).items()}
                if event in (None, record["event.name"]):
                    out.append(record)
        return out

    def complaints(self):
        """Returns what is wrong with how the daemon ran and ended."""
        found = [f"{self.name} exited with {code}" for code in self.exit_codes if code != 0]
        text = self.text()
        match = SANITIZER.search(text)
        if match:
            found.append(f"{self.name}: {text[match.start():match.start() + 4000]}")
        return found


def logged_at(record):
    """When a daemon has logged a record, as time.monotonic() tells it."""
    at = datetime.datetime.fromisoformat(record["timestamp"].replace("Z", "+00:00"))
    return at.timestamp() - time.time() + time.monotonic()


class Store:
    """What a test reads in Redis, in the namespace of its cluster."""

    def __init__(self, port, prefix, partitions=16):
        self.redis = redis.Redis(servers.HOST, port, decode_responses=True)
        self.prefix, self.partitions = prefix, partitions

    def partition(self, job_id):
        value = 2166136261
        for byte in job_id.encode():
            value = (value ^ byte) * 16777619 & 0xFFFFFFFF
        return f"{self.prefix}{{p{value % self.partitions}}}:"

    def job(self, job_id):
        return self.redis.hgetall(self.partition(job_id) + "job:" + job_id)

    def job_at_rest(self, job_id):
        """Returns job() once its outbox is empty; clients receive an event a moment before."""
        return servers.wait_for(
            lambda: (job := self.job(job_id)).get("owes", "0") == "0" and job,
            f"all notifications of {job_id} to be sent",
        )

    def steps(self, job_id):
        """Returns index -> record, for each step that was touched."""
        return {
            int(k): schema.words("step_record", v)
            for k, v in self.job(job_id).items()
            if k.isdigit()
        }

    def progress(self, job_ids):
        """Returns (open steps, phase) of each job, in one round trip."""
        pipeline = self.redis.pipeline(transaction=False)
        for job_id in job_ids:
            pipeline.hmget(self.partition(job_id) + "job:" + job_id, "open", "phase")
        return [(int(steps), phase) for steps, phase in pipeline.execute()]

    def history(self, job_id):
        """Returns the entries. Their `about` has the words after the event."""
        key = self.partition(job_id) + "hist:" + job_id
        entries = []
        for text in self.redis.lrange(key, 0, -1):
            entry = schema.words("step_entry", text)
            entry.about = text.split(" ")[3:]
            entries.append(entry)
        return entries

    def events(self, job_id, event):
        """Returns what follows the event's name in each entry of one event."""
        return [entry.about for entry in self.history(job_id) if entry.event == event]

    def keys(self, kinds=""):
        return sorted(self.redis.scan_iter(f"{self.prefix}*{kinds}*", count=1000))

    def jobs(self):
        """Returns the ids of all jobs."""
        return [key.partition(":job:")[2] for key in self.keys("}:job:")]

    def total(self, index):
        """Returns the number of members of an index such as due or owed, over all partitions."""
        names = [f"{self.prefix}{{p{i}}}:{index}" for i in range(self.partitions)]
        return sum(self.redis.zcard(name) for name in names)

    def leaders(self):
        """Returns partition -> name of the supervisor that leads it."""
        out = {}
        for i in range(self.partitions):
            value = self.redis.get(f"{self.prefix}{{p{i}}}:leader")
            if value:
                out[i] = value.split()[0]
        return out


class Journal:
    """What the program of the exec handler did: a line where a run begins and one where it ends,
    and one file for each idempotency key, made by the first run that got so far."""

    # It forks nothing: a run is one shell.
    SCRIPT = """\
say() { echo "$1 $DROVER_IDEMPOTENCY_KEY $DROVER_ATTEMPT" >>"$journal/runs"; }
journal=$1
say begin
set -C
echo >"$journal/effects/$DROVER_JOB@$DROVER_STEP@${DROVER_IDEMPOTENCY_KEY##*/}"
say end
echo "$DROVER_IDEMPOTENCY_KEY"
"""

    def __init__(self, directory):
        self.directory = directory
        (directory / "effects").mkdir(parents=True)
        (directory / "runs").touch()
        self._script = directory / "effect.sh"
        self._script.write_text(self.SCRIPT)

    def command(self):
        return ["/bin/sh", str(self._script), str(self.directory)]

    def _lines(self):
        return [line.split() for line in (self.directory / "runs").read_text().splitlines()]

    def runs(self, what):
        """Returns (key, attempt) of each line that begins with this word, in order."""
        return [(key, int(attempt)) for word, key, attempt in self._lines() if word == what]

    def lines(self):
        """Returns (begin or end, key) of each line, in order."""
        return [(word, key) for word, key, _ in self._lines()]

    def effects(self):
        """Returns the keys whose effect exists, whether or not the run that made it has ended."""
        return {name.replace("@", "/") for name in os.listdir(self.directory / "effects")}


def _host_list(server):
    addresses = server.tls_addresses if server.tls else server.addresses
    return ",".join(f"{host}:{port}" for host, port in addresses)


BUILTIN = {"name": "demo", "handler": "builtin"}


class Cluster:
    def __init__(
        self, rabbit, redis_server, directory, settings=None, actor="demo", failpoints=None
    ):
        """settings: role -> what differs. actor: one that all agents serve. failpoints: role ->
        those that its daemons start with; None: no daemon allows any."""
        self.rabbit, self.redis, self.actor = rabbit, redis_server, actor
        self.directory = pathlib.Path(directory)
        self.name = f"t{random.SystemRandom().getrandbits(48):012x}"
        self.store = Store(redis_server.port, self.name + ":")
        self.journal = Journal(self.directory / "journal")
        self.settings = settings or {}
        self.failpoints = failpoints
        self.schedulers, self.agents, self.supervisors = [], [], []
        self.client = None
        self._vhost = rabbit.vhost(self.name)

    @property
    def daemons(self):
        return self.supervisors + self.agents + self.schedulers

    @property
    def url(self):
        scheme = "amqps" if self.rabbit.tls else "amqp"
        login = f"{self.rabbit.user}:{self.rabbit.password}"
        return f"{scheme}://{login}@{_host_list(self.rabbit)}/{self.name}"

    def client_options(self):
        """Returns the options of a program of examples/ that connects to the broker."""
        return ["--ca-file", str(self.rabbit.tls.ca)] if self.rabbit.tls else []

    # --- configuration ---

    def _server(self, server):
        """Returns the settings that lead to a server, by TLS if it has that."""
        if len(server.addresses) > 1:
            where = {"host": _host_list(server)}
        else:
            where = {"host": servers.HOST, "port": (server.tls or server).port}
        return {**where, "tls": True, "ca_file": str(server.tls.ca)} if server.tls else where

    def _settings(self, role, name):
        base = {
            "name": name,
            "log": {"format": "json", "level": "info"},
            "rabbitmq": {
                **self._server(self.rabbit),
                "vhost": self.name,
                "user": self.rabbit.user,
                "password": self.rabbit.password,
            },
        }
        if role != "agent":
            base["redis"] = {**self._server(self.redis), "prefix": self.store.prefix}
        if role == "agent":
            base["agent"] = {
                "actors": [
                    BUILTIN,
                    {
                        "name": "effect",
                        "handler": "exec",
                        "actions": [{"name": "*", "command": self.journal.command()}],
                    },
                ]
            }
        if role == "supervisor":
            base["supervisor"] = {"period": "100ms", "lease": "1s"}
        return merged(base, self.settings.get(role))

    # --- daemons ---

    def _add(self, role, group, more=None):
        name = f"{role}-{len(group) + 1}"
        settings = merged(self._settings(role, name), more)
        failpoints = None if self.failpoints is None else self.failpoints.get(role, "")
        daemon = Daemon(role, name, self.directory, settings, failpoints)
        group.append(daemon)
        daemon.start()
        return daemon

    def add_scheduler(self, more=None):
        return self._add("scheduler", self.schedulers, more)

    def add_agent(self, more=None):
        return self._add("agent", self.agents, more)

    def add_supervisor(self, more=None):
        return self._add("supervisor", self.supervisors, more)

    def _variables(self, group, server):
        return {f"DROVER_{group}__{key.upper()}": "true" if value is True else str(value)
                for key, value in self._server(server).items()}

    def drover(self, *words, build=wire.BUILD):
        """Runs the command `drover` as a client of this cluster, until it ends."""
        settings = {"DROVER_URL": self.url, "DROVER_REDIS__PREFIX": self.store.prefix,
                    **self._variables("REDIS", self.redis)}
        if self.rabbit.tls:
            settings["DROVER_RABBITMQ__CA_FILE"] = str(self.rabbit.tls.ca)
        done = subprocess.run(
            [build / "cli" / "drover", *words], text=True, capture_output=True, timeout=120,
            env={**own_environment(), **SANITIZER_OPTIONS, **settings})
        assert not SANITIZER.search(done.stderr), done.stderr
        return done

    def once(self, *options, failpoints=""):
        """Runs one round of a supervisor; returns its exit status, and the lines that it prints.
        Its log is by-hand.log."""
        by_hand = Daemon(
            "supervisor", "by-hand", self.directory, self._settings("supervisor", "by-hand")
        )
        environment = {**own_environment(), **SANITIZER_OPTIONS}
        if failpoints:
            environment |= {"DROVER_FAILPOINTS_ALLOW": "1", "DROVER_FAILPOINTS": failpoints}
        with open(by_hand.log, "ab") as log:
            done = subprocess.run(
                [*by_hand._command(), *options],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=120,
            )
        return done.returncode, done.stdout.splitlines()

    def start(self, schedulers=1, agents=1, supervisors=1):
        self._vhost.__enter__()
        self.client = client.Client(self.rabbit, self.name)
        for _ in range(schedulers):
            self.add_scheduler()
        for _ in range(agents):
            self.add_agent()
        for _ in range(supervisors):
            self.add_supervisor()
        self.await_ready()

    def restore_vhost(self, timeout=60):
        """Gives the vhost back to a broker that has lost all data, and waits until all daemons use
        it."""
        self.rabbit.add_vhost(self.name)
        self.await_ready(timeout)

    def _check_alive(self):
        dead = [d for d in self.daemons if d in _running and not d.alive()]
        if dead:
            raise AssertionError(f"{dead[0].name} has ended:\n{dead[0].text()[-4000:]}")

    def await_ready(self, timeout=60):
        """Waits until each running daemon consumes, and each partition has a leader."""
        running = [d for d in self.daemons if d.alive()]
        roles = [d.role for d in running]
        servers.wait_for(lambda: all(d.up() for d in running), "all to be up", timeout * SLOW)

        def consumed(queue, consumers):
            self._check_alive()
            return self.client.queue(queue)[1] >= consumers

        task_queue = f"drover.task.{self.actor}"
        for queue, role in (("drover.submit", "scheduler"), (task_queue, "agent")):
            count = roles.count(role)
            what = f"{count} consumers of {queue}"
            servers.wait_for(lambda q=queue, n=count: consumed(q, n), what, timeout * SLOW)
        if "supervisor" in roles:
            servers.wait_for(
                lambda: len(self.store.leaders()) == self.store.partitions,
                "a leader of every partition",
                timeout * SLOW,
            )
            self.await_marker(timeout)

    def await_marker(self, timeout=60):
        """Waits until what is dispatched from now on is not sent again as lost. Supervisors that
        are up have declared the queue, if there is to be one."""
        servers.wait_for(lambda: all(d.up() for d in self.supervisors if d.alive()),
                         "the supervisors", timeout * SLOW)
        servers.wait_for(lambda: self.client.find("drover.marker") != (0, 0), "the marker",
                         timeout * SLOW)

    def stop(self):
        """Ends all daemons as an operator would, and returns all complaints."""
        for daemon in self.daemons:
            daemon.begin_stop()
        for daemon in self.daemons:
            daemon.await_stop()
        if self.client:
            self.client.close()
            self._vhost.__exit__(None, None, None)
        return [complaint for daemon in self.daemons for complaint in daemon.complaints()]

    # --- questions of tests ---

    def dispatches(self, job_id):
        """Returns the number of requests that a job has cost."""
        return len(self.store.events(job_id, "dispatched"))

    def await_idle(self, timeout=60):
        """Waits until all queues are empty, nothing is due, and the outbox is empty."""

        def idle():
            queues = ["drover.submit", "drover.replies", "drover.control", "drover.expired"]
            return (
                all(self.client.queue(queue)[0] == 0 for queue in queues)
                and self.store.total("due") == 0
                and self.store.total("owed") == 0
            )

        servers.wait_for(idle, "all queues, due and the outboxes to be empty", timeout * SLOW)


class TestCase(unittest.TestCase):
    """One RabbitMQ and one Redis for all tests of the class; clusters end with their test."""

    own_servers = False  # true for tests that stop, fill or reconfigure the servers
    redis_options = ()

    @classmethod
    def setUpClass(cls):
        others = None if cls.own_servers else servers.shared()
        if others:
            cls.rabbit, cls.redis = others
            return
        cls.rabbit, cls.redis = servers.Rabbit(), servers.Redis(options=cls.redis_options)
        for server in (cls.rabbit, cls.redis):
            cls.addClassCleanup(server.close)
            server.begin()
        for server in (cls.rabbit, cls.redis):
            server.await_start()

    def setUp(self):
        """Logs and journal stay in the build folder until the test runs again."""
        self.directory = wire.BUILD / "integration" / self.id().replace("__main__.", "")
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def cluster(
        self, schedulers=1, agents=1, supervisors=1, settings=None, actor="demo", failpoints=None
    ):
        cluster = Cluster(self.rabbit, self.redis, self.directory, settings, actor, failpoints)
        self.addCleanup(self._end, cluster)
        cluster.start(schedulers, agents, supervisors)
        return cluster

    def _end(self, cluster):
        complaints = cluster.stop()
        self.assertEqual([], complaints, f"logs in {cluster.directory}")

    def timed(self, function):
        began = time.monotonic()
        return function(), time.monotonic() - began
