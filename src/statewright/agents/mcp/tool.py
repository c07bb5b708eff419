"""A tool of a server, as agents and workflows call it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from statewright.agents.mcp.bounds import bounded, bounded_schema
from statewright.agents.mcp.host import Host
from statewright.agents.mcp.owner import Owner
from statewright.agents.mcp.result import answer_of, text_of
from statewright.agents.mcp.server import McpServer
from statewright.agents.tools import ToolContext
from statewright.errors import ToolError

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool


class McpTool:
    """A tool that a server has. It may be called from every event loop."""

    def __init__(self, name: str, listed: ListedTool, server: McpServer, owner: Owner) -> None:
        self.name = name
        self.remote_name = listed.name
        """What the server calls it."""
        self.server = server
        self.description = bounded(listed.description or listed.title or "", "description")
        self.parameters: Mapping[str, Any] = bounded_schema(listed.input_schema)
        self.annotations: Mapping[str, Any] = _annotations(listed)
        """Hints of the server, such as `readOnlyHint` and `destructiveHint`. They are claims of its author."""
        self._owner = owner

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Text, structured content, or a list of parts; see `answer_of`.

        Progress that the server reports goes to the stream writer as `{"type": "tool_progress", ...}` and is a
        heartbeat. A cancelled call is cancelled at the server. Raises ToolError with what the server says when it calls
        its answer an error, and where it does not answer.
        """
        plain = _plain(self.name, arguments)
        progress = _Progress(self.name, context)
        result = await asyncio.wrap_future(
            self._owner.submit(Host.call, self.server, self.remote_name, plain, progress)
        )
        if result.is_error:
            # Masked before it is cut: a half of a secret would not be recognised.
            text = bounded(self.server.without_secrets(text_of(result)).strip()) or "it failed, and did not say why"
            raise ToolError(f"Tool {self.name!r} failed: {text}")
        return answer_of(result)

    def __repr__(self) -> str:
        return f"McpTool({self.name!r})"


class _Progress:
    """Tells those who watch the call, on the event loop from which it was made."""

    def __init__(self, tool: str, context: ToolContext) -> None:
        self._tool = tool
        self._context = context
        self._loop = asyncio.get_running_loop()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        told = {"type": "tool_progress", "tool": self._tool, "call": self._context.tool_call_id, "progress": progress}
        told |= {name: value for name, value in (("total", total), ("message", message)) if value is not None}
        with suppress(RuntimeError):  # the loop was closed: nobody waits for the call
            self._loop.call_soon_threadsafe(self._tell, told)

    def _tell(self, told: Mapping[str, Any]) -> None:
        if self._context.runtime is not None:
            self._context.runtime.heartbeat()
        write: Callable[[Any], None] = self._context.stream_writer
        write(told)


def _plain(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as plain data. What cannot be sent must be found here: at the connection it would break it."""
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
        text.encode()
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"The arguments of tool {tool!r} cannot be written as JSON: {error}. Give plain data."
        ) from None


def _annotations(listed: ListedTool) -> dict[str, Any]:
    told = listed.annotations
    return told.model_dump(mode="json", by_alias=True, exclude_none=True) if told is not None else {}
