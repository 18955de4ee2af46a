# SPDX-License-Identifier: Apache-2.0
"""The definitions that deploy/accounts.py makes, with quorum queues and with classic ones: they are
what daemons declare, and daemons that may not declare work with them."""

import contextlib
import json
import pathlib
import secrets
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import pika
import redis

import cluster
import servers
import tap
import wire

ACTOR = "demo"
ADMIN, WORD = "test-admin", secrets.token_hex(16)  # of this test only
VHOST = "drover"
ACCOUNTS = wire.ROOT / "deploy" / "accounts.py"
USERS = {role: f"drover-{role}" for role in ("scheduler", "supervisor", "client")}
USERS["agent"] = f"drover-agent-{ACTOR}"


class Definitions:
    """@replication: of RabbitMQ and of the daemons."""

    replication = None

    @classmethod
    def setUpClass(cls):
        cls.directory = wire.BUILD / "integration" / f"test_definitions_{cls.replication}"
        shutil.rmtree(cls.directory, ignore_errors=True)
        cls.directory.mkdir(parents=True)
        cls.secrets = cls.directory / "secrets"
        subprocess.run([sys.executable, "-B", ACCOUNTS, "--dir", cls.secrets, f"--actor={ACTOR}",
                        f"--replication={cls.replication}"], check=True)
        cls.rabbit = servers.Rabbit(
            conf=f"load_definitions = {cls.secrets / 'rabbitmq-definitions.json'}\n")
        cls.redis = servers.Redis()
        servers.start_for(cls, cls.rabbit, cls.redis)
        cls.rabbit.user, cls.rabbit.password = ADMIN, WORD
        cls.rabbit.rabbitmqctl("add_user", ADMIN, WORD)
        cls.rabbit.rabbitmqctl("set_permissions", "-p", VHOST, ADMIN, ".*", ".*", ".*")

    def setUp(self):
        with redis.Redis(servers.HOST, self.redis.port) as store:
            store.flushall()
            store.function_flush()

    def password(self, user):
        return WORD if user == ADMIN else (self.secrets / f"rabbitmq-{user}").read_text().strip()

    def daemon(self, role, directory, **rabbitmq):
        user = USERS[role]
        settings = {
            "log": {"format": "json"},
            "rabbitmq": {"host": servers.HOST, "port": self.rabbit.port, "vhost": VHOST,
                         "user": user, "password": self.password(user), "declare": False,
                         "replication": self.replication, **rabbitmq},
        }
        if role == "agent":
            settings["agent"] = {"actors": [{**cluster.BUILTIN, "name": ACTOR}]}
        else:
            settings["redis"] = {"host": servers.HOST, "port": self.redis.port}
        directory.mkdir(exist_ok=True)
        daemon = cluster.Daemon(role, f"{role}-1", directory, settings)
        self.addCleanup(daemon.stop)
        return daemon

    @contextlib.contextmanager
    def channel(self, user):
        with pika.BlockingConnection(pika.ConnectionParameters(
                servers.HOST, self.rabbit.port, VHOST,
                pika.PlainCredentials(user, self.password(user)))) as connection:
            yield connection.channel()

    def exported(self, vhost):
        path = self.directory / "exported.json"
        self.rabbit.rabbitmqctl("export_definitions", str(path))
        everything = json.loads(path.read_text())
        return {kind: {json.dumps({k: v for k, v in item.items() if k != "vhost"}, sort_keys=True)
                       for item in everything[kind] if item["vhost"] == vhost}
                for kind in ("exchanges", "queues", "bindings")}

    def test_are_what_daemons_declare(self):
        with self.rabbit.vhost() as vhost:
            for role in ("agent", "scheduler", "supervisor"):  # the scheduler: drover.replies
                daemon = self.daemon(role, self.directory / "declared", vhost=vhost, user=ADMIN,
                                     password=WORD, declare=True)
                daemon.start()
                servers.wait_for(daemon.up, f"the {role} to have declared all there is")
                daemon.stop()
            declared, defined = self.exported(vhost), self.exported(VHOST)
        for kind, items in declared.items():
            self.assertTrue(items)
            self.assertEqual(set(), items - defined[kind], f"{kind} that differ in deploy/")
            self.assertEqual(set(), defined[kind] - items, f"{kind} that no daemon declares")

    def submit(self, channel, job):
        submit = wire.submit(job, [wire.step("a", ACTOR, lock_ms=600_000)])
        channel.confirm_delivery()
        channel.basic_publish("drover.submit", "submit", submit.SerializeToString(),
                              pika.BasicProperties(delivery_mode=2, type="drover.v1.Submit"))

    def has_succeeded(self, job):
        with redis.Redis(servers.HOST, self.redis.port, decode_responses=True) as store:
            for key in store.scan_iter(f"*:job:{job}"):
                return store.hget(key, "outcome") == "SUCCEEDED"
        return False

    def test_daemons_work_with_them(self):
        """The broker is killed while a request waits for an agent, and has lost it if the queues
        are classic: the request comes again, although none of the daemons may declare."""
        where = self.directory / "work"
        scheduler, supervisor = self.daemon("scheduler", where), self.daemon("supervisor", where)
        for daemon in (scheduler, supervisor):
            daemon.start()
            servers.wait_for(daemon.up, f"the {daemon.role}")
        with self.channel(USERS["client"]) as client, self.channel(ADMIN) as admin:
            self.submit(client, "waits")
            self.await_count(admin, f"drover.task.{ACTOR}")
            if self.replication == "none":
                self.await_count(admin, "drover.marker")
        self.rabbit.restart(hard=True)
        agent = self.daemon("agent", where)
        agent.start()
        servers.wait_for(lambda: self.has_succeeded("waits"), "the job, its request sent again")
        lost = supervisor.records("broker_has_lost_messages")
        self.assertEqual(self.replication == "none", len(lost) > 0, lost)

    @staticmethod
    def await_count(channel, name):
        servers.wait_for(lambda: channel.queue_declare(name, passive=True).method.message_count,
                         f"a message in {name}")


class Quorum(Definitions, unittest.TestCase):
    replication = "quorum"

    def test_none_needs_the_marker(self):
        """Only supervisors use it."""
        for role in ("scheduler", "agent"):
            daemon = self.daemon(role, self.directory / "other", replication="none")
            daemon.start()
            servers.wait_for(daemon.up, f"the {role}")
        supervisor = self.daemon("supervisor", self.directory / "other", replication="none")
        supervisor.start()
        (refused, *_) = servers.wait_for(lambda: supervisor.records("bus_refused"), "a refusal")
        self.assertIn("drover.marker", refused["why"])


class Classic(Definitions, unittest.TestCase):
    replication = "none"

    def test_not_for_a_cluster(self):
        done = subprocess.run([sys.executable, "-B", ACCOUNTS, "--dir", self.directory / "other",
                               "--cluster", "--replication=none"], capture_output=True, text=True)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("--replication none is for one node", done.stderr)


if __name__ == "__main__":
    tap.main()
