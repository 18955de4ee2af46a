#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages that `drover manual` writes are valid: scdoc and groff accept them"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import tap  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
DROVER = pathlib.Path(os.environ["DROVER_BUILD"]) / "cli" / "drover"


def run(*command, given=None):
    """(exit code, stdout, stderr)"""
    done = subprocess.run(command, input=given, capture_output=True, text=True, encoding="utf-8",
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


class Page:
    name = section = ""

    def compiled(self):
        if not shutil.which("scdoc"):
            self.skipTest("scdoc is not installed")
        code, source, err = run(DROVER, "manual", self.name)
        self.assertEqual((0, ""), (code, err))
        code, page, err = run("scdoc", given=source)
        self.assertEqual((0, ""), (code, err))
        return page

    def words(self):
        """What the page must have, from first to last."""
        raise NotImplementedError

    def test_scdoc(self):
        page = self.compiled()
        self.assertRegex(page, rf'(?m)^\.TH "{re.escape(self.name)}" "{self.section}" ')

    def test_groff(self):
        page = self.compiled()
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        code, text, err = run("groff", "-man", "-Kutf8", "-Tutf8", "-P-cbou", "-rHY=0", "-ww",
                              given=page)
        self.assertEqual((0, ""), (code, err))
        text = " ".join(text.split())
        for word in self.words():
            self.assertIn(word, text)


class Drover(Page, unittest.TestCase):
    name, section = "drover", "1"

    def words(self):
        overview = run(DROVER, "help")[1]
        commands = re.findall(r"^  ([a-z-]+(?: [a-z]+)?)  ", overview, re.MULTILINE)
        codes = re.findall(r"^  +(\d+)  (.+)$", overview, re.MULTILINE)
        self.assertTrue(commands and codes)
        return [*(f"drover {command}" for command in commands), *(" ".join(code) for code in codes),
                "SEE ALSO drover.cfg(5)"]


class Settings(Page, unittest.TestCase):
    name, section = "drover.cfg", "5"

    def words(self):
        variables = re.findall(r"DROVER_\w+", run(DROVER, "config")[1])
        self.assertIn("DROVER_REDIS__PARTITIONS", variables)
        return variables + self.keys_of_actors()

    def keys_of_actors(self):
        """Those that the agent knows; the page has a paragraph for each, and for no other."""
        source = "".join((ROOT / "agent" / name).read_text()
                         for name in ("agent_config.c", "http_config.c"))
        lists = re.findall(r"keys\[\] = \{(.*?)\}", source, re.DOTALL)
        known = set(re.findall(r'"(\w+)"', " ".join(lists)))
        page = run(DROVER, "manual", self.name)[1].partition("# ACTORS")[2]
        self.assertEqual(known, set(re.findall(r"^\*(\w+)\*$", page, re.MULTILINE)))
        return sorted(known)


if __name__ == "__main__":
    tap.main()
