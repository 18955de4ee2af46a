# SPDX-License-Identifier: Apache-2.0
"""The store's functions are replaced while jobs run: a newer build stays, an older one is replaced.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import servers
import tap
import trial

BUILD = re.compile(r"^local BUILD = (\d+)$", re.MULTILINE)


class Upgrade(trial.Trial):
    def library(self):
        (library,) = self.c.store.redis.function_list(library="drover1", withcode=True)
        return dict(zip(library[::2], library[1::2]))["library_code"]

    def build(self):
        """The build, as a daemon asks for it when it connects."""
        return int(self.c.store.redis.fcall("drover1_version", 1,
                                            self.c.store.partition(trial.JOB)))

    def upgrade(self, build):
        """Replaces the library while a command waits for the store and its job is in progress."""
        job_id = f"build-{build}"
        with self.standing(self.c.schedulers, "store.steer.before=1*pause", "cancelled",
                           job_id) as daemon:
            self.notes.fault(f"build {build}", daemon.name)
            self.c.store.redis.function_load(BUILD.sub(f"local BUILD = {build}", self.library()),
                                             replace=True)
            self.assertEqual(build, self.build())
        self.c.client.settled(job_id)
        return job_id

    def test_builds(self):
        """B14.F21: jobs go on with either build, and a daemon that starts replaces only an older
        one."""
        self.redis = servers.Redis()
        self.addCleanup(self.redis.close)
        self.redis.start()
        c = self.begin(schedulers=2)
        ours = self.build()
        jobs = []
        for build, then in ((ours + 1, ours + 1), (ours - 1, ours)):
            jobs.append(self.upgrade(build))
            scheduler = c.schedulers[0]
            scheduler.stop()
            self.restarted(scheduler)
            servers.wait_for(scheduler.up, "it to be up")
            self.assertEqual(then, self.build())
            jobs.append(f"after-{build}")
            self.submit("cancelled", jobs[-1])
        self.settle("cancelled", jobs)


if __name__ == "__main__":
    tap.main()
