"""A server written by hand, of the protocol's older form, with the habits of programs found in the wild.

It prints what is no message, tells of new tools after the list was read, has tools whose names no provider takes, and
lists its tools over several pages. Tools: `echo`, `grow`, `nonsense`, `liar`. Options:

    --pages NUMBER     that many pages of 20 tools more
    --endless          the list never ends
    --restless         has another tool as soon as it has listed them, and says so before it gives the list
    --mute METHOD      never answers that method
    --die METHOD       hangs up when asked that method, without an answer
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
given = parser.parse_args()

NAMES = ["echo", "grow", "nonsense", "liar", "with space", "with.space", "x" * 80]

KNOWN = len(NAMES)


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tool(name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    if name == "liar":
        made["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    if name == "echo":
        made["annotations"] = {"readOnlyHint": True}
    return made


def page(cursor: str | None) -> dict[str, Any]:
    if given.endless:
        return {"tools": [], "nextCursor": "again"}
    number = int(cursor or 0)
    names = NAMES if number == 0 else [f"t{number}_{one}" for one in range(20)]
    return {
        "tools": [tool(name) for name in names],
        **({"nextCursor": str(number + 1)} if number < given.pages else {}),
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
        listed = page(params.get("cursor"))
        if given.restless and len(NAMES) == KNOWN:
            call("grow", {})
        return listed
    return call(params["name"], params.get("arguments", {})) if method == "tools/call" else None


os.write(1, b"Welcome!\n\xff\xfe\n{\n[1, 2]\n\n")
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if method == given.die:
        print("no more of this", file=sys.stderr, flush=True)
        os._exit(7)
    if method == given.mute:
        time.sleep(600)
    if "id" not in message:
        continue
    os.write(1, b"answering...\n")
    result = answer(method, message.get("params", {}))
    if result is None:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
    else:
        send({"id": message["id"], "result": result})
