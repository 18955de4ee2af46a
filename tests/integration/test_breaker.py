# SPDX-License-Identifier: Apache-2.0
"""Services that are dead, ask to be left alone, or hang: the http handler spares them, nothing parks,
and everything completes.

    DROVER_TEST_OUTAGE_S=120    how long payment is dead (default 5), at the breaker's real times
"""

import collections
import http.server
import os
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import cluster
import orders
import servers
import tap
import wire

OUTAGE_S = float(os.environ.get("DROVER_TEST_OUTAGE_S", "5"))
ORDERS = 200
AGENTS = 2
SLOTS = 4  # of payments in the example: a third of 12
FAILURES = 5
OPEN_S, OPEN_MAX_S = (1, 10) if OUTAGE_S >= 60 else (0.2, 1)
OPENED = 4  # times at least, in each agent
TIMEOUT_S = 120 * cluster.SLOW
HANG_UP_S = 0.5 * cluster.SLOW  # to be scheduled in, at both ends
CLOCKS_S = 0.05  # they count in milliseconds, and are not the same one


class DeadEnd(threading.Thread):
    """Listens on a port and hangs up on whoever calls."""

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
        """What an outage may cost: until each agent's breaker opens, and the probes after that."""
        probes, wait, at = 0, OPEN_S, OPEN_S
        while at <= seconds:
            probes, wait = probes + 1, min(2 * wait, OPEN_MAX_S)
            at += wait
        return AGENTS * (FAILURES - 1 + SLOTS + probes)

    def over(self, c, began):
        opened = [len(agent.records("breaker_open")) for agent in c.agents]
        return time.monotonic() >= began + OUTAGE_S and min(opened) >= OPENED

    def test_dead_service(self):
        world = orders.World(self.directory, breaker=self.breaker(), without=["payment"])
        self.addCleanup(world.close)
        payment = world.services["payment"]
        c = self.cluster(agents=AGENTS, settings=world.settings(), actor=orders.ACTOR)
        dead = DeadEnd(payment.port)
        began = time.monotonic()
        placed = world.place(ORDERS)
        world.start_shop(c.url)
        servers.wait_for(lambda: self.over(c, began), "the outage", OUTAGE_S + TIMEOUT_S)
        dead.close()
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
            f"dead for {lasted:.1f} s: {dead.calls} calls, {most} would be fine,"
            f" {deferred} deferred, {failed} failed; all completed {back:.1f} s after"
        )
        self.assertGreater(deferred, 0)
        self.assertGreaterEqual(dead.calls, AGENTS * (FAILURES + OPENED - 1))
        self.assertLessEqual(dead.calls, most)
        self.assertLessEqual(failed, dead.calls)


class Call:
    def __init__(self, key):
        self.key, self.began = key, time.monotonic()
        self.ended = None  # when it was answered, or hung up on
        self.retry_after = 0


class Moody(http.server.BaseHTTPRequestHandler):
    """Answers the calls of each key as its server's moods say, one after another, then with 200."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        call, nth = self.server.note(self.headers["Idempotency-Key"])
        mood = self.server.moods[nth] if nth < len(self.server.moods) else None
        if mood == "hang":
            self.connection.recv(1)  # until the other end hangs up
            call.ended = time.monotonic()
            return
        call.retry_after = mood or 0
        call.ended = time.monotonic()  # the caller counts from a later moment
        self.send_response(429 if mood else 200)
        if mood:
            self.send_header("Retry-After", str(mood))
        self.end_headers()

    def log_message(self, *_):
        pass


class Service(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, moods):
        super().__init__((servers.HOST, 0), Moody)
        self.moods = moods  # "hang", or seconds of Retry-After
        self.calls = []
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def note(self, key):
        """Returns (the call, how many with its key were before)."""
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


class MoodyServices(cluster.TestCase):
    def start(self, moods, **actor):
        service = Service(moods)
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

    def check_patience(self, service, jobs, moods):
        """No call with the same key came earlier than the answer before it allowed."""
        calls = service.by_key()
        self.assertEqual({f"{job_id}/call/1" for job_id in jobs}, set(calls))
        for key, tries in calls.items():
            self.assertEqual(len(moods) + 1, len(tries), key)
            for call, following in zip(tries, tries[1:]):
                self.assertGreaterEqual(following.began - call.ended, call.retry_after - CLOCKS_S)

    def test_retry_after_within_the_lease(self):
        moods = [1, 2]
        service, c = self.start(moods)
        jobs = self.run_jobs(c, 10, lock_ms=60000)
        self.check_patience(service, jobs, moods)
        self.assertEqual([], [job for job in jobs if c.store.events(job, "failed")])

    def test_retry_after_beyond_the_lease(self):
        moods = [2, 3]
        service, c = self.start(moods)
        jobs = self.run_jobs(c, 10, lock_ms=1000, wait_ms=30000)
        self.check_patience(service, jobs, moods)
        for job_id in jobs:
            self.assertEqual(2, len(c.store.events(job_id, "failed")))

    def test_hangs(self):
        lock_ms = 1000 * cluster.SLOW
        service, c = self.start(["hang", "hang"], lease_retries=0, breaker={"failures": 1000})
        for job_id in self.run_jobs(c, 5, lock_ms=lock_ms, wait_ms=30000):
            history = c.store.history(job_id)
            ends = [entry[2] for entry in history if entry[2] in ("failed", "expired", "done")]
            self.assertEqual("done", ends.pop())
            self.assertEqual(2, len(ends))
        # What counts as failed was so within its lease, by its token; and the service saw the end.
        for tries in service.by_key().values():
            self.assertEqual(3, len(tries))
            self.assertTrue(all(call.ended for call in tries))
        held = [call.ended - call.began for call in service.calls]
        tap.narrate(f"a lease of {lock_ms} ms, hung up on after {max(held) * 1000:.0f} ms at most")
        self.assertLessEqual(max(held), lock_ms / 1000 + HANG_UP_S)


if __name__ == "__main__":
    tap.main()
