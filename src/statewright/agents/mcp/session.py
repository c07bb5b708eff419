"""Sessions with an MCP server, and the connection to the server, which consists of one session after another.

Everything runs on the event loop of the host. A single task opens a session, keeps it open and closes it, because the
SDK's contexts must be closed by the task that opened them; other tasks make the calls. If a session has ended, the next
call opens a new session. A call during which a session ends is not repeated, because it may have had an effect.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from statewright.agents.mcp.server import McpServer
from statewright.agents.mcp.texts import StderrTail, error_text, truncate
from statewright.errors import ToolError

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool


_STDERR_TIMEOUT: Final = 0.5
"""Seconds to wait for the end of the output of a program whose session has ended."""
_SUBSCRIBE_DELAY: Final = 1.0
"""Seconds before subscribing to changes of the tools again."""
_CLOSE_TIMEOUT: Final = 8.0
"""Seconds to wait until a session is closed. The SDK takes less to let a program exit, and then to kill it."""
_MAX_PAGES: Final = 1000
"""Maximum number of pages of the list of tools."""


class Session:
    """A session with a server. It is being opened, open, or over."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._stderr = StderrTail()
        self._stop = asyncio.Event()
        self._cause: BaseException | None = None
        """The reason why the session ended, if it is known."""
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        """The open client, or the error if the session could not be opened."""
        self._list_lock = asyncio.Lock()
        self._listed: tuple[ListedTool, ...] | None = None
        """The tools of the server; None if they have to be listed again."""
        self._change_count = 0
        """The number of times that the list of tools was invalidated."""
        # The task outlives the call that created it, so it must not keep the context of that call alive.
        self._task = asyncio.create_task(self._run(), name=f"mcp {server.name}", context=contextvars.Context())
        loop = self._task.get_loop()
        self._connect_timer = loop.call_later(
            server.connect_timeout, self._on_connect_timeout, context=contextvars.Context()
        )
        self._timeout_task: asyncio.Task[None] | None = None
        """The task that reports a connect timeout to the callers. A loop has only weak references to its tasks, so this
        reference keeps the task alive."""

    @property
    def is_over(self) -> bool:
        """True if the session can no longer be used."""
        return self._stop.is_set() or self._task.done()

    async def client(self) -> Client:
        """Wait until the session is open, and return its client. Raises ToolError if it cannot be opened."""
        return await asyncio.shield(self._client)

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return the tools of the server. They are listed only once, and again after the server reports a change."""
        client = await self.client()
        async with self._list_lock:
            if self._listed is not None:
                return self._listed
            change_count = self._change_count
            listed = await self._list(client)
            if change_count == self._change_count:  # unless they changed in the meantime
                self._listed = listed
            return listed

    async def build_error(self, failure: str, error: BaseException | None = None, *, hint: str = "") -> ToolError:
        """Return an error that says what failed, why, and what the server program last wrote to its standard error.

        If the session has ended for a known reason, the error gives this reason instead of `error`.
        """
        cause = self._cause or error
        reason = "the server closed the connection"
        if cause is not None:
            reason = truncate(self._server.without_secrets(error_text(cause))).rstrip(".")
        stderr = await self._stderr.read(timeout=_STDERR_TIMEOUT if self.is_over else 0)
        last_output = f"\nThe last output on its standard error:\n{stderr}" if stderr else ""
        return ToolError(self._server.without_secrets(f"{failure}: {reason}. {hint}".rstrip() + last_output))

    async def close(self) -> None:
        """End the session, and wait until its resources are closed."""
        self._end()
        if not self._client.done():
            self._task.cancel()
            self._fail_waiting(ToolError(f"{self._server.shown} was closed before it was connected."))
        _, pending = await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT)
        if pending:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT)

    # -- the task that keeps the session open

    async def _run(self) -> None:
        try:
            await self._keep_open()
        except Exception as error:
            self._cause = self._cause or error
        finally:
            self._end()
            await self._fail_with_reason()

    async def _keep_open(self) -> None:
        """Open the client, and keep it open until the session is to end."""
        import anyio

        from statewright.agents.mcp.open import open_client

        async with open_client(self._server, self._stderr, self._on_end, self._on_message) as client:
            self._connect_timer.cancel()
            if self._client.done():  # too late: the callers already have an error
                return
            self._client.set_result(client)
            async with anyio.create_task_group() as group:
                group.start_soon(self._follow_changes, client)
                await self._stop.wait()
                group.cancel_scope.cancel()

    def _on_end(self, cause: Exception | None) -> None:
        self._cause = self._cause or cause
        self._stop.set()
        if cause is not None and not self._client.done():  # otherwise the SDK would wait forever
            self._task.cancel()

    async def _on_message(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._forget_tools()

    async def _follow_changes(self, client: Client) -> None:
        """Subscribe to changes of the tools, if the protocol version supports it.

        In other versions, servers report changes as messages, which `_on_message` receives.
        """
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._forget_tools()  # changes before the subscription were not reported
                    async for _ in changes:
                        self._forget_tools()
            except SubscriptionLost:
                self._forget_tools()
            except (ListenNotSupportedError, MCPError):
                return
            await asyncio.sleep(_SUBSCRIBE_DELAY)

    def _forget_tools(self) -> None:
        self._change_count += 1
        self._listed = None

    def _end(self) -> None:
        self._connect_timer.cancel()
        self._stop.set()

    # -- failures to open

    def _on_connect_timeout(self) -> None:
        """Report the timeout to the callers at once, because a program that does not answer may be slow to exit too."""
        self._cause = TimeoutError(f"it did not answer within {self._server.connect_timeout:g} s")
        self._stop.set()
        self._task.cancel()
        self._timeout_task = asyncio.create_task(self._fail_with_reason())

    async def _fail_with_reason(self) -> None:
        """Raise an error with the reason in the callers that are waiting for the client."""
        if self._client.done():
            return
        failure, hint = f"{self._server.shown} could not be reached", "Check its address, and that it is running"
        if self._server.transport.kind == "stdio":
            failure, hint = f"{self._server.shown} could not be started", "Check its command and arguments"
        self._fail_waiting(await self.build_error(failure, hint=f"{hint}, or raise connect_timeout if it is slow."))

    def _fail_waiting(self, error: ToolError) -> None:
        if self._client.done():
            return
        self._client.set_exception(error)
        self._client.exception()  # asyncio would log an error that is never retrieved

    # -- the list of tools

    async def _list(self, client: Client) -> tuple[ListedTool, ...]:
        try:
            async with asyncio.timeout(self._server.connect_timeout):
                return await _all_pages(client)
        except Exception as error:
            raise await self.build_error(f"{self._server.shown} did not list its tools", error) from None


async def _all_pages(client: Client) -> tuple[ListedTool, ...]:
    tools: dict[str, ListedTool] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:  # a tool may be repeated if the list changes between two pages
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            return tuple(tools.values())
    raise RuntimeError(f"the list has more than {_MAX_PAGES} pages")


# -- connections


class Connection:
    """The connection to one server, shared by its owners. It opens a new session when the last one has ended."""

    def __init__(self, server: McpServer) -> None:
        self.owners: set[object] = set()
        self._server = server
        self._session: Session | None = None
        """The active session; None if there is none yet."""
        self._close_tasks: set[asyncio.Task[None]] = set()
        """The tasks that are closing earlier sessions."""

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return the tools of the server. Raises ToolError if the server cannot be reached."""
        return await self._open().tools()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout: float, progress: ProgressFnT
    ) -> CallToolResult:
        """Call a tool, and return the server's result, which may be an error. Raises ToolError for any other failure.

        `timeout` is in seconds, and `progress` receives the server's progress reports.
        """
        session = self._open()
        await session.tools()  # the SDK needs the output schemas and headers in the list of tools
        client = await session.client()
        try:
            async with asyncio.timeout(timeout):
                return await client.call_tool(tool, dict(arguments), progress_callback=progress)
        except TimeoutError:
            raise self._timeout_error(tool, timeout) from None
        except Exception as error:
            raise await self._call_error(session, tool, error) from None

    async def close(self) -> None:
        """End the session, and wait until the programs of this and of earlier sessions have exited."""
        session, self._session = self._session, None
        if session is not None:
            self._end(session)
        if self._close_tasks:
            await asyncio.wait(self._close_tasks)

    def _open(self) -> Session:
        """Return the active session, or a new one. Concurrent callers share a session that is being opened."""
        if self._session is not None and self._session.is_over:
            self._end(self._session)
            self._session = None
        if self._session is None:
            self._session = Session(self._server)
        return self._session

    def _end(self, session: Session) -> None:
        task = asyncio.create_task(session.close())
        self._close_tasks.add(task)
        task.add_done_callback(self._close_tasks.discard)

    def _timeout_error(self, tool: str, timeout: float) -> ToolError:
        return ToolError(
            f"{self._server.shown} did not answer the call of {tool!r} within {timeout:g} s. The call was cancelled, "
            f"but may have had an effect. Raise the server's timeout if the tool needs longer."
        )

    async def _call_error(self, session: Session, tool: str, error: Exception) -> ToolError:
        if not (session.is_over or _is_lost(error)):
            reason = truncate(self._server.without_secrets(error_text(error)).rstrip("."))
            return ToolError(f"{self._server.shown} failed to call {tool!r}: {reason}.")
        self._end(session)
        failure = f"The connection to {self._server.shown} was lost during the call of {tool!r}"
        hint = "The call may have had an effect, so it was not repeated. The next call reconnects."
        return await session.build_error(failure, error, hint=hint)


def _is_lost(error: Exception) -> bool:
    """Return True for the error of a connection that has ended, or of an HTTP server that has dropped the session."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    # If an HTTP server does not know the session, only the message of the SDK's error says so.
    return isinstance(error, MCPError) and (error.code == CONNECTION_CLOSED or error.message == "Session terminated")
