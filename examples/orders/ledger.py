# SPDX-License-Identifier: Apache-2.0
"""What the three services share: a ledger with one row for each effect, behind an HTTP server

    POST /<action>/<order>      header Idempotency-Key; the body is the JSON that drover-agent sends
    GET /book                   the whole ledger, and how often the service was called

A caller that has received no answer calls again. A key that is in the ledger gets the same answer
again, and nothing is written. Rows are only added. An undo is a row too. It names the key that it
undoes, and from then on that key is refused, even if it was never seen, because an undo may
overtake its forward action.

The path /book, the option --book and the table keep an older name.
"""

import argparse
import collections
import contextlib
import http.server
import json
import signal
import sqlite3
import ssl
import sys
import threading
import time

SCHEMA = """
CREATE TABLE IF NOT EXISTS book (
    number   INTEGER PRIMARY KEY,
    key      TEXT NOT NULL UNIQUE,
    order_id TEXT NOT NULL,
    action   TEXT NOT NULL,
    content  TEXT NOT NULL,         -- JSON: what was reserved, charged or sent
    undoes   TEXT,                  -- the key that this row undoes
    at       REAL NOT NULL          -- unix time
);
CREATE INDEX IF NOT EXISTS undone ON book (undoes);
"""


class Refused(Exception):
    """A call that is wrong, however often it is repeated."""

    status = 409


class Ledger:
    def __init__(self, path):
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, timeout=30)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(SCHEMA)

    def _find(self, column, key):
        return self._db.execute(f"SELECT * FROM book WHERE {column} = ?", [key]).fetchone()

    def write(self, key, order_id, action, content, undoes=None):
        """Returns (the number of this key's row, whether it existed before)."""
        content = json.dumps(content, sort_keys=True)
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if self._find("undoes", key):
                raise Refused(f"{key} was taken back")
            row = self._find("key", key)
            if row is None:
                new = (key, order_id, action, content, undoes, time.time())
                insert = "INSERT INTO book VALUES (NULL, ?, ?, ?, ?, ?, ?)"
                return self._db.execute(insert, new).lastrowid, False
            if tuple(row)[2:-1] != (order_id, action, content, undoes):
                raise Refused(f"{key} was used for something else")
            return row["number"], True

    def rows(self):
        with self._lock:
            rows = [dict(row) for row in self._db.execute("SELECT * FROM book ORDER BY number")]
        return [{**row, "content": json.loads(row["content"])} for row in rows]


class Service(http.server.BaseHTTPRequestHandler):
    """One call, on a thread of its own. Each of the three services is a subclass."""

    timeout = 30  # seconds in which a client must send its request
    do, undo = None, None  # names of the action and of its undo

    def content(self, document):
        """Returns the content of the row, from the JSON; raises KeyError if something is missing
        there."""
        raise NotImplementedError

    def respond(self, action, order_id, key, document):
        """Does the work. Returns status, body and headers of the answer, or None for no answer."""
        undoes = document["forward_key"] if action == self.undo else None
        content = {} if undoes else self.content(document)
        number, repeated = self.server.ledger.write(key, order_id, action, content, undoes)
        if repeated:
            self.server.count("repeated")
        return 200, {action: number, **content}, {}

    def do_POST(self):
        self.server.count("calls")
        _, action, order_id = (self.path.split("/") + ["", ""])[:3]
        key = self.headers["Idempotency-Key"]
        try:
            length = int(self.headers["Content-Length"] or 0)
            document = json.loads(self.rfile.read(length) or "{}")
            if action not in (self.do, self.undo) or not order_id:
                answer = 404, {"error": f"no such action: {self.path}"}, {}
            elif not key:
                answer = 400, {"error": "Idempotency-Key is missing"}, {}
            else:
                answer = self.respond(action, order_id, key, document)
        except Refused as refusal:
            answer = refusal.status, {"error": str(refusal)}, {}
        except (ValueError, KeyError, TypeError) as problem:
            answer = 400, {"error": f"{type(problem).__name__}: {problem}"}, {}
        if answer:
            self.answer(*answer)
        else:
            self.log_request("no answer")

    def do_GET(self):
        if self.path == "/book":
            self.answer(200, {**self.server.counts(), "rows": self.server.ledger.rows()})
        else:
            self.answer(404, {"error": f"no such page: {self.path}"})

    def answer(self, status, body, headers=None):
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        with contextlib.suppress(ConnectionError):  # the caller is gone, and will call again
            self.end_headers()
            self.wfile.write(data)

    def log_request(self, code="-", size="-"):
        key = self.headers["Idempotency-Key"] or ""
        self.log_message('"%s" %s %s', self.requestline, code, key)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # a stop waits for the calls in progress
    request_queue_size = 128

    def __init__(self, service, options):
        super().__init__((options.address, options.port), service)
        self.options, self.ledger = options, Ledger(options.ledger)
        if options.cert_file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(options.cert_file, options.key_file)
            # The thread of a call makes the handshake: others go on meanwhile.
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False)
        self._counts, self._lock = collections.Counter(calls=0, repeated=0), threading.Lock()

    def count(self, what):
        """Counts one, and returns the count."""
        with self._lock:
            self._counts[what] += 1
            return self._counts[what]

    def counts(self):
        with self._lock:
            return dict(self._counts)


def parser(name, port, description):
    options = argparse.ArgumentParser(prog=f"{name}.py", description=description)
    options.add_argument("--address", default="127.0.0.1", help="to listen on (%(default)s)")
    options.add_argument("--port", type=int, default=port, help="0: any that is free (%(default)s)")
    options.add_argument(
        "--book", dest="ledger", default=f"{name}.db", help="SQLite file (%(default)s)"
    )
    options.add_argument("--cert-file", help="speak https, with this certificate (PEM)")
    options.add_argument("--key-file", help="its private key (PEM)")
    return options


def serve(service, options):
    """Serves until SIGTERM or SIGINT, then answers the calls that it has accepted. A signal handler
    that raised an exception would interrupt the main thread while it accepts a call, and close that
    call."""
    with Server(service, options) as server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        host, port = server.server_address[:2]
        scheme = "https" if options.cert_file else "http"
        print(f"{sys.argv[0]}: {scheme}://{host}:{port}, ledger in {options.ledger}", flush=True)
        server.serve_forever()
