# SPDX-License-Identifier: Apache-2.0
"""Commands for all jobs that match a filter: --where, --rps, --dry-run."""

import json
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire


class Bulk(cluster.TestCase):
    def begin(self, mine=3, others=2):
        """Submits jobs of one step each; "mine" have a label."""
        self.c = self.cluster(agents=0, supervisors=0)
        self.mine = [f"mine-{i}" for i in range(mine)]
        self.others = [f"other-{i}" for i in range(others)]
        for job in self.mine + self.others:
            labels = [wire.Label(name="site", value="hh")] if job in self.mine else []
            self.c.client.submit(
                wire.submit(job, [wire.step("a", "hand", after=[])], labels=labels)
            )
        for job in self.mine + self.others:
            self.c.client.receipt(job)
        return self.c

    def command(self, *words):
        return {"args": [wire.BUILD / "cli" / "drover", *words], "text": True,
                "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                "env": {**cluster.command_environment(), **cluster.SANITIZER_OPTIONS,
                        "DROVER_URL": self.c.url}}

    def drover(self, *words):
        done = subprocess.run(**self.command(*words), timeout=120)
        self.assertNotRegex(done.stderr, cluster.SANITIZER)
        lines = done.stdout.splitlines()
        return done.returncode, lines if "json" in words else sorted(lines), done.stderr

    def holds(self):
        return {job: self.c.store.job(job).get("hold", "") for job in self.mine + self.others}

    def test_dry_run(self):
        """A dry run lists the jobs, and changes nothing."""
        c = self.begin()
        before = [c.store.job(job) for job in self.mine]
        code, out, err = self.drover("pause", "--where", "-l", "site=hh", "--dry-run")
        self.assertEqual((0, [f"{job} PROCESSING" for job in self.mine],
                          "3 jobs, and nothing was changed\n"), (code, out, err))
        self.assertEqual(self.mine, self.drover(
            "kill", "--where", "-l", "site=hh", "--dry-run", "-o", "id")[1])
        self.assertEqual(before, [c.store.job(job) for job in self.mine])

    def test_matching_jobs_only(self):
        self.begin()
        code, out, err = self.drover("pause", "--where", "-l", "site=hh", "-r", "the bank is shut")
        self.assertEqual((0, [f"{job} is paused" for job in self.mine],
                          "3 jobs: 3 done, 0 already so, 0 refused\n"), (code, out, err))
        self.assertEqual({**dict.fromkeys(self.mine, "paused"), **dict.fromkeys(self.others, "")},
                         self.holds())
        self.assertEqual("the bank is shut", self.c.client.status(self.mine[0]).held_reason)
        code, out, err = self.drover("pause", "--where", "-p", "processing", "-o", "json")
        self.assertEqual((0, "5 jobs: 2 done, 3 already so, 0 refused\n"), (code, err))
        self.assertEqual(5, len(json.loads("\n".join(out))))
        answers = self.drover("resume", "--where", "-l", "site=hh", "-o", "jsonl")[1]
        self.assertEqual(
            3 * ["ANSWER_CODE_DONE"], [json.loads(answer)["code"] for answer in answers]
        )
        self.assertEqual({**dict.fromkeys(self.mine, ""), **dict.fromkeys(self.others, "paused")},
                         self.holds())

    def test_limit(self):
        self.begin()
        code, out, err = self.drover("kill", "--where", "-l", "site=hh", "-n", "2")
        self.assertEqual((0, 2, "2 jobs: 2 done, 0 already so, 0 refused\n"), (code, len(out), err))

    def test_refused(self):
        """Refusals are reported by reason, and by the exit code."""
        c = self.begin(mine=5, others=1)
        c.client.control(self.mine[0], kill=wire.Kill())
        code, out, err = self.drover("resolve", "--where", "-l", "site=hh", "a", "active")
        self.assertEqual((6, []), (code, out))
        head, *refusals = err.splitlines()
        self.assertEqual("5 jobs: 0 done, 0 already so, 5 refused", head)
        self.assertEqual(2, len(refusals))
        self.assertRegex(err, r"(?m)^ +4 WRONG_STATE: step a is in flight: .* "
                              r"\(mine-\d, mine-\d, mine-\d and 1 more\)$")
        self.assertRegex(err, r"(?m)^ +1 WRONG_STATE: the job has ended as KILLED \(mine-0\)$")

    def test_jobs_that_change_meanwhile(self):
        """A job that has gone on since it was listed is commanded. One that was turned, or has left
        the phase of the filter, is refused and not turned."""
        c = self.begin(mine=30, others=0)
        requests = {r.job_id: r for r in (c.client.consume_step("hand") for _ in self.mine)}
        oldest_first = sorted(self.mine, key=lambda j: (int(c.store.job(j)["created"]), j))
        turned, ended, paused, *failed = oldest_first[:6]
        words = (
            "set-desired", "disabled", "--where", "-l", "site=hh", "-p", "processing", "--rps", "6",
        )
        with subprocess.Popen(**self.command(*words)) as process:
            self.assertEqual(f"{oldest_first[-1]} is being taken back\n", process.stdout.readline())
            c.client.control(turned, cancel=wire.Cancel())
            c.client.reply(requests[ended])
            c.client.control(paused, pause=wire.Pause())
            for job in failed:
                c.client.reply(
                    requests[job],
                    error=wire.Error(**{"class": "NO"}, verdict=wire.VERDICT_TRANSIENT),
                )
            rest, err = process.communicate(timeout=120)
        self.assertEqual((6, 27), (process.returncode, rest.count("is being taken back")))
        self.assertIn("30 jobs: 28 done, 0 already so, 2 refused\n", err)
        self.assertIn(
            f"1 SUPERSEDED: the job has been turned or changed meanwhile ({turned})\n", err
        )
        self.assertIn(f"1 SUPERSEDED: the job has left that phase meanwhile ({ended})\n", err)
        self.assertEqual([["D", "CANCELLED"]], [e[:2] for e in c.store.events(turned, "turned")])
        self.assertEqual("A", c.store.job(ended)["desired"])

    def test_paced(self):
        """So many commands a second, over several pages. An interrupted command says how many were
        done."""
        self.begin(mine=60, others=0)
        began = time.monotonic()
        code, out, _ = self.drover("pause", "--where", "-l", "site=hh", "--rps", "60")
        self.assertEqual((0, 60), (code, len(out)))
        self.assertGreaterEqual(time.monotonic() - began, 59 / 60)
        with subprocess.Popen(**self.command(
                "resume", "--where", "-l", "site=hh", "--rps", "1")) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
        self.assertEqual(130, process.returncode)
        self.assertRegex(
            err, r"\A\d+ jobs?: \d+ done, 0 already so, 0 refused\ndrover: interrupted\n\Z"
        )
        self.assertIn("paused", self.holds().values())

    def test_retry(self):
        """Retry of all failed steps, or of named steps."""
        c = self.begin(mine=0, others=0)
        policy = wire.Policy(on_permanent=wire.RECOURSE_PARK)
        self.mine = ["x", "y"]
        for job in self.mine:
            c.client.submit(wire.submit(job, [wire.step("a", "hand", retry=policy)],
                                        labels=[wire.Label(name="site", value="hh")]))
            c.client.reply(c.client.consume_step("hand"), error=wire.Error(
                **{"class": "NO"}, verdict=wire.VERDICT_PERMANENT))
        servers.wait_for(
            lambda: all(c.store.steps(job)[0].state == "P" for job in self.mine), "parking"
        )
        self.assertEqual((0, ["x is tried again", "y is tried again"]),
                         self.drover("retry", "a", "--where", "-p", "processing")[:2])
        for _ in self.mine:
            c.client.reply(c.client.consume_step("hand"))
        for event in c.client.all_settled(self.mine):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)

    def test_wrong_command_lines(self):
        """"All" needs a filter, and a filter needs --where."""
        self.begin(mine=1, others=0)
        for words in (
            ["kill", "--where"], ["kill", "--where", "-n", "3"], ["kill", "mine-0", "-p", "error"],
            ["kill", "mine-0", "--where", "-p", "processing"], ["kill", "mine-0", "--dry-run"],
            ["set-desired", "--where", "-l", "site=hh"], ["kill", "--where", "-w", ""],
        ):
            self.assertEqual(2, self.drover(*words)[0], words)
        self.assertEqual("PROCESSING", self.c.store.job("mine-0")["phase"])


if __name__ == "__main__":
    tap.main()
