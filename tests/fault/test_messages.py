# SPDX-License-Identifier: Apache-2.0
"""Messages that are lost, come twice or come too late; clocks that jump, and queues that are gone.
A docstring begins with the cells that its test covers."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import redis
import servers
import tap
import trial
import wire
from store_library import LIBRARY


class Messages(trial.Trial):
    def goes_on(self, role, spec, kind="chain", hits=1, **how):
        """The first daemon of a role has a failpoint; the job must end by itself."""
        self.begin(**how)
        daemon = self.group(role)[0]
        daemon.fail(spec)
        self.submit(kind)
        daemon.await_hits(spec.partition("=")[0], hits)
        self.notes.fault(spec, daemon.name)
        self.settle(kind)

    def purge(self, queue, count=1):
        """Loses all messages of a queue."""
        servers.wait_for(lambda: self.c.client.queue(queue)[0] >= count, f"{queue} to fill")
        self.c.client.call(lambda channel: channel.queue_purge(queue))
        self.notes.fault("purged", queue)


class Lost(Messages):
    def test_submit(self):
        """B1.F3: the client submits again."""
        c = self.begin()
        c.schedulers[0].stop()
        self.submit("chain")
        self.purge("drover.submit")
        self.restarted(c.schedulers[0])
        self.submit("chain")
        self.settle()

    def test_receipt(self):
        """B2.F3: the client submits again, and the answer is ALREADY."""
        c = self.begin()
        c.schedulers[0].fail("publish.receipt.before=1*drop")
        self.submit("chain")
        c.schedulers[0].await_hits("publish.receipt.before")
        self.submit("chain")
        self.assertEqual(wire.RECEIPT_CODE_ALREADY, c.client.receipt(trial.JOB).code)
        self.settle()

    def test_request(self):
        """B4.F3: costs a lease."""
        self.goes_on("scheduler", "publish.request.before=1*drop")

    def test_request_in_its_queue(self):
        """B5.F3: costs a lease."""
        c = self.begin()
        c.agents[0].stop()
        self.submit("chain")
        self.purge("drover.task.effect")
        self.restarted(c.agents[0])
        self.settle()

    def test_reply(self):
        """B7.F3 B8.F3: the step is done again, under the same key."""
        self.goes_on("agent", "publish.reply.before=1*drop")

    def test_notification(self):
        """B10.F3: the broker has not taken the notification, so it is sent again."""
        self.goes_on("scheduler", "publish.notice.before=1*return")

    def test_undo(self):
        """B13.F3: costs a lease."""
        self.goes_on("scheduler", "publish.request.before=1*drop@undo", "denied")

    def test_command(self):
        """B14.F3: the client sends the command again."""
        c = self.begin()
        c.agents[0].stop()
        c.client.submit(wire.submit(trial.JOB, trial.KINDS["cancelled"]))
        c.client.receipt(trial.JOB)
        c.schedulers[0].stop()
        self.cancel()
        self.purge("drover.control")
        self.restarted(c.schedulers[0])
        self.restarted(c.agents[0])
        self.cancel()
        self.settle("cancelled")


class Twice(Messages):
    def test_submit(self):
        """B1.F4: the answer is ALREADY, and nothing else happens."""
        c = self.begin()
        self.submit("chain")
        self.submit("chain")
        receipts = c.client.receipts
        c.client.until(lambda: len(receipts.get(trial.JOB, [])) == 2, "two receipts")
        codes = [receipt.code for receipt in receipts[trial.JOB]]
        self.assertEqual([wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY], sorted(codes))
        self.settle()

    def test_receipt(self):
        """B2.F4: the client gets it twice."""
        self.goes_on("scheduler", "publish.receipt.before=double")

    def test_call(self):
        """B3.F4 B9.F4: a call whose answer is lost is repeated: the same tokens, one completion."""
        self.goes_on("scheduler", "store.record.after=5*return", hits=3)

    def test_request(self):
        """B4.F4 B5.F4 B6.F4: the second run has no second effect."""
        self.goes_on("scheduler", "publish.request.before=double", hits=3)

    def test_reply(self):
        """B7.F4 B8.F4: recorded once."""
        self.goes_on("agent", "publish.reply.before=double", hits=3)

    def test_notification(self):
        """B10.F4: sent twice, with the same seq."""
        self.goes_on("scheduler", "publish.notice.before=double")
        self.assertEqual(1, len({event.seq for event in self.c.client.events[trial.JOB]}))

    def test_scan(self):
        """B12.F4: an expire whose answer is lost has ended the lease once."""
        self.goes_on("supervisor", "store.expire.after=1*return@job", "unanswered")
        ended = [e for event in ("silent", "expired")
                 for e in self.c.store.events(trial.JOB, event)]
        self.assertEqual(1, len(ended))

    def test_undo(self):
        """B13.F4: two undos have one effect."""
        self.goes_on("scheduler", "publish.request.before=double@undo", "denied", hits=2)

    def test_command(self):
        """B14.F4: the same command id changes nothing the second time."""
        c = self.begin()
        self.submit("cancelled")
        self.cancel()
        self.settle("cancelled")
        self.assertEqual(1, len(c.store.events(trial.JOB, "turned")))


class Overtaken(Messages):
    def test_recover(self):
        """B12.F5: a Recover that arrives after another one was carried out and the job has ended:
        harmless."""
        c = self.begin(supervisors=2)
        c.schedulers[0].fail("delivery.control=print@job")
        spec = "publish.control.before=1*pause@job"
        with self.standing(c.supervisors, spec, "unanswered") as daemon:
            self.notes.fault("stands", daemon.name)
            c.client.settled(trial.JOB, 120)
            before = c.schedulers[0].hits("delivery.control")
            self.assertGreater(before, 0)
        self.notes.fault("over", daemon.name)
        c.schedulers[0].await_hits("delivery.control", before + 1)
        self.settle("unanswered")
        self.assertEqual(2, c.dispatches(trial.JOB))


    def test_undo(self):
        """B13.F5: the reply of an undo that arrives after another one and the end of the job:
        fenced."""
        c = self.begin(schedulers=2)
        spec = "delivery.replies=1*pause@job/b/2"
        with self.standing(c.schedulers, spec, "denied") as daemon:
            self.notes.fault("stands", daemon.name)
            c.client.settled(trial.JOB, 120)
            before = c.store.history(trial.JOB)
        self.notes.fault("over", daemon.name)
        servers.wait_for(lambda: self.late(1), "the late reply to be seen")
        self.assertEqual(before, c.store.history(trial.JOB))
        self.assertEqual(["2", "1", "0"],
                         [words[0] for words in c.store.events(trial.JOB, "undone")])
        self.settle("denied")

    def late(self, step):
        """The evidence of replies of a step that came too late."""
        return self.c.store.redis.hget(f"{self.c.store.partition(trial.JOB)}data:{trial.JOB}",
                                       f"l{step}")


class Clocks(Messages):
    def test_agent(self):
        """B5.F11 B7.F11: ten minutes ahead, and back: the agent uses another clock."""
        self.goes_on("agent", "run.before=1*clock(+10m)->1*clock(-20m)", hits=2)

    def test_scheduler(self):
        """B2.F11 B4.F11 B10.F11: an hour ahead, and back: the time of the store counts."""
        spec = "publish.receipt.before=clock(+1h)\npublish.request.before=1*off->1*clock(-2h)"
        self.goes_on("scheduler", spec)
        self.assertEqual([], self.c.store.events(trial.JOB, "expired"))


class StoreClock(Messages):
    """The store's clock jumps by an hour. Its library is the production one except for its clock.
    """

    own_servers = True
    SKEW = "skew"  # ms, in the store

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        skewed = LIBRARY.replace("(call('TIME'))\n  return ",
                                 f"(call('TIME'))\n  return (call('GET', '{cls.SKEW}') or 0) + ")
        assert skewed != LIBRARY
        # newer, so that daemons do not replace it
        newer = skewed.replace("\nlocal BUILD = ", "\nlocal BUILD = 9")
        cls.skewed = redis.Redis(servers.HOST, cls.redis.port)
        cls.skewed.execute_command("FUNCTION", "LOAD", newer)
        cls.addClassCleanup(cls.skewed.close)

    def long(self, kind):
        """Its steps, with leases that only a jump could end."""
        steps = wire.Workflow(steps=trial.KINDS[kind]).steps
        for step in steps:
            step.lock_ms = step.wait_ms = 60_000
        return steps

    def await_expiry(self):
        """Waits until leases end: a supervisor lets them end only after it has inspected
        drover.replies."""
        self.c.client.submit(wire.submit("dies",
                                         [wire.step("a", "hand", lock_ms=100, wait_ms=1000)]))
        self.c.client.begin(self.c.client.consume_step("hand"))
        servers.wait_for(lambda: self.c.store.events("dies", "expired"), "a lease to end")
        self.c.client.control("dies", kill=wire.Kill())
        self.c.client.settled("dies")

    def jumps(self, hours, kind, event, runs):
        """The clock jumps when an agent has done the first step and not replied yet; another job
        follows. The checker cannot judge this, as the evidence has other clocks."""
        self.skewed.set(self.SKEW, 0)
        c = self.begin()
        self.await_expiry()
        c.agents[0].fail("publish.reply.before=1*pause")
        c.client.submit(wire.submit(trial.JOB, self.long(kind)))
        c.client.receipt(trial.JOB)
        c.agents[0].await_hits("publish.reply.before")
        c.supervisors[0].fail("store.expire.after=print\nstore.lead.after=print")
        self.skewed.set(self.SKEW, hours * 3_600_000)
        servers.wait_for(lambda: c.supervisors[0].records(event), event)
        c.supervisors[0].await_hits("store.expire.after", 3 * c.store.partitions)
        c.supervisors[0].await_hits("store.lead.after", 2 * c.store.partitions)
        self.assertEqual(c.store.partitions, len(c.store.leaders()))
        c.client.submit(wire.submit("next", self.long("single")))
        if kind == "cancelled":
            self.cancel()
        c.agents[0].fail()
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("next").outcome)
        self.assertIn(c.client.settled(trial.JOB).outcome, trial.ENDS[kind])
        c.await_idle()
        events = [entry.event for entry in c.store.history(trial.JOB)]
        counted = {word: events.count(word)
                   for word in ("dispatched", "done", "undone", "expired", "unstarted")}
        self.assertEqual(dict(zip(counted, runs, strict=True)), counted)

    def test_ahead(self):
        """B1.F11 B3.F11 B8.F11 B11.F11 B12.F11: no lease ends early, the lead stays, and the reply
        counts."""
        self.jumps(1, "chain", "store_clock_jumped", (3, 3, 0, 0, 0))

    def test_back(self):
        """B1.F11 B3.F11 B8.F11 B11.F11 B12.F11: the same when the clock steps back."""
        self.jumps(-1, "chain", "store_clock_stepped_back", (3, 3, 0, 0, 0))

    def test_ahead_undo(self):
        """B13.F11: undos are not hurried."""
        self.jumps(1, "denied", "store_clock_jumped", (6, 2, 3, 0, 0))

    def test_back_cancel(self):
        """B14.F11: a cancel counts, although the job that it takes back is an hour younger."""
        self.jumps(-1, "cancelled", "store_clock_stepped_back", (2, 1, 1, 0, 0))


class TooLate(Messages):
    def test_submit(self):
        """B1.F6: it arrives after its own complete_by: the client is told, and nothing begins."""
        c = self.begin()
        submit = wire.submit(trial.JOB, trial.KINDS["chain"])
        submit.complete_by = int(c.store.redis.time()[0]) * 1000 + 1000
        c.schedulers[0].fail("delivery.submit=1*pause")
        c.client.submit(submit)
        c.schedulers[0].await_hits("delivery.submit")
        servers.wait_for(
            lambda: int(c.store.redis.time()[0]) * 1000 > submit.complete_by, "its time to be over"
        )
        self.notes.fault("too late")
        c.schedulers[0].fail()
        receipt = c.client.receipt(trial.JOB)
        self.assertEqual((wire.RECEIPT_CODE_REJECTED, "complete_by"), (receipt.code, receipt.field))
        self.c.await_idle()
        self.assertEqual([], self.notes.judge())
        self.assertEqual({}, c.store.job(trial.JOB))


class Gone(Messages):
    def delete(self, queue):
        self.c.client.call(lambda channel: channel.queue_delete(queue))
        self.notes.fault("deleted", queue)

    def test_task_queue(self):
        """B4.F16: backoff, nothing counted, until an agent has declared its queue again."""
        c = self.begin()
        (scheduler,) = c.schedulers
        scheduler.stop()
        scheduler.configure(rabbitmq={"declare": False})
        scheduler.start()
        c.await_ready()
        c.agents[0].stop()
        self.delete("drover.task.effect")
        self.submit("chain")
        c.client.until(lambda: c.store.events(trial.JOB, "unroutable"), "it to come back")
        self.restarted(c.agents[0])
        self.settle()

    def test_reply_queue(self):
        """B7.F16: the reply is sent again, or its lease ends."""
        c = self.begin()
        c.agents[0].fail("publish.reply.before=1*pause")
        self.submit("chain")
        c.agents[0].await_hits("publish.reply.before")
        self.delete("drover.replies")
        c.agents[0].fail()
        self.settle()


if __name__ == "__main__":
    tap.main()
