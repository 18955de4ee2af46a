# SPDX-License-Identifier: Apache-2.0
"""Steps that are requests over HTTP to a service in this process: the requests, the verdicts about
answers, TLS, and the end of an agent with requests in progress."""

import http.server
import json
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import authority
import cluster
import hangup
import health
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
        tls = isinstance(handler.connection, ssl.SSLSocket)
        self.certificate = tls and handler.connection.getpeercert()


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
        agent = {"concurrency": concurrency, "actors": [cluster.BUILTIN, *actors]}
        settings = {"agent": {"agent": agent, "health": {"listen": f"{servers.HOST}:0"}}}
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

    # --- TLS ---

    def tls_service(self, issued, clients=None, newest=None):
        """clients: the authority of the certificates that the service wants of its clients. newest:
        version of TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.cert, issued.key)
        if newest:
            context.set_ciphers("ALL:@SECLEVEL=0")  # else OpenSSL itself does without old versions
            with warnings.catch_warnings(action="ignore"):
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = newest
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.ca)
        service = self.service(lambda _: json_answer("hello", Connection="close"), context)
        service.context = context
        return service

    def authorities(self):
        return [authority.Authority(self.directory / name) for name in ("ours", "theirs")]

    def once(self, c, action, reason="EXHAUSTED"):
        """Has the step of a job tried once; returns the class and the error with which it parks."""
        policy = wire.Policy(on_permanent=wire.RECOURSE_PARK, initial_interval_ms=50,
                             maximum_attempts=1, park_interval_ms=-1)
        c.client.submit(wire.submit(action, [wire.step("s", "s", action, retry=policy)]))
        servers.wait_for(lambda: c.store.events(action, "parked"), f"{action} to park")
        self.assertEqual([["0", reason]], c.store.events(action, "parked"))
        return self.last_error(c, action)

    def refusals(self, c):
        """Returns what the agent says of services that a person must mend, which it counts too."""
        (agent,) = c.agents
        records = agent.records("service_refused")
        self.assertEqual(len(records),
                         health.metrics(agent)["drover_agent_service_refused_total"])
        return [record["why"] for record in records]

    def test_tls(self):
        """Only a service with a trusted certificate for its host, valid now, gets a request."""
        ours, _ = self.authorities()
        own = ours.issue_client("agent")
        good = self.tls_service(ours.issue_server("good", servers.HOST))
        strict = self.tls_service(ours.issue_server("strict", servers.HOST), clients=ours)
        trusted = {"ca_file": str(ours.ca)}
        certified = {"cert_file": str(own.cert), "key_file": str(own.key)}
        c = self.http_cluster(
            actor("s",
                  {"name": "good", "url": good.url, **trusted},
                  {"name": "certified", "url": strict.url, **trusted, **certified},
                  lease_retries=0),
            # for all actions of the actor
            actor("t", {"name": "*", "url": strict.url}, **trusted, **certified),
        )
        for who, action in (("s", "good"), ("s", "certified"), ("t", "any")):
            c.client.submit(wire.submit(action, [wire.step("s", who, action)]))
            self.assertEqual(b'"hello"', c.client.settled(action).results[0].payload.data)
        self.assertEqual([1, 2], [len(good.asked), len(strict.asked)])
        self.assertEqual([], self.refusals(c))

    def test_refused_services(self):
        """Each fault that a person must mend has a text that says what it is, and is counted. The
        step is tried again."""
        ours, theirs = self.authorities()
        host = servers.HOST
        old, last = ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2
        good = self.tls_service(ours.issue_server("good", host))
        strict = self.tls_service(ours.issue_server("strict", host), clients=ours, newest=last)
        itself = self.tls_service(authority.Issued(theirs.ca, theirs.ca.with_suffix(".key")))
        misnamed = self.tls_service(ours.issue_server("misnamed", "other.example"))
        expired = self.tls_service(ours.issue_server("expired", host, days=0))
        outdated = self.tls_service(ours.issue_server("outdated", host), newest=old)
        plain = self.service(lambda _: json_answer("no"))
        silent = self.enterContext(socket.create_server((host, 0)))
        foreign = theirs.issue_client("agent")
        foreign = {"cert_file": str(foreign.cert), "key_file": str(foreign.key)}
        stranger = "its certificate is of an authority that is not in ca_file"
        system = f"{stranger} (unable to get"
        if not pathlib.Path("/etc/ssl/certs/ca-certificates.crt").exists():
            system = "the system has no authorities: give ca_file, or install them ("
        question = "does it speak TLS at this port?"
        rows = [
            ("system", good.url, {"ca_file": None}, system),
            ("wrong", good.url, {"ca_file": str(theirs.ca)}, f"{stranger} ("),
            ("itself", itself.url, {}, f"{stranger} (self"),
            ("misnamed", misnamed.url, {},
             f"its certificate is not for {host}: connect by a name that it has"),
            ("expired", expired.url, {}, "its certificate, or that of its authority, has expired"),
            ("outdated", outdated.url, {}, "it does not speak TLS 1.2 or later"),
            ("uncertified", strict.url, {},
             "it refuses the handshake: it wants a certificate of cert_file, or other ciphers"),
            ("foreign", strict.url, foreign,
             "it refuses the certificate of cert_file, or its absence ("),
            ("plain", f"https://{host}:{plain.port}", {}, "it does not speak TLS at this port"),
            ("ending", f"https://{host}:{hangup.serve(self)}", {},
             f"the server ended the TLS handshake: {question}"),
            ("silent", f"https://{host}:{silent.getsockname()[1]}", {"timeout": "2s"},
             f"the server does not answer the TLS handshake: {question}"),
            ("clear", f"http://{host}:{good.port}", {},
             f"the server ended the connection without an answer: {question}"),
        ]
        actions = [{"name": name, "url": url, "ca_file": str(ours.ca), **more}
                   for name, url, more, _ in rows]
        c = self.http_cluster(actor("s", *actions, lease_retries=0))
        for i, (name, url, _, said) in enumerate(rows):
            with self.subTest(name):
                found, error = self.once(c, name)
                self.assertTrue(error.message.startswith(f"{url}: {said}"), error.message)
                # Clear text was sent before the service ended the connection.
                self.assertEqual("NETWORK" if name == "clear" else "CONNECT", found)
                self.assertEqual(wire.EFFECT_UNKNOWN, error.effect)
                self.assertEqual([error.message], self.refusals(c)[i:])
        asked = [service.asked for service in
                 (good, strict, itself, misnamed, expired, outdated, plain)]
        self.assertEqual([[]] * len(asked), asked)

    def test_refused_certificate_of_tls_1_3(self):
        """The service says what it thinks of the agent's certificate when the agent may have sent
        the request, or it resets the connection: then there is only a question."""
        ours, theirs = self.authorities()
        strict = self.tls_service(ours.issue_server("strict", servers.HOST), clients=ours)
        foreign = theirs.issue_client("agent")
        c = self.http_cluster(
            actor("s",
                  {"name": "uncertified", "url": strict.url},
                  {"name": "foreign", "url": strict.url, "cert_file": str(foreign.cert),
                   "key_file": str(foreign.key)},
                  lease_retries=0, ca_file=str(ours.ca)))
        for action in ("uncertified", "foreign"):
            with self.subTest(action):
                before = len(self.refusals(c))
                found, error = self.once(c, action)
                self.assertIn("the certificate of cert_file, or its absence", error.message)
                self.assertEqual(("NETWORK", wire.EFFECT_UNKNOWN), (found, error.effect))
                self.assertEqual([error.message] if "refuses" in error.message else [],
                                 self.refusals(c)[before:])
        self.assertEqual([], strict.asked)

    def test_outage(self):
        """A service that has answered is at the right port: if it ends handshakes later, it needs
        no person."""
        ours, _ = self.authorities()
        service = self.tls_service(ours.issue_server("server", servers.HOST))
        c = self.http_cluster(
            actor("s", {"name": "*", "url": service.url, "ca_file": str(ours.ca)}, lease_retries=0))
        c.client.submit(wire.submit("first", [wire.step("s", "s", "any")]))
        self.assertEqual(b'"hello"', c.client.settled("first").results[0].payload.data)
        service.close()
        hangup.serve(self, service.port)
        found, error = self.once(c, "second")
        self.assertEqual(("CONNECT", f"{service.url}: the server ended the TLS handshake"),
                         (found, error.message))
        self.assertEqual([], self.refusals(c))

    def test_bad_request_in_clear_text(self):
        """A port for TLS that answers 400 to clear text has answered, as any service may: that is
        permanent, and its words are in the details."""
        words = b"Client sent an HTTP request to an HTTPS server.\n"
        service = self.service(lambda _: (400, {"Connection": "close"}, words))
        c = self.http_cluster(actor("s", {"name": "*", "url": service.url}))
        found, error = self.once(c, "job", reason="PERMANENT")
        self.assertEqual(("HTTP_400", words.decode()), (found, error.details))
        self.assertEqual([], self.refusals(c))

    def assert_expiry(self, agent, days):
        """The metric says that a certificate for services, issued just now, lasts these days, and
        another one not less."""
        at = health.metrics(agent)["drover_agent_service_tls_expiry_seconds"]
        self.assertLess(abs(at - time.time() - days * 86400), 3600)

    def test_wrong_files(self):
        """An agent does not start with files that it cannot use."""
        ours, theirs = self.authorities()
        own, other = ours.issue_client("own"), theirs.issue_client("other")
        readable = own.key.with_suffix(".open")
        shutil.copy(own.key, readable)
        readable.chmod(0o644)
        for files, said in (
            ({"ca_file": "/nonexistent"}, "ca_file: cannot read /nonexistent: No such file"),
            ({"ca_file": own.key}, f"ca_file: {own.key} has no certificate in PEM"),
            ({"cert_file": own.cert}, "key_file: is missing"),
            ({"cert_file": own.cert, "key_file": other.key}, "belongs to"),
            ({"cert_file": own.cert, "key_file": readable}, f"chmod o= {readable}"),
        ):
            with self.subTest(said):
                files = {name: str(path) for name, path in files.items()}
                config = self.directory / "wrong.cfg"
                action = {"name": "x", "url": "https://h/", **files}
                config.write_text(
                    f"agent = {cluster.libconfig({'actors': [actor('a', action)]})};\n")
                done = subprocess.run(
                    [wire.BUILD / "agent" / "drover-agent", "--check-config", "--config", config],
                    capture_output=True, text=True, timeout=60, env=cluster.own_environment())
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn(f"agent.actors[0].actions[0].{said}" if ": " in said else said,
                              done.stderr)

    def test_rotation(self):
        """Certificates are replaced while the agent runs. A new one of the agent counts from the
        next connection on, a new authority after SIGHUP; a wrong file is refused then."""
        ours, theirs = self.authorities()
        own, later = ours.issue_client("agent"), ours.issue_client("later", days=20)
        trusted = self.directory / "trusted.pem"
        trusted.write_bytes(ours.ca.read_bytes())
        service = self.tls_service(ours.issue_server("server", servers.HOST), clients=ours)
        c = self.http_cluster(
            actor("s", {"name": "*", "url": service.url}, ca_file=str(trusted),
                  cert_file=str(own.cert), key_file=str(own.key), lease_retries=0),
            actor("t", {"name": "*", "url": service.url},
                  cert_file=str(later.cert), key_file=str(later.key)))
        agent = c.agents[0]

        def serial(job):
            """Returns that of the certificate with which the agent has done a job."""
            once = wire.Policy(maximum_attempts=1)
            c.client.submit(wire.submit(job, [wire.step("s", "s", "any", retry=once)]))
            self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled(job).outcome)
            return service.asked[-1].certificate["serialNumber"]

        first = serial("first")
        self.assert_expiry(agent, days=1)
        ours.issue_client("agent", days=9)
        self.assertNotEqual(first, serial("second"))
        self.assert_expiry(agent, days=9)
        trusted.write_text("nonsense")
        agent.signal(signal.SIGHUP)
        servers.wait_for(lambda: agent.records("reload_refused"), "the refusal")
        trusted.write_bytes(ours.ca.read_bytes() + theirs.ca.read_bytes())
        agent.signal(signal.SIGHUP)
        servers.wait_for(lambda: agent.records("reloaded"), "the new authority")
        issued = theirs.issue_server("server", servers.HOST)
        service.context.load_cert_chain(issued.cert, issued.key)
        serial("third")
        self.assertEqual([], agent.records("service_refused"))

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
