# SPDX-License-Identifier: Apache-2.0
"""The cells of cells.AROUND: a class for each fault, a test for each boundary: F7.test_B4 and so
on."""

import contextlib
import os
import pathlib
import random
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cells
import cluster
import power
import proxy
import servers
import tap
import trial


JOB = trial.JOB


def before(place, task):
    text = f"@{place.text}" if place.text else ""
    return f"{place.before}=1*{task}{text}"


def after(place, task):
    if place.text and place.nth == 1:
        return f"{place.after}=1*{task}@{place.text}"
    if place.nth > 1:
        return f"{place.after}={place.nth - 1}*off->1*{task}"
    return f"{place.after}=1*{task}"


class Cells(trial.Trial):
    """act() causes the fault while the process stands at the place, and returns when it is over."""

    fault = None
    instances = 1  # of each role

    def settings(self, place):
        """Settings for such a trial."""
        return None

    def trial(self, name):
        place = cells.PLACES[name]
        self.begin(*[self.instances] * 3, settings=self.all_settings(place))
        self.around(place)
        self.settle(place.job)

    def all_settings(self, place):
        return cluster.merged(trial.SETTINGS.get(place.job, {}), self.settings(place))

    def around(self, place, job_id=JOB):
        daemons = self.group(place.role)
        if place.role == "supervisor":  # all supervisors always pass it
            daemons = daemons[:1]
        with self.reached(place, daemons, job_id) as daemon:
            self.notes.fault(cells.FAULTS[self.fault], daemon.name)
            with contextlib.ExitStack() as undone:
                self.act(daemon, place, undone)
            self.notes.fault("over", daemon.name)

    def reached(self, place, daemons, job_id):
        if place.running:
            return self.running(daemons, place.job, job_id)
        return self.standing(daemons, before(place, "pause"), place.job, job_id)

    def act(self, daemon, place, undone):
        raise NotImplementedError

    def crash(self, spec, place):
        (daemon,) = self.group(place.role)
        self.prepare(place.job)
        daemon.fail(spec)
        self.submit(place.job)
        daemon.await_crash()
        self.notes.fault(cells.FAULTS[self.fault], daemon.name)
        self.restarted(daemon)


class F1(Cells):
    def around(self, place):
        self.crash(before(place, "crash"), place)


class F2(Cells):
    def around(self, place):
        self.crash(after(place, "crash"), place)


class F6(Cells):
    """The process stands still until the lease is over, and then goes on."""

    def act(self, daemon, place, undone):
        ended = ("expired", "silent")  # it does not matter here which of them
        servers.wait_for(lambda: any(self.c.store.events(JOB, event) for event in ended),
                         "the lease to end", 60)


class F7(Cells):
    """The broker is killed, and comes back with the data on its disk."""

    own_servers = True

    def act(self, daemon, place, undone):
        self.rabbit.sync()
        self.rabbit.restart(hard=True)


class F8(Cells):
    """The link to the broker forwards nothing until the process has given it up."""

    def settings(self, place):
        self.wire = proxy.Proxy(self.rabbit.known_port)
        self.addCleanup(self.wire.close)
        return {place.role: {"rabbitmq": {"port": self.wire.port, "heartbeat": "2s"}}}

    def act(self, daemon, place, undone):
        # it may have stood still
        servers.wait_for(lambda: self.linked(daemon), "the link that is to be silent")
        self.wire.cut()
        undone.callback(self.wire.heal)
        daemon.fail()
        servers.wait_for(lambda: not self.linked(daemon), "the link to be given up", 60)

    @staticmethod
    def linked(daemon):
        """The state of its links as it logs it, whatever else the process does."""
        last = {
            record["link"]: record["event.name"]
            for record in daemon.records()
            if record["event.name"] in ("bus_connected", "bus_disconnected")
        }
        return set(last.values()) == {"bus_connected"}


class Losses(Cells):
    """The store goes back in time, with fast durability. Records of what was lost count for
    nothing; a step may run twice, but must be recorded once."""

    durable = False

    def trial(self, boundary):
        loss = cells.LOSSES[boundary]
        self.redis = self.server(power.Redis(options=("--repl-diskless-sync-delay", "0")))
        self.begin()
        admin = self.c.store.redis
        self.prepare()
        with self.reached(loss) as daemon:
            admin.client_pause(60000, all=False)
            self.notes.catch_up()
            last = self.c.store.history(JOB)[-1]
            self.forget("}:leader" if boundary == "B11" else f":{JOB}")
            if boundary != "B11":
                self.assertNotIn(last, self.c.store.history(JOB))
            self.notes.fault(cells.FAULTS[self.fault], daemon.name)
        self.notes.fault("over", daemon.name)
        if not self.c.store.job(JOB):
            self.submit_again(loss.job)
        servers.wait_for(self.led, "a supervisor to lead every partition again", 60)
        self.settle(loss.job)

    def led(self):
        now_ms = int(self.c.store.redis.time()[0]) * 1000
        leaders = [self.c.store.redis.get(key) for key in self.c.store.keys("}:leader")]
        return len(leaders) == self.c.store.partitions and all(
            int(leader.split()[1]) > now_ms for leader in leaders
        )

    def server(self, server):
        self.addCleanup(server.close)
        server.start()
        return server

    @contextlib.contextmanager
    def reached(self, loss):
        """One process stands at the place; what was recorded since another one stood at its place
        will be lost."""
        (since,), (daemon,) = self.group(loss.since_role), self.group(loss.role)
        since.fail(loss.since)
        self.submit(loss.job)
        since.await_hits(loss.since.partition("=")[0])
        self.since()
        point = loss.at.partition("=")[0]
        before = daemon.hits(point)
        daemon.fail(loss.at)
        if since is not daemon:
            since.fail()
        daemon.await_hits(point, before + 1)
        try:
            yield daemon
        finally:
            daemon.fail()

    def submit_again(self, kind):
        """The whole job is lost, which is reported; the client submits it again."""
        tap.narrate("the job is lost")
        servers.wait_for(
            lambda: any(s.records("store_went_back") for s in self.c.schedulers),
            "the loss to be reported", 60
        )
        self.submit(kind)

    def prepare(self):
        """Called before the job is submitted."""

    def since(self):
        """At least the last of the records from now on will be lost."""

    def forget(self, last):
        """@last: a substring of the last record that must be lost."""
        raise NotImplementedError


class F9(Losses):
    """Everything from a random byte on is lost, but not the job's beginning."""

    def prepare(self):
        seed = int(os.environ.get("DROVER_TEST_SEED", random.SystemRandom().getrandbits(32)))
        tap.narrate(f"DROVER_TEST_SEED={seed}")
        self.rng = random.Random(seed)
        self.beginning = self.redis.written()

    def forget(self, last):
        lost = self.redis.lose(self.rng, self.beginning, last)
        tap.narrate(f"{lost} bytes lost")
        self.redis.start()


class F10(Losses):
    """A replica takes over that was stopped meanwhile."""

    def prepare(self):
        self.replica = self.server(power.replica_of(self.redis))
        power.await_following(self.replica)

    def since(self):
        admin = self.c.store.redis
        admin.client_pause(60000, all=False)
        power.await_level(self.replica, self.redis)
        self.replica.pause()
        admin.client_unpause()

    def forget(self, last):
        power.take_over(self.replica, self.redis)


class Overtaken(Cells):
    """The process stands still until others have done its work, and then goes on."""

    instances = 2

    def act(self, daemon, place, undone):
        if place is cells.PLACES["B11"]:
            servers.wait_for(
                lambda: set(self.c.store.leaders().values()) == {"supervisor-2"}, "a takeover", 60
            )
        elif place.job == "forgotten":
            servers.wait_for(lambda: not self.kept(), "others to forget all")
        else:
            self.c.client.settled(JOB, 120)


class F12(Overtaken):
    """Two of each role."""


class F13(Overtaken):
    """Besides three supervisors without election, which all do everything; at B11 two that lead the
    same partitions."""

    world = {**trial.WORLD, "lease_ms": None}
    ALONE = {"supervisor": {"election": False}}

    def begin(self, schedulers, agents, supervisors, settings):
        if self.elected:
            return super().begin(schedulers, agents, supervisors, settings)
        c = super().begin(schedulers, agents, 0, settings)
        for _ in range(3):
            c.add_supervisor(self.ALONE)
        servers.wait_for(lambda: all(s.records("store_up") for s in c.supervisors),
                         "all of them to be up")
        return c

    def trial(self, name):
        self.elected = name == "B11"
        super().trial(name)


class F17(Cells):
    """The broker reads nothing more until the process has noticed, or has nothing to publish."""

    own_servers = True

    def setUp(self):
        super().setUp()
        self.alarm = self.rabbit.alarm

    def test_disk_full(self):
        """B4.F17: the alarm of a full disk does the same."""
        self.alarm = self.rabbit.disk_alarm
        self.trial("B4")

    def act(self, daemon, place, undone):
        self.alarm(True)
        undone.callback(self.alarm, False)
        daemon.fail()
        noticed = [d for d in self.c.daemons if d.role == "scheduler"]
        servers.wait_for(
            lambda: any(d.records("bus_blocked") for d in (daemon, *noticed)),
            "the alarm to be noticed", 60
        )


class F18(Cells):
    own_servers = True

    def act(self, daemon, place, undone):
        store = self.c.store.redis
        store.config_set("maxmemory", 1)
        undone.callback(store.config_set, "maxmemory", 0)
        daemon.fail()
        began = int(store.info("commandstats").get("cmdstat_fcall", {}).get("calls", 0))
        servers.wait_for(
            lambda: int(store.info("commandstats")["cmdstat_fcall"]["calls"]) > began + 20,
            "calls without memory", 60,
        )  # fmt: skip


class F19(Cells):
    def act(self, daemon, place, undone):
        daemon.begin_stop()
        daemon.fail()
        daemon.await_stop()
        self.assertEqual([0], daemon.exit_codes)
        self.restarted(daemon)


class F20(Cells):
    def act(self, daemon, place, undone):
        daemon.kill()
        daemon.fail()
        self.restarted(daemon)


class F21(Cells):
    """The process reads its configuration again: a valid one, an invalid one, an incomplete one."""

    HOW = {
        "good": ("reloaded", lambda text: text.replace('level = "info"', 'level = "debug"')),
        "wrong": ("reload_refused", lambda text: text + "no_such_setting = 1;\n"),
        "half": ("reload_refused", lambda text: text[: text.index("password")]),
    }

    def trial(self, name):
        place = cells.PLACES[name]
        self.begin(settings=self.all_settings(place))
        for self.how in self.HOW:
            self.around(place, self.how)
        self.settle(place.job, self.HOW)

    def act(self, daemon, place, undone):
        said, change = self.HOW[self.how]
        before = daemon.config.read_text()
        undone.callback(daemon.config.write_text, before)
        daemon.config.write_text(change(before))
        daemon.signal(signal.SIGHUP)
        daemon.fail()
        servers.wait_for(lambda: daemon.records(said), f"its configuration to be {said}")


def _add(fault, place):
    def test(self):
        self.trial(place)

    boundary = cells.boundary_of(place)
    test.__doc__ = f"{boundary}.{fault}: {cells.BOUNDARIES[boundary]}, {cells.FAULTS[fault]}"
    setattr(globals()[fault], f"test_{place}", test)


for _fault, _places in cells.AROUND.items():
    globals()[_fault].fault = _fault
    for _place in _places:
        _add(_fault, _place)


if __name__ == "__main__":
    tap.main()
