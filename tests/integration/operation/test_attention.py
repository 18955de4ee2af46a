# SPDX-License-Identifier: Apache-2.0
"""Jobs that need a person: the alert about them, and the list that keeps them."""

import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import client
import cluster
import servers
import tap
import wire

MANY = 300
FAILS = {
    "content_type": "application/json",
    "data": json.dumps({"class": "DECLINED", "message": "no cover", "permanent": True}).encode(),
}
PARKS = wire.Policy(on_permanent=wire.RECOURSE_PARK)


def failing(**more):
    return wire.step("pay", actor="demo", action="fail", arguments=wire.Payload(**FAILS), **more)


class Attention(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.paged = self.directory / "paged"
        self.paged.touch()
        page = self.directory / "page.sh"
        page.write_text(f'#!/bin/sh\n{{ cat; echo; }} >>"{self.paged}"\n')
        page.chmod(0o755)
        self.settings = {
            "scheduler": {"scheduler": {"alert_command": str(page), "alert_interval": "1s"}}
        }
        self.alerts = []

    def begin(self, **settings):
        self.settings["scheduler"]["scheduler"].update(settings)
        self.c = self.cluster(settings=self.settings)
        listener = client.Listener(
            self.c.client, self.on_event, exchange="drover.events", keys=["#.alert"]
        )
        self.addCleanup(listener.stop)
        return self.c

    def on_event(self, channel, method, _properties, body):
        self.alerts.append(wire.JobEvent.FromString(body))
        channel.basic_ack(method.delivery_tag)

    def pages(self):
        return [json.loads(line) for line in self.paged.read_text().splitlines() if line]

    def await_alerts(self, count):
        servers.wait_for(lambda: len(self.alerts) >= count, f"{count} alerts")
        self.assertEqual(count, len(self.alerts))
        return self.alerts[-1]

    def drover(self, *words):
        done = self.c.drover(*words)
        return done.returncode, done.stdout, done.stderr

    def run_well(self, *words):
        code, out, err = self.drover(*words)
        self.assertEqual((0, ""), (code, err))
        return out

    def list_needing(self, *words):
        return self.drover("list", "--needs", "attention", "-o", "id", *words)[1].split()

    def settled(self, job, outcome):
        self.assertEqual(outcome, self.c.client.settled(job).outcome)

    def test_failed_ends(self):
        """FAILED, COMPENSATED after a failure, and COMPENSATION_FAILED raise alerts with the
        reason."""
        c = self.begin()
        cannot = wire.step(
            "book",
            revert=wire.Revert(
                action="fail",
                arguments=wire.Payload(**FAILS),
                retry=wire.Policy(on_permanent=wire.RECOURSE_FAIL),
            ),
        )
        for count, (job, steps, outcome) in enumerate(
            (
                (
                    "failed",
                    [failing(retry=wire.Policy(on_permanent=wire.RECOURSE_FAIL))],
                    wire.OUTCOME_FAILED,
                ),
                (
                    "taken-back",
                    [wire.step("book", revert=wire.Revert(action="noop")), failing(after=["book"])],
                    wire.OUTCOME_COMPENSATED,
                ),
                ("stuck", [cannot, failing(after=["book"])], wire.OUTCOME_COMPENSATION_FAILED),
            ),
            1,
        ):
            with self.subTest(job):
                c.client.submit(
                    wire.submit(job, steps, labels=[wire.Label(name="site", value="hh")])
                )
                self.settled(job, outcome)
                alert = self.await_alerts(count)
                self.assertEqual(job, alert.job_id)
                self.assertEqual(wire.Outcome.Name(outcome), f"OUTCOME_{alert.reason}")
                step, attempt = ("book", 2) if job == "stuck" else ("pay", 1)
                self.assertEqual(
                    (step, "demo", "fail", "DECLINED", "no cover", attempt),
                    (
                        alert.step, alert.actor, alert.action, getattr(alert.error, "class"),
                        alert.error.message, alert.attempt,
                    ),
                )
                self.assertEqual(["hh"], [label.value for label in alert.labels])
                self.assertIn(f"drover why {job}", alert.advice)
                self.assertEqual([job], self.list_needing("--limit", "1"))
        self.assertEqual(
            {"failed", "taken-back", "stuck"},
            set(self.list_needing("--error-class", "DECLINED", "--actor", "demo")),
        )
        self.assertEqual([], self.list_needing("--actor", "nobody"))
        for line in c.schedulers[0].records("alert"):
            self.assertNotIn("no cover", json.dumps(line))  # the log has no data of the job

    def test_ends_that_need_no_person(self):
        """Success, a cancellation, and a compensation that the workflow calls ordinary need no
        person."""
        c = self.begin()
        c.client.submit(wire.submit("good", [wire.step("a")]))
        self.settled("good", wire.OUTCOME_SUCCEEDED)
        c.client.submit(
            wire.submit(
                "cancelled", [wire.step("a", actor="hand", revert=wire.Revert(action="noop"))]
            )
        )
        c.client.receipt("cancelled")
        c.client.control("cancelled", cancel=wire.Cancel())
        request = c.client.consume_step("hand")
        c.client.reply(request)
        ordinary = wire.Workflow(steps=[failing()], compensation_expected=True)
        c.client.submit(
            wire.Submit(job_id="ordinary", definition=ordinary, reply_to=c.client.REPLIES)
        )
        self.settled("ordinary", wire.OUTCOME_COMPENSATED)
        for job in ("good", "cancelled", "ordinary"):
            c.store.job_at_rest(job)
        # its alert comes after any alert of the others
        c.client.submit(wire.submit("bad", [failing(retry=PARKS)]))
        self.await_alerts(1)
        self.assertEqual(["bad"], self.list_needing())

    def test_list_of_attention(self):
        """A job leaves the list when a person acknowledges it, retries it, or resolves it."""
        c = self.begin()
        for job in ("one", "two"):
            c.client.submit(wire.submit(job, [failing(retry=PARKS)]))
        servers.wait_for(lambda: len(self.list_needing()) == 2, "both to be listed")
        rows = self.run_well("list", "--needs", "parked").splitlines()
        self.assertEqual(["PARKED"] * 2, [row.split()[1] for row in rows[1:]])
        (group,) = json.loads(self.run_well("list", "--group", "-o", "json"))
        self.assertEqual(
            (2, "PARKED", "DECLINED", "demo"),
            (group["jobs"], group["needs"], group["errorClass"], group["actor"]),
        )
        self.assertIn(group["example"], ("one", "two"))
        self.assertRegex(
            self.run_well("list", "--needs", "attention", "--group"), r"2 +PARKED +DECLINED +demo"
        )
        self.assertEqual(
            "one is acknowledged\n",
            self.run_well("acknowledge", "one", "--reason", "known to the bank"),
        )
        self.assertEqual("one is acknowledged already\n", self.run_well("acknowledge", "one"))
        self.assertEqual(["two"], self.list_needing())
        self.assertIn("known to the bank", self.run_well("history", "one"))
        self.run_well("resolve", "two", "pay", "active")
        self.settled("two", wire.OUTCOME_SUCCEEDED)
        self.assertEqual([], self.list_needing())
        self.assertEqual(
            (6, "drover: refused: the job does not need attention\n"),
            self.drover("acknowledge", "two")[::2],
        )
        self.run_well("retry", "one")  # it fails once more, which is new
        servers.wait_for(lambda: self.list_needing() == ["one"], "the job to be listed again")

    def test_acknowledged_in_bulk(self):
        c = self.begin()
        for i in range(5):
            c.client.submit(wire.submit(f"job-{i}", [failing(retry=PARKS)]))
        servers.wait_for(lambda: len(self.list_needing()) == 5, "all to be listed")
        code, _, err = self.drover(
            "acknowledge", "--where", "--needs", "parked", "--error-class", "DECLINED", "--limit",
            "3",
        )
        self.assertEqual(0, code, err)
        self.assertEqual(2, len(self.list_needing()))

    def test_many_failures_at_once(self):
        """They cause few alerts, whose counts add up. Each is an event, and all are on the list."""
        c = self.begin()
        jobs = {f"job-{i}" for i in range(MANY)}
        for job in jobs:
            c.client.submit(wire.submit(job, [failing(retry=PARKS)]))
        servers.wait_for(lambda: len(self.alerts) >= MANY, f"{MANY} alerts")
        self.assertEqual(jobs, {alert.job_id for alert in self.alerts})
        counted = collections.Counter()

        def all_counted():
            counted["all"] = sum(int(page.get("count", 1)) for page in self.pages())
            return counted["all"] >= MANY

        servers.wait_for(all_counted, "all to be paged, by their number")
        self.assertEqual(MANY, counted["all"])
        self.assertLess(len(self.pages()), MANY / 3)
        self.assertEqual(jobs, set(self.list_needing("--limit", "1000")))
        (group,) = json.loads(self.run_well("list", "--group", "-o", "json"))
        self.assertEqual(MANY, group["jobs"])

    def test_dead_letters(self):
        """A dead letter of a scheduler raises an alert with its reason, once a cause and
        interval."""
        c = self.begin()
        for _ in range(20):
            c.client.publish("drover.replies", "reply", b"{}", content_type="application/json")
        servers.wait_for(
            lambda: sum(int(page.get("count", 1)) for page in self.pages()) >= 20,
            "all to be counted",
        )
        self.assertEqual({"DEAD_LETTER"}, {page["reason"] for page in self.pages()})
        self.assertEqual({"INVALID"}, {page["error"]["class"] for page in self.pages()})
        self.assertLess(len(self.pages()), 20)

    def test_why_between_two_tries(self):
        """Between two tries of a job `why` says when the next one begins."""
        c = self.begin()
        workflow = wire.Workflow(steps=[failing()], tries=2, tries_interval_ms=3_600_000)
        c.client.submit(wire.Submit(job_id="again", definition=workflow, reply_to=c.client.REPLIES))
        servers.wait_for(
            lambda: c.client.status("again").next_try_at > 0, "the job to be taken back"
        )
        status = c.client.status("again")
        self.assertEqual((1, wire.PHASE_PROCESSING), (status.failures, status.phase))
        self.assertRegex(
            self.run_well("why", "again"),
            r"again RESTS: was taken back, and is brought forward again ",
        )
        self.assertEqual(
            "again is being brought forward\n", self.run_well("set-desired", "again", "active")
        )
        servers.wait_for(lambda: c.client.status("again").failures == 2, "the job to fail again")


if __name__ == "__main__":
    tap.main()
