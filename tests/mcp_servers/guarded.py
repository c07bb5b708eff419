"""A server over HTTP, of the protocol's first form, that opens its stream to everybody and refuses every message.

python guarded.py        the port is printed
"""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        time.sleep(600)

    def do_POST(self) -> None:
        self.send_error(401)


if __name__ == "__main__":
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    print(listening.server_port, flush=True)
    listening.serve_forever()
