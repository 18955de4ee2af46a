# SPDX-License-Identifier: Apache-2.0
"""The servers that tests start: `dev` ends those whose test was killed, and finds them by their environment."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import servers
import tap


class LeftBehind(unittest.TestCase):
    def test_environment(self):
        """Still there when the server serves: Redis would write its title over it."""
        with servers.Redis() as redis:
            environment = pathlib.Path(f"/proc/{redis.process.pid}/environ").read_bytes().split(b"\0")
            self.assertTrue(f"PATH={os.environ['PATH']}".encode() in environment)


if __name__ == "__main__":
    tap.main()
