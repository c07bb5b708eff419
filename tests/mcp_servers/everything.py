"""A server with a tool for each feature that a client must support.

    python everything.py stdio [--wait FILE]                     it starts once the file exists
    python everything.py streamable-http | sse [--port PORT]     the port is printed

The environment variable `STARTS` may name a file, to which each start appends a line.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from pathlib import Path
from typing import TypedDict

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import EmbeddedResource, TextContent, TextResourceContents

server = MCPServer("everything")


class Person(TypedDict):
    name: str
    tags: list[str]


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def person(name: str) -> Person:
    return {"name": name, "tags": ["a", "ü"]}


@server.tool(structured_output=False)
def say(text: str) -> str:
    return text


@server.tool(structured_output=False)
def repeat(text: str, times: int) -> str:
    return text * times


@server.tool(structured_output=False)
def lines() -> list[str]:
    return ["one", "two"]


@server.tool(structured_output=False)
def picture() -> list[object]:
    return ["a dot", Image(data=b"dot", format="png")]


@server.tool(structured_output=False)
def document() -> list[object]:
    text = TextResourceContents(uri="file:///notes.txt", mime_type="text/plain", text="notes")
    return [TextContent(type="text", text="see"), EmbeddedResource(type="resource", resource=text)]


@server.tool()
def fail(text: str) -> int:
    raise ToolError(text)


@server.tool()
def variable(name: str) -> str:
    return os.environ.get(name, "not set")


@server.tool()
def header(name: str, ctx: Context) -> str:
    return (ctx.headers or {}).get(name.lower(), "not sent")


@server.tool()
def fail_with(name: str) -> str:
    print("the key is", os.environ[name], file=sys.stderr, flush=True)
    raise ToolError(f"refused {os.environ[name]}")


@server.tool()
def process() -> int:
    return os.getpid()


_waiting: list[anyio.Event] = []


@server.tool()
async def meet(count: int) -> int:
    """Return once `count` calls are running concurrently."""
    released = anyio.Event()
    _waiting.append(released)
    if len(_waiting) == count:
        for event in _waiting:
            event.set()
    await released.wait()
    return count


@server.tool()
async def hang(file: str) -> str:
    """Never return. The status of the call is written to the file."""
    Path(file).write_text("started", encoding="utf-8")
    try:
        await anyio.sleep_forever()
    finally:
        Path(file).write_text("cancelled", encoding="utf-8")
    return "never"


@server.tool()
def crash(words: str) -> str:
    print(words, file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
async def count(to: int, ctx: Context) -> int:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"step {number}")
    return to


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a tool."""
    server.add_tool(lambda: "grown", name=name, structured_output=False)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return name


def serve_http(kind: str, port: int) -> None:
    import uvicorn  # not imported for stdio, so that programs start quickly

    app = server.sse_app() if kind == "sse" else server.streamable_http_app()
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # without the protocol, asyncio does not set TCP_NODELAY
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["stdio", "streamable-http", "sse"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--wait")
    options = parser.parse_args()
    if starts := os.environ.get("STARTS"):
        with open(starts, "a", encoding="utf-8") as file:
            print(os.getpid(), file=file)
    while options.wait and not Path(options.wait).exists():
        time.sleep(0.01)
    if options.kind == "stdio":
        server.run("stdio")
    else:
        serve_http(options.kind, options.port)


if __name__ == "__main__":
    main()
