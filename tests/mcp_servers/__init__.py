"""MCP servers for tests: programs that a client starts, and programs that listen on a local port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statewright.agents.mcp import McpServer, McpTool, McpTools
from statewright.agents.mcp.host import get_host
from statewright.agents.tools import ToolContext

FOLDER = Path(__file__).parent


def program(*args: str, file: str = "everything.py", name: str = "e", **settings: Any) -> McpServer:
    """Return a server of this package that the client starts."""
    return McpServer.stdio(name, sys.executable, [str(FOLDER / file), *args], **{"connect_timeout": 120, **settings})


def everything(*args: str, **settings: Any) -> McpServer:
    return program("stdio", *args, **settings)


def small(*args: str, **settings: Any) -> McpServer:
    return program(*args, file="small.py", **settings)


def wild(*args: str, **settings: Any) -> McpServer:
    return program(*args, file="wild.py", **settings)


def call(tool: McpTool, context: ToolContext | None = None, **arguments: Any) -> Any:
    return asyncio.run(tool.call(arguments, context=context or ToolContext()))


def by_name(tools: McpTools) -> dict[str, McpTool]:
    return {tool.remote_name: tool for tool in tools.load()}


def is_lost(server: McpServer) -> bool:
    """Return True once the client has noticed that a server has ended."""
    session = get_host()._connections[server.connection_key]._session  # pyright: ignore[reportPrivateUsage]
    return session is not None and session.is_over


def is_alive(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def eventually(condition: Callable[[], Any], *, seconds: float = 600) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


class HttpServer:
    """A server process of this package on a local port, which can be stopped and restarted."""

    def __init__(self, kind: str, file: str = "everything.py") -> None:
        self.kind = kind
        self._file = file
        self.port = "0"
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        self.stop()
        command = [sys.executable, str(FOLDER / self._file), self.kind, "--port", self.port]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self.port = self._process.stdout.readline().strip()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.kind == 'sse' else 'mcp'}"

    def mcp_server(self, **settings: Any) -> McpServer:
        create = McpServer.sse if self.kind == "sse" else McpServer.http
        return create("web", self.url, **settings)
