# SPDX-License-Identifier: Apache-2.0
"""Steps that are requests over HTTP to a service in this process: the requests, the verdicts about
answers, TLS, and the end of an agent with requests in progress."""

import http.server
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

SOON = wire.Policy(
    on_permanent=wire.RECOURSE_PARK, initial_interval_ms=50, maximum_attempts=3, park_interval_ms=-1
)


class Request:
    def __init__(self, handler):
        self.method, self.path, self.headers = handler.command, handler.path, handler.headers
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))


class Service:
    """Answers as answer(Request) returns: (status, headers, body)."""

    def __init__(self, answer, tls=None):
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                request = Request(self)
                service.asked.append(request)
                status, headers, body = answer(request)
                self.send_response(status)
                for name, value in {"Content-Length": len(body), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

            def log_message(self, *_arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # the client is gone, or does not trust the server

        self.asked = []
        self._server = Server((servers.HOST, 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://{servers.HOST}:{self.port}"
        if tls:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def paths(self):
        return [request.path for request in self.asked]


def json_answer(value, status=200, **headers):
    return status, {"Content-Type": "application/json", **headers}, json.dumps(value).encode()


def actor(name, *actions, **more):
    return {"name": name, "handler": "http", "actions": list(actions), **more}


class Http(cluster.TestCase):
    def service(self, answer, tls=None):
        service = Service(answer, tls)
        self.addCleanup(service.close)
        return service

    def http_cluster(self, *actors, concurrency=4, **more):
        settings = {
            "agent": {"agent": {"concurrency": concurrency, "actors": [cluster.BUILTIN, *actors]}}
        }
        return self.cluster(settings=settings, **more)

    def last_error(self, c, job_id):
        error = c.client.status(job_id).steps[0].last_error
        return getattr(error, "class"), error

    def test_a_job(self):
        """The result of one service is part of the request to the next."""

        def answer(request):
            if request.path.startswith("/reservations"):
                return json_answer({"id": "r/7", "items": 2}, status=201)
            return 200, {"Content-Type": "text/plain"}, b"charged"

        service = self.service(answer)
        c = self.http_cluster(
            actor(
                "stock",
                {"name": "reserve", "method": "PUT", "url": service.url + "/reservations/${job}"},
            ),
            actor(
                "payments",
                {
                    "name": "charge",
                    "url": service.url
                    + "/charges/${results.reserve.id}?n=${results.reserve.items}",
                    "headers": ["X-Customer: ${input.customer}"],
                },
            ),
        )
        steps = [
            wire.step("reserve", "stock", "reserve"),
            wire.step("charge", "payments", "charge", after=["reserve"]),
        ]
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        given = wire.payload(b'{"customer": "K\xc3\xb6nig"}', "application/json")
        c.client.submit(wire.submit("job", steps, input=given, traceparent=trace))
        event = c.client.settled("job")
        self.assertEqual(wire.OUTCOME_SUCCEEDED, event.outcome)
        self.assertEqual((b"charged", "text/plain"),
                         (event.results[0].payload.data, event.results[0].payload.content_type))
        self.assertEqual(["/reservations/job", "/charges/r%2F7?n=2"], service.paths())
        reserve, charge = service.asked
        self.assertEqual(("PUT", "POST"), (reserve.method, charge.method))
        self.assertEqual("job/reserve/1", reserve.headers["Idempotency-Key"])
        self.assertEqual("job/charge/1", charge.headers["Idempotency-Key"])
        self.assertEqual(trace[:35], charge.headers["traceparent"][:35])
        self.assertEqual("K%C3%B6nig", charge.headers["X-Customer"])
        self.assertEqual(
            {
                "job": "job",
                "step": "charge",
                "arguments": None,
                "input": {"customer": "König"},
                "results": {"reserve": {"id": "r/7", "items": 2}},
            },
            json.loads(charge.body),
        )
        c.await_idle()

    def test_verdicts(self):
        """A permanent failure is not tried again; a transient one is, first within the lease."""
        service = self.service(lambda request: json_answer("no", status=int(request.path[1:])))
        url = service.url + "/${arguments}"
        patient = {"failures": 1000}
        c = self.http_cluster(
            actor("once", {"name": "*", "url": url}, lease_retries=0, breaker=patient),
            actor("thrice", {"name": "*", "url": url}, lease_retries=2, breaker=patient),
        )
        for job_id, who, status, reason, asked in (
            ("gone", "once", 404, "PERMANENT", 1),
            ("broken", "once", 500, "EXHAUSTED", 3),
            ("flaky", "thrice", 502, "EXHAUSTED", 9),
        ):
            del service.asked[:]
            status_text = wire.payload(str(status).encode(), "text/plain")
            steps = [wire.step("s", who, "any", arguments=status_text, retry=SOON)]
            c.client.submit(wire.submit(job_id, steps))
            servers.wait_for(lambda j=job_id: c.store.events(j, "parked"), f"{job_id} to park")
            self.assertEqual([["0", reason]], c.store.events(job_id, "parked"))
            name, error = self.last_error(c, job_id)
            self.assertEqual((f"HTTP_{status}", '"no"'), (name, error.details))
            self.assertEqual(asked, len(service.asked))

    def certificate(self, name):
        """Returns the context of a server with this name, and the file to trust."""
        key, file = self.directory / f"{name}.key", self.directory / f"{name}.pem"
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                "/CN=test", "-addext", f"subjectAltName={name}", "-keyout", key, "-out", file,
            ],
            check=True,
            capture_output=True,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file, key)
        return context, str(file)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tls(self):
        """A service without a trusted certificate gets no request."""
        context, trusted = self.certificate(f"IP:{servers.HOST}")
        other_context, other = self.certificate("DNS:other.example")
        service = self.service(lambda _: json_answer("hello"), context)
        stranger = self.service(lambda _: json_answer("hello"), other_context)
        c = self.http_cluster(
            actor(
                "s",
                {"name": "trusted", "url": service.url, "ca_file": trusted},
                {"name": "unknown", "url": service.url},
                {"name": "wrong", "url": service.url, "ca_file": other},
                {"name": "misnamed", "url": stranger.url, "ca_file": other},
                {"name": "missing", "url": service.url, "ca_file": trusted + ".not"},
                lease_retries=0,
            )
        )
        once = wire.Policy(initial_interval_ms=50, maximum_attempts=1, park_interval_ms=-1)
        c.client.submit(wire.submit("good", [wire.step("s", "s", "trusted", retry=once)]))
        self.assertEqual(b'"hello"', c.client.settled("good").results[0].payload.data)
        for action in ("unknown", "wrong", "misnamed", "missing"):
            c.client.submit(wire.submit(action, [wire.step("s", "s", action, retry=once)]))
            servers.wait_for(lambda a=action: c.store.events(a, "parked"), f"{action} to park")
            name, error = self.last_error(c, action)
            self.assertEqual(("CONNECT", wire.EFFECT_UNKNOWN), (name, error.effect), error.message)
            self.assertIn("certificate", error.message)
        self.assertEqual((1, 0), (len(service.asked), len(stranger.asked)))

    def test_stop(self):
        """An agent that is asked to end waits for the answers of its requests."""
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def answer(_request):
            go_on.wait(60)
            return json_answer("late")

        service = self.service(answer)
        c = self.http_cluster(actor("s", {"name": "*", "url": service.url}))
        c.client.submit(wire.submit("job", [wire.step("s", "s", "any")]))
        servers.wait_for(lambda: service.asked, "the request")
        c.agents[0].begin_stop()
        servers.wait_for(lambda: c.agents[0].records("stopping"), "the agent to be stopping")
        go_on.set()
        c.agents[0].await_stop()
        self.assertEqual([0], c.agents[0].exit_codes)
        self.assertEqual(b'"late"', c.client.settled("job").results[0].payload.data)
        self.assertEqual((1, 1), (len(service.asked), c.dispatches("job")))

    def test_kill(self):
        """After a crash the service is called again, under the same key."""
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def answer(_request):
            if len(service.asked) == 1:
                go_on.wait(60)
            return json_answer("done")

        service = self.service(answer)
        c = self.http_cluster(actor("s", {"name": "*", "url": service.url}))
        c.client.submit(wire.submit("job", [wire.step("s", "s", "any")]))
        servers.wait_for(lambda: service.asked, "the request")
        c.agents[0].kill()
        c.agents[0].start()
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)
        go_on.set()
        self.assertEqual(
            ["job/s/1", "job/s/1"],
            [request.headers["Idempotency-Key"] for request in service.asked],
        )


if __name__ == "__main__":
    tap.main()
