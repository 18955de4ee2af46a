# SPDX-License-Identifier: Apache-2.0
"""A Redis whose power can be cut

SIGKILL loses nothing that Redis has written: the kernel still has it. Here a preloaded library
(synced.c) notes how much of the append-only file was on disk after each sync, and a power cut ends
Redis and cuts the file anywhere between that and its present end.

    with power.Redis(options=["--appendfsync", "everysec"]) as redis:
        redis.cut_power(rng)                # bytes that were lost
        redis.start()
"""

import os

import servers
import wire

SYNCED = wire.BUILD / "tests" / "lib" / "synced.so"


class Redis(servers.Redis):
    @property
    def _synced_log(self):
        return self.directory / "synced"

    def _spawn_environment(self):
        return {**os.environ, "LD_PRELOAD": str(SYNCED), "SYNCED_LOG": str(self._synced_log)}

    def _append_only_file(self):
        """The one that is written to: the newest increment."""
        return max((self.directory / "appendonlydir").glob("*.incr.aof"),
                   key=lambda path: int(path.name.split(".")[-3]))

    def _synced_size(self, path):
        """As the last sync left it."""
        lines = [line.split(" ", 1) for line in self._synced_log.read_text().splitlines()]
        return next((int(size) for size, name in reversed(lines) if name == str(path)), 0)

    def cut_power(self, rng):
        """Ends Redis; what was not synced is lost from a random byte on. Returns (lost, at risk)."""
        self.kill()
        path = self._append_only_file()
        size = path.stat().st_size
        synced = min(self._synced_size(path), size)
        end = rng.randint(synced, size)
        os.truncate(path, end)
        self._synced_log.write_text(f"{end} {path}\n")
        return size - end, size - synced
