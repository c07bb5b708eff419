"""A tool of an MCP server, as agents and workflows call it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from statewright.agents.mcp.host import Host, Owner
from statewright.agents.mcp.server import McpServer
from statewright.agents.mcp.texts import truncate, truncate_schema
from statewright.agents.tools import ToolContext
from statewright.errors import ToolError

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ListedTool


class McpTool:
    """A tool of a server. It may be called from every event loop."""

    def __init__(self, name: str, listed: ListedTool, server: McpServer, owner: Owner) -> None:
        self.name = name
        self.remote_name = listed.name
        """The server's name for the tool."""
        self.server = server
        self.description = truncate(listed.description or listed.title or "", "description")
        self.parameters: Mapping[str, Any] = truncate_schema(listed.input_schema)
        self.annotations: Mapping[str, Any] = _annotations(listed)
        """Hints of the server, such as `readOnlyHint` and `destructiveHint`; unverified."""
        self._owner = owner

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Return text, structured content, or a list of parts; see `convert_result`.

        Progress reports are written to the stream as `{"type": "tool_progress", ...}`, and count as heartbeats. A
        cancelled call is cancelled at the server. Raises ToolError with the text of a result that is an error, and if
        the server does not answer.
        """
        plain = _plain_arguments(self.name, arguments)
        progress = _ProgressReporter(self.name, context)
        result = await asyncio.wrap_future(
            self._owner.submit(Host.call, self.server, self.remote_name, plain, progress)
        )
        if result.is_error:
            # Masked before it is truncated: a partial secret would not be recognised.
            text = (
                truncate(self.server.without_secrets(result_text(result)).strip()) or "it failed, and did not say why"
            )
            raise ToolError(f"Tool {self.name!r} failed: {text}")
        return convert_result(result)

    def __repr__(self) -> str:
        return f"McpTool({self.name!r})"


class _ProgressReporter:
    """Reports progress to readers of the stream, on the event loop of the call."""

    def __init__(self, tool: str, context: ToolContext) -> None:
        self._tool = tool
        self._context = context
        self._loop = asyncio.get_running_loop()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        told = {"type": "tool_progress", "tool": self._tool, "call": self._context.tool_call_id, "progress": progress}
        told |= {name: value for name, value in (("total", total), ("message", message)) if value is not None}
        with suppress(RuntimeError):  # the loop is closed, so the call has no caller
            self._loop.call_soon_threadsafe(self._report, told)

    def _report(self, told: Mapping[str, Any]) -> None:
        if self._context.runtime is not None:
            self._context.runtime.heartbeat()
        write: Callable[[Any], None] = self._context.stream_writer
        write(told)


def _plain_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as plain data. Unserializable data would break the connection, so it is rejected here."""
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


# -- results


def convert_result(result: CallToolResult) -> Any:
    """Return structured content, the text if there is nothing else, or a list of all parts.

    Parts are maps with a `type`: `text`, `image`, `audio`, `resource` or `resource_link`. None is dropped: structured
    content with images comes first, as a text part.
    """
    parts = [_convert_block(block) for block in result.content]
    only_text = all(part["type"] == "text" for part in parts)
    if result.structured_content is not None:
        if only_text:  # the text repeats it, for models without structured content
            return result.structured_content
        return [_structured_part(result.structured_content), *(part for part in parts if part["type"] != "text")]
    return result_text(result) if only_text else parts


def result_text(result: CallToolResult) -> str:
    """Return all text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def _structured_part(content: Any) -> dict[str, Any]:
    return {"type": "text", "text": json.dumps(content, ensure_ascii=False)}


def _convert_block(block: ContentBlock) -> dict[str, Any]:
    match block.type:
        case "text":
            return {"type": "text", "text": block.text}
        case "image" | "audio":
            return {"type": block.type, "data": block.data, "mime_type": block.mime_type}
        case "resource":
            return {"type": "resource", **block.resource.model_dump(mode="json", exclude_none=True)}
        case "resource_link":
            kept = {"type", "name", "title", "uri", "description", "mime_type", "size"}
            return block.model_dump(mode="json", include=kept, exclude_none=True)
