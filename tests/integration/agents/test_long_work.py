# SPDX-License-Identifier: Apache-2.0
"""Work that takes long: its Progress, how soon it is recovered after a kill, and how it is
stopped."""

import contextlib
import pathlib
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import health
import servers
import tap
import wire

LONG_MS = 600_000  # a lease that no test waits for

# Reports when it begins and when it is asked to end, sends Progress, and ends when the test allows
# it.
SCRIPT = """\
case $DROVER_JOB in short*) echo done; exit 0;; esac
folder=$1 manner=$2
report() { echo "$1 $DROVER_JOB $DROVER_ATTEMPT $$" >>"$folder/reports"; }
trap 'report term; [ "$manner" = stubborn ] || exit 1' TERM
echo "0.25 a quarter" >&3
report begin
until [ -e "$folder/go" ]; do sleep 0.05; done
echo done
"""


class Work:
    """The program of actor `long`, which the test controls."""

    def __init__(self, folder):
        self.folder = folder / "work"
        self.folder.mkdir()
        self._script = self.folder / "work.sh"
        self._script.write_text(SCRIPT)
        self._reports = self.folder / "reports"
        self._reports.touch()

    def actor(self, manner="polite", **more):
        command = ["/bin/sh", str(self._script), str(self.folder), manner]
        action = {"name": "*", "command": command, "kill_grace": "300ms"}
        return {"name": "long", "handler": "exec", "actions": [action], **more}

    def reported(self, what, job_id):
        """Returns (attempt, process) of each run that has reported this."""
        lines = [line.split() for line in self._reports.read_text().splitlines()]
        return [
            (int(attempt), int(pid))
            for word, job, attempt, pid in lines
            if (word, job) == (what, job_id)
        ]

    def await_reported(self, what, job_id, times=1):
        servers.wait_for(lambda: len(self.reported(what, job_id)) >= times, f"{job_id} to {what}")
        return self.reported(what, job_id)[-1]

    def go(self):
        (self.folder / "go").touch()


class LongWork(cluster.TestCase):
    def start(self, agents=1, agent=None, **actor):
        self.work = Work(self.directory)
        settings = {
            "agent": {"actors": [cluster.BUILTIN, self.work.actor(**actor)], **(agent or {})}
        }
        return self.cluster(agents=agents, settings=health.settings({"agent": settings}))

    def submit(self, c, job_id, **fields):
        step = wire.step("work", "long", **{"lock_ms": LONG_MS, "heartbeat_ms": 1000, **fields})
        c.client.submit(wire.submit(job_id, [step]))
        c.client.receipt(job_id)

    def status(self, c, job_id):
        return c.client.status(job_id).steps[0]

    def await_step(self, c, job_id, condition, what):
        servers.wait_for(lambda: condition(self.status(c, job_id)), what)

    def succeeded(self, c, job_id):
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled(job_id).outcome)

    def test_progress_is_shown_and_renews(self):
        """B6: Progress of the program is in the status, and the lease lasts beyond three
        heartbeats."""
        c = self.start()
        self.submit(c, "job", heartbeat_ms=1500)
        self.work.await_reported("begin", "job")
        self.await_step(c, "job", lambda s: (s.fraction, s.note) == (0.25, "a quarter"), "progress")
        first = self.status(c, "job").until
        self.assertLess(first, c.client.status("job").now + LONG_MS / 2)
        # The lease was renewed after the end of the first renewal.
        self.await_step(c, "job", lambda s: s.until > first + 3 * 1500, "renewals")
        self.work.go()
        self.succeeded(c, "job")
        self.assertEqual(1, c.dispatches("job"))

    def test_builtin_sleep_sends_progress(self):
        c = self.start()
        nap = wire.payload(b'{"ms": 60000}', "application/json")
        step = wire.step(
            "nap", action="sleep", arguments=nap, lock_ms=2 * LONG_MS, heartbeat_ms=1000
        )
        c.client.submit(wire.submit("job", [step]))
        c.client.receipt("job")
        self.await_step(c, "job", lambda s: 0 < s.fraction < 0.5, "a fraction")
        c.client.control("job", cancel=wire.Cancel())
        self.assertEqual(wire.OUTCOME_CANCELLED, c.client.settled("job").outcome)

    def test_early_expiry(self):
        """B6.F20: a request with a long lease is acknowledged at its start, so the broker does not
        deliver it again. The missing heartbeats show the expiry long before the lease ends."""
        c = self.start(agents=2, agent={"consumer_timeout": "20s"})
        self.submit(c, "job", heartbeat_ms=1000)
        self.work.await_reported("begin", "job")
        self.await_step(
            c, "job", lambda s: s.until < c.client.status("job").now + 10_000, "Progress"
        )
        busy = next(agent for agent in c.agents if self.children(agent))
        busy.kill()
        # another attempt, by another agent
        self.assertEqual(2, self.work.await_reported("begin", "job", times=2)[0])
        self.assertEqual(1, len(c.store.events("job", "expired")))
        self.work.go()
        self.succeeded(c, "job")
        self.assertEqual([1, 2], [attempt for attempt, _ in self.work.reported("begin", "job")])

    def test_expiry_after_an_outage(self):
        """While the actor had no agent the wait has doubled repeatedly, and LockedUntil includes
        it. The first Progress sets LockedUntil to the end of the agent's lease, and only then is
        the request acknowledged: so an expiry costs three heartbeats, and no wait."""
        c = self.start(agents=0, agent={"consumer_timeout": "20s"})
        self.submit(c, "job", heartbeat_ms=1000, wait_ms=200)
        servers.wait_for(
            lambda: len(c.store.events("job", "unstarted")) >= 6, "the wait to double", 60
        )
        busy = c.add_agent()
        self.work.await_reported("begin", "job")
        wait = 200 << len(c.store.events("job", "unstarted"))
        self.await_step(c, "job", lambda s: s.until < c.client.status("job").now + 4000, "Progress")
        killed = c.client.status("job").now
        busy.kill()
        c.add_agent()
        self.work.await_reported("begin", "job", times=2)
        *_, found = [entry.at for entry in c.store.history("job") if entry.event == "expired"]
        tap.narrate(
            f"a request with a wait of {wait} ms: "
            f"the expiry was found after {int(found) - killed} ms"
        )
        self.work.go()
        self.succeeded(c, "job")

    def children(self, daemon):
        tasks = pathlib.Path(f"/proc/{daemon.pid}/task").glob("*/children")
        return [pid for task in tasks for pid in task.read_text().split()]

    def test_late_ack_is_redelivered(self):
        """B6.F20: a request whose lease is too short for that is delivered again by the broker:
        same attempt."""
        c = self.start(agents=2, agent={"consumer_timeout": "2h"})
        self.submit(c, "job", heartbeat_ms=20_000)
        self.work.await_reported("begin", "job")
        next(agent for agent in c.agents if self.children(agent)).kill()
        self.assertEqual(1, self.work.await_reported("begin", "job", times=2)[0])
        self.work.go()
        self.succeeded(c, "job")
        self.assertEqual([], c.store.events("job", "expired"))

    def test_nothing_waits_behind_long_work(self):
        """B5: an agent whose slots are taken by acknowledged requests takes no more than it can
        begin."""
        c = self.start(agents=2, agent={"concurrency": 1}, ack="early")
        self.submit(c, "job")
        self.work.await_reported("begin", "job")
        shorts = [f"short-{i}" for i in range(8)]
        for job_id in shorts:
            self.submit(c, job_id)
        for event in c.client.all_settled(shorts):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
            self.assertEqual([], c.store.events(event.job_id, "deferred"))
            self.assertEqual(1, c.dispatches(event.job_id))
        self.assertEqual(wire.STEP_STATE_RUNNING, self.status(c, "job").state)
        servers.wait_for(
            lambda: c.client.queue("drover.task.long")[1] == 1, "the busy one to pause"
        )
        self.work.go()
        self.succeeded(c, "job")
        servers.wait_for(
            lambda: c.client.queue("drover.task.long")[1] == 2, "both to consume again"
        )

    def cancel_in_mid_flight(self, c):
        self.submit(c, "job", heartbeat_ms=1000)
        pid = self.work.await_reported("begin", "job")[1]
        c.client.control("job", cancel=wire.Cancel())
        self.assertEqual(wire.OUTCOME_CANCELLED, c.client.settled("job").outcome)
        servers.wait_for(lambda: servers.gone(pid), "the program to be gone")
        self.assertEqual(1, len(c.store.events("job", "deferred")))
        self.assertEqual("UNWANTED", getattr(self.status(c, "job").last_error, "class"))
        c.await_idle()

    def test_unwanted_is_terminated(self):
        """B6: a cancel reaches the program as SIGTERM, and the store records that it has ended."""
        c = self.start()
        self.cancel_in_mid_flight(c)
        self.assertEqual(1, len(self.work.reported("term", "job")))

    def test_unwanted_program_that_ignores_sigterm_is_killed(self):
        """B6: a program that ignores SIGTERM is killed after kill_grace."""
        c = self.start(manner="stubborn")
        self.cancel_in_mid_flight(c)
        self.assertEqual(1, len(self.work.reported("term", "job")))

    def test_unwanted_request_is_aborted(self):
        """B6: an HTTP request that the job does not want any more is aborted."""
        server = socket.create_server((servers.HOST, 0))
        self.addCleanup(server.close)
        closed = threading.Event()

        def serve():  # reads everything, and never answers
            connection, _ = server.accept()
            with connection, contextlib.suppress(ConnectionError):
                while connection.recv(4096):
                    pass
            closed.set()

        threading.Thread(target=serve, daemon=True).start()
        action = {"name": "*", "url": f"http://{servers.HOST}:{server.getsockname()[1]}/"}
        actor = {"name": "long", "handler": "http", "actions": [action]}
        c = self.cluster(settings={"agent": {"agent": {"actors": [cluster.BUILTIN, actor]}}})
        self.submit(c, "job", heartbeat_ms=1000)
        self.await_step(c, "job", lambda s: s.state == wire.STEP_STATE_RUNNING, "the request")
        c.client.control("job", cancel=wire.Cancel())
        self.assertEqual(wire.OUTCOME_CANCELLED, c.client.settled("job").outcome)
        self.assertTrue(closed.wait(60))
        self.assertEqual([], c.store.events("job", "failed"))

    def test_cut_off(self):
        """B6.F8: if no Progress gets through, the agent stops its run before another one has worked
        for long."""
        c = self.start()
        self.submit(c, "job", heartbeat_ms=1000)
        self.work.await_reported("begin", "job")
        self.await_step(
            c, "job", lambda s: s.until < c.client.status("job").now + 10_000, "Progress"
        )
        with c.rabbit.deaf(c.name, "drover-agent bus-publish"):
            self.work.await_reported("term", "job")
            self.assertEqual(1, len(c.agents[0].records("step_cut_off")))
        self.work.go()
        self.succeeded(c, "job")
        self.assertEqual([], c.store.events("job", "failed"))


if __name__ == "__main__":
    tap.main()
