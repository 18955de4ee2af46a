# SPDX-License-Identifier: Apache-2.0
"""No log has a secret, or data of a job, even at level debug, and when nothing works."""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))

import cluster
import servers
import tap
import wire

NOBODY = 65534
# then a daemon stays dumpable, see daemon.c
SANITIZED = b"__asan_init" in (wire.BUILD / "agent" / "drover-agent").read_bytes()
SECRET = "hush5ecret"  # part of all that must not be shown
ROLES = ("scheduler", "agent", "supervisor")
ACTOR = {
    "name": "demo",
    "handler": "http",
    "actions": [
        {
            "name": "*",
            "url": "http://127.0.0.1:9/${input}?key=" + SECRET,
            "headers": [f"Authorization: Bearer {SECRET}"],
        }
    ],
}


class Secrets(cluster.TestCase):
    own_servers = True
    redis_options = ("--requirepass", SECRET)

    @property
    def url(self):
        return f"amqp://drover:{SECRET}@{servers.HOST}:{self.rabbit.port}/%2F"

    def daemon(self, role, name, redis_password=SECRET):
        """Starts a daemon with settings of an operator: the broker as one URI, the store in
        parts."""
        settings = {
            "name": name,
            "log": {"format": "json", "level": "debug"},
            "rabbitmq": {"uri": self.url},
        }
        if role == "agent":
            settings["agent"] = {"actors": [ACTOR]}
        else:
            settings["redis"] = {"port": self.redis.port, "password": redis_password}
        daemon = cluster.Daemon(role, name, self.directory, settings)
        self.addCleanup(daemon.stop)
        daemon.start()
        return daemon

    def run_program(self, *words, body=None, **variables):
        done = subprocess.run(
            words, input=body, capture_output=True, text=True, timeout=120,
            env={**cluster.own_environment(), **cluster.SANITIZER_OPTIONS, **variables})
        self.assertFalse(SECRET in done.stdout + done.stderr, words)
        return done.returncode

    def drover(self, *words, body=None):
        return self.run_program(
            wire.BUILD / "cli" / "drover", *words, "-v", body=body, DROVER_URL=self.url
        )

    def test_logs(self):
        self.rabbit.rabbitmqctl("add_user", "drover", SECRET)
        self.rabbit.rabbitmqctl("set_permissions", "drover", ".*", ".*", ".*")
        daemons = scheduler, agent, _ = [self.daemon(role, role) for role in ROLES]
        for daemon in daemons:
            servers.wait_for(daemon.up, f"{daemon.name} to be up")
        step = {"name": "a", "actor": "demo", "retry": {"maximumAttempts": 1}}
        data = base64.b64encode(SECRET.encode()).decode()
        job = {
            "input": {"contentType": "text/plain", "data": data},
            "definition": {"steps": [step]},
        }
        self.assertEqual(0, self.drover("submit", "-", "--id", "job", body=json.dumps(job)))
        servers.wait_for(lambda: scheduler.records("alert"), "the step to park")
        self.assertTrue(agent.records("step_failed"))
        for daemon in daemons[:2]:
            self.assertTrue(
                daemon.records("delivery") and daemon.records("publish") and daemon.records("ack")
            )
        self.assertEqual("job", agent.records("start")[0]["job.id"])
        store_calls = [
            (call["call"], call.get("job.id"), call["answer"])
            for call in scheduler.records("store")
        ]
        self.assertLess(
            store_calls.index(("submit", "job", "CREATED")),
            store_calls.index(("record", "job", "RECORDED")),
        )
        for daemon in daemons:
            daemon.signal(signal.SIGUSR1)
            servers.wait_for(lambda d=daemon: d.records("driver"), f"figures of {daemon.name}")
        self.rabbit.rabbitmqctl("change_password", "drover", "another")
        daemons.append(self.daemon("agent", "unknown-to-the-broker"))
        servers.wait_for(lambda: daemons[-1].records("bus_refused"), "the broker to refuse")
        daemons.append(self.daemon("scheduler", "unknown-to-the-store", f"not-{SECRET}"))
        servers.wait_for(lambda: daemons[-1].records("store_refused"), "the store to refuse")
        self.assertEqual(7, self.drover("get", "job"))
        for daemon in daemons:
            daemon.stop()
            self.assertEqual(
                [], [line for line in daemon.text().splitlines() if SECRET in line], daemon.name
            )

    def test_settings(self):
        """Messages about wrong settings, and listings of settings, have no secret."""
        uri = {"DROVER_RABBITMQ__URI": f"amqp://u:{SECRET}@h/"}
        wrong = {"DROVER_REDIS__URI": f"http://u:{SECRET}@h:x"}
        for role in ROLES:
            program = wire.BUILD / role / f"drover-{role}"
            for name in ("redis.password", "rabbitmq.password", "rabbitmq.uri", "redis.uri"):
                self.assertEqual(
                    2,
                    self.run_program(program, "--check-config", "--set", f"{name}={SECRET}"),
                    name,
                )
            good = self.run_program(program, "--check-config", DROVER_REDIS__PASSWORD=SECRET, **uri)
            self.assertEqual(2 if role == "agent" else 0, good)  # an agent without actors
            self.assertEqual(2, self.run_program(program, "--check-config", **wrong))

    def test_memory(self):
        """Another process of the same user can read neither memory nor environment of a daemon,
        unless a setting allows it. Programs that an agent runs get no rights beyond the agent's."""
        if os.geteuid() != 0:
            self.skipTest("needs root: what root starts as nobody, nobody reads")
        code = "import sys; open(f'/proc/{sys.argv[1]}/environ').read()"
        settings = {"name": "a", "rabbitmq": {"port": 1}, "agent": {"actors": [ACTOR]}}
        for dumpable in (True, False):
            # readable for the user nobody
            with self.subTest(dumpable), tempfile.TemporaryDirectory(dir="/tmp") as folder:
                config = pathlib.Path(folder) / "agent.cfg"
                config.write_text("".join(cluster._lines(settings)))
                config.chmod(0o644)
                os.chmod(folder, 0o755)
                program = pathlib.Path(folder) / "drover-agent"
                shutil.copy(wire.BUILD / "agent" / "drover-agent", program)
                environment = {"DROVER_SECURITY__DUMPABLE": str(dumpable).lower()}
                with subprocess.Popen(
                    [program, "--config", config], user=NOBODY, group=NOBODY, env=environment,
                    stderr=subprocess.PIPE,
                ) as daemon:
                    try:
                        for line in daemon.stderr:
                            if b"started" in line:
                                break
                        reader = subprocess.run(
                            [sys.executable, "-c", code, str(daemon.pid)], user=NOBODY,
                            group=NOBODY, stderr=subprocess.DEVNULL,
                        )
                        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
                    finally:
                        daemon.kill()
                self.assertEqual(dumpable or SANITIZED, reader.returncode == 0)
                self.assertIn("NoNewPrivs:\t1", status)


if __name__ == "__main__":
    tap.main()
