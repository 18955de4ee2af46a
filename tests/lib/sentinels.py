# SPDX-License-Identifier: Apache-2.0
"""A primary of Redis with replicas, and Sentinels that fail over

    with sentinels.Group() as group:
        dead = group.primary
        dead.kill()
        new = group.await_failover(dead)

With apart=True each server and each Sentinel has an address of its own. Inside a network of the
test alone (partition.py) a server can then be cut off from all others: Group.cut_off() and heal().

A test without such a network has Redis.cut() and heal(). The Sentinels and the replicas log in to
each server as users of their own, and cut() disables these users there, while clients still reach
the server. That is no partition: connections end at once, so the primary knows at once that it has
no replica, and each attempt to connect is answered. A Sentinel whose login is refused goes on as
the default user, so this one loses the commands that Sentinels and replicas need and clients do
not.
"""

import pathlib
import tempfile

import redis

import partition
import servers

NAME = "drover"  # of the primary, as the Sentinels know it
WORD = "w0rd"
ALL = ("on", f">{WORD}", "~*", "&*", "+@all")
PEERS = ("sentinel", "replica")  # users that disappear in a cut
# of the default user, which Sentinels and replicas would use then
COMMANDS = ("ping", "publish", "subscribe", "psubscribe", "psync", "sync", "replconf", "slaveof",
            "replicaof", "config", "client|setname")


def listening(known_host):
    """The addresses at which a server or Sentinel listens: its own, and that of tests."""
    return sorted({known_host, servers.HOST})


def certificate(folder, host):
    """One authority for all of a folder; a certificate for each address."""
    return servers.Tls(folder, name=host, host=host)


class Redis(servers.Redis):
    """One server of the group, with a user for the Sentinels and one for the replicas. known_host:
    the address by which Sentinels, replicas and daemons know it, and from which it connects. Tests
    reach it at servers.HOST as well, so no cut keeps them from it."""

    def __init__(self, options=(), certificates=None, known_host=servers.HOST):
        self.known_host = known_host
        super().__init__(tls=False, options=[
            "--bind", *listening(known_host), "--bind-source-addr", known_host,
            "--protected-mode", "no",  # which knows no loopback address but 127.0.0.1
            "--user", "sentinel", *ALL, "--user", "replica", *ALL,
            "--masteruser", "replica", "--masterauth", WORD,
            "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *options,
        ])
        if certificates:
            self.tls = certificate(certificates, known_host)
            self.options += ["--tls-replication", "yes", "--tls-auth-clients", "no"]

    def client(self):
        return redis.Redis(servers.HOST, self.port, decode_responses=True, socket_timeout=10)

    def role(self):
        try:
            with self.client() as client:
                return client.info("replication")["role"]
        except redis.RedisError:
            return None

    def cut(self):
        """It refuses the Sentinels and the other servers, and closes their connections; clients
        reach it."""
        with self.client() as client:
            self._acl(client, "default", *(f"-{command}" for command in COMMANDS))
            for user in PEERS:
                self._acl(client, user, "off")
                client.execute_command("CLIENT", "KILL", "USER", user)

    def heal(self):
        with self.client() as client:
            for user in PEERS:
                self._acl(client, user, "on")
            self._acl(client, "default", "+@all")

    @staticmethod
    def _acl(client, user, *rules):
        client.execute_command("ACL", "SETUSER", user, *rules)


class Sentinel(servers.Server):
    """One Sentinel. conf: more lines of its configuration. known_host: as that of Redis."""

    name = "sentinel"

    def __init__(self, primary, quorum, down_after_ms, conf="", certificates=None,
                 known_host=servers.HOST):
        super().__init__()
        self.known_host = known_host
        self._path = self.directory / "sentinel.conf"
        self.tls = certificates and certificate(certificates, known_host)
        self._conf = (
            f"bind {' '.join(listening(known_host))}\nbind-source-addr {known_host}\n"
            f"port {self.port}\ndir {self.directory}\n{self._tls_lines()}"
            f"sentinel monitor {NAME} {primary.known_host} {primary.known_port} {quorum}\n"
            f"sentinel auth-user {NAME} sentinel\nsentinel auth-pass {NAME} {WORD}\n"
            f"sentinel down-after-milliseconds {NAME} {down_after_ms}\n"
            f"sentinel failover-timeout {NAME} 10000\n{conf}"
        )

    def _tls_lines(self):
        if not self.tls:
            return ""
        return (f"tls-port {self.tls.port}\ntls-replication yes\ntls-auth-clients no\n"
                f"tls-ca-cert-file {self.tls.ca}\ntls-cert-file {self.tls.cert}\n"
                f"tls-key-file {self.tls.key}\n")

    def _spawn(self):
        if self.tls:
            self.tls.prepare()
        if not self._path.exists():
            self._path.write_text(self._conf)
        return servers.Process.spawn(
            ["redis-server", self._path, "--sentinel", "--set-proc-title", "no"], self.log)

    def _serves(self):
        return self._ask(b"PING\r\n", b"+PONG") or self._ask(b"PING\r\n", b"-NOAUTH")

    def environment(self):
        return {}

    def client(self):
        return redis.Redis(servers.HOST, self.port, decode_responses=True, socket_timeout=5)

    def ask(self, *words):
        """Returns the answer to a subcommand of SENTINEL; None if it does not answer."""
        try:
            with self.client() as client:
                return client.execute_command("SENTINEL " + words[0], *words[1:])
        except redis.RedisError:
            return None


class Group(servers.Scope):
    """A primary, its replicas and the Sentinels. options: of each server, also as a replica.
    down_after_ms: how long a Sentinel waits for a server before it counts as down. conf: more lines
    of the configuration of each Sentinel. tls: clients, replicas and Sentinels use TLS. apart: each
    has an address of its own, in 127.0.2.0/24 and 127.0.3.0/24."""

    def __init__(self, replicas=2, n_sentinels=3, options=(), down_after_ms=1000, conf="",
                 tls=servers.TLS, apart=False):
        def host(net, number):
            return f"127.0.{net}.{number + 1}" if apart else servers.HOST

        self._folder = tempfile.TemporaryDirectory(prefix="drover-sentinels-") if tls else None
        self._certificates = pathlib.Path(self._folder.name) if tls else None
        self.servers = [Redis(options, self._certificates, host(2, number))
                        for number in range(1 + replicas)]
        first = self.servers[0]
        for replica in self.servers[1:]:
            replica.options += ["--replicaof", f"{first.known_host} {first.known_port}"]
        self._strangers = []
        quorum = n_sentinels // 2 + 1
        self.sentinels = [
            Sentinel(first, quorum, down_after_ms, conf, self._certificates, host(3, number))
            for number in range(n_sentinels)
        ]

    def begin(self):
        """Starts all, and does not ask the Sentinels, which may want a login."""
        for kind in (self.servers, self.sentinels):
            for server in kind:
                server.begin()
            for server in kind:
                server.await_start()

    def start(self):
        self.begin()
        for replica in self.servers[1:]:  # a restarted server keeps the role that it had
            replica.options = replica.options[:-2]
        servers.wait_for(self._is_complete, "the Sentinels to know all of the group")

    def _is_complete(self):
        others = len(self.sentinels) - 1
        return all(
            (seen := sentinel.ask("MASTER", NAME)) and seen["num-other-sentinels"] == others
            and seen["num-slaves"] == len(self.servers) - 1 and seen["flags"] == "master"
            for sentinel in self.sentinels
        ) and all(self._follows(server) for server in self.servers if server.role() == "slave")

    @staticmethod
    def _follows(server):
        with server.client() as client:
            return client.info("replication")["master_link_status"] == "up"

    def stranger(self):
        """Returns a Sentinel, to be started, of another group with the same name and a higher
        epoch. It names a server that has just begun."""
        server = Redis((), self._certificates)
        self._strangers += [server, Sentinel(server, 1, 1000, f"sentinel config-epoch {NAME} 99\n",
                                             self._certificates)]
        server.start()
        return self._strangers[-1]

    def settle(self):
        """The Sentinels take no server for dead any more: a loaded machine may stand still."""
        for sentinel in self.sentinels:
            sentinel.ask("SET", NAME, "down-after-milliseconds", 600000)

    def close(self):
        for server in [*self.sentinels, *self.servers, *self._strangers]:
            server.close()
        if self._folder:
            self._folder.cleanup()

    def named(self):
        """Returns the server that most Sentinels name as the primary, or None."""
        ports = [address[1] for sentinel in self.sentinels
                 if (address := sentinel.ask("GET-MASTER-ADDR-BY-NAME", NAME))]
        best = max(set(ports), key=ports.count, default=None)
        return next((s for s in self.servers if best and s.known_port == int(best)), None)

    @property
    def primary(self):
        return self.named()

    def others(self, server):
        return [s for s in self.servers if s is not server]

    def await_failover(self, old, timeout=60):
        """Waits until the Sentinels name another server than the old primary, which is returned."""
        return servers.wait_for(
            lambda: (new := self.named()) and new is not old and new.role() == "master" and new,
            "another primary", timeout)

    def await_replica(self, server, timeout=90):
        """Waits until the Sentinels have made a server a replica that has all data."""
        servers.wait_for(
            lambda: server.role() == "slave" and self._follows(server), "it to be a replica",
            timeout)

    def cut_off(self, server, *beside):
        """Cuts a server, and the addresses that are on its side, off from all others. For a group
        whose members are apart, inside a network of the test alone."""
        others = [each.known_host for each in [*self.servers, *self.sentinels]
                  if each is not server]
        partition.cut([server.known_host, *beside], others)

    def heal(self):
        partition.heal()

    def settings(self):
        """Returns the group `redis` of a configuration."""
        hosts = ",".join(f"{each.known_host}:{each.known_port}" for each in self.sentinels)
        return {"host": hosts, "port": None, "master_name": NAME,
                **({"tls": True, "ca_file": str(self.servers[0].tls.ca)} if self._folder else {})}
