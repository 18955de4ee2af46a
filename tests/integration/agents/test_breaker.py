# SPDX-License-Identifier: Apache-2.0
"""Services that are down, ask for a pause, or hang, and programs that fail: their handlers call
them less often, nothing parks, and everything completes.

    DROVER_TEST_OUTAGE_S=120    how long payment is down (default 5), with the breaker's real times
"""

import collections
import http.server
import os
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import orders
import servers
import tap
import wire

OUTAGE_S = float(os.environ.get("DROVER_TEST_OUTAGE_S", "5"))
ORDERS = 200
AGENTS = 2
SLOTS = 4  # for payments in the example: a third of 12
FAILURES = 5
OPEN_S, OPEN_MAX_S = (1, 10) if OUTAGE_S >= 60 else (0.2, 1)
OPENED = 4  # the least number of times, in each agent
TIMEOUT_S = 120 * cluster.SLOW
HANG_UP_S = 0.5 * cluster.SLOW  # so that both ends get scheduled
CLOCKS_S = 0.05  # both count milliseconds, by different clocks


class DownService(threading.Thread):
    """Listens on a port, and closes each connection."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.calls = 0
        self._listener = socket.create_server((servers.HOST, port), backlog=128)
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.calls += 1
            connection.close()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.join()


class Outage(cluster.TestCase):
    def breaker(self):
        times = f'open = "{int(OPEN_S * 1000)}ms"; open_max = "{int(OPEN_MAX_S * 1000)}ms";'
        return f"{{ failures = {FAILURES}; {times} }}"

    def most_calls(self, seconds):
        """Returns the most calls that an outage may cost: until each agent's breaker opens, and the
        probes afterwards."""
        probes, wait, at = 0, OPEN_S, OPEN_S
        while at <= seconds:
            probes, wait = probes + 1, min(2 * wait, OPEN_MAX_S)
            at += wait
        return AGENTS * (FAILURES - 1 + SLOTS + probes)

    def over(self, c, began):
        opened = [len(agent.records("breaker_open")) for agent in c.agents]
        return time.monotonic() >= began + OUTAGE_S and min(opened) >= OPENED

    def test_service_that_is_down(self):
        world = orders.World(self.directory, breaker=self.breaker(), without=["payment"])
        self.addCleanup(world.close)
        payment = world.services["payment"]
        c = self.cluster(agents=AGENTS, settings=world.settings(), actor=orders.ACTOR)
        down = DownService(payment.port)
        began = time.monotonic()
        placed = world.place(ORDERS)
        world.start_shop(c)
        servers.wait_for(lambda: self.over(c, began), "the outage", OUTAGE_S + TIMEOUT_S)
        down.close()
        lasted = time.monotonic() - began
        payment.start()
        world.await_ended(TIMEOUT_S)
        back = time.monotonic() - began - lasted

        self.assertEqual({"completed": ORDERS}, world.states())
        self.assertEqual([], world.audit().problems)
        self.assertEqual([], [job for job in placed if c.store.events(job, "parked")])
        failed = sum(len(c.store.events(job, "failed")) for job in placed)
        deferred = sum(len(c.store.events(job, "deferred")) for job in placed)
        most = self.most_calls(lasted)
        tap.narrate(
            f"down for {lasted:.1f} s: {down.calls} calls, {most} would be fine,"
            f" {deferred} deferred, {failed} failed; all completed {back:.1f} s after"
        )
        self.assertGreater(deferred, 0)
        self.assertGreaterEqual(down.calls, AGENTS * (FAILURES + OPENED - 1))
        self.assertLessEqual(down.calls, most)
        self.assertLessEqual(failed, down.calls)


class FailingService:
    """Answers 503 to each call until it is repaired."""

    failure = "HTTP_503"

    def __init__(self, _directory):
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                service.calls += 1
                self.send_response(200 if service.repaired else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.calls, self.repaired = 0, False
        self._server = http.server.HTTPServer((servers.HOST, 0), Handler)
        self.target = f"http://{servers.HOST}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def actor(self):
        return {"handler": "http", "actions": [{"name": "call", "url": self.target + "/${job}"}]}

    def repair(self):
        self.repaired = True

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class FailingProgram:
    """Exits with 69 (EX_UNAVAILABLE) until it is repaired. Each run appends a line to a file."""

    failure = "EXIT_69"
    target = "call"  # the name of the action

    SCRIPT = """\
echo "$DROVER_JOB" >>"$1/runs"
test -e "$1/repaired" || exit 69
"""

    def __init__(self, directory):
        self._directory = directory

    def actor(self):
        command = ["/bin/sh", "-c", self.SCRIPT, "sh", str(self._directory)]
        return {"handler": "exec", "actions": [{"name": self.target, "command": command}]}

    @property
    def calls(self):
        return len((self._directory / "runs").read_text().splitlines())

    def repair(self):
        (self._directory / "repaired").touch()

    def close(self):
        pass


class Failing(cluster.TestCase):
    """Steps whose target fails each time: a service, and a program."""

    def start(self, kind, breaker):
        called = kind(self.directory)
        self.addCleanup(called.close)
        actor = {"name": "caller", "lease_retries": 0, "breaker": breaker, **called.actor()}
        agent = {"agent": {"concurrency": SLOTS, "actors": [cluster.BUILTIN, actor]}}
        return called, self.cluster(settings={"agent": agent})

    def submit(self, c, job_id, **policy):
        retry = wire.Policy(initial_interval_ms=50, **policy)
        c.client.submit(wire.submit(job_id, [wire.step("s", "caller", "call", retry=retry)]))

    def check_recovery(self, kind):
        """While the target fails, steps are deferred without a call, and uncounted; then one probe
        succeeds."""
        failures = 3
        called, c = self.start(kind, {"failures": failures, "open": "100ms", "open_max": "400ms"})
        jobs = [f"job-{i}" for i in range(6)]
        for job_id in jobs:
            self.submit(c, job_id, maximum_attempts=100)
        servers.wait_for(
            lambda: sum(len(c.store.events(job, "deferred")) for job in jobs) > 10,
            "steps to be deferred",
        )
        called.repair()
        for event in c.client.all_settled(jobs, TIMEOUT_S):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)

        failed = sum(len(c.store.events(job, "failed")) for job in jobs)
        opened, closed = (c.agents[0].records(f"breaker_{event}") for event in ("open", "closed"))
        self.assertEqual(failed + len(jobs), called.calls)  # a deferred step has called nothing
        self.assertGreaterEqual(failed, failures + len(opened) - 1)
        # once the breaker is open there are only probes
        self.assertLessEqual(failed, failures + SLOTS - 1 + len(opened) - 1)
        self.assertEqual(1, len(closed))
        for record in (*opened, *closed):
            self.assertEqual(("caller", called.target), (record["actor"], record["target"]))
        self.assertEqual({called.failure}, {record["class"] for record in opened})
        c.await_idle()

    def test_service_recovers(self):
        self.check_recovery(FailingService)

    def test_program_recovers(self):
        self.check_recovery(FailingProgram)

    def check_park(self, kind):
        """A step that opens the breaker itself is not deferred for ever: it parks like any
        other."""
        called, c = self.start(kind, {"failures": 1, "open": "50ms", "open_max": "50ms"})
        self.submit(c, "job", maximum_attempts=3, park_interval_ms=-1)
        servers.wait_for(lambda: c.store.events("job", "parked"), "the step to park")
        self.assertEqual([["0", "EXHAUSTED"]], c.store.events("job", "parked"))
        self.assertEqual(
            called.failure, getattr(c.client.status("job").steps[0].last_error, "class")
        )
        self.assertEqual(3, called.calls)

    def test_step_for_a_service_parks(self):
        self.check_park(FailingService)

    def test_step_for_a_program_parks(self):
        self.check_park(FailingProgram)


class Call:
    def __init__(self, key):
        self.key, self.began = key, time.monotonic()
        self.ended = None  # when it was answered, or the caller has closed the connection
        self.retry_after = 0


class ScriptedHandler(http.server.BaseHTTPRequestHandler):
    """Answers the calls of each key by the list `behaviours` of its server, in order, then with
    200."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        call, nth = self.server.add_call(self.headers["Idempotency-Key"])
        behaviour = self.server.behaviours[nth] if nth < len(self.server.behaviours) else None
        if behaviour == "hang":
            self.connection.recv(1)  # until the caller closes the connection
            call.ended = time.monotonic()
            return
        call.retry_after = behaviour or 0
        call.ended = time.monotonic()  # the caller counts from a later moment
        self.send_response(429 if behaviour else 200)
        if behaviour:
            self.send_header("Retry-After", str(behaviour))
        self.end_headers()

    def log_message(self, *_):
        pass


class Service(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, behaviours):
        super().__init__((servers.HOST, 0), ScriptedHandler)
        self.behaviours = behaviours  # "hang", or seconds of Retry-After
        self.calls = []
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add_call(self, key):
        """Returns (the call, how many calls with its key came before)."""
        with self._lock:
            call = Call(key)
            self.calls.append(call)
            return call, sum(other.key == key for other in self.calls) - 1

    def by_key(self):
        found = collections.defaultdict(list)
        for call in self.calls:
            found[call.key].append(call)
        return found

    def close(self):
        self.shutdown()
        self.server_close()


class ScriptedServices(cluster.TestCase):
    def start(self, behaviours, **actor):
        service = Service(behaviours)
        self.addCleanup(service.close)
        url = f"http://{servers.HOST}:{service.server_address[1]}/${{job}}"
        served = {"name": "moody", "handler": "http", "actions": [{"name": "*", "url": url}]}
        actors = [cluster.BUILTIN, {**served, **actor}]
        agent = {"agent": {"concurrency": 20, "actors": actors}}
        return service, self.cluster(settings={"agent": agent})

    def run_jobs(self, c, count, **step):
        jobs = [f"job-{i}" for i in range(count)]
        for job_id in jobs:
            c.client.submit(wire.submit(job_id, [wire.step("call", actor="moody", **step)]))
        for event in c.client.all_settled(jobs, TIMEOUT_S):
            self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        return jobs

    def check_pauses(self, service, jobs, behaviours):
        """No call with a key came earlier than the answer before had allowed."""
        calls = service.by_key()
        self.assertEqual({f"{job_id}/call/1" for job_id in jobs}, set(calls))
        for key, tries in calls.items():
            self.assertEqual(len(behaviours) + 1, len(tries), key)
            for call, following in zip(tries, tries[1:]):
                self.assertGreaterEqual(following.began - call.ended, call.retry_after - CLOCKS_S)

    def test_retry_after_within_the_lease(self):
        behaviours = [1, 2]
        service, c = self.start(behaviours)
        jobs = self.run_jobs(c, 10, lock_ms=60000)
        self.check_pauses(service, jobs, behaviours)
        self.assertEqual([], [job for job in jobs if c.store.events(job, "failed")])

    def test_retry_after_beyond_the_lease(self):
        behaviours = [2, 3]
        service, c = self.start(behaviours)
        jobs = self.run_jobs(c, 10, lock_ms=1000, wait_ms=30000)
        self.check_pauses(service, jobs, behaviours)
        for job_id in jobs:
            self.assertEqual(2, len(c.store.events(job_id, "failed")))

    def test_hangs(self):
        lock_ms = 1000 * cluster.SLOW
        service, c = self.start(["hang", "hang"], lease_retries=0, breaker={"failures": 1000})
        for job_id in self.run_jobs(c, 5, lock_ms=lock_ms, wait_ms=30000):
            events = [entry.event for entry in c.store.history(job_id)]
            ends = [event for event in events if event in ("failed", "expired", "done")]
            self.assertEqual("done", ends.pop())
            self.assertEqual(2, len(ends))
        # Each failure that counts came within its lease, with its token, and the service has seen
        # the end.
        for tries in service.by_key().values():
            self.assertEqual(3, len(tries))
            self.assertTrue(all(call.ended for call in tries))
        held = [call.ended - call.began for call in service.calls]
        tap.narrate(f"a lease of {lock_ms} ms, hung up on after {max(held) * 1000:.0f} ms at most")
        self.assertLessEqual(max(held), lock_ms / 1000 + HANG_UP_S)


if __name__ == "__main__":
    tap.main()
