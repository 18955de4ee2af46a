# SPDX-License-Identifier: Apache-2.0
"""One user for each role, at the broker and at the store. With the definitions and the ACL in
deploy/ the daemons can do their work, and no user can act for another one.

The test prints as tables what each user may do, and docs/OPERATIONS.md has the same tables.
"""

import base64
import collections
import datetime
import hashlib
import json
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import pika
import pika.exceptions
import redis

import cluster
import servers
import store_library
import tap
import wire
from store_library import schema

ACTORS = ("demo", "hand")
ADMIN = "test-admin"  # of this test only
VHOST = "drover"
WORD = secrets.token_hex(16)  # a leading dash would make it an option

# --- the broker ----------------------------------------------------------------------------------

SCHEDULER, AGENT, DEMO_AGENT, SUPERVISOR, CLIENT, SHOP, OPERATOR, MONITOR = USERS = (
    "drover-scheduler", "drover-agent", "drover-agent-demo", "drover-supervisor", "drover-client",
    "shop", "drover-operator", "monitor",
)
ASKING = {CLIENT, SHOP, OPERATOR}
PULSING = {SCHEDULER, AGENT, DEMO_AGENT}

# Who may publish to an exchange, and who may read a queue, which includes purging it. All other
# users are refused.
PUBLISHES = {
    "drover.submit": ASKING,
    "drover.control": ASKING | {SUPERVISOR},
    "drover.tasks": {SCHEDULER},
    "drover.replies": {AGENT},
    "drover.reply.demo": {AGENT, DEMO_AGENT},
    "drover.reply.hand": {AGENT},
    "drover.events": {SCHEDULER},
    "drover.dead": {SCHEDULER, AGENT, DEMO_AGENT},
    "drover.expired": set(),
    "drover.pulse": PULSING,
    "": {SCHEDULER},
}
READS = {
    "drover.submit": {SCHEDULER},
    "drover.control": {SCHEDULER},
    "drover.replies": {SCHEDULER},
    "drover.expired": {SCHEDULER},
    "drover.task.demo": {AGENT, DEMO_AGENT},
    "drover.task.hand": {AGENT},
    "drover.dead": set(),
}
OWN = {
    "an exclusive queue `drover.pulse.…`, bound to `drover.pulse`": PULSING,
    "an exclusive queue `amq.gen…`": ASKING,
    "a durable queue `shop.…`": {SHOP},
}


def publish(exchange):
    return lambda channel: channel.basic_publish(exchange, "drover.submit", b"test")


def read(queue):
    def consume(channel):
        channel.basic_get(queue)
        channel.queue_purge(queue)

    return consume


def own_pulse(channel):
    queue = f"drover.pulse.{secrets.token_hex(8)}"
    channel.queue_declare(queue, exclusive=True)
    channel.queue_bind(queue, "drover.pulse", queue)
    channel.basic_publish("drover.pulse", queue, b"beat")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"beat"


def own_replies(channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_get(queue)


def own_inbox(channel):
    channel.queue_declare("shop.inbox", durable=True)
    channel.basic_get("shop.inbox")
    channel.queue_delete("shop.inbox")


def listen(source):
    """Binds a queue of the user's own to an exchange of others; a user that may declare none is
    refused that, too."""

    def bind(channel):
        try:
            queue = channel.queue_declare("", exclusive=True).method.queue
        except pika.exceptions.ChannelClosedByBroker:
            channel = channel.connection.channel()
            queue = f"drover.pulse.{secrets.token_hex(8)}"
            channel.queue_declare(queue, exclusive=True)
        channel.queue_bind(queue, source, "#")

    return bind


def broker_operations():
    """Returns what some users may do: text -> (operation, users)."""
    out = {}
    for exchange, users in PUBLISHES.items():
        out[f"publish to {f'`{exchange}`' if exchange else 'any queue by its name'}"] = (
            publish(exchange), users)
    for queue, users in READS.items():
        out[f"read `{queue}`"] = (read(queue), users)
    own = dict(zip(OWN, (own_pulse, own_replies, own_inbox)))
    return out | {f"make {text}": (own[text], users) for text, users in OWN.items()}


def forbidden_operations():
    """Returns what no user may do: text -> operation."""
    out = {}
    for queue in READS:
        out[f"delete queue {queue}"] = lambda c, q=queue: c.queue_delete(q)
        out[f"bind {queue} to drover.events"] = lambda c, q=queue: c.queue_bind(
            q, "drover.events", "#")
        out[f"unbind {queue}"] = lambda c, q=queue: c.queue_unbind(
            q, q if "task" not in q else "drover.tasks", "submit")
    for exchange in filter(None, PUBLISHES):
        out[f"delete exchange {exchange}"] = lambda c, e=exchange: c.exchange_delete(e)
    for exchange in ("drover.tasks", "drover.events", "drover.dead"):
        out[f"listen to {exchange}"] = listen(exchange)
    out["declare queue drover.task.new"] = lambda c: c.queue_declare(
        "drover.task.new", durable=True
    )
    out["declare queue other"] = lambda c: c.queue_declare("other", exclusive=True)
    out["declare exchange drover.new"] = lambda c: c.exchange_declare("drover.new")
    out["declare exchange other"] = lambda c: c.exchange_declare("other")
    return out


# --- the store -----------------------------------------------------------------------------------

READER = "drover-reader"  # for people who use `drover get` and `list --from-store`
BOTH = (SCHEDULER, SUPERVISOR)
STORE_USERS = (*BOTH, READER)
KEYS = "drover:{p0}:"
LIBRARY = "#!lua name=other\nredis.register_function('other', function() return 1 end)"


# Which user calls which store functions.
FUNCTIONS = {
    SCHEDULER: {
        "version", "define", "submit", "record", "renew", "taken", "unsent", "drive", "steer",
        "settle_owed", "defer_owed", "step_events", "inspect", "told", "suspect", "mark", "lost",
    },
    SUPERVISOR: {"version", "lead", "lost", "expire", "forget", "sweep", "look"},
    READER: {"version", "inspect"},
}
# The commands before the first call of a function; those of a reader change nothing.
CONNECTING = {**dict.fromkeys(BOTH, {"info", "ping", "eval", "exists", "fcall"}),
              READER: {"info", "ping", "hmget", "fcall_ro"}}


def used_by(code, names):
    """Returns which of the names a Lua function uses and does not declare itself. Of a table that
    it indexes, all members count."""
    code = re.sub(r"--.*|'[^']*'", "", code)
    own = re.findall(
        r"^ +(?:local|for) ([\w, \n]+?)(?: = | in |\n *\S)|^(?:local )?function [.\w]+\(([\w, ]*)",
        code,
        re.MULTILINE,
    )
    words = set(re.findall(r"\b\w+(?:\.\w+)?\b(?! = )", code)) - set(re.findall(r"\w+", str(own)))
    tables = tuple(f"{name}." for name in re.findall(r"(\w+)\[", code))
    return {name for name in names if name in words or name.startswith(tables)}


def code_of(text, names):
    """Returns these functions of a Lua text, and all that they use."""
    item = r"^(?:local )?function ([.\w]+)\(.*?^end$|^local (\w+) = \{[^}]*\}"
    bodies = collections.defaultdict(str)
    for m in re.finditer(item, text, re.MULTILINE | re.DOTALL):
        bodies[m[1] or m[2]] += m[0] + "\n"
    seen, new = set(), set(names)
    while new:
        seen |= new
        new = set().union(*(used_by(bodies[name], bodies) for name in new)) - seen
    return "".join(bodies[name] for name in seen)


def function(name, /, **arguments):
    """Returns a call of a store function. common/store/schema.txt names its arguments."""
    return ("FCALL", f"drover1_{name.split()[0]}", 1, KEYS, *schema.arguments(name, **arguments))


# A definition of one step, as a scheduler stores it, and the token of that step in flight.
RUNNING = function(
    "define", digest="one", version=0, total=1, last=1, registered=0,
    fields=[
        ("job", "P 1 0"), ("r", "0 0 0 0 0 0 0 0 0 0 PP||0 1 00|||0"),
        ("0", "1000 60000 1000 100 2 1000 3 3 0 1000 PP||0 0 00|||"),
    ],
)
NONCE = "0123456789abcdef"
HASH = hashlib.sha1(f"{NONCE}.0".encode()).digest()  # of the first step, by a call with this nonce
TOKEN = "0." + base64.urlsafe_b64encode(HASH[:18]).decode()[:22]
# Jobs of that definition -> the event in the history if the call was allowed, and the users that it
# is allowed to.
RUNS = {
    "result": ("done", {SCHEDULER}),
    "error": ("failed", {SCHEDULER}),
    "renewed": (None, set()),
    "bare": ("done", {SCHEDULER}),
    "unstarted": ("unstarted", set(BOTH)),
    "driven": (None, set()),
    "steered": ("turned", {SCHEDULER}),
}


def running(job):
    events = "reply" if job == "driven" else ""
    return function(
        "submit", job_id=job, digest="one", definition="one", redelivered=0, nonce=NONCE, by="me",
        desired="A", start_at=0, complete_by=0, events=events, priority=0, labels="",
    )


def record(kind, job, result="", error=""):
    report = schema.values(
        "report", kind=kind, job_id=job, token=TOKEN, redelivered=0, nonce=NONCE, fraction=0,
        result=result, error=error, error_class="", retry_after=0, effect="", step="", actor="",
        agent="",
    )
    return function("record", by="me", reports=[report])


def drive(again):
    return function("drive", job_id="driven", nonce=NONCE, by="me", again=again, steps=[0])


EXPIRE = {
    "skip": 0, "limit": 1, "lease_factor": 0, "latest": 0, "since": 1, "jump": 0, "after": 0,
    "at": 0,
}

# Operation -> its commands, and who may do it. Of each row a user may do all, or nothing.
STORE_OPERATIONS = {
    "load functions": ([("FUNCTION", "LOAD", "REPLACE", LIBRARY)], {SCHEDULER}),
    "register workflows: `define`": (
        [
            function("define", digest="d", name="w", version=1, total=0, last=1, registered=1),
            ("HSET", f"{KEYS}workflows", "w", "1"),
        ],
        {SCHEDULER},
    ),
    "start jobs of them: `submit`": (
        [
            function(
                "submit", job_id="new", digest="d", workflow="w", redelivered=0, nonce=0, by="me",
                desired="A", start_at=0, complete_by=0, priority=0, labels="",
            ),
            ("HSET", f"{KEYS}data:new", "input", ""),
        ],
        {SCHEDULER},
    ),
    "list and read jobs: `inspect`": (
        [
            function("inspect jobs", before=1, since=0, limit=1, actor=""),
            function("inspect history", job_id="some", start=1, limit=1),
            ("ZREVRANGEBYSCORE", f"{KEYS}jobs", 1, 0), ("LRANGE", f"{KEYS}hist:some", 0, 1),
            ("HGET", f"{KEYS}workflows", "w"), ("HGET", f"{KEYS}data:renewed", "p0"),
        ],
        {SCHEDULER, READER},
    ),
    "record results and errors: `record`": (
        [
            record("A", "result", result="done"), record("T", "error", error="failed"),
            record("A", "bare"), ("HSET", f"{KEYS}data:result", "r0", "done"),
        ],
        {SCHEDULER},
    ),
    "renew leases: `renew`, `taken`": (
        [
            function("renew", job_id="renewed", token=TOKEN, fraction="0.5", elapsed=0, actor=""),
            function("taken", job_id="renewed", token=TOKEN),
        ],
        {SCHEDULER},
    ),
    "ask for requests that have waited: `unsent`": (
        [function("unsent", job_id="driven", nonce=NONCE, by="me", number=1, tokens=[TOKEN])],
        {SCHEDULER},
    ),
    "`record` for requests that no agent took, `drive`": (
        [record("N", "unstarted"), drive(again=0)],
        set(BOTH),
    ),
    "`drive` once more, which sends requests again": ([drive(again=1)], {SCHEDULER}),
    "carry out commands: `steer`": (
        [
            function(
                "steer", job_id="steered", command_name="cancel", command_id="c", issued_at=0,
                if_seq=0, by="me", nonce=NONCE, redelivered=0, owner="",
            )
        ],
        {SCHEDULER},
    ),
    "delete notifications: `settle_owed`": (
        [function("settle_owed", job_id="bare", seq=1, at=1)],
        {SCHEDULER},
    ),
    "put off notifications: `defer_owed`": (
        [function("defer_owed", job_id="some", seq=1, at=1, tries=0)],
        {SCHEDULER},
    ),
    "read step events: `step_events`": ([function("step_events", job_id="driven")], {SCHEDULER}),
    "deduplicate alerts: `told`": (
        [function("told", cause="cause", what="over"), ("HDEL", f"{KEYS}told", "cause")],
        {SCHEDULER},
    ),
    "see whether the store went back: `mark`": (
        [
            function("mark", run="run", nonce="id", job_ids=["some"]),
            ("HSET", f"{KEYS}mark", "run", "run"),
        ],
        {SCHEDULER},
    ),
    "record who begins a suspect: `suspect`": (
        [
            function("suspect", digest="digest", incarnation="0a", what="end"),
            ("HDEL", f"{KEYS}suspects", "digest"),
        ],
        {SCHEDULER},
    ),
    "lead a partition: `lead`": (
        [
            function("lead", supervisor="me", lease=0), ("SET", f"{KEYS}leader", "me"),
            ("GET", f"{KEYS}leader"), ("HSET", f"{KEYS}supervisors", "me", "1"),
        ],
        {SUPERVISOR},
    ),
    "record that the broker has lost messages: `lost`": (
        [function("lost", actor="*", age=0, cursor=""), ("HSET", f"{KEYS}lost", "*", 1)],
        {*BOTH},
    ),
    "find steps that are due: `expire`": (
        [function("expire", **EXPIRE), ("ZRANGEBYSCORE", f"{KEYS}due", 0, 1)],
        {SUPERVISOR},
    ),
    "check the indexes: `sweep`": (
        [function("sweep", cursor=""), ("ZSCORE", f"{KEYS}open", "some")],
        {SUPERVISOR},
    ),
    "dry runs of these: `look`": (
        [
            function("look", name="sweep", arguments=[""]),
            function("look", name="expire", arguments=schema.arguments("expire", **EXPIRE)),
        ],
        {SUPERVISOR},
    ),
    "forget jobs: `forget`": (
        [
            function("forget", retention=1, limit=1),
            ("UNLINK", f"{KEYS}job:other", f"{KEYS}data:other", f"{KEYS}hist:other"),
        ],
        {SUPERVISOR},
    ),
    "records and indexes of jobs": (
        [("HSET", f"{KEYS}job:some", "a", "b"), ("ZADD", f"{KEYS}due", 1, "some")],
        set(BOTH),
    ),
    "read records of jobs": ([("HGET", f"{KEYS}job:some", "a")], set(STORE_USERS)),
    "`INFO`, and the functions' build": ([("INFO",), function("version")], set(STORE_USERS)),
}


FORBIDDEN_COMMANDS = (
    "GET drover:other", "HSET drover:other a b", "GET other", "SET other x", "HSET other a b",
    "DEL other", "EVAL return{redis.call('GET','x')} 0", "FCALL drover1_inspect 1 other", "KEYS *",
    "SCAN 0", "RANDOMKEY", "DBSIZE", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "SELECT 1",
    "MOVE drover:test 1", "RENAME drover:test other", "CONFIG GET *", "CONFIG SET maxmemory 1",
    "CONFIG REWRITE", "ACL LIST", "ACL WHOAMI", "ACL SETUSER other on nopass ~* +@all", "ACL SAVE",
    "ACL LOAD", "FUNCTION LIST", "FUNCTION DUMP", "FUNCTION DELETE drover1", "FUNCTION FLUSH",
    "SCRIPT FLUSH", "CLIENT LIST", "CLIENT KILL TYPE normal", "CLIENT PAUSE 1", "MONITOR",
    "SLOWLOG GET", "SAVE", "BGSAVE", "BGREWRITEAOF", "SHUTDOWN NOSAVE", "DEBUG OBJECT drover:test",
    "REPLICAOF 127.0.0.1 1", "FAILOVER", "CLUSTER INFO", "MODULE LIST",
    "MIGRATE 127.0.0.1 1 drover:test 0 1", "DUMP drover:test", "RESTORE drover:test 0 x",
    "PUBLISH drover:x y", "SUBSCRIBE drover:x", "WAIT 0 1", "LATENCY RESET",
)


# --- tables --------------------------------------------------------------------------------------


def markdown(users, rows):
    """rows: text -> users."""
    lines = [
        "| | " + " | ".join(f"`{user}`" for user in users) + " |",
        "|---" * (len(users) + 1) + "|",
    ]
    for text, may in rows.items():
        cells = ["yes" if user in may else "–" for user in users]
        lines.append(f"| {text} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def documented(kind):
    page = (wire.ROOT / "docs" / "OPERATIONS.md").read_text()
    return page.partition(f"<!-- {kind} rights -->\n")[2].partition("\n<!-- end -->")[0]


class Permissions(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.directory = wire.BUILD / "integration" / "test_permissions"
        shutil.rmtree(cls.directory, ignore_errors=True)
        cls.directory.mkdir(parents=True)
        cls.secrets = cls.directory / "secrets"
        cls.make_accounts()
        acl = cls.directory / "users.acl"
        acl.write_text((cls.secrets / "redis-users.acl").read_text()
                       + f"user {ADMIN} on >{WORD} ~* &* +@all\n")
        definitions = cls.secrets / "rabbitmq-definitions.json"
        cls.rabbit = servers.Rabbit(conf=f"load_definitions = {definitions}\n")
        cls.redis = servers.Redis(options=["--aclfile", acl])
        servers.start_for(cls, cls.rabbit, cls.redis)
        cls.rabbit.user, cls.rabbit.password = ADMIN, WORD
        cls.rabbit.rabbitmqctl("add_user", ADMIN, WORD)
        cls.rabbit.rabbitmqctl("set_permissions", "-p", VHOST, ADMIN, ".*", ".*", ".*")
        cls.store = cluster.Store(cls.redis.port, "drover:")
        cls.store.redis = cls.store_connection(ADMIN, WORD)
        cls.addClassCleanup(cls.store.redis.close)

    @classmethod
    def make_accounts(cls):
        command = [wire.ROOT / "deploy" / "accounts.py", "--dir", cls.secrets]
        subprocess.run([sys.executable, "-B", *command, "--client", SHOP,
                        *(f"--actor={a}" for a in ACTORS)],
                       check=True)

    @classmethod
    def password(cls, server, user):
        return (cls.secrets / f"{server}-{user}").read_text().strip()

    @classmethod
    def store_connection(cls, user, password):
        return redis.Redis(servers.HOST, cls.redis.port, username=user, password=password,
                           decode_responses=True)

    def broker_connection(self, user, vhost=VHOST, password=None):
        password = password or (WORD if user == ADMIN else self.password("rabbitmq", user))
        connection = pika.BlockingConnection(pika.ConnectionParameters(
            servers.HOST, self.rabbit.port, vhost, pika.PlainCredentials(user, password)))
        self.addCleanup(lambda: connection.is_open and connection.close())
        return connection

    # --- the daemons -----------------------------------------------------------------------------

    def daemon(self, role, directory=None, **more):
        """Makes a daemon with the rights of its role only, an agent with those for the actor demo;
        does not start it."""
        user = DEMO_AGENT if role == "agent" else f"drover-{role}"
        settings = {
            "name": f"{role}-1",
            "log": {"format": "json"},
            "rabbitmq": {"host": servers.HOST, "port": self.rabbit.port, "vhost": VHOST,
                         "user": user, "password": self.password("rabbitmq", user),
                         "declare": False},
            "health": {"listen": f"{servers.HOST}:{servers.free_ports(1)[0]}", "pulse": "200ms"},
        }
        if role != "agent":
            settings["redis"] = {"host": servers.HOST, "port": self.redis.port, "user": user,
                                 "password": self.password("redis", user)}
        daemon = cluster.Daemon(role, f"{role}-1", directory or self.directory,
                                cluster.merged(settings, more))
        daemon.health = settings["health"]["listen"]
        self.addCleanup(daemon.stop)
        return daemon

    def drover(self, *words, body=None, more=None):
        """Runs the command as the user drover-client."""
        url = (f"amqp://{CLIENT}:{self.password('rabbitmq', CLIENT)}@{servers.HOST}:"
               f"{self.rabbit.port}/{VHOST}")
        done = subprocess.run([wire.BUILD / "cli" / "drover", *words], text=True,
                              env={**cluster.own_environment(), "DROVER_URL": url, **(more or {})},
                              input=json.dumps(body), capture_output=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def test_daemons_at_work(self):
        """A job that ends, failures, a start time, an expiry, a dead letter, and forgetting."""
        supervisor = self.daemon("supervisor", supervisor={
            "period": "100ms", "lease": "1s", "retention": "1s", "sweep": "1s"})
        scheduler = self.daemon("scheduler")
        agent = self.daemon("agent", agent={"actors": [cluster.BUILTIN]})
        supervisor.start()
        servers.wait_for(lambda: supervisor.records("store_unreachable"),
                         "the supervisor to wait for the functions")
        scheduler.start()
        agent.start()
        for daemon in (supervisor, scheduler, agent):
            servers.wait_for(lambda d=daemon: self.is_ready(d), f"{daemon.name} to be ready")
        job = {"definition": {"steps": [
            {"name": "greet", "actor": "demo", "action": "echo"},
            {"name": "again", "actor": "demo", "action": "fail", "after": ["greet"],
             "arguments": {"json": {"times": 1}}, "retry": {"initialIntervalMs": 100}},
            {"name": "lost", "actor": "hand", "action": "lost", "after": ["again"],
             "lockMs": 300, "waitMs": 5000}]}}
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        words = ("-", "--id", "all", "--start-at", soon.strftime("%Y-%m-%dT%H:%M:%SZ"))
        code, output = self.drover("submit", *words, body=job)
        self.assertEqual(0, code, output)
        self.ignore_one_request_answer_the_next()
        code, output = self.drover("run", *words, body=job)
        self.assertEqual(0, code, output)
        servers.wait_for(lambda: not self.store.job("all"), "the job to be forgotten")
        self.change_twice()
        self.leave_a_dead_letter()
        for daemon in (agent, scheduler, supervisor):
            daemon.stop()
            self.assertEqual([], daemon.complaints())
            for event in ("store_refused", "bus_refused", "bus_publish_refused", "publish_refused"):
                self.assertEqual([], daemon.records(event), daemon.name)
        refused = self.store.redis.execute_command("ACL", "LOG")
        self.assertEqual({"function|load"}, {entry["object"] for entry in map(as_dict, refused)})

    def test_no_way_around_the_exchange_of_an_actor(self):
        """An agent can bind a queue that it reads to the exchange of its actor, and make an
        exchange that leads there. A message that comes that way has no proven actor: it is refused,
        and becomes a dead letter."""
        scheduler = self.daemon("scheduler")
        scheduler.start()
        servers.wait_for(lambda: self.is_ready(scheduler), "the scheduler to be ready")
        dead = self.broker_connection(ADMIN).channel()
        dead.queue_purge("drover.dead")
        channel = self.broker_connection(DEMO_AGENT).channel()
        own = "drover.pulse.round"
        channel.exchange_declare(
            own, "fanout", arguments={"alternate-exchange": "drover.reply.demo"}
        )
        channel.exchange_bind("drover.reply.demo", "drover.pulse", "reply")
        for exchange in ("drover.pulse", own, "drover.reply.demo"):
            channel.basic_publish(
                exchange,
                "reply",
                wire.Replies(
                    replies=[
                        wire.StepReply(
                            job_id="none", step="a", token="0.AAAA", achieved=wire.STATE_ACTIVE
                        )
                    ]
                ).SerializeToString(),
            )
        for _ in range(2):
            servers.wait_for(
                lambda: dead.queue_declare("drover.dead", passive=True).method.message_count,
                "a dead letter",
            )
            _, properties, _ = dead.basic_get("drover.dead", auto_ack=True)
            self.assertRegex(properties.headers["drover-reason"], "^DENIED .*drover.reply.<actor>")
        servers.wait_for(
            lambda: not dead.queue_declare("drover.replies", passive=True).method.message_count,
            "the last message to be read",
        )
        channel.exchange_unbind("drover.reply.demo", "drover.pulse", "reply")
        channel.exchange_delete(own)
        scheduler.stop()
        letters = [
            r for r in scheduler.records("dead_letter") if "drover.reply.<actor>" in r["reason"]
        ]
        self.assertEqual(2, len(letters))

    def test_reader(self):
        """A person with the password of the reader sees jobs, and needs no broker."""
        reader = {"DROVER_REDIS__PORT": str(self.redis.port), "DROVER_REDIS__USER": READER,
                  "DROVER_REDIS__PASSWORD": self.password("redis", READER)}
        self.store.redis.execute_command("FLUSHALL")
        self.assertIn("there is no Drover under prefix drover:", self.drover(
            "get", "seen", "--from-store", more=reader)[1])
        scheduler = self.daemon("scheduler")
        scheduler.start()
        servers.wait_for(lambda: self.is_ready(scheduler), "the scheduler to be ready")
        code, output = self.drover("submit", "-", "--id", "seen", "-l", "a=b", body={
            "definition": {"steps": [{"name": "greet", "actor": "hand"}]}})
        self.assertEqual(0, code, output)
        self.assertEqual((0, "seen\n"), self.drover(
            "list", "--from-store", "-o", "id", "-l", "a=b", more=reader))
        code, output = self.drover("get", "seen", "--from-store", "--data", more=reader)
        self.assertEqual(0, code, output)
        self.assertIn("greet", output)
        scheduler.stop()
        self.store.redis.execute_command("FLUSHALL")
        self.store.redis.execute_command("FUNCTION", "FLUSH")

    def is_ready(self, daemon):
        """The daemon is ready, which includes that its pulses come back."""
        try:
            with urllib.request.urlopen(f"http://{daemon.health}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def change_twice(self):
        """Each change gives the job a definition of its own, and deletes the one before."""
        job = {
            "definition": {
                "steps": [
                    {
                        "name": "s",
                        "actor": "demo",
                        "action": "fail",
                        "retry": {"onPermanent": "PARK"},
                        "arguments": {"json": {"permanent": True}},
                    }
                ]
            }
        }
        self.assertEqual(0, self.drover("submit", "-", "--id", "changed", body=job)[0])
        for times, lock in enumerate(("1m", "2m", "3m"), 1):
            servers.wait_for(
                lambda n=times: len(self.store.events("changed", "parked")) == n, "the step to park"
            )
            code, output = self.drover("retry", "changed", "s", "--set", f"lock={lock}")
            self.assertEqual(0, code, output)
        self.assertEqual(
            self.store.keys("}:def:"),
            [self.store.partition("changed") + "def:" + self.store.job("changed")["def"]],
        )
        self.assertEqual(0, self.drover("kill", "changed")[0])

    def ignore_one_request_answer_the_next(self):
        """Acts as an agent in another language, which does not answer its first request: the
        supervisor must recover the step."""
        channel = self.broker_connection("drover-agent-hand").channel()
        channel.confirm_delivery()
        taken = []

        def take():
            method, _, body = channel.basic_get("drover.task.hand", auto_ack=True)
            if method:
                taken.append(wire.Requests.FromString(body).requests[0])
            return method

        servers.wait_for(take, "the request that gets no answer")
        servers.wait_for(take, "the request again")
        # without evidence that an agent had it
        self.assertEqual((2, 0), (taken[1].attempt, taken[1].expiries))
        reply = wire.StepReply(job_id=taken[1].job_id, step=taken[1].step, token=taken[1].token,
                               achieved=taken[1].desired)
        channel.basic_publish("drover.reply.hand", "reply",
                              wire.Replies(replies=[reply]).SerializeToString())

    def leave_a_dead_letter(self):
        client = self.broker_connection(CLIENT).channel()
        client.confirm_delivery()
        client.basic_publish("drover.submit", "submit", b"nonsense")
        admin = self.broker_connection(ADMIN).channel()
        servers.wait_for(lambda: admin.basic_get("drover.dead", auto_ack=True)[0], "a dead letter")

    # --- the files -------------------------------------------------------------------------------

    def test_rights_are_those_of_the_protocol(self):
        page = (wire.ROOT / "docs" / "PROTOCOL.md").read_text().replace("<actor>", ".*")
        row = re.compile(r"^\| (\w+) \| `(\^.*?)` \| `(.*?)` \| `(.*?)` \|$", re.MULTILINE)
        promised = {f"drover-{user}": tuple(right.replace("\\|", "|") for right in rights)
                    for user, *rights in row.findall(page)}
        definitions = json.loads((wire.ROOT / "deploy/rabbitmq/definitions.json").read_text())
        given = {right["user"]: (right["configure"], right["write"], right["read"])
                 for right in definitions["permissions"]}
        self.assertEqual(("^$",) * 3, given.pop(MONITOR))
        # the shared agent serves all actors, and may use the exchange of earlier builds for an
        # upgrade
        configure, write, read = given[AGENT]
        self.assertIn("(replies|reply", write)
        given[AGENT] = configure, write.replace("(replies|", "("), read
        self.assertEqual(promised, given)

    def test_acl_names_what_the_functions_use(self):
        """Each user has the commands and keys of the functions that its role calls, and no more."""
        text = store_library.LIBRARY
        registered = re.findall(r"^register\('(\w+)'", text, re.MULTILINE)
        self.assertEqual(set(registered), set().union(*FUNCTIONS.values()))
        acl = (wire.ROOT / "deploy" / "redis" / "users.acl").read_text().splitlines()
        lines = {line.split()[1]: line for line in acl}
        for user, functions in FUNCTIONS.items():
            code = code_of(
                text,
                {
                    f"functions.{f.word}"
                    for f in schema.functions.values()
                    if f.name.split()[0] in functions
                },
            )
            commands = {name.lower() for name in re.findall(r"\bcall(?:\(|, )'(\w+)'", code)}
            granted = set(re.findall(r" \+(\w+)(?![\w|])", lines[user]))
            self.assertEqual(commands | CONNECTING[user], granted, user)
            kinds = set(re.findall(r"\bp \.\. '(\w+:?)", code))
            self.assertEqual(kinds, set(re.findall(r"\{p\*\}:(\w+:?)", lines[user])), user)

    def test_templates_have_no_passwords(self):
        users = json.loads((wire.ROOT / "deploy/rabbitmq/definitions.json").read_text())["users"]
        self.assertEqual({""}, {user["password_hash"] for user in users})
        acl = (wire.ROOT / "deploy/redis/users.acl").read_text()
        self.assertNotRegex(acl, r"[#>]|nopass")
        self.assertTrue(acl.startswith("user default off "))

    def test_passwords_are_kept(self):
        before = {path.name: path.read_text() for path in self.secrets.glob("*drover-*")}
        self.make_accounts()
        after = {path.name: path.read_text() for path in self.secrets.glob("*drover-*")}
        self.assertEqual(before, after)
        self.assertEqual(10, len(before))
        self.assertEqual(0o700, self.secrets.stat().st_mode & 0o777)

    def test_two_agents_of_one_name(self):
        """Two agents of one name are refused, because an actor would lose its queue."""
        command = [
            sys.executable, "-B", wire.ROOT / "deploy" / "accounts.py", "--dir",
            self.directory / "other",
        ]
        for words in (["--actor=a", "--agent=a=b"], ["--agent=x=a", "--agent=x=b"]):
            done = subprocess.run([*command, *words], capture_output=True, text=True)
            self.assertEqual((2, True), (done.returncode, "two agents called" in done.stderr))

    def test_limits_of_the_broker(self):
        """The limits of the definitions apply: those of the vhost, of users and of queues."""
        self.assertIn("max-queues", self.rabbit.rabbitmqctl("list_vhost_limits", "-p", VHOST))
        for user in (DEMO_AGENT, SHOP, CLIENT, OPERATOR):
            self.assertIn(
                "max-channels", self.rabbit.rabbitmqctl("list_user_limits", "--user", user)
            )
        listed = self.rabbit.rabbitmqctl(
            "list_queues", "-q", "-p", VHOST, "name", "policy"
        ).splitlines()
        policies = dict(line.split("\t") for line in listed if line.startswith("drover."))
        expected = {
            "drover.submit": "drover-entrances", "drover.control": "drover-entrances",
            "drover.replies": "drover-entrances", "drover.dead": "drover-dead",
            "drover.expired": "drover", "drover.task.demo": "drover", "drover.task.hand": "drover",
        }
        self.assertEqual(expected, {name: policies[name] for name in expected})

    def test_refused_names_of_clients(self):
        """A client whose queues would be those of others, or which exists already, is refused."""
        command = [
            sys.executable, "-B", wire.ROOT / "deploy" / "accounts.py", "--dir",
            self.directory / "other",
        ]
        for name in ("a.b", "amq", "drover", "a b", "drover-scheduler"):
            done = subprocess.run([*command, "--client", name], capture_output=True, text=True)
            self.assertNotEqual(0, done.returncode, name)
            self.assertIn(name, done.stderr)

    def test_no_shared_agent(self):
        directory = self.directory / "unshared"
        subprocess.run(
            [
                sys.executable, "-B", wire.ROOT / "deploy" / "accounts.py", "--dir", directory,
                "--no-shared-agent", *(f"--actor={a}" for a in ACTORS),
            ],
            check=True,
        )
        made = json.loads((directory / "rabbitmq-definitions.json").read_text())
        for kind, name in (("users", "name"), ("permissions", "user")):
            self.assertEqual({f"drover-agent-{a}" for a in ACTORS},
                             {item[name] for item in made[kind] if item[name].startswith(AGENT)})

    # --- denials ---------------------------------------------------------------------------------

    def attempts(self, user):
        """Returns attempts(operation), which returns whether the broker allowed it."""
        connection = self.broker_connection(user)

        def attempt(operation):
            channel = connection.channel()
            channel.confirm_delivery()
            try:
                operation(channel)
            except pika.exceptions.ChannelClosedByBroker as error:
                self.assertEqual(403, error.reply_code, error)
                return False
            if channel.is_open:
                channel.close()
            return True

        return attempt

    def test_broker_denials(self):
        operations, forbidden = broker_operations(), forbidden_operations()
        done = {text: set() for text in operations}
        wrongly = []
        for user in USERS:
            attempt = self.attempts(user)
            for text, (operation, _) in operations.items():
                if attempt(operation):
                    done[text].add(user)
            wrongly += [(user, text) for text, operation in forbidden.items() if attempt(operation)]
        table = markdown(USERS, done)
        for line in (*table.splitlines(), f"refused to all of them: {', '.join(forbidden)}"):
            tap.narrate(line)
        self.assertEqual({text: users for text, (_, users) in operations.items()}, done)
        self.assertEqual([], wrongly)
        self.assertEqual(documented("broker"), table, "docs/OPERATIONS.md: the table is the first")

    def test_broker_logins(self):
        self.rabbit.rabbitmqctl("add_vhost", "other")
        for user in USERS:
            with self.assertRaises(pika.exceptions.ProbableAccessDeniedError):
                self.broker_connection(user, vhost="other")
            with self.assertRaises(pika.exceptions.ProbableAuthenticationError):
                self.broker_connection(user, password="wrong")
        with self.assertRaises(pika.exceptions.ProbableAuthenticationError):
            self.broker_connection("guest", password="guest")

    def may(self, connection, *command):
        if connection.get_connection_kwargs()["username"] == READER:
            command = (command[0].replace("FCALL", "FCALL_RO"), *command[1:])
        try:
            connection.execute_command(*command)
        except redis.exceptions.NoPermissionError:
            return False
        except redis.RedisError as error:  # the command, the function or the script was reached
            return re.search("ACL failure|NOPERM|executing the script can't|not allowed|write flag",
                             str(error)) is None
        return True

    def test_store_denials(self):
        done = {text: set() for text in STORE_OPERATIONS}
        wrongly = []
        for user in STORE_USERS:
            self.store.redis.execute_command("FLUSHALL")
            self.store.redis.execute_command("FUNCTION", "LOAD", "REPLACE", store_library.LIBRARY)
            self.store.redis.hset(f"{KEYS}job:some", "def", "d")
            # a notification for which there is no client
            self.store.redis.zadd(f"{KEYS}owed", {"some 1": 1})
            self.store.redis.hset(f"{KEYS}data:some", "s1", "SUCCEEDED PROCESSED 1 1 0  ")
            for command in (RUNNING, *map(running, RUNS)):
                self.assertIn(self.store.redis.execute_command(*command)[0], ("DEFINED", "CREATED"))
            with self.store_connection(user, self.password("redis", user)) as connection:
                for text, (commands, _) in STORE_OPERATIONS.items():
                    may = {self.may(connection, *command) for command in commands}
                    self.assertEqual(1, len(may), f"{user} may {text} in part")
                    if True in may:
                        done[text].add(user)
                for job, (event, users) in RUNS.items():
                    entries = self.store.redis.lrange(f"{KEYS}hist:{job}", 0, -1)
                    found = event in [
                        schema.words("history_entry", entry).event for entry in entries
                    ]
                    self.assertEqual(user in users, found, f"{job}: {entries}")
                # a supervisor has asked for it, a scheduler has put it off
                due = self.store.redis.zscore(f"{KEYS}owed", "some 1")
                self.assertEqual(user in BOTH, due > 1, f"{user} changes the outbox")
                failed = self.store.redis.hexists(f"{KEYS}data:some", "n1")
                self.assertEqual(user == SCHEDULER, failed, f"{user} counts failed tries")
                wrongly += [(user, command) for command in FORBIDDEN_COMMANDS
                            if self.may(connection, *command.split())]
        self.store.redis.execute_command("FLUSHALL")
        self.store.redis.execute_command("FUNCTION", "FLUSH")
        table = markdown(STORE_USERS, done)
        for line in (*table.splitlines(), f"refused to all: {', '.join(FORBIDDEN_COMMANDS)}"):
            tap.narrate(line)
        self.assertEqual({text: users for text, (_, users) in STORE_OPERATIONS.items()}, done)
        self.assertEqual([], wrongly)
        self.assertEqual(documented("store"), table, "docs/OPERATIONS.md: the table is the first")

    def test_store_keeps_its_data(self):
        """Redis replays its append-only file as the default user. If that user may do nothing,
        Redis drops what the functions have written, and starts all the same."""
        with self.store_connection(SCHEDULER, self.password("redis", SCHEDULER)) as connection:
            connection.execute_command("FUNCTION", "LOAD", "REPLACE", store_library.LIBRARY)
            connection.execute_command(
                *function("define", digest="d", name="w", version=1, total=1, last=1, registered=1)
            )
            before = connection.hget(f"{KEYS}workflows", "w")
        self.assertEqual("1", before)
        # With "appendfsync everysec" Redis delays a write while an fsync is running.
        servers.wait_for(
            lambda: not self.store.redis.info("persistence")["aof_buffer_length"],
            "the append-only file to be written",
        )
        self.redis.restart(hard=True)
        servers.wait_for(
            lambda: not self.store.redis.info("persistence")["loading"], "the data to be loaded"
        )
        self.assertEqual("1", self.store.redis.hget(f"{KEYS}workflows", "w"))
        self.assertNotIn("NOPERM", self.redis.log.read_text())
        self.store.redis.execute_command("FLUSHALL")
        self.store.redis.execute_command("FUNCTION", "FLUSH")

    def test_store_logins(self):
        passwords = {user: self.password("redis", user) for user in STORE_USERS}
        passwords |= {user: self.password("rabbitmq", user) for user in (AGENT, CLIENT, MONITOR)}
        for user in (AGENT, CLIENT, MONITOR, "default", None):
            for password in (*passwords.values(), "", None):
                with self.store_connection(user, password) as connection:
                    with self.assertRaises(redis.RedisError) as refused:
                        connection.ping()
                    self.assertRegex(str(refused.exception), "WRONGPASS|invalid|Authentication")


def as_dict(flat):
    """Converts an entry of ACL LOG, which older clients return as a list of names and values."""
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2]))


if __name__ == "__main__":
    tap.main()
