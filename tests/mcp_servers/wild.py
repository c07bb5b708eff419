"""A server with an older version of the protocol, with the defects of real programs.

It prints lines that are not messages, announces new tools after the list was read, has tools whose names no provider
accepts, and lists its tools in several pages. Tools: `echo`, `grow`, `nonsense`, `liar`. Options:

    --pages NUMBER     adds a number of pages of 20 tools
    --endless          the list never ends
    --restless         adds a tool while it lists them, and announces it before it sends the list
    --mute METHOD      never answers the method
    --die METHOD       exits without an answer when the method is called
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("--pages", type=int, default=0)
parser.add_argument("--endless", action="store_true")
parser.add_argument("--restless", action="store_true")
parser.add_argument("--mute")
parser.add_argument("--die")
options = parser.parse_args()

NAMES = ["echo", "grow", "nonsense", "liar", "with space", "with.space", "x" * 80]

INITIAL_COUNT = len(NAMES)


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tool(name: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": name,
        "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}},
    }
    if name == "liar":
        result["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    if name == "echo":
        result["annotations"] = {"readOnlyHint": True}
    return result


def page(cursor: str | None) -> dict[str, Any]:
    if options.endless:
        return {"tools": [], "nextCursor": "again"}
    number = int(cursor or 0)
    names = NAMES if number == 0 else [f"t{number}_{index}" for index in range(20)]
    return {
        "tools": [tool(name) for name in names],
        **({"nextCursor": str(number + 1)} if number < options.pages else {}),
    }


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "grow":
        NAMES.append(f"new{len(NAMES)}")
        send({"method": "notifications/tools/list_changed"})
    if name == "nonsense":
        return {"content": "not a list"}
    if name == "liar":
        return {"content": [], "structuredContent": {"n": "many"}}
    return {"content": [{"type": "text", "text": json.dumps({"tool": name, "pid": os.getpid(), **arguments})}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "wild", "version": "1"}
        version = "2025-06-18"
        return {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}
    if method == "tools/list":
        tools = page(params.get("cursor"))
        if options.restless and len(NAMES) == INITIAL_COUNT:
            call("grow", {})
        return tools
    return call(params["name"], params.get("arguments", {})) if method == "tools/call" else None


os.write(1, b"Welcome!\n\xff\xfe\n{\n[1, 2]\n\n")
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if method == options.die:
        print("no more of this", file=sys.stderr, flush=True)
        os._exit(7)
    if method == options.mute:
        time.sleep(600)
    if "id" not in message:
        continue
    os.write(1, b"answering...\n")
    result = answer(method, message.get("params", {}))
    if result is None:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
    else:
        send({"id": message["id"], "result": result})
