# SPDX-License-Identifier: Apache-2.0
"""Redis with Sentinels: daemons find the primary, leave the old one at once, and name all jobs that
it took with it. With strict durability none is lost."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import authority
import cluster
import health
import losses
import sentinels
import servers
import tap

BURST = 60
STRICT = ("--appendfsync", "always", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "3")


class Sentinels(losses.TestCase):
    def group(self, **how):
        group = sentinels.Group(**how)
        self.addCleanup(group.close)
        group.start()
        self.redis = group.primary
        return group

    def begin_with(self, group, more=None, **how):
        redis = {**group.settings(), **(more or {})}
        roles = {r: {"redis": redis} for r in ("scheduler", "supervisor")}
        return self.begin(settings=health.settings(roles), **how)

    def look_at(self, c, server):
        """Has the test read another server."""
        c.store = cluster.Store(server.port, c.store.prefix)

    def cut_off(self, c, group):
        """Cuts the primary off and goes on with the work until all daemons use another one, which
        the test reads from then on. Return: the old primary."""
        old = self.redis
        with self.reconnecting(c):
            old.cut()
            self.submit_until(c, lambda: group.named() is not old)
            group.settle()
            new = group.await_failover(old)
        self.look_at(c, new)
        return old

    def submit_until(self, c, done):
        """Submits jobs until a condition holds, and awaits their receipts."""
        new = []
        while not done():
            new += self.submit(c, 5)
            c.client.pump()
            time.sleep(0.02)
        return new


class Fast(Sentinels):
    def test_killed_primary(self):
        """B1.F10: the daemons use the new primary, and all jobs that are lost are named."""
        group = self.group()
        c = self.begin_with(group, schedulers=2)
        self.submit(c, BURST)
        self.await_receipts(c)
        old = self.redis
        began = time.monotonic()
        with self.reconnecting(c):
            old.kill()
            new = group.await_failover(old)
            named = time.monotonic()
        tap.narrate(f"named after {named - began:.1f} s, used {time.monotonic() - named:.1f} s "
                    "later")
        self.look_at(c, new)
        self.await_receipts(c)
        gone = self.gone(c)
        self.expect_lost(gone)
        self.submit_again(c, gone)
        self.submit(c, 5)
        self.account(c)
        self.expect_lost(gone)

    def test_cut_primary(self):
        """B1.F10: the old primary still takes calls; it is left when the Sentinels name another
        one. Each job that it had accepted is named, and no job is accepted there any more."""
        group = self.group()
        c = self.begin_with(group, schedulers=2)
        self.submit(c, BURST)
        self.await_receipts(c)
        old = self.cut_off(c, group)
        self.await_receipts(c)
        gone = self.gone(c)
        tap.narrate(f"{len(gone)} of {len(self.jobs)} jobs lost")
        self.assertTrue(gone, "nothing was lost: this test has shown nothing")
        self.expect_lost(gone)
        self.assertTrue(self.alerted("STORE_WENT_BACK"))
        self.assertFalse(self.alerted("STORE_LOSS_UNKNOWN"))
        for daemon in c.schedulers + c.supervisors:
            self.assertIn("name another primary", daemon.records("store_down")[-1]["why"])
        old.heal()
        group.await_replica(old)
        self.submit_again(c, gone)
        self.account(c)

    def test_more_is_lost_than_is_remembered(self):
        """A scheduler that was on the side of the old primary for longer than the loss window names
        what it remembers, and says that more may be gone."""
        group = self.group()
        c = self.begin_with(group, {"loss_window": "1s"})
        self.submit(c, 5)
        self.await_receipts(c)
        old = self.redis
        with self.reconnecting(c):
            old.cut()
            first = self.submit(c, 5)
            self.await_receipts(c)
            self.submit_until(c, lambda: group.named() is not old)
            new = group.await_failover(old)
        self.look_at(c, new)
        self.await_receipts(c)
        gone = self.gone(c)
        self.assertLessEqual(set(first), set(gone))
        servers.wait_for(lambda: self.alerted("STORE_LOSS_UNKNOWN"), "the alert")
        self.assertLess(set(self.alerted("JOB_LOST")), set(gone))

    def test_several_servers(self):
        """Without Sentinels the primary of a list is used, whichever it is."""
        group = self.group(replicas=1, n_sentinels=1)
        hosts = ",".join(f"{servers.HOST}:{s.known_port}" for s in reversed(group.servers))
        c = self.begin_with(group, {"host": hosts, "master_name": None})
        self.submit(c, 5)
        self.await_receipts(c)
        old = self.redis
        with self.reconnecting(c):
            old.kill()
            new = group.await_failover(old)
        self.look_at(c, new)
        gone = self.gone(c)
        self.expect_lost(gone)
        self.submit_again(c, gone)
        self.account(c)
        self.expect_lost(gone)


class Strict(Sentinels):
    def test_cut_primary(self):
        """B1.F10, B2.F10: the old primary confirms nothing, so nothing is lost."""
        group = self.group(options=STRICT)
        strict = {"durability": "strict", "replicas": 1, "call_timeout": "2s"}
        c = self.begin_with(group, strict, schedulers=2)
        self.submit(c, BURST)
        self.await_receipts(c)
        self.cut_off(c, group)
        self.expect_nothing_lost(c)


class Wrong(Sentinels):
    """One Sentinel of three is of another group, with a higher epoch."""

    def begin_wrong(self, start):
        group = self.group(n_sentinels=2)
        stranger = group.stranger()
        if start:
            stranger.start()
        hosts = f"{group.settings()['host']},{servers.HOST}:{stranger.known_port}"
        return stranger, self.begin_with(group, {"host": hosts})

    def disagreement(self, c, stranger, moves):
        """The daemons have left a primary so often, and say which Sentinel is wrong."""
        for daemon in c.schedulers + c.supervisors:
            (record,) = servers.wait_for(lambda d=daemon: d.records("sentinels_disagree"), "it")
            self.assertEqual(stranger.known_port, record["port"])
            figures = health.metrics(daemon)
            self.assertEqual(
                (moves, 1, 3),
                tuple(figures[f"drover_store_{name}"]
                      for name in ("moves_total", "sentinels_differ", "sentinels_heard")))

    def test_from_the_beginning(self):
        stranger, c = self.begin_wrong(start=True)
        self.submit(c, 5)
        self.disagreement(c, stranger, 0)
        self.expect_nothing_lost(c)

    def test_later(self):
        """The daemons follow it for five seconds, and then the majority."""
        stranger, c = self.begin_wrong(start=False)
        self.submit(c, 5)
        self.await_receipts(c)
        stranger.start()
        for daemon in c.schedulers + c.supervisors:
            servers.wait_for(lambda d=daemon: len(d.records("store_up")) == 3, "it to be back")
        self.disagreement(c, stranger, 2)
        self.submit(c, 5)
        self.account(c)


class Answers(Sentinels):
    """What Sentinels may answer that is of no use."""

    def why(self, group, **redis):
        """Starts a supervisor, and returns what it says about the store."""
        self.count = getattr(self, "count", 0) + 1
        name = f"supervisor-{self.count}"
        settings = {"name": name, "log": {"format": "json"}, "redis": {**group.settings(), **redis},
                    "health": {"listen": f"{servers.HOST}:0"},
                    "rabbitmq": {"host": servers.HOST, "port": self.rabbit.port}}
        daemon = cluster.Daemon("supervisor", name, self.directory, settings)
        daemon.start()
        self.addCleanup(daemon.kill)
        self.daemon = daemon
        return servers.wait_for(
            lambda: [r["why"] for word in ("store_refused", "store_unreachable")
                     for r in daemon.records(word)], "a reason")[0]

    def test_answers(self):
        group = self.group(replicas=1, n_sentinels=1)
        sentinel = group.sentinels[0]
        server = f"{servers.HOST}:{group.servers[0].known_port}"
        closed = f"{servers.HOST}:{servers.free_ports(1)[0]}"
        self.assertIn("knows no primary other: set redis.master_name",
                      self.why(group, master_name="other"))
        self.assertIn("it is no Sentinel: point redis.host at Sentinels",
                      self.why(group, host=server))
        self.assertIn("this is a Sentinel: set redis.master_name",
                      self.why(group, master_name=None))
        self.assertIn("connection refused", self.why(group, host=closed))
        sentinel.ask("SET", sentinels.NAME, "down-after-milliseconds", 600000)
        group.servers[0].kill()
        self.assertIn("connection refused", self.why(group))

    def test_replica_is_named(self):
        """A Sentinel that sees no failover, because it lies or is wrong."""
        group = self.group(replicas=1, n_sentinels=1)
        sentinel, replica = group.sentinels[0], group.servers[1]
        sentinel.ask("REMOVE", sentinels.NAME)
        sentinel.ask("MONITOR", sentinels.NAME, servers.HOST, replica.known_port, 1)
        self.assertRegex(self.why(group), "this Redis is a replica of .*: ask each Sentinel")

    def test_login(self):
        conf = f"requirepass {sentinels.WORD}\n"
        group = sentinels.Group(replicas=0, n_sentinels=1, conf=conf)
        self.addCleanup(group.close)
        group.begin()
        self.assertIn("Sentinel wants a login: set redis.sentinel_password", self.why(group))
        self.assertIn("Sentinel refuses the login",
                      self.why(group, sentinel_password="wrong"))
        self.redis = group.servers[0]
        c = self.begin_with(group, {"sentinel_password": sentinels.WORD})
        self.submit(c, 1)
        self.account(c)

    def test_certificates(self):
        """The certificate of a Sentinel is of another authority, or for another name; or it speaks
        no TLS at this port."""
        group = sentinels.Group(replicas=0, n_sentinels=1, tls=True)
        self.addCleanup(group.close)
        group.begin()
        other = authority.Authority(self.directory / "others")
        for said, settings in (("not in ca_file", {"ca_file": str(other.ca)}),
                               ("is not for other", {"server_name": "other"})):
            self.assertIn(said, self.why(group, **settings))
            self.assertEqual(1, health.metrics(self.daemon)["drover_store_refused_total"])
        clear = f"{servers.HOST}:{group.sentinels[0].port}"
        self.assertIn("does it speak TLS at this port", self.why(group, host=clear))
        self.assertEqual(0, health.metrics(self.daemon)["drover_store_refused_total"])

    def test_login_is_corrected(self):
        """A person gives the Sentinel the password that the daemon has."""
        group = self.group(replicas=0, n_sentinels=1)
        with group.sentinels[0].client() as admin:
            admin.execute_command("ACL", "SETUSER", "default", "resetpass", ">other")
            self.assertIn("Sentinel refuses the login",
                          self.why(group, sentinel_password=sentinels.WORD))
            self.assertEqual(1, health.metrics(self.daemon)["drover_store_refused_total"])
            admin.execute_command("ACL", "SETUSER", "default", "resetpass",
                                  f">{sentinels.WORD}")
        servers.wait_for(lambda: self.daemon.records("store_up"), "the daemon to be connected")


if __name__ == "__main__":
    tap.main()
