# SPDX-License-Identifier: Apache-2.0
"""bench/results.py: a run's record gets into its page, and all else on the page stays"""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "lib")]

import results
import tap

LINE = {"name": "batch-8", "value": 3603.04, "unit": "steps/s", "min": 3575, "max": 4301,
        "ratio": 1.083, "cpu_us_per_step": {"scheduler": 40.0, "supervisor": 0.0, "redis": 202.4},
        "rss_anon_mib": {"scheduler": 3.33, "supervisor": 1.33}, "cpu_us": 410.0, "other": 1}
ROW = ("| `batch-8` | 3,603 steps/s | 3,575 – 4,301 | 1.083 | scheduler 40 · redis 202.4 "
       "| 3.33 · 1.33 | cpu_us 410 | batch |")
CHAOS = """\
seed 7, 2000 jobs, 8 minutes; logs in /home/somebody/build/chaos
30 s: 120 jobs submitted, 80 ended
scheduler-1: {'killed': 3}
the last job came to rest 4.2 s after the last fault: job-17
job-3 has not ended
1 violations
"""


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in (results.PERFORMANCE, results.RELIABILITY, results.FUZZERS):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)

    def written(self, path):
        results.write(self.root)
        return (self.root / path).read_text(encoding="utf-8").splitlines()

    def test_without_records_the_pages_stay(self):
        for path in (results.PERFORMANCE, results.RELIABILITY):
            before = (ROOT / path).read_text(encoding="utf-8").splitlines()
            self.assertEqual(self.written(path), before)

    def test_a_benchmark(self):
        before = self.written(results.PERFORMANCE)
        record = self.root / results.BENCHES
        for value in (1, LINE["value"]):  # the last record counts
            results.record(record, "batch", "./dev bench batch", seconds=81,
                           lines=[LINE | {"value": value}])
        after = self.written(results.PERFORMANCE)
        self.assertIn(ROW, after)
        [run] = [line for line in after if line.startswith("| `batch` |")]
        self.assertTrue(run.startswith("| `batch` | 81 s | `./dev bench batch` | 2"), run)
        ours = ("| `batch-8` |", "| `batch` |")
        self.assertEqual(*([line for line in page if not line.startswith(ours)]
                           for page in (before, after)))
        self.assertEqual(len(before), len(after))

    def test_a_new_figure(self):
        before = self.written(results.PERFORMANCE)
        results.record(self.root / results.BENCHES, "new", "./dev bench new", seconds=1,
                       lines=[LINE | {"name": "new-1"}])
        after = self.written(results.PERFORMANCE)
        self.assertEqual(len(after), len(before) + 2)
        self.assertIn(ROW.replace("`batch-8`", "`new-1`").replace("| batch |", "| new |"), after)

    def test_systems(self):
        """The comparison with others has a table of its own, with a row for each."""
        before = self.written(results.PERFORMANCE)
        figures = [LINE | {"name": f"new/{figure}", "ratio": 2} for figure in ("speed", "cpu")]
        results.record(self.root / results.BENCHES, "peers", "./dev bench peers", seconds=1,
                       lines=[*figures, LINE | {"name": "newer/speed", "ratio": 1}])
        after = self.written(results.PERFORMANCE)
        cell = f"{LINE['value']:,.4g} ({LINE['min']:,.4g} – {LINE['max']:,.4g})"
        self.assertIn(f"| `new` | {cell} × 2 | {cell} × 2 |", after)
        self.assertIn(f"| `newer` | {cell} × 1 |", after)
        self.assertFalse([line for line in after if "speed`" in line])
        self.assertLessEqual(len(after), len(before) + 3)

    def test_a_run_of_tests(self):
        log = self.root / "log"
        log.write_text(CHAOS, encoding="utf-8")
        results.note(self.root / results.TESTS, "chaos", log, "./dev test chaos --minutes 8")
        results.note(self.root / results.TESTS, "demo", log, "./dev test full")
        [record] = (self.root / results.TESTS).read_text(encoding="utf-8").splitlines()
        self.assertEqual(json.loads(record)["name"], "chaos")
        page = self.written(results.RELIABILITY)
        [row] = [line for line in page if line.startswith("| `chaos` |")]
        said = "<br>".join(["seed 7, 2000 jobs, 8 minutes", CHAOS.splitlines()[3], "1 violations"])
        start = f"| `chaos` | {said} | `./dev test chaos --minutes 8` | 2"
        self.assertTrue(row.startswith(start), row)

    def test_a_simulation_counts_by_its_last_line(self):
        log = self.root / "log"
        log.write_text("129 worlds, 0 failed\n20000 worlds, 0 failed\n", encoding="utf-8")
        results.note(self.root / results.TESTS, "sim-worlds", log, "./dev test")
        self.assertEqual(results.last_records(self.root / results.TESTS)["sim-worlds"]["said"],
                         ["20000 worlds, 0 failed"])


if __name__ == "__main__":
    tap.main()
