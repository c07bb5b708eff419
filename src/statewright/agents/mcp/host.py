"""The event loop that runs all connections of this process to MCP servers, and the owners that share the connections.

Graphs run on many event loops and threads, some of which exist only for one superstep, and connections must outlive
them. Therefore all connections run on a single event loop in a separate thread, and calls are submitted to this loop.
At interpreter exit all connections are closed, so that no server program is left running.
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
_CLOSE_TIMEOUT: Final = 20.0  # seconds to wait at interpreter exit until all connections are closed


class McpHost:
    """The connections of this process, by server description, and the event loop that runs them."""

    def __init__(self) -> None:
        self._connections: dict[tuple[object, ...], Connection] = {}
        self._loop = contextvars.Context().run(asyncio.new_event_loop)
        self.is_closed = False
        self._thread = threading.Thread(target=self._run, name="statewright-mcp", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> Future[T]:
        """Run a coroutine function on the host's event loop. Cancelling the future cancels the call."""
        if self.is_closed:
            raise ToolError("The interpreter is exiting, and the MCP servers are closed.")
        # A connection outlives the call that opens it, so it must not keep the context of the caller alive.
        return contextvars.Context().run(asyncio.run_coroutine_threadsafe, function(*args, **kwargs), self._loop)

    async def tools(self, owner: object, server: McpServer) -> tuple[ListedTool, ...]:
        """Return the tools of a server. Raises ToolError if the server cannot be reached."""
        return await self._connection(owner, server).tools()

    async def call(self, owner: object, server: McpServer, tool: str, arguments: Any, progress: Any) -> CallToolResult:
        """Call a tool of a server; `progress` receives progress reports. Raises ToolError if there is no result."""
        connection = self._connection(owner, server)
        return await connection.call(tool, arguments, timeout=server.timeout, progress=progress)

    async def release(self, owner: object) -> None:
        """Release the connections of an owner, and close those that have no other owner."""
        unused: list[Connection] = []
        for key, connection in list(self._connections.items()):
            connection.owners.discard(owner)
            if not connection.owners:
                unused.append(self._connections.pop(key))
        await asyncio.gather(*(connection.close() for connection in unused))

    def close(self) -> None:
        """Close all connections, and stop the loop."""
        closing = self.submit(self._close_all)
        self.is_closed = True
        try:
            closing.result(_CLOSE_TIMEOUT)
        except TimeoutError:
            return  # the thread ends with the process
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_TIMEOUT)

    def _connection(self, owner: object, server: McpServer) -> Connection:
        """Return the connection to a server, and register the owner of the description.

        Owners of equal descriptions share the connection.
        """
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
    """Import the SDK before a connection is opened, so that the timeout of the connection does not include the import.

    Raises ToolError if the SDK is not installed.
    """
    try:
        importlib.import_module("statewright.agents.mcp.open")
    except ImportError as error:
        raise ToolError(missing_library("MCP servers need", error, "statewright[mcp]")) from None


_host: McpHost | None = None
_lock = threading.Lock()


def get_host() -> McpHost:
    """Return the host of this process, started on first use."""
    global _host
    with _lock:
        if _host is None:
            _host = McpHost()
            atexit.register(_host.close)
        return _host


def release_later(owner: object) -> None:
    """Release the connections of an owner without waiting.

    It takes no lock, because the garbage collector calls it, possibly while the same thread holds the lock.
    """
    if _host is not None and not _host.is_closed:
        _host.submit(_host.release, owner)


def _reset_after_fork() -> None:
    """Reset the host in a forked child process, in which the host's thread does not exist."""
    global _host, _lock
    if _host is not None:
        atexit.unregister(_host.close)
    _host, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


# -- owners


class Owner:
    """An owner of connections, until it is closed or garbage-collected. Tools have a reference to their owner."""

    def __init__(self) -> None:
        # The host knows the owner by this key, because a reference to the owner itself would keep the owner alive.
        self._key = object()
        self._is_closed = False
        # No release is needed at interpreter exit, since the host then closes all connections.
        weakref.finalize(self, release_later, self._key).atexit = False

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Future[T]:
        """Call a method of the host on behalf of this owner. Raises ToolError after `close`."""
        if self._is_closed:
            raise ToolError("The McpTools of this tool are closed. Use their tools before they are closed.")
        host = get_host()
        return host.submit(function, host, self._key, *args)

    def close(self) -> Future[None]:
        """Release all connections. When the future is done, the server programs without another owner have exited."""
        self._is_closed = True
        host = get_host()
        return host.submit(McpHost.release, host, self._key)
