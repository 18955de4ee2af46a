# SPDX-License-Identifier: Apache-2.0
"""Supervisors: they share the partitions, one takes over from another, they find dispatches without
an answer, and they forget jobs that ended long ago."""

import collections
import pathlib
import sys
import time

import redis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

LEASE_S = 15  # of a supervisor that is asked to end
FIVE = 5
ALONE = {"supervisor": {"election": False}}
# Without a marker, which a supervisor that makes a single round does not publish.
QUORUM = dict.fromkeys(("scheduler", "supervisor"), {"rabbitmq": {"replication": "quorum"}})


class Supervisors(cluster.TestCase):
    def leaders(self, c):
        return set(c.store.leaders().values())

    def shares(self, c):
        """Returns how many partitions each supervisor leads, in ascending order."""
        return sorted(collections.Counter(c.store.leaders().values()).values())

    def lose_a_step(self, c, job_id, wait_ms=60_000):
        """Submits a job whose only step is begun and never answered; returns that request. Once a
        scheduler has recorded the beginning the lease does not depend on wait_ms."""
        steps = [wire.step("only", actor="hand", lock_ms=300, wait_ms=wait_ms)]
        c.client.submit(wire.submit(job_id, steps))
        request = c.client.consume_step("hand")
        c.client.begin(request)
        return request

    def recovered(self, c, job_id, lost):
        again = c.client.consume_step("hand")
        self.assertEqual(job_id, again.job_id)
        self.assertNotEqual(lost.token, again.token)
        self.assertEqual((lost.attempt + 1, 1), (again.attempt, again.expiries))
        c.client.reply(again)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled(job_id).outcome)

    def test_two_supervisors(self):
        c = self.cluster(supervisors=2)
        names = {daemon.name for daemon in c.supervisors}
        servers.wait_for(
            lambda: len(c.store.leaders()) == c.store.partitions, "a leader of each partition"
        )
        self.assertLessEqual(self.leaders(c), names)
        for victim, successor in ((0, 1), (1, 0)):
            with self.subTest(victim=victim):
                lost = self.lose_a_step(c, f"job-{victim}")
                c.supervisors[victim].kill()
                successors_name = c.supervisors[successor].name
                servers.wait_for(
                    lambda n=successors_name: c.store.leaders()
                    == dict.fromkeys(range(c.store.partitions), n),
                    f"{successors_name} to lead everything",
                )
                self.recovered(c, f"job-{victim}", lost)
                c.supervisors[victim].start()
                c.await_ready()

    def test_shares(self):
        """Each leads as many partitions as any other, or one more, also after one comes or goes."""
        c = self.cluster(supervisors=2)
        for change, shares in (
            (lambda: None, [8, 8]),
            (c.add_supervisor, [5, 5, 6]),
            (c.supervisors[0].kill, [8, 8]),
            (c.supervisors[1].stop, [16]),
        ):
            change()
            servers.wait_for(lambda s=shares: self.shares(c) == s, f"shares of {shares}", 30)

    def test_five_without_election(self):
        """B3.F13 B4.F13 B12.F13: all of them serve all partitions. Each expiry is counted
        once, and each step sent again once."""
        c = self.cluster(supervisors=0, agents=0)
        c.add_supervisor(ALONE)
        c.await_marker()  # one that had seen no marker would have requests sent again
        for _ in range(FIVE - 1):
            c.add_supervisor(ALONE)
        jobs = {f"job-{i}" for i in range(20)}
        for job_id in sorted(jobs):
            steps = [wire.step("only", actor="hand", lock_ms=300, wait_ms=60_000)]
            c.client.submit(wire.submit(job_id, steps))
        lost = [c.client.consume_step("hand") for _ in jobs]
        self.assertEqual(jobs, {request.job_id for request in lost})
        for request in lost:
            c.client.begin(request)
        for _ in jobs:
            again = c.client.consume_step("hand")
            self.assertEqual((2, 1), (again.attempt, again.expiries), again.job_id)
            c.client.reply(again)
        c.client.all_settled(jobs)
        for job_id in jobs:
            self.assertEqual(1, len(c.store.events(job_id, "expired")), job_id)
            self.assertEqual(2, c.dispatches(job_id), job_id)
        self.assertEqual({}, c.store.leaders())

    def test_a_lease_from_before_the_clock_stepped_back(self):
        """That leader may be gone: no supervisor waits an hour for its lease."""
        c = self.cluster(supervisors=0)
        in_an_hour = c.store.redis.time()[0] * 1000 + 3_600_000
        for i in range(c.store.partitions):
            c.store.redis.set(f"{c.store.prefix}{{p{i}}}:leader", f"gone {in_an_hour} 5000")
            known = f"{c.store.prefix}{{p{i}}}:supervisors"
            c.store.redis.hset(known, "gone", f"{in_an_hour} 5000")
        successor = c.add_supervisor()
        servers.wait_for(
            lambda: self.leaders(c) == {successor.name}, "the new supervisor to lead everything", 20
        )

    def test_stop_gives_up_the_lead(self):
        """A supervisor that stops gives up its lead, so the other need not wait for the lease."""
        c = self.cluster(
            supervisors=2, settings={"supervisor": {"supervisor": {"lease": f"{LEASE_S}s"}}}
        )
        began = time.monotonic()
        c.supervisors[0].stop()
        self.assertEqual([0], c.supervisors[0].exit_codes)
        servers.wait_for(
            lambda: self.leaders(c) == {c.supervisors[1].name}, "the other to lead everything"
        )
        # Both inspect each third of a lease: otherwise two thirds of the lease would be left.
        self.assertLess(time.monotonic() - began, 2 / 3 * LEASE_S)

    def test_once(self):
        """--once prints what it does, and --dry-run what it would do, without doing it."""
        c = self.cluster(supervisors=0, agents=0, settings=QUORUM)
        self.assertEqual((0, []), c.once("--once"))
        lost = self.lose_a_step(c, "job", wait_ms=1500)
        servers.wait_for(
            lambda: c.store.redis.time()[0] * 1000 > lost.locked_until + 1000,
            "the lease to end",
        )
        before = c.store.job("job"), c.store.history("job")
        for _ in range(2):
            self.assertEqual((0, ["expired job step 0"]), c.once("--once", "--dry-run"))
        self.assertEqual(before, (c.store.job("job"), c.store.history("job")))
        self.assertEqual((0, ["expired job step 0"]), c.once("--once"))
        self.recovered(c, "job", lost)
        self.assertEqual((2, []), c.once("--dry-run"))

    def dump(self, c):
        """Returns everything in the store, byte for byte."""
        with redis.Redis(servers.HOST, self.redis.port) as raw:
            return {key: raw.dump(key) for key in c.store.keys()}

    def test_once_prints_everything(self):
        """Prints what is due, in the outbox, missing in an index and past its retention, and that
        leases are held."""
        short = {"supervisor": {"retention": "1s"}}
        settings = {**QUORUM, "supervisor": {**QUORUM["supervisor"], **short}}
        c = self.cluster(supervisors=0, agents=0, settings=settings)
        at = c.store.redis.time()[0] * 1000 + 4000
        for job_id, fields in {
            "backoff": {},
            "overdue": {"complete_by": at},
            "mended": {},
            "old": {},
            "starts": {"start_at": at},
            "torn": {},
        }.items():
            policy = wire.Policy(initial_interval_ms=100, jitter=-1)
            step = wire.step("a", "hand", retry=policy)
            c.client.submit(wire.submit(job_id, [step], **fields))
            c.client.receipt(job_id)
        requests = {r.job_id: r for r in (c.client.consume_step("hand") for _ in range(5))}
        c.client.reply(
            requests["backoff"], error=wire.Error(message="no", verdict=wire.VERDICT_TRANSIENT)
        )
        c.client.reply(requests["old"])
        c.client.settled("old")
        c.store.redis.zrem(c.store.partition("mended") + "due", "mended")
        c.store.redis.hdel(c.store.partition("torn") + "job:torn", "turn")
        c.client.submit(wire.submit("owed", [wire.step("a", "hand")], reply_to="gone"))
        servers.wait_for(lambda: c.store.job("owed"), "the job to be recorded")
        c.client.control("owed", kill=wire.Kill())
        outbox, seq = c.store.partition("owed") + "owed", c.store.job("owed")["seq"]
        servers.wait_for(
            lambda: c.store.redis.zscore(outbox, f"owed {seq}"), "the notification in the outbox"
        )
        servers.wait_for(lambda: c.store.steps("backoff")[0].state == "B", "the step to back off")
        at = max(at, c.store.redis.time()[0] * 1000, c.store.redis.zscore(outbox, f"owed {seq}"))
        servers.wait_for(lambda: c.store.redis.time()[0] * 1000 > at + 2000, "all to be due")
        partition = c.store.partition("old").partition("{p")[2].partition("}")[0]
        expected = [
            "due backoff step 0",
            "due overdue",
            "due starts",
            f"forgotten 1 jobs of partition {partition}",
            "mended mended due",
            f"owed owed notice {seq}",
            "torn torn",
        ]
        before = self.dump(c)
        code, lines = c.once("--once", "--dry-run")
        self.assertEqual((0, expected), (code, sorted(lines)))
        self.assertEqual(before, self.dump(c))
        code, lines = c.once("--once")
        self.assertEqual((0, expected), (code, sorted(lines)))
        self.assertEqual({}, c.store.job("old"))
        c.schedulers[0].stop()
        code, lines = c.once("--once", "--dry-run")
        self.assertEqual(
            (0, ["held leases: drover.replies has no consumer", "torn torn"]), (code, lines[-2:])
        )
        self.assertEqual([], [line for line in lines if line.startswith("expired")])

    def test_corrupt_job(self):
        """A corrupt job raises one alert, however often a sweep meets it. It is listed with the
        others, and can be killed."""
        c = self.cluster(agents=0, settings={"supervisor": {"supervisor": {"sweep": "1s"}}})
        c.client.submit(wire.submit("job", [wire.step("a", "hand")]))
        c.client.receipt("job")
        c.store.redis.hset(c.store.partition("job") + "job:job", "turn", "x")
        servers.wait_for(
            lambda: len(c.supervisors[0].records("torn")) > 2, "several sweeps"
        )
        alerts = servers.wait_for(lambda: c.schedulers[0].records("alert"), "an alert")
        self.assertEqual("TORN", alerts[0]["reason"], alerts)
        c.client.submit(wire.submit("sound", [wire.step("a", "hand")]))
        c.client.receipt("sound")
        listed = c.drover("list", "--timeout", "4s")
        lines = [line.split() for line in listed.stdout.splitlines()]
        self.assertEqual(["sound", "job"], [line[0] for line in lines[1:3]], listed.stdout)
        killed = c.drover("kill", "job", "--timeout", "4s")
        self.assertEqual((0, "job is killed\n"), (killed.returncode, killed.stdout), killed.stderr)
        self.assertEqual(wire.OUTCOME_KILLED, c.client.settled("job").outcome)
        c.schedulers[0].stop()  # the log has one line for many alerts; the count has each
        self.assertEqual(1, c.schedulers[0].records("scheduler")[-1]["alerts"])

    def test_replies_without_a_scheduler(self):
        """Without a scheduler nothing expires: a reply that was sent in time counts hours later."""
        c = self.cluster()
        request = self.lose_a_step(c, "job", wait_ms=1500)
        c.schedulers[0].kill()
        c.client.reply(request)
        servers.wait_for(
            lambda: c.store.redis.time()[0] * 1000 > request.locked_until + 2000,
            "the lease to have ended long ago",
        )
        self.assertEqual([], c.store.events("job", "expired"))
        c.schedulers[0].start()
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        self.assertEqual(1, c.dispatches("job"))

    def test_expiries_park(self):
        """Each agent that takes the step ends without a reply: the step parks."""
        c = self.cluster()
        policy = wire.Policy(maximum_expiries=2)
        steps = [wire.step("only", actor="hand", lock_ms=300, wait_ms=60_000, retry=policy)]
        c.client.submit(wire.submit("job", steps))
        for _ in range(2):
            c.client.begin(c.client.consume_step("hand"))
        servers.wait_for(lambda: c.store.events("job", "parked"), "the step to park")
        self.assertEqual([["0", "DEATHS"]], c.store.events("job", "parked"))
        self.assertEqual((2, 2), (c.dispatches("job"), len(c.store.events("job", "expired"))))
        self.assertEqual(0, c.client.queue("drover.task.hand")[0])

    def keys_of_jobs(self, c):
        own = ("}:leader", "}:supervisors", "}:clock")
        return [key for key in c.store.keys() if not key.endswith(own)]

    def test_retention(self):
        """A job that ended longer ago than the retention is forgotten, with its definition."""
        c = self.cluster(settings={"supervisor": {"supervisor": {"retention": "1s"}}})
        empty = self.keys_of_jobs(c)
        for i in range(5):
            c.client.submit(wire.submit(f"job-{i}", wire.chain(2)))
        c.client.all_settled(f"job-{i}" for i in range(5))
        c.client.submit(wire.submit("unfinished", [wire.step("only", actor="hand")]))
        request = c.client.consume_step("hand")
        servers.wait_for(lambda: c.store.jobs() == ["unfinished"], "the settled jobs to go", 60)
        self.assertEqual(1, len(c.store.keys("}:def:")))
        c.client.reply(request)
        servers.wait_for(
            lambda: self.keys_of_jobs(c) == empty,
            "everything to be gone",
            60,
        )


if __name__ == "__main__":
    tap.main()
