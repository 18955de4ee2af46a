# SPDX-License-Identifier: Apache-2.0
"""drover get, list, why and history --from-store: what the store has, while the broker is
stopped."""

import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire
from store_library import LIBRARY

CHANGING = {"now", "updated", "seq"}  # fields that differ between two calls


class FromStore(cluster.TestCase):
    own_servers = True

    def drover(self, *words, **more):
        settings = {"DROVER_URL": self.c.url, "DROVER_REDIS__PORT": str(self.redis.port),
                    "DROVER_REDIS__PREFIX": self.c.store.prefix, **more}
        done = subprocess.run(
            [wire.BUILD / "cli" / "drover", *words], capture_output=True, text=True, timeout=120,
            env={**cluster.command_environment(), **cluster.SANITIZER_OPTIONS, **settings})
        self.assertNotRegex(done.stderr, cluster.SANITIZER)
        return done.returncode, done.stdout, done.stderr

    def run_well(self, *words):
        code, out, err = self.drover(*words)
        self.assertEqual((0, ""), (code, err), words)
        return out

    def without_changing_fields(self, text):
        value = json.loads(text)
        jobs = value if isinstance(value, list) else [value]
        return [{k: v for k, v in job.items() if k not in CHANGING} for job in jobs]

    def prepare(self):
        """Submits jobs with all that can be shown: labels, input, results, errors, progress, a
        hold, thousands of steps."""
        c = self.c = self.cluster(supervisors=0)
        label = [wire.Label(name="site", value="hh"), wire.Label(name="of", value="this")]
        c.client.submit(wire.submit("done", wire.chain(3, action="echo"), labels=label,
                                    input=wire.payload(b'{"a": 1}', "application/json")))
        c.client.settled("done")
        c.client.submit(
            wire.submit("flies", [wire.step("a", "hand"), wire.step("b", "hand", after=["a"])])
        )
        request = c.client.consume_step("hand")
        c.client.publish("drover.replies", "reply", wire.Replies(progress=[wire.Progress(
            job_id="flies", step="a", token=request.token, fraction=0.5, note="half of it")]))
        c.client.until(lambda: c.client.status("flies").steps[0].note, "the progress")
        c.client.submit(wire.submit("parked", [wire.step("a", "hand", retry=wire.Policy(
            on_permanent=wire.RECOURSE_PARK))]))
        c.client.reply(c.client.consume_step("hand"), error=wire.Error(
            **{"class": "NO"}, message="never", details="at all\n", verdict=wire.VERDICT_PERMANENT))
        c.client.until(lambda: c.store.steps("parked")[0].state == "P", "the step to park")
        c.client.control("parked", pause=wire.Pause(), by="me@here", reason="to look")
        c.client.submit(
            wire.submit("wide", wire.fan(1500), start_at=int(time.time() + 30 * 86400) * 1000)
        )
        c.client.receipt("wide")
        return ["done", "flies", "parked", "wide"]

    def test_while_the_broker_is_stopped(self):
        """The output equals that of schedulers, without a broker. A cancel says so, and changes
        nothing."""
        jobs = self.prepare()
        asked = {
            job: self.without_changing_fields(self.run_well("get", job, "--data", "-o", "json"))
            for job in jobs
        }
        lists = [(), ("-p", "processing"), ("-l", "site=hh"), ("-n", "2")]
        listed = {
            words: self.without_changing_fields(self.run_well("list", "-o", "json", *words))
            if "-n" not in words
            else self.drover("list", "-o", "json", *words)
            for words in lists
        }
        before = {job: self.c.store.job_at_rest(job) for job in jobs}
        histories = {job: self.run_well("history", job) for job in jobs}
        self.rabbit.stop()
        for job in jobs:
            self.assertEqual(histories[job], self.run_well("history", job, "--from-store"))
        self.assertEqual(
            histories["done"], self.run_well("history", "done", "--from-store", "--follow")
        )
        self.assertEqual(
            "done ENDED: has ended: SUCCEEDED\n", self.run_well("why", "done", "--from-store")
        )
        self.assertRegex(self.run_well("why", "flies", "--from-store"),
                         r"\na +LEASED +leased until \S+Z, half of it\nb +WAITS +waits for `a`\n")
        self.assertIn(
            "parked HELD: held by me@here since", self.run_well("why", "parked", "--from-store")
        )
        for job in jobs:
            self.assertEqual(asked[job], self.without_changing_fields(
                self.run_well("get", job, "--data", "-o", "json", "--from-store")))
        for words in lists[:3]:
            self.assertEqual(listed[words], self.without_changing_fields(
                self.run_well("list", "-o", "json", "--from-store", *words)))
        code, out, err = self.drover("list", "-o", "json", "--from-store", "-n", "2")
        self.assertEqual(
            (0, self.without_changing_fields(listed["-n", "2"][1]), listed["-n", "2"][2]),
            (code, self.without_changing_fields(out), err),
        )
        after = err.split()[-1]
        self.assertEqual(
            2, len(self.run_well("list", "-o", "id", "--from-store", "--after", after).split())
        )
        for command in ("get", "why", "history"):
            self.assertEqual(5, self.drover(command, "nobody", "--from-store")[0], command)
        self.assertEqual(1, self.drover("list", "--from-store", "--after", "nowhere")[0])
        for words in (("get", "flies"), ("cancel", "flies"), ("kill", "flies")):
            self.assertEqual(7, self.drover(*words, "--timeout", "2s")[0], words)
        self.assertEqual(before, {job: self.c.store.job(job) for job in jobs})
        self.rabbit.start()
        self.c.await_ready()

    def test_refused(self):
        """No Redis, no Drover in it, another build of the functions: the error says what to do."""
        self.c = self.cluster(agents=0, supervisors=0)
        port = str(servers.free_ports(1)[0])
        code, _, err = self.drover("get", "x", "--from-store", DROVER_REDIS__PORT=port)
        self.assertEqual(7, code)
        self.assertIn(f"cannot reach Redis at 127.0.0.1:{port}", err)
        code, _, err = self.drover("list", "--from-store", DROVER_REDIS__PREFIX="other:")
        self.assertEqual(7, code)
        self.assertIn("there is no Drover under prefix other:", err)
        self.assertEqual([], self.c.store.redis.keys("other:*"))
        self.assertEqual(2, self.drover("get", "x", "--from-store", "--url", "amqp://h/")[0])
        newer = LIBRARY.replace("\nlocal BUILD = ", "\nlocal BUILD = 9")
        self.addCleanup(self.c.store.redis.execute_command, "FUNCTION", "LOAD", "REPLACE", LIBRARY)
        self.c.store.redis.execute_command("FUNCTION", "LOAD", "REPLACE", newer)
        code, _, err = self.drover("get", "x", "--from-store")
        self.assertEqual(7, code)
        self.assertIn("use the program of the same release as the schedulers", err)


if __name__ == "__main__":
    tap.main()
