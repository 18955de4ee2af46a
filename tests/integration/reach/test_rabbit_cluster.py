# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ with three nodes: daemons and leaders of queues spread over them, and one node is killed
under load. `./dev test reach` has the longer stories."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/fault")]

import load
import rabbit_cluster
import reach_rabbit
import servers
import tap
import wire

RATE = 20  # jobs a second
CLASSIC = {"rabbitmq": {"queue_type": "classic"}}


def is_told(scheduler, version):
    """Whether it says why it cannot use a classic queue of a node that is down. RabbitMQ 4.0 does
    not answer for a minute."""
    if version.startswith("3."):
        event, why = "bus_refused", "home node .* start that node again"
    else:
        event, why = "bus_disconnected", "queue drover.submit: no answer"
    return any(re.search(why, record["why"]) for record in scheduler.records(event))


class ThreeNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.part = reach_rabbit.Part()
        cls.part.__enter__()
        cls.addClassCleanup(cls.part.__exit__)

    def setUp(self):
        self.directory = wire.BUILD / "integration" / self.id().replace("__main__.", "")
        reach_rabbit.driver.empty_folder(self.directory)

    def daemons(self, *roles, **settings):
        where = self.directory / "-".join(["daemons", *settings])
        where.mkdir()
        stack = reach_rabbit.daemons(self.part, where, *roles, **settings)
        c = stack.__enter__()
        self.addCleanup(stack.__exit__, None, None, None)
        return c

    def test_definitions(self):
        """The nodes of deploy/ spread the leaders, and take the definitions as they are."""
        with tempfile.TemporaryDirectory() as secrets:
            subprocess.run(
                [sys.executable, "-B", ROOT / "deploy/accounts.py", "--dir", secrets,
                 "--actor", "a", "--actor", "b", "--client", "me"], check=True)
            definitions = pathlib.Path(secrets) / "rabbitmq-definitions.json"
            self.part.rabbit.nodes[0].evaluate(
                f'{{ok, Text}} = file:read_file("{definitions}"), '
                "ok = rabbit_definitions:import_raw(Text)")
        leaders = self.part.rabbit.leaders("drover")
        self.assertEqual(7, len(leaders), leaders)
        counts = [list(leaders.values()).count(node) for node in range(reach_rabbit.NODES)]
        self.assertLessEqual(max(counts) - min(counts), 2, leaders)
        self.assertGreater(min(counts), 0, leaders)

    def test_node_killed(self):
        """Nine daemons are three or so at each node. One node is killed under load: its daemons
        are elsewhere at once, all jobs end, and nothing is lost. Those that use classic queues of
        that node say what to do, and go on when it is back."""
        part = self.part
        version = part.rabbit.nodes[0].version()
        classic = self.daemons(1, 0, 0, more={"scheduler": CLASSIC})
        victim = part.rabbit.node_of(classic.name, "drover.submit")
        c = self.daemons(3, 4, 2)
        at_first = reach_rabbit.counts(part, c)
        self.assertEqual([], reach_rabbit.uneven(at_first, "at first"))
        c.client.prefer((victim + 1) % reach_rabbit.NODES)
        judged = reach_rabbit.Judged(c, trace=False)
        busy = load.Load(c, RATE)
        servers.wait_for(lambda: busy.ended() > 2 * RATE, "jobs")

        node, at = part.rabbit.nodes[victim], busy.now()
        judged.collector.fault("killed", node.name)
        node.kill()
        took = reach_rabbit.await_daemons(part, c)
        elsewhere = reach_rabbit.counts(part, c)
        servers.wait_for(
            lambda: node.host not in {d.records("bus_connected")[-1]["host"] for d in c.daemons},
            "daemons to log where they are connected")
        servers.wait_for(lambda: is_told(classic.schedulers[0], version), "the reason")
        ended = busy.ended()
        servers.wait_for(lambda: busy.ended() > ended + 4 * RATE, "more jobs")
        until = busy.now()

        judged.collector.fault("again", node.name)
        node.start()
        classic.await_ready()
        self.assertEqual([], busy.stop())
        tap.narrate(f"daemons {at_first}, then {elsewhere} after {took:.1f} s; "
                    f"{load.figures_of(busy.times(at - 1, until))}")
        self.assertEqual([], judged.judge())
        self.assertEqual([], reach_rabbit.complaints(classic) + reach_rabbit.complaints(c))


if __name__ == "__main__":
    tap.main()
