#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test_redis_diff against a private Redis.

    redis_diff.py TEST_REDIS_DIFF LIBRARY [FIRST LAST]

The store functions get a clock that the test sets: their now_ms() reads a key.
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import servers  # noqa: E402

CLOCK = """  local seconds, micros = unpack(call('TIME'))
  return tonumber(seconds) * 1000 + floor(tonumber(micros) / 1000)
"""
TEST_CLOCK = """  local clock = call('GET', 'clock')
  return tonumber(clock)
"""  # as many lines as before: lines that run are counted


def main(argv):
    program, functions, seeds = argv[1], pathlib.Path(argv[2]).read_text(), argv[3:]
    if functions.count(CLOCK) != 1:
        print("the clock of the store functions is not where this test knows it")
        return 1
    with tempfile.TemporaryDirectory() as folder, servers.Redis() as redis:
        library = pathlib.Path(folder) / "drover.lua"
        library.write_text(functions.replace(CLOCK, TEST_CLOCK))
        return subprocess.run([program, str(redis.port), library, *seeds]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv))
