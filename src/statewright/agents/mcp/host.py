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

from statewright.agents.mcp.server import McpServer
from statewright.agents.mcp.session import Connection
from statewright.errors import ToolError
from statewright.extras import missing_library

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

T = TypeVar("T")
_CLOSE_TIMEOUT: Final = 20.0  # seconds for all connections to end


class Host:
    """The connections of this process, by server, and the event loop that runs them."""

    def __init__(self) -> None:
        self._connections: dict[tuple[object, ...], Connection] = {}
        self._loop = contextvars.Context().run(asyncio.new_event_loop)
        self.is_closed = False
        self._thread = threading.Thread(target=self._run, name="statewright-mcp", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> Future[T]:
        """Run a coroutine function on the loop of the host. Cancelling the future cancels the call."""
        if self.is_closed:
            raise ToolError("The interpreter is exiting, and the MCP servers are closed.")
        # A connection outlives the call that opened it, so it must not keep the caller's context.
        return contextvars.Context().run(asyncio.run_coroutine_threadsafe, function(*args, **kwargs), self._loop)

    async def tools(self, owner: object, server: McpServer) -> tuple[ListedTool, ...]:
        return await self._connection(owner, server).tools()

    async def call(self, owner: object, server: McpServer, tool: str, arguments: Any, progress: Any) -> CallToolResult:
        connection = self._connection(owner, server)
        return await connection.call(tool, arguments, timeout=server.timeout, progress=progress)

    async def release(self, owner: object) -> None:
        """Close the connections that no other owner uses."""
        unused: list[Connection] = []
        for key, connection in list(self._connections.items()):
            connection.owners.discard(owner)
            if not connection.owners:
                unused.append(self._connections.pop(key))
        await asyncio.gather(*(connection.close() for connection in unused))

    def close(self) -> None:
        """Close all connections, and stop the loop."""
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
    """Import the SDK before a connection is opened: the import would count against its timeout."""
    try:
        importlib.import_module("statewright.agents.mcp.open")
    except ImportError as error:
        raise ToolError(missing_library("MCP servers need", error, "statewright[mcp]")) from None


_host: Host | None = None
_lock = threading.Lock()


def get_host() -> Host:
    """Return the host of this process, started on first use."""
    global _host
    with _lock:
        if _host is None:
            _host = Host()
            atexit.register(_host.close)
        return _host


def release_later(owner: object) -> None:
    """Release the connections of an owner without waiting. Lock-free: the garbage collector calls it anywhere."""
    if _host is not None and not _host.is_closed:
        _host.submit(_host.release, owner)


def _reset_after_fork() -> None:
    """Reset the host in a forked child, which does not inherit its thread."""
    global _host, _lock
    if _host is not None:
        atexit.unregister(_host.close)
    _host, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


# -- owners


class Owner:
    """Holds connections until it is closed or garbage-collected. Tools refer to their owner."""

    def __init__(self) -> None:
        self._key = object()  # a key, since a reference to the owner itself would keep it alive
        self._is_closed = False
        # At the end of the interpreter the host closes everything itself.
        weakref.finalize(self, release_later, self._key).atexit = False

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Future[T]:
        """Call a method of the host for this owner. Raises ToolError after `close`."""
        if self._is_closed:
            raise ToolError("These MCP tools are closed. Use them within the context of their McpTools.")
        host = get_host()
        return host.submit(function, host, self._key, *args)

    def close(self) -> Future[None]:
        """Release all connections; unshared server programs have exited when the future is done."""
        self._is_closed = True
        host = get_host()
        return host.submit(Host.release, host, self._key)
