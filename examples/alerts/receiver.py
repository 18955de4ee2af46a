#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Receives the alerts that alert.sh posts: prints each, and serves the last hundred at GET /

It stands for a chat or a pager: replace show() by one that reaches your people.
"""

import argparse
import collections
import http.server
import json
import signal
import sys
import threading
import time

LONGEST = 1 << 20  # bytes of an alert
KEPT = 100


def line(alert):
    """Returns the text for a person: what happened at which job and step, why, and what to type."""
    error = alert.get("error", {})
    about = [alert.get(key, "") for key in ("reason", "jobId", "workflow", "step")]
    if alert.get("actor"):
        about.append(f"at {alert['actor']}")
    why = ": ".join(filter(None, (error.get("class", ""), error.get("message", ""))))
    many = f"{alert['count']} times" if int(alert.get("count", 0)) > 1 else ""
    words = [" ".join(filter(None, about)), why, many, alert.get("advice", "")]
    return " | ".join(filter(None, words))


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, text=""):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def show(self, text):
        print(text, flush=True)

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        try:
            if length > LONGEST:
                raise ValueError("too long")
            text = line(json.loads(self.rfile.read(length)))
        except (AttributeError, TypeError, ValueError) as problem:
            self.answer(400, f"that is no alert: {problem}\n")
            return
        text = time.strftime("%H:%M:%S ") + text
        self.server.kept.append(text)
        self.show(text)
        self.answer(204)

    def do_GET(self):
        self.answer(200, "".join(f"{text}\n" for text in reversed(self.server.kept)))

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="127.0.0.1", help="to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8004, help="0: any (%(default)s)")
    options = parser.parse_args()
    with http.server.ThreadingHTTPServer((options.address, options.port), Handler) as server:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        server.kept = collections.deque(maxlen=KEPT)
        print(f"alerts are taken at http://{options.address}:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
