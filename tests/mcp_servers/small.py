"""A server without the library of the protocol, which starts at once, for tests of processes and connections.

    python small.py [--wait FILE]     it starts once the file exists

The environment variable `STARTS` may name a file, to which each start appends a line. Each call has its own thread.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Send = Callable[[dict[str, Any]], None]
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
_writing = threading.Lock()
_cancelled: dict[Any, threading.Event] = {}
_meeting: list[int] = []
_all_here = threading.Event()


def send(message: dict[str, Any]) -> None:
    with _writing:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def add(call: Call, a: int, b: int) -> int:
    return a + b


def say(call: Call, text: str) -> str:
    return text


def variable(call: Call, name: str) -> str:
    return os.environ.get(name, "not set")


def process(call: Call) -> int:
    return os.getpid()


def meet(call: Call, count: int) -> int:
    """Return once `count` calls are running concurrently."""
    with _writing:
        _meeting.append(count)
        if len(_meeting) == count:
            _all_here.set()
    _all_here.wait()
    return count


def hang(call: Call, file: str) -> str:
    """Wait until the call is cancelled. Its status is written to the file."""
    Path(file).write_text("started", encoding="utf-8")
    call.cancelled.wait()
    Path(file).write_text("cancelled", encoding="utf-8")
    return "never"


def count(call: Call, to: int) -> int:
    for number in range(1, to + 1):
        call.report(number, to)
    return to


class Call:
    """A running call."""

    def __init__(self, call_id: Any, params: dict[str, Any]) -> None:
        self.cancelled = _cancelled[call_id] = threading.Event()
        self._call_id = call_id
        self._params = params

    def report(self, progress: int, total: int) -> None:
        token = self._params.get("_meta", {}).get("progressToken")
        if token is not None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": f"step {progress}"}
            send({"method": "notifications/progress", "params": params})

    def answer(self) -> None:
        result = TOOLS[self._params["name"]][0](self, **self._params.get("arguments", {}))
        if not self.cancelled.is_set():
            content = [{"type": "text", "text": str(result)}]
            answer = {"content": content, "structuredContent": {"result": result}}
            send({"id": self._call_id, "result": answer})


TOOLS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "add": (add, {"a": INTEGER, "b": INTEGER}, INTEGER),
    "say": (say, {"text": STRING}, STRING),
    "variable": (variable, {"name": STRING}, STRING),
    "process": (process, {}, INTEGER),
    "meet": (meet, {"count": INTEGER}, INTEGER),
    "hang": (hang, {"file": STRING}, STRING),
    "count": (count, {"to": INTEGER}, INTEGER),
}


def describe(name: str) -> dict[str, Any]:
    _, properties, result = TOOLS[name]
    return {
        "name": name,
        "inputSchema": {"type": "object", "properties": properties, "required": list(properties)},
        "outputSchema": {"type": "object", "properties": {"result": result}, "required": ["result"]},
    }


def handle(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params", {})
    if method == "notifications/cancelled" and params["requestId"] in _cancelled:
        _cancelled[params["requestId"]].set()
    if "id" not in message:
        return
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        send({"id": message["id"], "result": result})
    elif method == "tools/list":
        send({"id": message["id"], "result": {"tools": [describe(name) for name in TOOLS]}})
    elif method == "tools/call":
        threading.Thread(target=Call(message["id"], params).answer, daemon=True).start()
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})


if __name__ == "__main__":
    if starts := os.environ.get("STARTS"):
        with open(starts, "a", encoding="utf-8") as file:
            print(os.getpid(), file=file)
    while sys.argv[1:2] == ["--wait"] and not Path(sys.argv[2]).exists():
        time.sleep(0.01)
    for line in sys.stdin:
        handle(json.loads(line))
