# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that can stop forwarding without closing connections, as if a cable were
cut, or forward slowly"""

import contextlib
import socket
import threading
import time

import servers

CHUNK = 65536


class Proxy:
    """From a port of its own to @port, for any number of connections. delay_s: how long what the
    target sends takes to arrive."""

    def __init__(self, port, delay_s=0):
        self._target = port
        self._delay_s = delay_s
        self._listener = socket.create_server((servers.HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._open = threading.Event()  # set: data is forwarded
        self._open.set()
        self._lock = threading.Lock()
        self._sockets = set()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Forwards nothing any more, in either direction."""
        self._open.clear()

    def heal(self):
        """New connections work; the earlier ones are closed and their data is lost."""
        self._drop()
        self._open.set()

    def lead_to(self, port):
        """From now on connections lead there; the earlier ones are closed."""
        self._target = port
        self._drop()

    def close(self):
        self._closed = True
        self._listener.close()
        self._drop()
        self._open.set()

    def _drop(self):
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self):
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        with self._lock:
            self._sockets.add(near)
        self._open.wait()
        try:
            far = socket.create_connection((servers.HOST, self._target))
        except OSError:
            near.close()
            return
        with self._lock:
            self._sockets.add(far)
        threading.Thread(target=self._pump, args=(near, far, 0), daemon=True).start()
        self._pump(far, near, self._delay_s)

    def _pump(self, source, target, delay_s):
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                time.sleep(delay_s)
                self._open.wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
