# SPDX-License-Identifier: Apache-2.0
"""Daemons and the command line over TLS: who is trusted, and certificates that change"""

import contextlib
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import warnings

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "fault")]

import redis

import authority
import cluster
import health
import load
import servers
import tap
import wire

CLIENT = "drover-client"
USERS = ("drover-first", "drover-second")  # whose certificates change


class Tls(cluster.TestCase):
    @classmethod
    def setUpClass(cls):
        conf = ("auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = AMQPLAIN\n"
                "auth_mechanisms.3 = EXTERNAL\nssl_cert_login_from = common_name\n")
        cls.rabbit = servers.Rabbit(conf=conf, tls=True, plugins=["rabbitmq_auth_mechanism_ssl"])
        cls.redis = servers.Redis(tls=True)
        for server in (cls.rabbit, cls.redis):
            cls.addClassCleanup(server.close)
            server.begin()
        for server in (cls.rabbit, cls.redis):
            server.await_start()

    def setUp(self):
        super().setUp()
        self.others = authority.Authority(self.directory / "others")

    # --- a job ---

    def test_job(self):
        """Every connection of every daemon, and of the command line, is encrypted."""
        c = self.cluster(settings=health.settings())
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        self.assertEqual(0, c.drover("get", "job").returncode)
        self.assertEqual(0, c.drover("get", "job", "--from-store").returncode)
        encrypted = self.rabbit.rabbitmqctl("list_connections", "ssl", "client_properties")
        lines = [line for line in encrypted.splitlines() if "drover" in line]
        self.assertEqual(5, len(lines), encrypted)  # a supervisor consumes nothing
        self.assertTrue(all(line.startswith("true") for line in lines), encrypted)
        for server, name, of in ((self.rabbit, "broker", c.daemons),
                                 (self.redis, "store", c.schedulers + c.supervisors)):
            ends = authority.end_of(server.tls.cert)  # long before the authority
            for daemon in of:
                self.assertEqual(
                    ends, health.metrics(daemon)[f"drover_{name}_tls_expiry_seconds"])

    def test_client_certificate(self):
        """The broker takes the user from the certificate; there is no password."""
        own = self.rabbit.tls.authority.issue_client(CLIENT)
        login = {"login": "certificate", "cert_file": str(own.cert), "key_file": str(own.key),
                 "password": "wrong"}
        self.rabbit.rabbitmqctl("add_user", CLIENT, "unknown to all")
        self.addCleanup(self.rabbit.rabbitmqctl, "delete_user", CLIENT)
        supervisors = {"security": {"supervisors": CLIENT}}
        c = self.cluster(agents=0, supervisors=0, settings={"scheduler": supervisors})
        self.rabbit.rabbitmqctl("set_permissions", "-p", c.name, CLIENT, ".*", ".*", ".*")
        for daemon in (c.add_agent({"rabbitmq": login}), c.add_supervisor({"rabbitmq": login})):
            servers.wait_for(daemon.up, f"{daemon.name} to log in")
        c.client.submit(wire.submit("job", wire.chain(1)))
        c.client.settled("job")
        self.assertIn(CLIENT, self.rabbit.rabbitmqctl("list_connections", "user"))
        self.assertEqual([], c.supervisors[0].records("bus_disconnected"))
        done = self.drover(f"amqps://{servers.HOST}:{self.rabbit.tls.port}/{c.name}",
                           RABBITMQ__CA_FILE=self.rabbit.tls.ca, RABBITMQ__LOGIN="certificate",
                           RABBITMQ__CERT_FILE=own.cert, RABBITMQ__KEY_FILE=own.key)
        self.assertEqual(0, done[0], done[1])

    def test_client_certificate_of_another_user(self):
        """After SIGHUP the connections that are there go on as the user of the old certificate, and
        new ones are those of the new user."""
        first, second = (self.rabbit.tls.authority.issue_client(name) for name in USERS)
        for name in USERS:
            self.rabbit.rabbitmqctl("add_user", name, "unknown to all")
            self.addCleanup(self.rabbit.rabbitmqctl, "delete_user", name)
        login = {"login": "certificate", "cert_file": str(first.cert), "key_file": str(first.key)}
        known = {"security": {"supervisors": " ".join(USERS)}}
        c = self.cluster(supervisors=0, settings=health.settings({"scheduler": known}))
        for name in USERS:
            self.rabbit.rabbitmqctl("set_permissions", "-p", c.name, name, ".*", ".*", ".*")
        supervisor = c.add_supervisor({**health.settings()["supervisor"], "rabbitmq": login})
        servers.wait_for(supervisor.up, "it to log in")
        shutil.copy(second.cert, first.cert)
        shutil.copy(second.key, first.key)
        supervisor.signal(signal.SIGHUP)
        servers.wait_for(lambda: supervisor.records("reloaded"), "the other certificate")
        confirmed = health.metrics(supervisor)["drover_broker_confirmed_total"]
        longer = wire.step("a", action="sleep", arguments=wire.payload(b"60000", "text/plain"),
                           lock_ms=1000, wait_ms=1000)
        c.client.submit(wire.submit("job", [longer]))  # than its lease: a supervisor ends that
        servers.wait_for(
            lambda: health.metrics(supervisor)["drover_broker_confirmed_total"] > confirmed,
            "its command to be confirmed")
        self.assertEqual([], supervisor.records("bus_disconnected"))
        self.rabbit.rabbitmqctl("close_all_connections", "-p", c.name, "rotation")
        servers.wait_for(lambda: len(supervisor.records("bus_up")) > 1, "it to be back")
        users = self.rabbit.rabbitmqctl("list_connections", "user").split()
        self.assertIn(USERS[1], users)
        self.assertNotIn(USERS[0], users)

    # --- refusals ---

    def drover(self, url, **settings):
        """Returns the exit code and what the command says."""
        variables = {f"DROVER_{name}": str(value) for name, value in settings.items()}
        done = subprocess.run(
            [wire.BUILD / "cli" / "drover", "list", "--timeout", "20s", "--url", url],
            env={**cluster.own_environment(), **cluster.SANITIZER_OPTIONS,
                 "DROVER_RABBITMQ__PASSWORD": "guest", **variables},
            capture_output=True, text=True, timeout=120,
        )
        self.assertNotRegex(done.stderr, cluster.SANITIZER)
        return done.returncode, done.stderr

    def test_refused_brokers(self):
        """Each trouble has a text that says what it is. No Drover is in this vhost, which the last
        refusal says: the connection was good."""
        tls, clear = self.rabbit.tls, self.rabbit.port
        ca = {"RABBITMQ__CA_FILE": tls.ca}
        for url, settings, said in (
            (f"amqps://guest@localhost:{tls.port}/", ca, "has no Drover yet"),
            (f"amqps://guest@{servers.HOST}:{tls.port}/", ca, "has no Drover yet"),
            (f"amqps://guest@localhost:{tls.port}/", {"RABBITMQ__CA_FILE": self.others.ca},
             "its certificate is of an authority that is not in ca_file"),
            (f"amqps://guest@localhost:{tls.port}/", {}, "authority that is not in ca_file"),
            (f"amqps://guest@localhost:{tls.port}/", {**ca, "RABBITMQ__SERVER_NAME": "broker"},
             "its certificate is not for broker"),
            (f"amqps://guest@127.0.0.2:{clear}/", ca, "connection refused"),
            (f"amqps://guest@localhost:{clear}/", ca, "it does not speak TLS at this port"),
            (f"amqp://guest@localhost:{tls.port}/", ca,
             "the server expects TLS at this port: set rabbitmq.tls = true"),
            (f"amqps://guest@localhost:{tls.port}/", {"RABBITMQ__CA_FILE": "/nonexistent"},
             "rabbitmq.ca_file: cannot read /nonexistent: No such file"),
            (f"amqps://guest@localhost:{tls.port}/",
             {**ca, "RABBITMQ__CERT_FILE": tls.cert}, "rabbitmq.key_file: is missing"),
            ("amqp://guest@192.0.2.1/", {}, "192.0.2.1 is no loopback address"),
        ):
            with self.subTest(url=url, **settings):
                code, error = self.drover(url, **settings)
                self.assertNotEqual(0, code)
                self.assertIn(said, error)

    def serve(self, listener, context, data):
        """Accepts one connection by TLS, and ends its session right behind this data."""
        connection, _ = listener.accept()
        arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(arriving, leaving, server_side=True)
        with connection:
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(leaving.read())
                    arriving.write(connection.recv(65536))
            session.write(data)
            with contextlib.suppress(ssl.SSLError):  # the client has more to say
                session.unwrap()
            connection.sendall(leaving.read())  # all at once
            connection.recv(65536)

    def test_end_behind_data(self):
        """The broker greets, and ends the session: the client, which answers the greeting, says so.
        """
        tls = self.rabbit.tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert, tls.key)
        context.num_tickets = 0
        mechanisms, locales = b"PLAIN", b"en_US"
        start = (struct.pack(">HHBBI", 10, 10, 0, 9, 0)
                 + struct.pack(">I", len(mechanisms)) + mechanisms
                 + struct.pack(">I", len(locales)) + locales)
        greeting = struct.pack(">BHI", 1, 0, len(start)) + start + b"\xce"
        listener = self.enterContext(socket.create_server((servers.HOST, 0)))
        server = threading.Thread(target=self.serve, args=(listener, context, greeting),
                                  daemon=True)
        server.start()
        daemon = cluster.Daemon("agent", "agent-1", self.directory, {
            "rabbitmq": {"host": "localhost", "port": listener.getsockname()[1], "tls": True,
                         "ca_file": str(tls.ca)},
            "agent": {"actors": [{"name": "demo", "handler": "builtin"}]},
            "log": {"format": "json"}})
        self.addCleanup(daemon.kill)
        daemon.start()
        (first, *_) = servers.wait_for(lambda: daemon.records("bus_disconnected"), "the end")
        self.assertIn("the server ended the session", first["why"])
        server.join()

    def start(self, role, name, **groups):
        """Starts a daemon; returns it."""
        settings = {"name": name, "log": {"format": "json"},
                    "health": {"listen": f"{servers.HOST}:0"},
                    "rabbitmq": {"port": self.rabbit.port}, **groups}
        daemon = cluster.Daemon(role, name, self.directory, settings)
        self.addCleanup(daemon.kill)
        daemon.start()
        return daemon

    def accept(self, listener, context):
        """Begins a TLS session with each client, or ends the connection if @context is None."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the test is over
                return
            with connection, contextlib.suppress(OSError):
                if context:
                    context.wrap_socket(connection, server_side=True).close()
                else:
                    connection.recv(65536)

    def fake(self, certificate=None, **versions):
        """Returns the port of a server that does no more than a handshake with this certificate;
        None: it ends the connection in the middle of the handshake."""
        context = None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.set_ciphers("DEFAULT@SECLEVEL=0")  # else there is no TLS 1.1
            context.load_cert_chain(certificate.cert, certificate.key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions that nobody should use
            for name, value in versions.items():
                setattr(context, name, value)
        listener = self.enterContext(socket.create_server((servers.HOST, 0)))
        threading.Thread(target=self.accept, args=(listener, context), daemon=True).start()
        return listener.getsockname()[1]

    def bad_servers(self, tls):
        """Returns name -> (the settings of a connection to a server that no client may use, what is
        said of it, whether a person must mend it)."""
        good = {"host": "localhost", "port": tls.port, "tls": True, "ca_file": str(tls.ca)}
        issue = tls.authority.issue_server
        self_signed = authority.self_signed(self.directory, "localhost")
        old = self.fake(issue("old", "localhost"), minimum_version=ssl.TLSVersion.TLSv1,
                        maximum_version=ssl.TLSVersion.TLSv1_1)
        silent = self.enterContext(socket.create_server((servers.HOST, 0)))
        return {
            "authority": ({**good, "ca_file": str(self.others.ca)}, "not in ca_file", True),
            "name": ({**good, "server_name": "other"}, "is not for other", True),
            "expired": ({**good, "port": self.fake(issue("old", "localhost", days=0))},
                        "has expired: the server needs a new one", True),
            "self-signed": ({**good, "port": self.fake(self_signed)}, "not in ca_file", True),
            "old": ({**good, "port": old}, "does not speak TLS 1.2 or later: update", True),
            "half": ({**good, "port": self.fake()},
                     "ended the TLS handshake: does it speak TLS at this port?", False),
            "silent": ({**good, "port": silent.getsockname()[1]},
                       "does it speak TLS at this port", False),
            "unknown": ({**good, "host": "drover.invalid"}, "host drover.invalid: ", False),
        }

    def expect_refusal(self, daemon, kind, said, refused):
        """A refusal is logged as such, and counted."""
        events = {"rabbitmq": ("bus_refused", "bus_disconnected"),
                  "redis": ("store_refused", "store_unreachable")}[kind]
        records = servers.wait_for(lambda: daemon.records(events[0 if refused else 1]), said)
        self.assertIn(said, records[0]["why"])
        metric = {"rabbitmq": "broker", "redis": "store"}[kind]
        count = health.metrics(daemon)[f"drover_{metric}_refused_total"]
        self.assertEqual(refused, count > 0)
        self.assertEqual(refused, bool(daemon.records(events[0])))
        self.assertTrue(daemon.alive())

    def test_bad_brokers(self):
        for name, (settings, said, refused) in self.bad_servers(self.rabbit.tls).items():
            with self.subTest(name=name):
                daemon = self.start("agent", f"agent-{name}",
                                    rabbitmq=settings,
                                    agent={"actors": [{"name": "demo", "handler": "builtin"}]})
                self.expect_refusal(daemon, "rabbitmq", said, refused)
                daemon.kill()

    def test_bad_stores(self):
        for name, (settings, said, refused) in self.bad_servers(self.redis.tls).items():
            with self.subTest(name=name):
                daemon = self.start("scheduler", f"scheduler-{name}",
                                    redis={**settings, "call_timeout": "1s"})
                self.expect_refusal(daemon, "redis", said, refused)
                daemon.kill()

    def test_mixed_up_ports(self):
        """TLS to a port in clear text, and the reverse."""
        tls = self.redis.tls
        good = {"host": "localhost", "port": tls.port, "tls": True, "ca_file": str(tls.ca),
                "call_timeout": "1s"}
        for name, store, said in (
            # Redis answers, or waits for more: that depends on bytes that OpenSSL chooses.
            ("clear", {**good, "port": self.redis.port},
             "it does not speak TLS at this port|does it speak TLS at this port"),
            ("tls", {**good, "tls": False},
             "expects TLS at this port: set redis.tls = true|does it expect TLS at this port"),
        ):
            with self.subTest(name=name):
                daemon = self.start("scheduler", f"scheduler-{name}", redis=store)
                records = servers.wait_for(
                    lambda d=daemon: d.records("store_refused") or d.records("store_unreachable"),
                    said)
                self.assertRegex(records[0]["why"], said)
                daemon.kill()

    def test_wrong_files(self):
        """A daemon does not start with files that it cannot use."""
        own = self.others.issue_client("own")
        other = self.others.issue_client("other")
        shutil.copy(own.key, own.key.with_suffix(".open"))
        own.key.with_suffix(".open").chmod(0o644)
        for files, said in (
            ({"cert_file": own.cert, "key_file": other.key}, "belongs to"),
            ({"cert_file": own.cert, "key_file": own.key.with_suffix(".open")}, "chmod o="),
            ({"ca_file": own.key}, "has no certificate in PEM"),
        ):
            sets = [f"--set=rabbitmq.{name}={path}" for name, path in files.items()]
            done = subprocess.run(
                [wire.BUILD / "supervisor" / "drover-supervisor", "--check-config",
                 "--set=rabbitmq.tls=true", *sets],
                capture_output=True, text=True, timeout=60, env=cluster.own_environment())
            self.assertEqual(2, done.returncode)
            self.assertIn(said, done.stderr)

    # --- certificates that change ---

    def replace_certificates(self, by):
        """Has the broker serve a certificate of another authority from now on."""
        tls = self.rabbit.tls
        issued = by.issue_server("server", "localhost", servers.HOST)
        shutil.copy(issued.cert, tls.cert)
        shutil.copy(issued.key, tls.key)
        self.rabbit.rabbitmqctl("eval", "ssl:clear_pem_cache().")
        return issued

    def test_rotation(self):
        """A new authority: the daemons trust it after SIGHUP, and go on with both. A file that is
        wrong changes nothing. Once the old authority is taken out its certificates are refused."""
        tls = self.rabbit.tls
        before = [path.read_bytes() for path in (tls.cert, tls.key)]
        trusted = self.directory / "trusted.pem"
        trusted.write_bytes(tls.ca.read_bytes())
        more = {"rabbitmq": {"ca_file": str(trusted)}}
        c = self.cluster(settings=health.settings(
            {role: more for role in ("scheduler", "agent", "supervisor")}))
        try:
            self.rotate(c, trusted)
        finally:
            tls.cert.write_bytes(before[0])
            tls.key.write_bytes(before[1])
            self.rabbit.rabbitmqctl("eval", "ssl:clear_pem_cache().")
        self.expect_revoked(c, trusted)

    def rotate(self, c, trusted):
        good = trusted.read_bytes()
        trusted.write_text("nonsense")
        for daemon in c.daemons:
            daemon.signal(signal.SIGHUP)
            servers.wait_for(lambda d=daemon: d.records("reload_refused"), "the refusal")
            self.assertIn("no certificate", daemon.records("reload_refused")[0]["why"])
            self.assertEqual(1, health.metrics(daemon)["drover_reloads_refused_total"])
        trusted.write_bytes(good + self.others.ca.read_bytes())
        for daemon in c.daemons:
            daemon.signal(signal.SIGHUP)
            servers.wait_for(lambda d=daemon: d.records("reloaded"), "the new certificates")
        self.replace_certificates(self.others)
        self.rabbit.rabbitmqctl("close_all_connections", "-p", c.name, "rotation")
        servers.wait_for(lambda: all(len(d.records("bus_up")) > 1 for d in c.daemons), "all back")
        self.assertEqual([], [d.name for d in c.daemons if d.records("bus_refused")])
        c.client = type(c.client)(self.rabbit, c.name)
        c.client.submit(wire.submit("job", wire.chain(2)))
        c.client.settled("job")
        trusted.write_bytes(self.others.ca.read_bytes())
        for daemon in c.daemons:
            daemon.signal(signal.SIGHUP)
            servers.wait_for(lambda d=daemon: len(d.records("reloaded")) > 1, "the old one to go")

    def expect_revoked(self, c, trusted):
        """The authority that was taken out counts no more; nothing is lost until that is mended."""
        self.rabbit.rabbitmqctl("close_all_connections", "-p", c.name, "rotation")
        for daemon in c.daemons:
            servers.wait_for(lambda d=daemon: d.records("bus_refused"), "the refusal")
            self.assertIn("not in ca_file", daemon.records("bus_refused")[0]["why"])
        c.client = type(c.client)(self.rabbit, c.name)
        c.client.submit(wire.submit("later", wire.chain(2)))
        trusted.write_bytes(self.rabbit.tls.ca.read_bytes())
        for daemon in c.daemons:
            daemon.signal(signal.SIGHUP)
        c.client.settled("later")

    def test_rotation_under_load(self):
        """RabbitMQ and Redis get certificates of another authority while jobs run, and close all
        connections: each job ends."""
        ours = {name: self.directory / f"{name}.pem" for name in ("rabbitmq", "redis")}
        for name, server in (("rabbitmq", self.rabbit), ("redis", self.redis)):
            ours[name].write_bytes(server.tls.ca.read_bytes())
        more = {name: {"ca_file": str(path)} for name, path in ours.items()}
        c = self.cluster(settings={"scheduler": more, "supervisor": more,
                                   "agent": {"rabbitmq": more["rabbitmq"]}})
        before = [path.read_bytes() for path in (self.rabbit.tls.cert, self.rabbit.tls.key)]
        c.besides = []
        busy = load.Load(c, 20)
        try:
            servers.wait_for(lambda: busy.ended() >= 20, "jobs before")
            for path in ours.values():
                path.write_bytes(path.read_bytes() + self.others.ca.read_bytes())
            for daemon in c.daemons:
                daemon.signal(signal.SIGHUP)
                servers.wait_for(lambda d=daemon: d.records("reloaded"), "the new certificates")
            issued = self.replace_certificates(self.others)
            self.replace_in_redis(issued.cert, issued.key)
            self.rabbit.rabbitmqctl("close_all_connections", "-p", c.name, "rotation")
            servers.wait_for(lambda: self.have_returned(c), "all back")
            ended = busy.ended()
            servers.wait_for(lambda: busy.ended() >= ended + 40, "jobs after")
            self.assertEqual([], busy.stop())
        finally:
            busy.end()
            self.rabbit.tls.cert.write_bytes(before[0])
            self.rabbit.tls.key.write_bytes(before[1])
            self.rabbit.rabbitmqctl("eval", "ssl:clear_pem_cache().")
            self.replace_in_redis(self.redis.tls.cert, self.redis.tls.key)

    def replace_in_redis(self, cert, key):
        with redis.Redis(servers.HOST, self.redis.port) as admin:
            admin.execute_command("CONFIG", "SET", "tls-cert-file", str(cert), "tls-key-file",
                                  str(key))
            admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    @staticmethod
    def have_returned(c):
        """Whether each daemon has connected again."""
        return all(len(d.records("bus_up")) > 1 for d in c.daemons) and all(
            len(d.records("store_up")) > 1 for d in c.schedulers + c.supervisors)


if __name__ == "__main__":
    tap.main()
