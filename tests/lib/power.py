# SPDX-License-Identifier: Apache-2.0
"""A Redis whose power can be cut, or which a replica replaces

SIGKILL loses nothing that Redis has written, because the kernel still has it. Here a preloaded
library (synced.c) notes how much of the append-only file was on disk after each sync. A power cut
ends Redis, and cuts the file anywhere between that and its present end.

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
    """sync_ms: the least time that a sync takes."""

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
        """Returns the file that Redis writes to: the newest increment."""
        return max((self.directory / "appendonlydir").glob("*.incr.aof"),
                   key=lambda path: int(path.name.split(".")[-3]))

    def _synced_size(self, path):
        """Returns the size that the last sync made sure of."""
        lines = [line.split(" ", 1) for line in self._synced_log.read_text().splitlines()]
        return next((int(size) for size, name in reversed(lines) if name == str(path)), 0)

    def written(self):
        """Returns how many bytes Redis has written so far."""
        return self._append_only_file().stat().st_size

    def _await_risk(self):
        """Waits until something is written and not synced, but not for long."""
        path = self._append_only_file()
        deadline = time.monotonic() + RISK_S
        while path.stat().st_size <= self._synced_size(path) and time.monotonic() < deadline:
            pass

    def await_synced(self):
        """Waits until all that is written now is on disk."""
        path = self._append_only_file()
        size = path.stat().st_size
        servers.wait_for(lambda: self._synced_size(path) >= size, "a sync")

    def cut_power(self, rng):
        """Ends Redis, and cuts what was not synced from a random byte on. Returns (lost, at
        risk)."""
        self._await_risk()
        self.kill()
        path = self._append_only_file()
        size = path.stat().st_size
        synced = min(self._synced_size(path), size)
        return self._cut(path, rng.randint(synced, size)), size - synced

    def come_back(self):
        """Starts Redis again after a power cut, as OPERATIONS asks for. Redis 7.0 leaves in its
        file the beginning of a transaction whose end was cut off, and would carry it out at the
        next start."""
        self.start()
        with redis.Redis(servers.HOST, self.port) as client:
            client.bgrewriteaof()
            servers.wait_for(lambda: not _rewriting(client.info()), "the file to be rewritten")

    def lose(self, rng, since, text):
        """Ends Redis as if the disk had synced nothing after the first `since` bytes. Cuts the file
        from a random byte on, but at least the last occurrence of the text. Returns how many bytes
        were lost."""
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
    """Returns a replica, not started. It has written what it acknowledges."""
    options = ("--appendfsync", "always", "--replicaof", f"{servers.HOST} {primary.port}")
    return servers.Redis(options=options)


def await_following(replica):
    """Waits until the replica has all data, on disk too."""

    def follows():
        info = client.info()
        return info["master_link_status"] == "up" and not _rewriting(info)

    with redis.Redis(servers.HOST, replica.port) as client:
        servers.wait_for(follows, "the replica to have all")


def await_level(replica, primary):
    """Waits until the replica has received all that the primary has; the primary must be idle."""

    def level():
        return of_replica.info()["slave_repl_offset"] == of_primary.info()["master_repl_offset"]

    with redis.Redis(servers.HOST, replica.port) as of_replica:
        with redis.Redis(servers.HOST, primary.port) as of_primary:
            servers.wait_for(level, "the replica to be level")


def take_over(replica, primary):
    """Ends the primary, and starts the replica at its address. What the replica had received and
    not applied is lost too."""
    primary.kill()
    replica.kill()
    replica.port, replica.options, replica.tls = primary.port, [*primary.options], primary.tls
    replica.start()
