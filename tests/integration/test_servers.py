# SPDX-License-Identifier: Apache-2.0
"""The servers that tests start, on ports that no other test has. `dev` ends servers of tests that
were killed."""

import os
import pathlib
import random
import socket
import ssl
import subprocess
import sys
import unittest

import pika
import redis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import servers
import tap


class Ports(unittest.TestCase):
    def test_no_port_is_given_twice(self):
        """No port is given twice, even before a server listens: there are four, and two tests need
        two each."""
        # below the ports that the kernel gives to clients
        least = random.randrange(32000, 32768, 4)
        code = "\n".join((
            "import sys",
            f"sys.path.insert(0, {os.path.dirname(servers.__file__)!r})",
            "import servers",
            f"servers.PORTS = ({least}, {least + 4})",
            "print(*servers.free_ports(2), flush=True)",
            "sys.stdin.read()",
        ))
        command = [sys.executable, "-B", "-c", code]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as first:
            with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as second:
                given = first.stdout.readline().split() + second.stdout.readline().split()
                second.stdin.close()
            first.stdin.close()
        self.assertEqual([str(least + i) for i in range(4)], sorted(given))


class LeftBehind(unittest.TestCase):
    def test_environment(self):
        """`dev` finds a server by its environment. Redis would write its title over that,
        so this test reads it while Redis serves."""
        with servers.Redis() as server:
            environment = (
                pathlib.Path(f"/proc/{server.process.pid}/environ").read_bytes().split(b"\0")
            )
            self.assertTrue(f"PATH={os.environ['PATH']}".encode() in environment)


class Store(unittest.TestCase):
    def test_program(self):
        """The store is the server that ./dev test --store has chosen."""
        with servers.Redis() as server:
            with redis.Redis(servers.HOST, server.port) as connection:
                info = connection.info("server")
        chosen = "valkey" if "valkey" in servers.STORE_SERVER else "redis"
        self.assertEqual(chosen, "valkey" if "valkey_version" in info else "redis")


class Tls(unittest.TestCase):
    def test_variables(self):
        """A program in C learns the port for TLS and the authority."""
        with servers.Rabbit(tls=True) as rabbit:
            variables = rabbit.environment()
            context = ssl.create_default_context(cafile=variables["DROVER_TEST_AMQP_CA_FILE"])
            address = servers.HOST, int(variables["DROVER_TEST_AMQP_TLS_PORT"])
            with socket.create_connection(address) as connection:
                with context.wrap_socket(connection, server_hostname="localhost") as session:
                    self.assertIn("TLS", session.version())


class Acknowledged(unittest.TestCase):
    def test_await_acknowledgement(self):
        """The test waits for the acknowledgement, on both kinds of queue, although the figures of a
        quorum queue are seconds old."""
        with servers.Rabbit() as rabbit, rabbit.vhost() as vhost:
            parameters = pika.ConnectionParameters(
                servers.HOST, rabbit.port, vhost,
                pika.PlainCredentials(rabbit.user, rabbit.password),
            )
            with pika.BlockingConnection(parameters) as connection:
                channel = connection.channel()
                for kind in ("quorum", "classic"):
                    with self.subTest(kind):
                        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
                        channel.basic_publish("", kind, b"")
                        delivered = []

                        def deliver():
                            delivered.append(channel.basic_get(kind)[0])
                            return delivered[-1]

                        servers.wait_for(deliver, "the message")
                        self.assertFalse(rabbit.has_acknowledgements(vhost, kind))
                        channel.basic_ack(delivered[-1].delivery_tag)
                        rabbit.await_acknowledged(vhost, kind)


if __name__ == "__main__":
    tap.main()
