# SPDX-License-Identifier: Apache-2.0
"""rabbitmq.replication: the queues that daemons declare, those that they find, and the way from one
type to the other."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import cluster
import servers
import tap
import wire

MARKER = "drover.marker"
FIXED = {"drover.submit", "drover.replies", "drover.control", "drover.expired", "drover.dead"}
LONG = {"lock_ms": 600_000, "wait_ms": 600_000}


def settings(**rabbitmq):
    return dict.fromkeys(("scheduler", "agent", "supervisor"), {"rabbitmq": rabbitmq})


class Replication(cluster.TestCase):
    def types(self, c):
        """Returns the type of each queue of Drover that outlives connections."""
        lines = self.rabbit.rabbitmqctl("list_queues", "--silent", "-p", c.name, "name", "type",
                                        "exclusive")
        rows = [line.split("\t") for line in lines.splitlines()]
        return {name: kind for name, kind, exclusive in rows
                if exclusive != "true" and name.startswith("drover.")}

    def complete(self, c, job):
        c.client.submit(wire.submit(job, wire.chain(2)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled(job).outcome)

    def await_marker(self, c):
        servers.wait_for(lambda: c.client.queue(MARKER)[0] == 1, "the marker")

    def test_none(self):
        """Classic queues, with a marker."""
        c = self.cluster(settings=settings(replication="none"))
        self.complete(c, "job")
        self.await_marker(c)
        types = self.types(c)
        self.assertEqual({"classic"}, set(types.values()))
        self.assertLessEqual({*FIXED, MARKER, "drover.task.demo"}, set(types))

    def test_marker_is_deleted(self):
        """A supervisor makes it anew, as without it no dispatch expires."""
        c = self.cluster(settings=settings(replication="none"))
        self.await_marker(c)
        c.client.call(lambda channel: channel.queue_delete(MARKER))
        self.await_marker(c)
        for why in (record["why"] for record in c.supervisors[0].records("bus_down")):
            self.assertEqual("queue drover.marker is gone", why)
        self.complete(c, "job")

    def test_new_queues(self):
        """By default that is so on one node."""
        c = self.cluster()
        self.complete(c, "job")
        self.await_marker(c)
        self.assertEqual({"classic"}, set(self.types(c).values()))

    def use_default(self, c):
        """Restarts all daemons but the agents; returns how many messages of the task queue are
        persistent, of one, or of two if the marker was made after the request was sent."""
        for daemon in c.daemons:
            daemon.stop()
            daemon.configure(rabbitmq={"replication": "auto", "queue_type": "auto"})
        for daemon in (*c.schedulers, *c.supervisors):
            daemon.start()
        c.client.submit(wire.submit("job", [wire.step("s", **LONG)]))
        servers.wait_for(lambda: c.client.queue("drover.task.demo")[0] >= 1, "the request")
        lines = self.rabbit.rabbitmqctl("list_queues", "--silent", "-p", c.name, "name",
                                        "messages_persistent")
        (count,) = [line.split("\t")[1] for line in lines.splitlines()
                    if line.startswith("drover.task.demo\t")]
        c.agents[0].start()
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        return int(count or 1)  # quorum queues have no figure: all is on disk

    def test_queues_that_exist(self):
        """By default they keep their type: a line of the log says so, nothing needs a person, no
        message is transient, and that there is no marker is no loss."""
        c = self.cluster(settings=settings(replication="quorum"))
        self.complete(c, "before")
        self.assertEqual(1, self.use_default(c))
        for daemon in c.daemons:
            (line,) = daemon.records("queues_kept")[-1:]
            self.assertEqual("quorum", line["type"])
            self.assertIn("deploy/change_queues.py", line["what"])
            self.assertEqual([], daemon.records("bus_refused"))
        self.assertEqual({"quorum"}, set(self.types(c).values()))
        for event in ("broker_has_lost_messages", "bus_down"):
            self.assertEqual([], c.supervisors[0].records(event))
        self.assertEqual([], c.store.events("job", "resent"))

    def test_classic_queues_that_exist(self):
        """Those of a version without a marker: it is made, and messages are transient."""
        c = self.cluster(settings=settings(queue_type="classic"))
        self.complete(c, "before")
        self.assertNotIn(MARKER, self.types(c))
        self.assertEqual(0, self.use_default(c))
        self.await_marker(c)
        for daemon in c.daemons:
            self.assertEqual([], daemon.records("queues_kept"))
        self.assertEqual({"classic"}, set(self.types(c).values()))

    def test_queues_of_both_types(self):
        """Half of them were made by hand: that needs a person."""
        c = self.cluster(settings=settings(replication="quorum"), agents=0)
        for daemon in c.daemons:
            daemon.stop()
            daemon.configure(rabbitmq={"replication": "auto"})
        c.client.call(lambda channel: channel.queue_delete("drover.dead"))
        c.client.call(lambda channel: channel.queue_declare(
            "drover.dead", durable=True, arguments={"x-queue-type": "classic"}))
        c.schedulers[0].start()
        servers.wait_for(lambda: c.schedulers[0].records("bus_refused"), "the refusal")
        self.assertIn("drover.dead", c.schedulers[0].records("bus_refused")[0]["why"])

    def send_transient(self, kind):
        """Publishes a Submit, a command and a question without delivery mode 2, and a Submit with
        it. Returns the scheduler."""
        c = self.cluster(settings=settings(replication=kind), agents=0)
        steps, to = [wire.step("s", **LONG)], {"reply_to": c.client.REPLIES}
        c.client.publish("drover.submit", "submit", wire.submit("first", steps, **to),
                         delivery_mode=1)
        for command in (wire.Control(job_id="first", command_id="c1", pause=wire.Pause(), **to),
                        wire.Control(job_id="first", command_id="c2", query=wire.Query(), **to)):
            c.client.publish("drover.control", "control", command, delivery_mode=1)
        c.client.submit(wire.submit("second", steps))
        c.client.until(lambda: {"c1", "c2"} <= set(c.client.answers) and
                       c.client.receipts.get("second"), "all answers")
        c.schedulers[0].stop()
        return c.schedulers[0]

    def test_messages_that_are_not_persistent(self):
        """A client whose Submits and commands a restart of the broker would lose is named, once a
        minute. Questions may be lost."""
        scheduler = self.send_transient("none")
        (line,) = scheduler.records("message_not_persistent")
        self.assertIn(line["type"], ("Submit", "Control"))
        self.assertEqual(self.rabbit.user, line["user"])
        self.assertEqual(2, scheduler.records("scheduler")[-1]["transient"])

    def test_quorum_queues_keep_all_messages(self):
        scheduler = self.send_transient("quorum")
        self.assertEqual([], scheduler.records("message_not_persistent"))
        self.assertEqual(0, scheduler.records("scheduler")[-1]["transient"])

    def test_queues_that_are_not_declared(self):
        """The process does not see their type, and says what it takes them for."""
        c = self.cluster(settings=settings(replication="quorum"))
        self.complete(c, "job")
        for daemon in c.daemons:
            daemon.stop()
            daemon.configure(rabbitmq={"replication": "auto", "declare": False,
                                       "step_messages": "transient"})
            daemon.start()
        self.complete(c, "another")
        for daemon in c.daemons:
            for event in ("queues_assumed", "transient_ignored"):
                self.assertEqual(1, len(daemon.records(event)), (daemon.name, event))

    def test_queues_of_another_type(self):
        """The broker refuses them: the error names queue, setting and command."""
        c = self.cluster(settings=settings(replication="quorum"))
        self.complete(c, "job")
        scheduler = c.schedulers[0]
        scheduler.stop()
        scheduler.configure(rabbitmq={"replication": "none"})
        scheduler.start()
        servers.wait_for(lambda: scheduler.records("bus_refused"), "the refusal")
        why = scheduler.records("bus_refused")[0]["why"]
        for part in ("drover.submit", "rabbitmq.replication", "deploy/change_queues.py"):
            self.assertIn(part, why)

    def test_chosen_quorum(self):
        """Likewise the other way round."""
        c = self.cluster(settings=settings(replication="none"), supervisors=0)
        self.complete(c, "job")
        scheduler = c.schedulers[0]
        scheduler.stop()
        scheduler.configure(rabbitmq={"replication": "quorum"})
        scheduler.start()
        servers.wait_for(lambda: scheduler.records("bus_refused"), "the refusal")

    def change(self, c, kind):
        return subprocess.run(
            [sys.executable, "-B", ROOT / "deploy/change_queues.py", "--to", kind,
             "--url", f"amqp://guest:guest@127.0.0.1:{self.rabbit.port}/{c.name}",
             "--actor", "demo", "--actor", "effect"],
            capture_output=True, text=True)

    def test_change(self):
        """From quorum queues to classic ones and back, with jobs in flight and Submits that come
        meanwhile. While a daemon consumes nothing is changed."""
        c = self.cluster(settings=settings(replication="quorum"))
        number = 0
        for kind, types in (("none", {"classic"}), ("quorum", {"quorum"})):
            c.agents[0].stop()
            for _ in range(10):
                c.client.submit(wire.submit(f"job{number}", [wire.step("s", **LONG)]))
                number += 1
            servers.wait_for(lambda: c.client.queue("drover.submit")[0] == 0
                             and c.client.queue("drover.task.demo")[0] > 0, "the requests")
            for tags, why in ((["administrator"], "set_user_tags USER TAGS"),
                              (["administrator", "impersonator"],
                               "drover.submit has 1 consumers: stop all daemons")):
                self.rabbit.rabbitmqctl("set_user_tags", "guest", *tags)
                refused = self.change(c, kind)
                self.assertEqual(1, refused.returncode, refused)
                self.assertIn(why, refused.stderr)
            for daemon in c.daemons:
                daemon.stop()
            c.client.submit(wire.submit(f"job{number}", [wire.step("s", **LONG)]))
            number += 1
            done = self.change(c, kind)
            self.assertEqual(0, done.returncode, done)
            self.assertRegex(done.stdout, r"drover.task.demo: changed, with [1-9]\d* messages")
            self.assertIn("drover.submit: changed, with 1 messages", done.stdout)
            again = self.change(c, kind)
            self.assertEqual(7, again.stdout.count("has the type already"), again)
            if kind == "none":
                self.assertEqual(0, c.client.queue("drover.marker")[0])  # declared, and empty
            for daemon in c.daemons:
                daemon.configure(rabbitmq={"replication": kind})
                daemon.start()
            for end in c.client.all_settled([f"job{i}" for i in range(number)]):
                self.assertEqual(wire.OUTCOME_SUCCEEDED, end.outcome)
            self.assertEqual(types, {self.types(c)[name] for name in FIXED})
            for i in range(number):
                self.assertEqual(1, len(c.store.events(f"job{i}", "dispatched")))


if __name__ == "__main__":
    tap.main()
