# SPDX-License-Identifier: Apache-2.0
"""A Redis whose power can be cut, or whose replica takes its place

SIGKILL loses nothing that Redis has written: the kernel still has it. Here a preloaded library
(synced.c) notes how much of the append-only file was on disk after each sync, and a power cut ends
Redis and cuts the file anywhere between that and its present end.

    with power.Redis(options=["--appendfsync", "everysec"]) as redis:
        redis.cut_power(rng)                # bytes that were lost
        redis.come_back()
"""

import os
import time

import redis

import servers
import wire

SYNCED = wire.BUILD / "tests" / "lib" / "synced.so"
RISK_S = 2


class Redis(servers.Redis):
    """@sync_ms: how long a sync takes, at least."""

    def __init__(self, directory=None, port=None, options=(), sync_ms=0):
        super().__init__(directory, port, options)
        self._sync_ms = sync_ms

    @property
    def _synced_log(self):
        return self.directory / "synced"

    def _spawn_environment(self):
        return {
            **os.environ,
            "LD_PRELOAD": str(SYNCED),
            "SYNCED_LOG": str(self._synced_log),
            "SYNCED_MS": str(self._sync_ms),
        }

    def _append_only_file(self):
        """The one that is written to: the newest increment."""
        return max((self.directory / "appendonlydir").glob("*.incr.aof"),
                   key=lambda path: int(path.name.split(".")[-3]))

    def _synced_size(self, path):
        """As the last sync left it."""
        lines = [line.split(" ", 1) for line in self._synced_log.read_text().splitlines()]
        return next((int(size) for size, name in reversed(lines) if name == str(path)), 0)

    def written(self):
        """Bytes of what it was told so far."""
        return self._append_only_file().stat().st_size

    def _await_risk(self):
        """Until something is written and not synced; where nothing is for long, it is not waited for."""
        path = self._append_only_file()
        deadline = time.monotonic() + RISK_S
        while path.stat().st_size <= self._synced_size(path) and time.monotonic() < deadline:
            pass

    def await_synced(self):
        """Until all that is written now is on disk."""
        path = self._append_only_file()
        size = path.stat().st_size
        servers.wait_for(lambda: self._synced_size(path) >= size, "a sync")

    def cut_power(self, rng):
        """Ends Redis; what was not synced is lost from a random byte on. Returns (lost, at risk)."""
        self._await_risk()
        self.kill()
        path = self._append_only_file()
        size = path.stat().st_size
        synced = min(self._synced_size(path), size)
        return self._cut(path, rng.randint(synced, size)), size - synced

    def come_back(self):
        """Starts again after a power cut, as OPERATIONS asks for: Redis 7.0 leaves the beginning of a transaction
        whose end was cut off in its file, and would carry it out at the next start."""
        self.start()
        with redis.Redis(servers.HOST, self.port) as client:
            client.bgrewriteaof()
            servers.wait_for(lambda: not _rewriting(client.info()), "the file to be rewritten")

    def lose(self, rng, since, text):
        """Ends Redis, as if the disk had never synced what was written after the first @since bytes: from
        a random byte on all is lost, and what was written last of @text for certain. Returns how much."""
        self.kill()
        path = self._append_only_file()
        last = path.read_bytes().rfind(text.encode(), since)
        assert last >= since, f"nothing was written of {text}"
        return self._cut(path, rng.randint(since, last))

    def _cut(self, path, end):
        size = path.stat().st_size
        os.truncate(path, end)
        self._synced_log.write_text(f"{end} {path}\n")
        return size - end


def _rewriting(info):
    return info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]


def replica_of(primary):
    """Not started yet. What it says to have, it has written."""
    options = ("--appendfsync", "always", "--replicaof", f"{servers.HOST} {primary.port}")
    return servers.Redis(options=options)


def await_following(replica):
    """Until it has all, on disk too."""

    def follows():
        info = client.info()
        return info["master_link_status"] == "up" and not _rewriting(info)

    with redis.Redis(servers.HOST, replica.port) as client:
        servers.wait_for(follows, "the replica to have all")


def await_level(replica, primary):
    """Until it has heard of all that @primary has, which stands still."""

    def level():
        return of_replica.info()["slave_repl_offset"] == of_primary.info()["master_repl_offset"]

    with redis.Redis(servers.HOST, replica.port) as of_replica:
        with redis.Redis(servers.HOST, primary.port) as of_primary:
            servers.wait_for(level, "the replica to be level")


def take_over(replica, primary):
    """The primary is gone, and the replica stands where it was. What the replica had received and
    not taken in is gone, too."""
    primary.kill()
    replica.kill()
    replica.port, replica.options = primary.port, [*primary.options]
    replica.start()
