"""The event loop that runs all connections of this process, and the owners that share them.

Graphs run on many event loops and threads, some for one superstep only, and a connection has to outlive them. It runs
on the one loop here, on a thread of its own, and calls are submitted to it. At interpreter exit all connections are
closed, so that no server program is left running.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import importlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from statewright.agents.mcp.connection import Connection
from statewright.agents.mcp.server import McpServer
from statewright.errors import ToolError
from statewright.extras import missing_library

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

T = TypeVar("T")
_CLOSE_TIMEOUT: Final = 20.0  # seconds for all connections to end


class Host:
    """Connections by what they lead to, with the owners of each."""

    def __init__(self) -> None:
        self._connections: dict[tuple[object, ...], Connection] = {}
        self._loop = contextvars.Context().run(asyncio.new_event_loop)
        self.is_closed = False
        self._thread = threading.Thread(target=self._run, name="statewright-mcp", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> Future[T]:
        """What a coroutine function of this host will answer. Cancelling the future cancels the call."""
        if self.is_closed:
            raise ToolError("The interpreter is about to end, and the MCP servers are closed.")
        # A connection lives on after the call that opened it: nothing of the caller's context may be kept.
        return contextvars.Context().run(asyncio.run_coroutine_threadsafe, function(*args, **kwargs), self._loop)

    async def tools(self, owner: object, server: McpServer) -> tuple[ListedTool, ...]:
        return await self._connection(owner, server).tools()

    async def call(self, owner: object, server: McpServer, tool: str, arguments: Any, progress: Any) -> CallToolResult:
        connection = self._connection(owner, server)
        return await connection.call(tool, arguments, timeout=server.timeout, progress=progress)

    async def release(self, owner: object) -> None:
        """Close what this owner was the last to use."""
        unused: list[Connection] = []
        for key, connection in list(self._connections.items()):
            connection.owners.discard(owner)
            if not connection.owners:
                unused.append(self._connections.pop(key))
        await asyncio.gather(*(connection.close() for connection in unused))

    def close(self) -> None:
        """Close everything, and end the loop."""
        everything = self.submit(self._close_all)
        self.is_closed = True
        try:
            everything.result(_CLOSE_TIMEOUT)
        except TimeoutError:
            return  # the thread ends with the process
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_TIMEOUT)

    def _connection(self, owner: object, server: McpServer) -> Connection:
        _require_sdk()
        connection = self._connections.get(server.connection_key)
        if connection is None:
            connection = self._connections[server.connection_key] = Connection(server)
        connection.owners.add(owner)
        return connection

    async def _close_all(self) -> None:
        closing = [connection.close() for connection in self._connections.values()]
        self._connections.clear()
        await asyncio.gather(*closing)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


def _require_sdk() -> None:
    """Imports the SDK here and not while a connection is opened: it would count against the time for that."""
    try:
        importlib.import_module("statewright.agents.mcp.open")
    except ImportError as error:
        raise ToolError(missing_library("MCP servers need", error, "statewright[mcp]")) from None


_host: Host | None = None
_lock = threading.Lock()


def get_host() -> Host:
    """The host of this process."""
    global _host
    with _lock:
        if _host is None:
            _host = Host()
            atexit.register(_host.close)
        return _host


def release_later(owner: object) -> None:
    """Release what an owner had, without waiting. It takes no lock: the collector of garbage calls it anywhere."""
    if _host is not None and not _host.is_closed:
        _host.submit(_host.release, owner)


def _reset_after_fork() -> None:
    """Threads do not survive a fork: the child starts its own."""
    global _host, _lock
    if _host is not None:
        atexit.unregister(_host.close)
    _host, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


# -- owners


class Owner:
    """Holds connections until it is closed, or until nobody has it any more. Tools hold their owner."""

    def __init__(self) -> None:
        self._key = object()  # what the host holds must not be the owner itself: it would never go away
        self._is_closed = False
        # At the end of the interpreter the host closes everything itself.
        weakref.finalize(self, release_later, self._key).atexit = False

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Future[T]:
        """What a method of the host will answer to this owner. Raises ToolError once it is closed."""
        if self._is_closed:
            raise ToolError("These MCP tools are closed. Use them within the context of their McpTools.")
        host = get_host()
        return host.submit(function, host, self._key, *args)

    def close(self) -> Future[None]:
        """Release everything; programs that nobody else uses have ended when the future is done."""
        self._is_closed = True
        host = get_host()
        return host.submit(Host.release, host, self._key)
