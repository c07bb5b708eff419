"""One session with a server, from start to end. A session that has ended is never reused.

Everything runs on the event loop of the host. One task opens, holds and closes the session, because the SDK's contexts
must be closed by the task that opened them; calls are made by other tasks meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any, Final

from statewright.agents.mcp.server import McpServer
from statewright.agents.mcp.texts import StderrTail, error_text, truncate
from statewright.errors import ToolError

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp_types import Tool as ListedTool

_STDERR_WAIT: Final = 0.5  # seconds for the last words of a program that has died
_PAUSE: Final = 1.0  # seconds before changes are asked for again
_CLOSE_TIMEOUT: Final = 8.0  # seconds, more than a program is given to go by itself and then to be ended
_MOST_PAGES: Final = 1000


class Session:
    """A connection that is being opened, is open, or is over."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._stderr = StderrTail()
        self._stop = asyncio.Event()
        self._cause: BaseException | None = None
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._listing = asyncio.Lock()
        self._listed: tuple[ListedTool, ...] | None = None
        self._changes = 0
        # The task lives on after the call that was first: nothing of its context may be kept.
        self._task = asyncio.create_task(self._run(), name=f"mcp {server.name}", context=contextvars.Context())
        loop = self._task.get_loop()
        self._deadline = loop.call_later(
            server.connect_timeout, self._on_connect_timeout, context=contextvars.Context()
        )
        self._refusal: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked of the server any more."""
        return self._stop.is_set() or self._task.done()

    async def client(self) -> Client:
        """The open connection. Raises ToolError where it could not be opened, to everybody who waits for it."""
        return await asyncio.shield(self._client)

    async def tools(self) -> tuple[ListedTool, ...]:
        """The tools of the server, listed anew after it said that they have changed."""
        client = await self.client()
        async with self._listing:
            if self._listed is not None:
                return self._listed
            changes = self._changes
            listed = await self._list(client)
            if changes == self._changes:
                self._listed = listed
            return listed

    async def build_error(self, what: str, error: BaseException | None = None, *, hint: str = "") -> ToolError:
        """An error that says what failed, why as far as that is known, and what a program last had to say."""
        cause = self._cause or error
        reason = (
            truncate(self._server.without_secrets(error_text(cause))) if cause is not None else "the server hung up"
        )
        words = await self._stderr.read(patience=_STDERR_WAIT if self.is_over else 0)
        said = f"\nThe end of what it wrote to its standard error:\n{words}" if words else ""
        return ToolError(self._server.without_secrets(f"{what}: {reason.rstrip('.')}. {hint}".rstrip() + said))

    async def close(self) -> None:
        """End the connection, and wait until all that belongs to it is gone."""
        self._end()
        if not self._client.done():
            self._task.cancel()
            self._fail_waiting(ToolError(f"{self._server.shown} was closed before it was connected."))
        _, lingering = await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT)
        if lingering:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT)

    # -- the task that keeps the connection

    async def _run(self) -> None:
        try:
            await self._hold()
        except Exception as error:
            self._cause = self._cause or error
        finally:
            self._end()
            await self._fail_with_reason()

    async def _hold(self) -> None:
        import anyio

        from statewright.agents.mcp.open import open_client

        async with open_client(self._server, self._stderr, self._on_end, self._on_message) as client:
            self._deadline.cancel()
            if self._client.done():  # too late
                return
            self._client.set_result(client)
            async with anyio.create_task_group() as group:
                group.start_soon(self._follow_changes, client)
                await self._stop.wait()
                group.cancel_scope.cancel()

    def _on_end(self, why: Exception | None) -> None:
        self._cause = self._cause or why
        self._stop.set()
        if why is not None and not self._client.done():  # the SDK would wait for an answer that cannot come
            self._task.cancel()

    async def _on_message(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._forget_tools()

    async def _follow_changes(self, client: Client) -> None:
        """Ask to be told of changes, where the protocol's version wants to be asked. `_heard` is told of them."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._forget_tools()  # of what changed before nobody told
                    async for _ in changes:
                        self._forget_tools()
            except SubscriptionLost:
                self._forget_tools()
            except (ListenNotSupportedError, MCPError):
                return
            await asyncio.sleep(_PAUSE)

    def _forget_tools(self) -> None:
        self._changes += 1
        self._listed = None

    def _end(self) -> None:
        self._deadline.cancel()
        self._stop.set()

    # -- when it could not be opened

    def _on_connect_timeout(self) -> None:
        """Tell those who wait at once: a program that does not answer may not go at once either."""
        self._cause = TimeoutError(f"it did not answer within {self._server.connect_timeout:g} s")
        self._stop.set()
        self._task.cancel()
        self._refusal = asyncio.create_task(self._fail_with_reason())

    async def _fail_with_reason(self) -> None:
        if self._client.done():
            return
        what, hint = f"{self._server.shown} could not be reached", "Check its address, and that it is running"
        if self._server.transport.kind == "stdio":
            what, hint = f"{self._server.shown} could not be started", "Check its command and arguments"
        self._fail_waiting(await self.build_error(what, hint=f"{hint}, or raise connect_timeout if it is slow."))

    def _fail_waiting(self, error: ToolError) -> None:
        if self._client.done():
            return
        self._client.set_exception(error)
        self._client.exception()  # those who wait have it; that nobody does is no fault

    # -- the list of its tools

    async def _list(self, client: Client) -> tuple[ListedTool, ...]:
        try:
            async with asyncio.timeout(self._server.connect_timeout):
                return await _all_pages(client)
        except Exception as error:
            raise await self.build_error(f"{self._server.shown} did not list its tools", error) from None


async def _all_pages(client: Client) -> tuple[ListedTool, ...]:
    tools: dict[str, ListedTool] = {}
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:  # a list that changes meanwhile may have a tool on two pages
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            return tuple(tools.values())
    raise RuntimeError(f"the list has more than {_MOST_PAGES} pages")
