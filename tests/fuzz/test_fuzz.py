# SPDX-License-Identifier: Apache-2.0
"""Tests fuzz.py with fuzzers that are shell scripts: what it prints, and its exit code"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import servers
import tap
import vary

REPORTS = 'echo "#%d NEW    cov: %d ft: 9 corp: 3/9b" >&2; '
FINDS = 'touch "$(echo "$@" | sed "s/.*-artifact_prefix=\\([^ ]*\\).*/\\1/")crash-1"; exit 77'
GOES_ON = "while :; do :; done"


class Fuzz(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        (self.build / "tests/fuzz").mkdir(parents=True)

    def command(self, script, *arguments):
        """A target whose fuzzer is this script. Return: the command that runs it."""
        fuzzer = self.build / "tests/fuzz/fuzz_json"
        fuzzer.write_text(f"#!/bin/sh\n{script}\n")
        fuzzer.chmod(0o755)
        return [sys.executable, "-B", HERE / "fuzz.py", "--build", self.build, *arguments, "json"]

    def fuzz(self, script, *arguments):
        """Return: exit code, the row of figures, the lines after it."""
        done = subprocess.run(
            self.command(script, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
        )
        _, row, *rest = done.stdout.splitlines()
        return done.returncode, row.split(), rest

    def known(self):
        return json.loads((self.build / "found/json.json").read_text())

    def test_runs_until_it_is_quiet(self):
        status, row, rest = self.fuzz(REPORTS % (5, 7) + GOES_ON, "--until-quiet", "0.01")
        self.assertEqual((status, row[:3], rest), (0, ["json", "5", "7"], []))
        self.assertGreaterEqual(self.known()["quiet"], 0.01)

    def test_waiting_time_does_not_count(self):
        self.fuzz(REPORTS % (5, 7) + "sleep 2; exit 0")
        self.assertLess(self.known()["quiet"], 1 / 60)

    def test_goes_on_where_it_stopped(self):
        for executions in "5", "10":
            _, row, _ = self.fuzz(REPORTS % (5, 7) + "exit 0")
            self.assertEqual(row[1:3], [executions, "7"])

    def test_goes_on_where_it_was_killed(self):
        run = subprocess.Popen(self.command(REPORTS % (5, 7) + GOES_ON), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            servers.wait_for(lambda: (self.build / "found/json.json").exists(),
                             "figures to be saved")
        finally:
            os.killpg(run.pid, signal.SIGKILL)  # the fuzzer as well
            run.wait()
        self.assertGreater(self.known()["minutes"], 0)
        _, row, _ = self.fuzz(REPORTS % (5, 7) + GOES_ON, "--minutes", "0.01")
        self.assertEqual(row[1:3], ["10", "7"])

    def test_edges_of_other_runs_count_as_new(self):
        """The fuzzer needs some time to read the inputs that are there."""
        edges = self.build / "edges"
        line = f"#5 INITED cov: $(cat {edges}) ft: 9 corp: 3/9b"
        reports = f'sleep 1.5; echo "{line}" >&2; ' + GOES_ON
        minutes = []
        for there in "7", "8", "8":
            edges.write_text(there)
            self.fuzz(reports, "--until-quiet", "0.03")
            minutes.append(self.known()["minutes"])
        self.assertGreaterEqual(round(minutes[1] - minutes[0], 9), 0.03)
        self.assertLess(minutes[2], minutes[1] + 0.03)

    def test_other_code_starts_from_zero(self):
        self.fuzz(REPORTS % (5, 7) + "exit 0")
        _, row, _ = self.fuzz(REPORTS % (3, 2) + "exit 0")
        self.assertEqual(row[1:3], ["3", "2"])

    def test_a_finding_is_a_failure_and_can_be_replayed(self):
        status, row, rest = self.fuzz(REPORTS % (5, 7) + FINDS)
        self.assertEqual((status, row[1]), (1, "5"))
        self.assertEqual(len(rest), 1)
        self.assertRegex(rest[0], r"^replay with: .*/fuzz_json .*/found/json-crash-1$")

    def test_same_finding_is_reported_again(self):
        for _ in range(2):
            _, _, rest = self.fuzz(REPORTS % (5, 7) + FINDS)
            self.assertEqual(len(rest), 1)

    def test_earlier_finding_is_not_reported_again(self):
        self.fuzz(REPORTS % (5, 7) + FINDS)
        self.assertEqual(self.fuzz(REPORTS % (6, 7) + "exit 0")[::2], (0, []))

    def test_variations_that_reach_new_edges_are_found(self):
        takes_one = 'while [ $# -gt 2 ]; do shift; done; cp "$2/$(ls "$2" | head -n 1)" "$1"'
        done = subprocess.run(self.command(takes_one, "--vary", "100"), stdout=subprocess.PIPE,
                              text=True,
                              check=True)
        self.assertRegex(done.stdout, r"^json +\d+ variations, 1 inputs found\n$")
        self.assertEqual(len(list((self.build / "found/json").iterdir())), 1)

    def test_a_variation_that_is_a_finding_is_a_failure(self):
        done = subprocess.run(self.command(FINDS.replace("exit 77", "exit 0"), "--vary", "100"),
                              stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "replay with: .*/found/json-crash-1")

    def test_each_word_is_varied(self):
        varied = set(vary.variations([b'r{"steps_total":"3"}\nend'], about=10**6, seed=1))
        for text in (b'r{"steps_total":"4294967295"}\nend', b'r{"steps_total":"\\u0000"}\nend',
                     b'r{"steps_total":null}\nend', b'r{"job_id":"3"}\nend', b'r{:"3"}\nend',
                     b'r{"steps_total":"3""3"}\nend', b'r{"steps_total":',
                     b'r{"steps_total":"3"}\n-1',
                     b'r{"steps_total":"3"}end'):
            self.assertIn(text, varied)

    def test_variations_are_the_same_with_the_same_seed_and_about_so_many(self):
        first, again, other = (list(vary.variations([b"a 1", b"b 2"], 500, seed))
                               for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertTrue(400 < len(first) < 600)

    def test_failing_fuzzer_is_a_failure(self):
        self.assertEqual(self.fuzz("exit 1")[0], 1)


if __name__ == "__main__":
    tap.main()
