# SPDX-License-Identifier: Apache-2.0
"""A run with no faults but those of handlers: its evidence passes the checker; incomplete evidence
does not."""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import checker
import cluster
import evidence
import servers
import tap
import wire

JOBS = 10
POLICY = wire.Policy(initial_interval_ms=50, maximum_attempts=3, park_interval_ms=-1)


def step(name, after=(), **how):
    revert = wire.Revert(action="undo", arguments=evidence.arguments(fail=how.pop("undo_fail", 0)))
    return wire.step(name, "effect", after=after, arguments=evidence.arguments(**how), retry=POLICY,
                     lock_ms=3000, revert=revert)


class Evidence(cluster.TestCase):
    KINDS = {
        "good": [step("a"), step("b", ["a"], ms=20), step("c", ["b"])],
        "trying": [step("a", fail=1), step("b", ["a"], half=1), step("c", ["a"], hang=1)],
        "taken-back": [step("a", undo_fail=1), step("b", ["a"]), step("c", ["b"], deny=True)],
        "parked": [step("a"), step("b", ["a"], fail=9)],
    }

    def test_evidence_is_complete(self):
        directory = self.directory / "evidence"
        c = self.cluster(2, 2, 2, evidence.settings(directory), actor="effect")
        world = {"scan_ms": 100, "lease_ms": 1000, "settle_within_ms": 120000}
        collector = evidence.Collector(c, directory, world)
        jobs = {f"{kind}-{i}": steps for kind, steps in self.KINDS.items() for i in range(JOBS)}
        for job_id, steps in jobs.items():
            c.client.submit(wire.submit(job_id, steps))
        c.client.all_settled([job_id for job_id in jobs if not job_id.startswith("parked")])
        for i in range(JOBS):
            desired = wire.SetDesired(desired=wire.STATE_DISABLED)
            c.client.control(f"good-{i}", set_desired=desired)
        parked = [f"parked-{i}" for i in range(JOBS)]
        c.client.until(lambda: all(c.store.events(j, "parked") for j in parked), "all to be parked")
        c.client.until(lambda: all(len(c.client.events[f"good-{i}"]) == 2 for i in range(JOBS)),
                       "all to be taken back")
        c.client.until(lambda: c.store.total("owed") == 0, "the outbox to be empty")
        self.assertEqual([], collector.judge())

        log = directory / "effects.log"
        lines = log.read_text().splitlines(True)
        log.write_text("".join(line for line in lines if "EFFECT good-3/b/1 " not in line))
        self.assertIn("I5", {violation.rule for violation in checker.judge(directory)})


class Tracing(cluster.TestCase):
    own_servers = True

    def test_two_traces_begin_at_the_same_time(self):
        """Both go on, although the node keeps one list for them. While application_controller does
        not run, a call reads the list and waits before it writes the list."""
        with self.rabbit.vhost() as one, self.rabbit.vhost() as two:
            self.rabbit._evaluate("sys:suspend(application_controller)")
            calls = [threading.Thread(target=self.rabbit.trace, args=(vhost,))
                     for vhost in (one, two)]
            try:
                for call in calls:
                    call.start()
                servers.wait_for(self._both_wait, "both calls to wait")
            finally:
                self.rabbit._evaluate("sys:resume(application_controller)")
                for call in calls:
                    call.join()
            for vhost in (one, two):
                self.rabbit._evaluate(f'true = rabbit_trace:enabled(<<"{vhost}">>), ok')

    def _both_wait(self):
        """Besides the call that asks, two calls are evaluated, and wait."""
        try:
            self.rabbit._evaluate(
                "[_, _] = [Pid || Pid <- processes() -- [self()], "
                "{_, waiting} <- [process_info(Pid, status)], "
                "{_, Stack} <- [process_info(Pid, backtrace)], "
                'binary:match(Stack, <<"eval_str">>) =/= nomatch], ok'
            )
        except servers.ServerError:
            return False
        return True

    def test_end_of_the_trace(self):
        """A trace that has ended is no evidence."""
        c = self.cluster(1, 0, 0)  # a scheduler makes the exchange of events
        collector = evidence.Collector(c, self.directory / "evidence")
        self.rabbit._evaluate(f'ok = rabbit_trace:stop(<<"{c.name}">>)')
        with self.assertRaisesRegex(servers.ServerError, "did not trace"):
            collector.judge()


if __name__ == "__main__":
    tap.main()
