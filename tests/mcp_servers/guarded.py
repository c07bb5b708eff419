"""A server over HTTP, with the first version of the protocol, that accepts all streams and refuses all messages.

python guarded.py        the port is printed
"""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass

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
