# SPDX-License-Identifier: Apache-2.0
"""A short race: two schedulers get everything twice at the same time, and five supervisors without
election ask both. `./dev test race` is the long version."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster
import race
import tap

JOBS = 150


class Race(cluster.TestCase):
    def test_both_get_everything(self):
        one = race.Race(self.rabbit, self.redis, self.directory, JOBS, seed=1)
        self.assertEqual([], one.run())
        tap.narrate(one.figures)


if __name__ == "__main__":
    tap.main()
