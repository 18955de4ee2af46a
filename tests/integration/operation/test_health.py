# SPDX-License-Identifier: Apache-2.0
"""What daemons report of their health, with servers that go away and come back."""

import contextlib
import http.client
import pathlib
import re
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import alert_rules
import cluster
import health
import promtool
import proxy
import servers
import tap
import wire

PAGE = wire.ROOT / "docs" / "OPERATIONS.md"
IDLE_CONNECTIONS = 40  # more than are served at the same time
FAMILY = re.compile(r"^# TYPE (\w+) (counter|gauge)$", re.MULTILINE)


def documented(role):
    """Returns the metrics of a role that OPERATIONS lists."""
    table = re.search(r"<!-- metrics -->\n(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL).group(1)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]+) \|", table, re.MULTILINE)
    return {(name, kind) for name, kind, who in rows if who == "all" or role in who.split(", ")}


class Pages(cluster.TestCase):
    def test_pages(self):
        c = self.cluster(settings=health.settings())
        health.await_ready(*c.daemons)
        for daemon in c.daemons:
            for path, body in (("/livez", "ok\n"), ("/readyz", "ready\n")):
                status, headers, text = health.ask(daemon, path)
                self.assertEqual((200, body), (status, text))
                self.assertEqual("no-store", headers["Cache-Control"])
                self.assertEqual("text/plain; charset=utf-8", headers["Content-Type"])
                self.assertEqual((200, ""), health.ask(daemon, path, "HEAD")[::2])
            self.assertEqual(200, health.ask(daemon, "/")[0])
            self.assertEqual(404, health.ask(daemon, "/livez/")[0])
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                status, headers, _ = health.ask(daemon, "/livez", method)
                self.assertEqual((405, "GET, HEAD"), (status, headers["Allow"]))

    def test_metrics(self):
        c = self.cluster(settings=health.settings())
        health.await_ready(*c.daemons)
        began = time.time()
        c.client.submit(wire.submit("this-job", wire.chain(3)))
        c.client.settled("this-job")
        for daemon in c.daemons:
            status, headers, page = health.ask(daemon, "/metrics")
            self.assertEqual(200, status)
            self.assertEqual(
                "text/plain; version=0.0.4; charset=utf-8", headers["Content-Type"]
            )
            self.assertEqual(documented(daemon.role), set(FAMILY.findall(page)))
            self.assertIn(f'role="{daemon.role}"', page)
            self.assertNotIn("this-job", page)
            values = health.metrics(daemon)
            for name in ("drover_ready", "drover_broker_up", "drover_build_info"):
                self.assertEqual(1, values[name], name)
            self.assertEqual(0, values["drover_broker_blocked"])
            self.assertGreater(values["drover_pulse_round_trip_seconds"], 0)
            self.assertGreater(values["process_resident_memory_bytes"], 1e6)
            self.assertLess(abs(values["process_start_time_seconds"] - began), 600)
        (scheduler,), (agent,), (supervisor,) = c.schedulers, c.agents, c.supervisors
        figures = health.metrics(scheduler)
        self.assertEqual(1, figures["drover_scheduler_created_total"])
        self.assertEqual(3, figures["drover_scheduler_dispatched_total"])
        self.assertEqual(3, figures["drover_scheduler_recorded_total"])
        self.assertEqual(1, figures["drover_store_up"])
        self.assertEqual(1, figures["drover_store_connects_total"])
        figures = health.metrics(agent)
        self.assertEqual(3, figures["drover_agent_succeeded_total"])
        self.assertEqual(4, figures["drover_agent_concurrency"])
        self.assertEqual(2, figures["drover_broker_connects_total"])
        figures = health.metrics(supervisor)
        self.assertEqual(16, figures["drover_supervisor_leading"])
        self.assertEqual(1, figures["drover_broker_connects_total"])

    def test_promtool(self):
        program = promtool.find()
        if not program:
            self.skipTest("no promtool")
        self.assertIn("no help text", promtool.complaints(program, "drover_metric_total 1\n"))
        c = self.cluster(settings=health.settings())
        for daemon in c.daemons:
            self.assertEqual("", promtool.complaints(program, health.ask(daemon, "/metrics")[2]))

    def test_alert_rules(self):
        """Prometheus takes the rules that OPERATIONS gives."""
        program = promtool.find()
        if not program:
            self.skipTest("no promtool")
        rules = alert_rules.of(PAGE.read_text(encoding="utf-8"))
        self.assertEqual("", promtool.rule_complaints(program, rules))
        self.assertIn("parse", promtool.rule_complaints(program, rules.replace(" > 0", " >")))

    def test_idle_connections(self):
        """Clients that connect and send nothing, or half a request, do not delay those of another
        address."""
        c = self.cluster(agents=1, supervisors=0, settings=health.settings())
        (agent,) = c.agents
        with contextlib.ExitStack() as stack:
            idle = [
                self.connect(stack, agent, b"GET /li" if i % 2 else b"", "127.0.0.2")
                for i in range(IDLE_CONNECTIONS)
            ]
            servers.wait_for(
                lambda: not self.is_open(idle[8]), "the ninth of one address to be closed"
            )
            self.assertTrue(
                self.is_open(idle[0]), "it was closed at once, not when its time was over"
            )
            self.assertEqual(200, health.ask(agent, "/livez")[0])
            self.assertLessEqual(len([c for c in idle if self.is_open(c)]), 8)
            c.client.submit(wire.submit("job", wire.chain(2)))
            self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    @staticmethod
    def is_open(connection):
        connection.setblocking(False)
        try:
            return connection.recv(1) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def connect(self, stack, daemon, content, source=servers.HOST):
        connection = socket.create_connection(
            (servers.HOST, health.port_of(daemon)), timeout=30, source_address=(source, 0)
        )
        stack.enter_context(connection)
        with contextlib.suppress(OSError):  # one too many of that address
            connection.sendall(content)
        return connection

    def test_slow_connections(self):
        """A connection is closed although a byte comes now and then, and --healthcheck does not
        depend on it."""
        c = self.cluster(agents=1, supervisors=0, settings=health.settings())
        (agent,) = c.agents
        listen = f"{servers.HOST}:{health.port_of(agent)}"
        ends = set()
        with contextlib.ExitStack() as stack:
            slow = [
                self.connect(stack, agent, b"GET /livez HTTP/1.1\r\nX: ")
                for _ in range(IDLE_CONNECTIONS)
            ]

            def trickle():
                for connection in slow:
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        ends.add(connection)
                return len(ends) == len(slow)

            trickle()
            done = subprocess.run(
                [wire.BUILD / "agent" / "drover-agent", "--healthcheck"], capture_output=True,
                text=True, env={**cluster.own_environment(), "DROVER_HEALTH__LISTEN": listen},
                timeout=30,
            )
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            servers.wait_for(trickle, "all slow connections to be closed")
        self.assertEqual(200, health.ask(agent, "/livez")[0])

    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            self.skipTest(f"no IPv6: {error}")
        c = self.cluster(supervisors=0, settings=health.settings(listen="[::]:0"))
        for daemon in c.daemons:
            for host in ("::1", servers.HOST):
                connection = http.client.HTTPConnection(host, health.port_of(daemon), timeout=30)
                with contextlib.closing(connection):
                    connection.request("GET", "/livez")
                    self.assertEqual(200, connection.getresponse().status)


class Unready(cluster.TestCase):
    def test_without_servers(self):
        """A daemon that was never connected is alive, not ready, and says why."""
        nowhere = {"port": servers.free_ports(1)[0]}
        c = self.cluster(settings=health.settings())
        agent = c.add_agent({"rabbitmq": nowhere})
        scheduler = c.add_scheduler({"redis": nowhere})
        for daemon in (agent, scheduler):
            servers.wait_for(lambda d=daemon: d.records("health_listening"), "it to listen")
            self.assertEqual(200, health.ask(daemon, "/livez")[0])
        self.assertEqual((503, "broker: not connected\n"), health.readiness(agent))
        self.assertEqual(
            (503, "store: not connected\nbroker: not connected\n"), health.readiness(scheduler)
        )

    def test_draining(self):
        """An agent that stops while a step runs is alive, not ready, and finishes the step."""
        begun, go = self.directory / "begun", self.directory / "go"
        script = 'echo >"$0"; while [ ! -e "$1" ]; do sleep 0.05; done'
        command = ["/bin/sh", "-c", script, str(begun), str(go)]
        actor = {"name": "nap", "handler": "exec", "actions": [{"name": "*", "command": command}]}
        actors = {"agent": {"agent": {"actors": [cluster.BUILTIN, actor]}}}
        c = self.cluster(settings=health.settings(actors))
        (agent,) = c.agents
        c.client.submit(wire.submit("job", [wire.step("s", "nap")]))
        servers.wait_for(begun.exists, "the step to begin")
        health.await_ready(agent)
        agent.begin_stop()
        health.await_reason("draining: told to end", agent)
        self.assertEqual(200, health.ask(agent, "/livez")[0])
        self.assertEqual(1, health.metrics(agent)["drover_agent_running"])
        go.touch()
        agent.await_stop()
        self.assertEqual([0], agent.exit_codes)
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_pulse_refused(self):
        """Without the rights for pulses a daemon works as usual, and says what is missing."""
        c = self.cluster(settings=health.settings())
        for daemon in c.daemons:
            daemon.stop()
        others = "^(?!drover[.]pulse[.]).*"
        self.rabbit.rabbitmqctl(
            "set_permissions", "-p", c.name, self.rabbit.user, others, ".*", ".*"
        )
        for daemon in c.daemons:
            daemon.start()
        c.await_ready()
        health.await_reason("pulse: refused by the broker", *c.schedulers, *c.agents)
        health.await_ready(*c.supervisors)
        self.assertIn("ACCESS_REFUSED", c.agents[0].records("bus_refused")[0]["why"])
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)


class Servers(cluster.TestCase):
    own_servers = True

    def check_kill(self, c, server, reason, up, connects, daemons):
        """Kills a server and starts it again. up and connects: the metrics that show this."""
        before = {daemon: health.metrics(daemon) for daemon in daemons}
        server.kill()
        health.await_reason(reason, *daemons)
        for daemon in c.daemons:
            self.assertEqual(200, health.ask(daemon, "/livez")[0])
        for daemon in daemons:
            figures = health.metrics(daemon)
            self.assertEqual((0, 0), (figures[up], figures["drover_ready"]))
        server.start()
        health.await_ready(*c.daemons)
        for daemon in daemons:
            figures = health.metrics(daemon)
            self.assertEqual((1, 1), (figures[up], figures["drover_ready"]))
            self.assertGreater(figures[connects], before[daemon][connects])
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_rabbitmq_killed(self):
        # With classic queues, because a quorum queue that was declared seconds before a kill is
        # broken afterwards.
        classic = {"rabbitmq": {"queue_type": "classic"}}
        c = self.cluster(settings=health.settings({role: classic for role in health.ROLES}))
        health.await_ready(*c.daemons)
        self.check_kill(
            c,
            self.rabbit,
            "broker: not connected",
            "drover_broker_up",
            "drover_broker_connects_total",
            c.daemons,
        )

    def test_slow_broker(self):
        """Its answers take most of the time between two inspections, of which each consists of two
        questions: the supervisor is ready all the same."""
        slow = proxy.Proxy(self.rabbit.known_port, delay_s=0.7)
        self.addCleanup(slow.close)
        c = self.cluster(settings=health.settings({
            "supervisor": {"rabbitmq": {"replication": "none", "port": slow.port}}}))
        health.await_ready(*c.supervisors)
        c.client.submit(wire.submit("job", wire.chain(3)))
        self.assertEqual(wire.OUTCOME_SUCCEEDED, c.client.settled("job").outcome)

    def test_redis_killed(self):
        c = self.cluster(settings=health.settings())
        health.await_ready(*c.daemons)
        self.check_kill(
            c,
            self.redis,
            "store: not connected",
            "drover_store_up",
            "drover_store_connects_total",
            c.schedulers + c.supervisors,
        )


class Healthcheck(cluster.TestCase):
    def check(self, role, *arguments):
        """Returns (exit status, stderr)."""
        done = subprocess.run(
            [wire.BUILD / role / f"drover-{role}", *arguments, "--healthcheck"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**cluster.os.environ, **cluster.SANITIZER_OPTIONS},
        )
        self.assertEqual("", done.stdout)
        return done.returncode, done.stderr

    def test_exit_status(self):
        ports = iter(servers.free_ports(3))
        hosts = {"scheduler": "0.0.0.0", "agent": "127.0.0.1", "supervisor": "localhost"}
        listen = {role: {"health": {"listen": f"{hosts[role]}:{next(ports)}"}} for role in hosts}
        c = self.cluster(settings=listen)
        for daemon in c.daemons:
            address = f"health.listen={listen[daemon.role]['health']['listen']}"
            self.assertEqual((0, ""), self.check(daemon.role, "--set", address))
            configuration = ("--config", str(daemon.config))
            self.assertEqual((0, ""), self.check(daemon.role, *configuration))
            daemon.pause()
            status, text = self.check(daemon.role, *configuration)
            self.assertEqual(1, status)
            self.assertIn("timed out", text)
            daemon.resume()
            daemon.stop()
            status, text = self.check(daemon.role, *configuration)
            self.assertEqual(1, status)
            self.assertIn("Connection refused", text)

    def test_wrong(self):
        for arguments in (
            (),
            ("--set", "health.listen=127.0.0.1:0"),
            ("--set", "health.listen=8080"),
            ("--set", "helth.listen=127.0.0.1:80"),
        ):
            status, text = self.check("supervisor", *arguments)
            self.assertEqual(2, status, text)
            self.assertIn("listen", text)

    def test_not_ours(self):
        """Another server at that address that does not answer 200 is not alive."""
        with socket.create_server((servers.HOST, 0)) as other:
            address = f"{servers.HOST}:{other.getsockname()[1]}"
            arguments = [wire.BUILD / "supervisor/drover-supervisor", "--healthcheck"]
            arguments += ["--set", f"health.listen={address}"]
            for answer in (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", b"SSH-2.0-x\r\n", b""):
                process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
                connection, _ = other.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)
                self.assertIn(address, process.communicate(timeout=60)[1])
                self.assertEqual(1, process.returncode)

    def test_address_taken(self):
        c = self.cluster(schedulers=0, agents=0, supervisors=0)
        with socket.create_server((servers.HOST, 0)) as other:
            address = f"{servers.HOST}:{other.getsockname()[1]}"
            daemons = [
                add({"health": {"listen": address}})
                for add in (c.add_scheduler, c.add_agent, c.add_supervisor)
            ]
            for daemon in daemons:
                daemon.await_stop()
                self.assertEqual([1], daemon.exit_codes)
                daemon.exit_codes.clear()
                (record,) = daemon.records("health_refused")
                self.assertEqual(address, record["address"])
                self.assertIn("in use", record["why"])


if __name__ == "__main__":
    tap.main()
