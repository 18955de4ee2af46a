# SPDX-License-Identifier: Apache-2.0
"""A server that ends each connection as soon as the client has said something

    port = hangup.serve(self)       # until the test has ended
"""

import contextlib
import socket
import threading

import servers


def serve(test, port=0):
    """Begins it, on any free port or on this one; returns the port."""
    listener = test.enterContext(socket.create_server((servers.HOST, port)))
    test.addCleanup(listener.shutdown, socket.SHUT_RDWR)  # which ends the thread

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(ConnectionError):
                    connection.recv(65536)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]
