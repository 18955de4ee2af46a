# SPDX-License-Identifier: Apache-2.0
"""When daemons are connected again after a fault, as the stories of reach tell it"""

import datetime
import pathlib
import sys
import time
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import reach_rabbit
import tap

LOST = ("bus_disconnected", "127.0.1.1 port 1: connection lost: connection reset by peer")
REFUSED = ("bus_disconnected", "connecting to 127.0.1.1 port 1: connection refused")
RENEWED = ("bus_disconnected", "127.0.1.2 port 1: messages to exchange 'e' with key k are refused, "
                               "perhaps over this connection only")
CONNECTED = ("bus_connected", "")


def daemon(*events):
    """A daemon that has logged these events of a connection: at what second after the fault, and
    which."""
    def record(at, event, why):
        when = datetime.datetime.fromtimestamp(time.time() + at, datetime.timezone.utc)
        return {"timestamp": when.isoformat(), "event.name": event, "link": "bus-publish",
                "why": why}

    log = [record(at, *event) for at, event in events]
    return types.SimpleNamespace(records=lambda: log)


class Back(unittest.TestCase):
    def back(self, *logs, without_last=False):
        """Of daemons with these logs."""
        daemons = [daemon(*events) for events in logs]
        now = time.monotonic()
        return reach_rabbit.back(types.SimpleNamespace(daemons=daemons), now - 1, now + 100,
                                 but=daemons[-1] if without_last else None)

    def test_last_of_all(self):
        one = (1, LOST), (1.1, REFUSED), (2, CONNECTED)
        other = (1, LOST), (4, CONNECTED)
        self.assertAlmostEqual(5, self.back(one, other), 1)
        self.assertAlmostEqual(3, self.back(one, other, without_last=True), 1)

    def test_not_connected(self):
        self.assertEqual(reach_rabbit.FOREVER, self.back([(1, LOST), (1.1, REFUSED)]))

    def test_none_lost(self):
        self.assertEqual(0, self.back([]))

    def test_renewed_by_itself(self):
        """It was elsewhere, and has left for another reason."""
        events = (1, LOST), (2, CONNECTED), (7, RENEWED), (8, REFUSED), (9, CONNECTED)
        self.assertAlmostEqual(3, self.back(events), 1)
        self.assertAlmostEqual(3, self.back(events[:-1]), 1)

    def test_lost_twice(self):
        events = (1, LOST), (2, CONNECTED), (7, LOST), (9, CONNECTED)
        self.assertAlmostEqual(10, self.back(events), 1)


if __name__ == "__main__":
    tap.main()
