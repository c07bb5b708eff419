"""Calls to one server, over as many consecutive sessions as needed.

A session that has ended is replaced at the next call. The call during which it ended is never repeated, since it may
have had an effect. Everything runs on the event loop of the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from statewright.agents.mcp.server import McpServer
from statewright.agents.mcp.session import Session
from statewright.agents.mcp.texts import error_text, truncate
from statewright.errors import ToolError

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool


class Connection:
    """The connection to one server, shared by its owners."""

    def __init__(self, server: McpServer) -> None:
        self.owners: set[object] = set()
        self._server = server
        self._session: Session | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return the tools of the server. Raises ToolError if it cannot be reached."""
        return await self._open().tools()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout: float, progress: ProgressFnT
    ) -> CallToolResult:
        """Return the server's result, which may be an error. Raises ToolError for every other failure."""
        session = self._open()
        await session.tools()  # the SDK also reads output schemas and headers from the list
        client = await session.client()
        try:
            async with asyncio.timeout(timeout):
                return await client.call_tool(tool, dict(arguments), progress_callback=progress)
        except TimeoutError:
            raise self._timeout_error(tool, timeout) from None
        except Exception as error:
            raise await self._call_error(session, tool, error) from None

    async def close(self) -> None:
        """End the connection, and wait until its server programs have exited."""
        session, self._session = self._session, None
        if session is not None:
            self._end(session)
        if self._ending:
            await asyncio.wait(self._ending)

    def _open(self) -> Session:
        """Return the active session, or a new one, which concurrent callers share while it is opening."""
        if self._session is not None and self._session.is_over:
            self._end(self._session)
            self._session = None
        if self._session is None:
            self._session = Session(self._server)
        return self._session

    def _end(self, session: Session) -> None:
        ending = asyncio.create_task(session.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _timeout_error(self, tool: str, timeout: float) -> ToolError:
        return ToolError(
            f"{self._server.shown} did not answer the call of {tool!r} within {timeout:g} s. The call was cancelled, "
            f"but may have had an effect. Raise the server's timeout if the tool needs longer."
        )

    async def _call_error(self, session: Session, tool: str, error: Exception) -> ToolError:
        if not (session.is_over or _is_lost(error)):
            reason = truncate(self._server.without_secrets(error_text(error)).rstrip("."))
            return ToolError(f"{self._server.shown} could not do the call of {tool!r}: {reason}.")
        self._end(session)
        what = f"{self._server.shown} was lost during the call of {tool!r}"
        hint = "The call may have had an effect, so it was not repeated. The next call connects anew."
        return await session.build_error(what, error, hint=hint)


def _is_lost(error: Exception) -> bool:
    """Return True if the connection has ended, or an HTTP server has dropped its session."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    # The SDK reports an unknown session only by its message.
    return isinstance(error, MCPError) and (error.code == CONNECTION_CLOSED or error.message == "Session terminated")
