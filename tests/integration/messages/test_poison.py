# SPDX-License-Identifier: Apache-2.0
"""Messages that kill the process that reads them. A request that kills agents: its step parks, it
leaves the queue, and the jobs beside it end as they should. A message that kills schedulers becomes
a dead letter."""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import servers
import tap
import wire

OTHERS = 20
EXPIRIES = 3  # of the poisoned step, until it parks
# agents that one dispatch of it may kill: by its first and second delivery, and by one more after a
# slow ack
KILLS_MAX = 3
# the interval after which a step parked by expiries is tried again; longer than the test
SILENCE_MS = 3600 * 1000
POISON = {
    "lock_ms": 1000,
    "retry": wire.Policy(
        maximum_expiries=EXPIRIES,
        initial_interval_ms=50,
        park_interval_ms=300,
        silence_interval_ms=SILENCE_MS,
    ),
}


class Poison(cluster.TestCase):
    def start(self):
        self.c = self.cluster(
            agents=2,
            settings={"agent": {"agent": {"concurrency": 16}}},
            failpoints={"agent": "run.before=crash@poison"},
        )
        self.kills, self.alerts = 0, collections.Counter()

        def on_event(channel, method, _properties, body):
            event = wire.JobEvent.FromString(body)
            if event.kind == wire.EVENT_KIND_ALERT and event.reason == "PARKED":
                self.alerts[event.job_id] += 1
            channel.basic_ack(method.delivery_tag)

        listener = client.Listener(self.c.client, on_event, exchange="drover.events")
        self.addCleanup(listener.stop)

    def restart_agents(self):
        """Starts agents that have ended, as a service manager would."""
        for agent in self.c.agents:
            if not agent.alive():
                self.kills += 1
                agent.start()

    def until(self, condition, what):
        def check():
            self.restart_agents()
            return condition()

        servers.wait_for(check, what, 120)

    def submit(self, job_id, **fields):
        self.c.client.submit(wire.submit(job_id, [wire.step("s", "effect", **fields)]))
        return job_id

    def settled(self, job_ids):
        self.c.client.pump()
        return all(job_id in self.c.client.events for job_id in job_ids)

    def test_poisoned_step_parks_and_others_end(self):
        """B5.F14 B6.F14 B12.F14: each dispatch kills two agents, and after the last one the step is
        not sent again."""
        self.start()
        jobs = [self.submit(f"before-{i}", lock_ms=2000) for i in range(OTHERS)]
        self.submit("poison", **POISON)
        jobs += [self.submit(f"after-{i}", lock_ms=2000) for i in range(OTHERS)]
        self.until(lambda: self.c.store.events("poison", "parked"), "the poisoned step to park")
        self.until(lambda: self.settled(jobs), "the other jobs to settle")
        for event in self.c.client.all_settled(jobs):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual({f"{job}/s/1" for job in jobs}, self.c.journal.effects())

        self.assertEqual(EXPIRIES, len(self.c.store.events("poison", "expired")))
        # A dispatch comes back if no agent was there in time, an agent ended before it could send
        # Progress, or other requests of its message took long.
        came_back = sum(
            len(self.c.store.events("poison", event))
            for event in ("unstarted", "silent", "deferred")
        )
        self.assertEqual(EXPIRIES + came_back, self.c.dispatches("poison"))
        self.assertLessEqual(self.kills, (EXPIRIES + came_back) * KILLS_MAX)
        self.assertGreaterEqual(self.kills, EXPIRIES)
        servers.wait_for(lambda: self.alerts["poison"] == 1, "the alert")
        step = self.c.client.status("poison").steps[0]
        self.assertEqual(wire.STEP_STATE_PARKED, step.state)
        self.assertGreaterEqual(step.until, self.parked_at() + SILENCE_MS)
        self.assertEqual(0, self.c.client.queue("drover.task.effect")[0])
        tap.narrate(f"{self.kills} agents killed, {EXPIRIES} dispatches")

    def test_undo(self):
        """B13.F14: an undo that kills agents parks, with one alert; the jobs beside it end."""
        self.start()
        for agent in self.c.agents:
            agent.fail("run.before=crash@undo-me")
        undo = wire.Revert(action="undo-me", retry=POISON["retry"], lock_ms=POISON["lock_ms"])
        self.submit("poison", revert=undo)
        self.until(lambda: self.settled(["poison"]), "the job to settle")
        self.c.client.control("poison", set_desired=wire.SetDesired(desired=wire.STATE_DISABLED))
        jobs = [self.submit(f"beside-{i}", lock_ms=2000) for i in range(OTHERS)]
        self.until(lambda: self.c.store.events("poison", "parked"), "the poisoned undo to park")
        self.until(lambda: self.settled(jobs), "the other jobs to settle")
        for event in self.c.client.all_settled(jobs):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual(EXPIRIES, len(self.c.store.events("poison", "expired")))
        self.assertGreaterEqual(self.kills, EXPIRIES)
        servers.wait_for(lambda: self.alerts["poison"] == 1, "the alert")
        self.assertEqual(0, self.c.client.queue("drover.task.effect")[0])

    def test_no_more_traffic(self):
        """A step parked by expiries sends nothing more, whatever its park interval, until a person
        retries it or its silence interval has passed."""
        self.start()
        self.submit(
            "poison", **{**POISON, "retry": wire.Policy(maximum_expiries=1, park_interval_ms=100)}
        )
        self.until(lambda: self.c.store.events("poison", "parked"), "the poisoned step to park")
        kills = self.kills
        for i in range(3):  # longer than the park interval
            job_id = self.submit(f"later-{i}")
            self.until(lambda j=job_id: self.settled([j]), "another job to settle")
        self.until(lambda: self.c.client.status("poison").now > self.parked_at() + 1000, "a while")
        self.assertEqual(1, self.c.dispatches("poison"))
        self.restart_agents()
        self.assertEqual(kills, self.kills)
        for agent in self.c.agents:
            agent.fail("")
        answer = self.c.client.control("poison", retry=wire.Retry())
        self.assertEqual(wire.ANSWER_CODE_DONE, answer.code)
        self.until(lambda: self.settled(["poison"]), "the corrected step to settle")

    def parked_at(self):
        return next(
            int(entry.at) for entry in self.c.store.history("poison") if entry.event == "parked"
        )


class Schedulers(cluster.TestCase):
    """The message kills three incarnations, the first before it is a suspect. The jobs beside it
    lose nothing."""

    POINTS = ("store.suspect.before", "store.suspect.after")

    def start(self, point):
        spec = "\n".join((f"{point}=crash@poison", *(f"{point}=print" for point in self.POINTS)))
        self.c = self.cluster(failpoints={"scheduler": spec})
        (self.scheduler,) = self.c.schedulers
        self.jobs = [f"job-{i}" for i in range(OTHERS)]
        self.kills = 0

    def submit(self, *jobs, **fields):
        for job_id in jobs:
            self.c.client.submit(wire.submit(job_id, [wire.step("s", **fields)]))

    def send_among(self, send, **fields):
        """Calls send() between the good jobs, whose steps have these fields."""
        self.submit(*self.jobs[: OTHERS // 2], **fields)
        send()
        self.submit(*self.jobs[OTHERS // 2 :], **fields)

    def until(self, condition, what):
        def check():
            if not self.scheduler.alive():
                self.kills += 1
                self.scheduler.start()
            return condition()

        return servers.wait_for(check, what, 120)

    def expect_given_up(self):
        """Expects POISON after three kills; returns the dead letter."""
        properties, body = self.until(
            lambda: self.c.client.get(self.c.client.DEAD), "the dead letter"
        )
        self.assertEqual("POISON", properties.headers["drover-reason"])
        self.assertEqual(3, self.kills)
        return body

    def expect_others(self):
        for event in self.c.client.all_settled(self.jobs):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        for point in self.POINTS:
            self.assertGreater(self.scheduler.hits(point), 2)

    def test_submit(self):
        """B1.F14: a Submit."""
        self.start("store.submit.before")
        self.send_among(lambda: self.submit("poison"))
        self.assertEqual("poison", wire.Submit.FromString(self.expect_given_up()).job_id)
        self.expect_others()

    def test_reply(self):
        """B8.F14: a reply. Its step loses a lease and reaches its limit; replies in the same
        message lose a lease. The first time there is no evidence of an agent, so that is not
        counted."""
        self.start("store.record.before")
        lease, policy = {"lock_ms": 1000, "wait_ms": 1000}, wire.Policy(maximum_expiries=1)
        self.send_among(lambda: self.submit("poison", retry=policy, **lease), **lease)
        replies = wire.Replies.FromString(self.expect_given_up())
        self.assertIn("poison", [reply.job_id for reply in replies.replies])
        self.until(lambda: self.c.store.events("poison", "parked"), "the step to park")
        self.assertEqual(
            ["DEATHS"], [words[-1] for words in self.c.store.events("poison", "parked")]
        )
        self.expect_others()

    def test_command(self):
        """B14.F14: a command; its job goes on without it."""
        self.start("store.steer.before")
        self.submit("poison", actor="hand")
        self.c.client.receipt("poison")
        self.send_among(lambda: self.c.client.command("poison", cancel=wire.Cancel()))
        self.assertEqual("poison", wire.Control.FromString(self.expect_given_up()).job_id)
        self.expect_others()
        self.c.client.reply(self.c.client.consume_step("hand"))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, self.c.client.settled("poison").outcome)


if __name__ == "__main__":
    tap.main()
