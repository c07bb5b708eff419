"""A server over HTTP, with an older version of the protocol, that assigns a session to each client.

    python forgetful.py        the port is printed

The tool `session` returns the id of the session, and `forget` makes the server forget all sessions.
"""

from __future__ import annotations

import json
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SESSIONS: set[str] = set()
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("session", "forget")]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:  # called by that name
        self.answer(405, None)

    do_DELETE = do_GET  # noqa: N815  # called by that name

    def do_POST(self) -> None:  # called by that name
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id")
        if message["method"] == "initialize":
            session = uuid.uuid4().hex
            SESSIONS.add(session)
        elif session is None:
            return self.result(message, None)
        elif session not in SESSIONS:
            return self.answer(404, None)
        if "id" not in message:
            return self.answer(202, None)
        return self.result(message, self.perform(message, session), session)

    def perform(self, message: dict[str, Any], session: str) -> dict[str, Any] | None:
        match message["method"]:
            case "initialize":
                info = {"name": "forgetful", "version": "1"}
                return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                if message["params"]["name"] == "forget":
                    SESSIONS.clear()
                return {"content": [{"type": "text", "text": session}]}
        return None

    def result(self, message: dict[str, Any], result: dict[str, Any] | None, session: str | None = None) -> None:
        outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], **outcome}, session)

    def answer(self, status: int, body: dict[str, Any] | None, session: str | None = None) -> None:
        data = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if session is not None:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(listening.server_port, flush=True)
    listening.serve_forever()
