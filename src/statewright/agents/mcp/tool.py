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
    """A tool that a server has. It may be called from every event loop."""

    def __init__(self, name: str, listed: ListedTool, server: McpServer, owner: Owner) -> None:
        self.name = name
        self.remote_name = listed.name
        """What the server calls it."""
        self.server = server
        self.description = truncate(listed.description or listed.title or "", "description")
        self.parameters: Mapping[str, Any] = truncate_schema(listed.input_schema)
        self.annotations: Mapping[str, Any] = _annotations(listed)
        """Hints of the server, such as `readOnlyHint` and `destructiveHint`. They are claims of its author."""
        self._owner = owner

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Text, structured content, or a list of parts; see `answer_of`.

        Progress that the server reports goes to the stream writer as `{"type": "tool_progress", ...}` and is a
        heartbeat. A cancelled call is cancelled at the server. Raises ToolError with what the server says when it calls
        its answer an error, and where it does not answer.
        """
        plain = _plain_arguments(self.name, arguments)
        progress = _ProgressReporter(self.name, context)
        result = await asyncio.wrap_future(
            self._owner.submit(Host.call, self.server, self.remote_name, plain, progress)
        )
        if result.is_error:
            # Masked before it is cut: a half of a secret would not be recognised.
            text = (
                truncate(self.server.without_secrets(result_text(result)).strip()) or "it failed, and did not say why"
            )
            raise ToolError(f"Tool {self.name!r} failed: {text}")
        return convert_result(result)

    def __repr__(self) -> str:
        return f"McpTool({self.name!r})"


class _ProgressReporter:
    """Tells those who watch the call, on the event loop from which it was made."""

    def __init__(self, tool: str, context: ToolContext) -> None:
        self._tool = tool
        self._context = context
        self._loop = asyncio.get_running_loop()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        told = {"type": "tool_progress", "tool": self._tool, "call": self._context.tool_call_id, "progress": progress}
        told |= {name: value for name, value in (("total", total), ("message", message)) if value is not None}
        with suppress(RuntimeError):  # the loop was closed: nobody waits for the call
            self._loop.call_soon_threadsafe(self._report, told)

    def _report(self, told: Mapping[str, Any]) -> None:
        if self._context.runtime is not None:
            self._context.runtime.heartbeat()
        write: Callable[[Any], None] = self._context.stream_writer
        write(told)


def _plain_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
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


# -- results


def convert_result(result: CallToolResult) -> Any:
    """The structured content if there is some, the text if there is nothing else, or a list of all parts.

    Parts are maps with a `type`: `text`, `image`, `audio`, `resource` or `resource_link`. Nothing is left out: where
    images stand beside structured content, that comes first, as a part of text.
    """
    parts = [_convert_block(block) for block in result.content]
    only_text = all(part["type"] == "text" for part in parts)
    if result.structured_content is not None:
        if only_text:  # the text says the same, for models that cannot read structures
            return result.structured_content
        return [_structured_part(result.structured_content), *(part for part in parts if part["type"] != "text")]
    return result_text(result) if only_text else parts


def result_text(result: CallToolResult) -> str:
    """All text of the answer."""
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
