"""Who uses connections, and for how long."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from statewright.agents.mcp.host import Host, abandon, the_host
from statewright.errors import ToolError

T = TypeVar("T")


class Owner:
    """Holds connections until it is closed, or until nobody has it any more. Tools hold their owner."""

    def __init__(self) -> None:
        self._key = object()  # what the host holds must not be the owner itself: it would never go away
        self._is_closed = False
        # At the end of the interpreter the host closes everything itself.
        weakref.finalize(self, abandon, self._key).atexit = False

    def submit(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Future[T]:
        """What a method of the host will answer to this owner. Raises ToolError once it is closed."""
        if self._is_closed:
            raise ToolError("These MCP tools are closed. Use them within the context of their McpTools.")
        host = the_host()
        return host.submit(function, host, self._key, *args)

    def close(self) -> Future[None]:
        """Release everything; programs that nobody else uses have ended when the future is done."""
        self._is_closed = True
        host = the_host()
        return host.submit(Host.release, host, self._key)
