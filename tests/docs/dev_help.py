#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each command that `./dev --help` lists has a help text, and printing it runs nothing else"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import tap  # noqa: E402


def help_of(*command):
    """Return: what is printed. Fails if a command in the text was run, which has an error."""
    done = subprocess.run([ROOT / "dev", *command, "--help"], capture_output=True, text=True,
                          check=True, timeout=60)
    if done.stderr:
        raise AssertionError(f"{command}: {done.stderr}")
    return done.stdout


class Help(unittest.TestCase):
    def test_each_command(self):
        commands = re.findall(r"^  (\w+) +\w", help_of(), re.M)
        self.assertIn("test", commands)
        for command in commands:
            with self.subTest(command):
                self.assertTrue(help_of(command).startswith(f"usage: ./dev {command}"))


if __name__ == "__main__":
    tap.main()
