# SPDX-License-Identifier: Apache-2.0
"""The checks of chaos and race: unexpected ends of processes, and ends that do not fit the kind of
a job"""

import pathlib
import signal
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import chaos
import cluster
import driver
import tap
import wire
import workload

LOGS = 'echo \'{"event.name":"%s"}\'; '
RUNS_ON = "exec sleep 600"


class Script(cluster.Daemon):
    """Runs one shell script after the other, one per incarnation; the last one again and again."""

    def __init__(self, directory, scripts):
        super().__init__("script", "script", directory, {})
        self._scripts = scripts
        self.incarnations = 0

    def _command(self):
        self.incarnations += 1
        return ["/bin/sh", "-c", self._scripts[min(self.incarnations, len(self._scripts)) - 1]]


class Victims(unittest.TestCase):
    def wrong(self, *scripts):
        """@scripts: of incarnations that end by themselves. Return: what is wrong."""
        with tempfile.TemporaryDirectory() as directory:
            process = Script(pathlib.Path(directory), [*scripts, RUNS_ON])
            process.start()
            victim = chaos.VictimDaemon(process, None, 1, 10**9, 0)
            chaos.servers.wait_for(lambda: process.incarnations > len(scripts), "all incarnations")
            victim.over()
            victim.done()
            process.kill()
            return victim.wrong

    def test_crash(self):
        for script, code in (("kill -SEGV $$", -signal.SIGSEGV), ("kill -ABRT $$", -signal.SIGABRT),
                             ("exit 99", 99), ("exit 0", 0), ("exit 1", 1)):
            (wrong,) = self.wrong(script)
            self.assertIn(f"script ended by itself, with {code}:", wrong)

    def test_documented(self):
        self.assertEqual([],
                         self.wrong(LOGS % "stalled" + "exit 1",
                                    LOGS % "failpoint" + f"exit {cluster.CRASHED}"))

    def test_each_event_excuses_once(self):
        """The log of the incarnation before excuses nothing."""
        self.assertEqual(1, len(self.wrong(LOGS % "stalled" + "exit 1", "exit 1")))

    def test_cannot_be_started(self):
        process = types.SimpleNamespace(name="redis",
                                        process=types.SimpleNamespace(alive=lambda: False),
                                        log_tail=lambda: "why", kill=lambda: None,
                                        start=lambda: 1 / 0)
        victim = chaos.VictimServer(process, None, 1, 10**9, 0)
        victim.spared.wait()
        victim.done()
        self.assertEqual(["redis ended by itself:\nwhy",
                          "redis: ZeroDivisionError('division by zero')"], victim.wrong)


class Ends(unittest.TestCase):
    def test_end_of(self):
        step = "D A {} 1 1 - 0 0 0 0 0".format
        for record, end in (
            ({"phase": "PROCESSED", "outcome": "SUCCEEDED"}, "SUCCEEDED"),
            ({"phase": "ERROR", "outcome": "KILLED", "hold": "killed"}, "KILLED"),
            ({"phase": "PROCESSING", "hold": "paused"}, workload.HELD),
            ({"phase": "PROCESSING", "0": step("P"), "1": step("W")}, workload.PARKED),
            ({"phase": "PROCESSING", "0": step("P"), "1": step("R")}, ""),
            ({"phase": "PROCESSING", "0": step("W")}, ""),
            ({}, ""),
        ):
            self.assertEqual(end, driver.end_of(record), record)

    def wrong(self, ends, letters=0):
        """The complaints about a job that may end as @ends and has succeeded."""
        receipt = wire.Receipt(job_id="job", code=wire.RECEIPT_CODE_CREATED)
        client = types.SimpleNamespace(submit=lambda _: None, receipts={"job": [receipt]},
                                       answers={})
        redis = types.SimpleNamespace(hgetall=lambda _: None, execute=lambda: [
            {"phase": "PROCESSED", "outcome": "SUCCEEDED"}])
        store = types.SimpleNamespace(partition=lambda _: "",
                                      redis=types.SimpleNamespace(pipeline=lambda **_: redis))
        d = driver.Driver(types.SimpleNamespace(client=client, store=store))
        d.submit(workload.Job(wire.submit("job", []), ends, letters=letters))
        return d.wrong()

    def test_wrong(self):
        self.assertEqual([], self.wrong({"SUCCEEDED", workload.HELD}))
        self.assertEqual(["job has ended SUCCEEDED, and may PARKED only"],
                         self.wrong({workload.PARKED}))
        self.assertEqual(["job has ended not at all, and may SUCCEEDED only"],
                         self.wrong({"SUCCEEDED"}, letters=1))


if __name__ == "__main__":
    tap.main()
