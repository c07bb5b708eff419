"""The tools of MCP servers, in the form in which agents and workflows call them.

Models see a tool under the name `<server>-<tool>`, in which characters that not every provider accepts are replaced. A
name that would be too long, or equal to another, gets a suffix. The suffix is derived only from the names of the server
and the tool, so that a tool has the same name in every run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from statewright.agents.mcp.host import McpHost, Owner
from statewright.agents.mcp.read import read_servers
from statewright.agents.mcp.server import McpServer
from statewright.agents.mcp.texts import truncate, truncate_schema
from statewright.agents.tools import ToolContext
from statewright.errors import InvalidConfig, ToolError, suggestion

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ListedTool


class McpTool:
    """A tool of an MCP server. It may be called from any event loop."""

    def __init__(self, name: str, listed: ListedTool, server: McpServer, owner: Owner) -> None:
        self.name = name
        self.remote_name = listed.name
        """The server's name for the tool."""
        self.server = server
        self.description = truncate(listed.description or listed.title or "", "description")
        self.parameters: Mapping[str, Any] = truncate_schema(listed.input_schema)
        self.annotations: Mapping[str, Any] = _annotations(listed)
        """The server's hints, such as `readOnlyHint` and `destructiveHint`, which are not verified."""
        self._owner = owner

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Call the tool, and return its answer: text, structured content, or a list of parts; see `convert_result`.

        Progress reports of the server are written to the stream as `{"type": "tool_progress", ...}`, and count as
        heartbeats. If the call is cancelled, it is cancelled on the server too. Raises ToolError if the server reports
        an error, and if it does not answer.
        """
        json_arguments = _plain_arguments(self.name, arguments)
        progress = _ProgressReporter(self.name, context)
        result = await asyncio.wrap_future(
            self._owner.submit(McpHost.call, self.server, self.remote_name, json_arguments, progress)
        )
        if result.is_error:
            # Masked before it is truncated: a truncated secret would not be recognised.
            text = truncate(self.server.without_secrets(result_text(result)).strip()) or "the server gave no reason"
            raise ToolError(f"Tool {self.name!r} failed: {text}")
        return convert_result(result)

    def __repr__(self) -> str:
        return f"McpTool({self.name!r})"


class _ProgressReporter:
    """Reports progress to readers of the stream.

    It is called on the host's event loop, and writes to the stream on the event loop on which the tool was called.
    """

    def __init__(self, tool: str, context: ToolContext) -> None:
        self._tool = tool
        self._context = context
        self._loop = asyncio.get_running_loop()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        event = {"type": "tool_progress", "tool": self._tool, "call": self._context.tool_call_id, "progress": progress}
        event |= {name: value for name, value in (("total", total), ("message", message)) if value is not None}
        with suppress(RuntimeError):  # the loop is closed, so the caller no longer waits for the call
            self._loop.call_soon_threadsafe(self._report, event)

    def _report(self, event: Mapping[str, Any]) -> None:
        if self._context.runtime is not None:
            self._context.runtime.heartbeat()
        self._context.stream_writer(event)


def _plain_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as plain JSON. Raises ToolError for other values, which would break the connection."""
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
        text.encode()
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"The arguments of tool {tool!r} cannot be written as JSON: {error}. Pass plain data."
        ) from None


def _annotations(listed: ListedTool) -> dict[str, Any]:
    annotations = listed.annotations
    return annotations.model_dump(mode="json", by_alias=True, exclude_none=True) if annotations is not None else {}


# -- results


def convert_result(result: CallToolResult) -> Any:
    """Return the content of a result.

    It is the structured content if there is one, or else the text; or a list of parts if the result has other content
    than text, such as images. Parts are mappings with a `type`: `text`, `image`, `audio`, `resource` or
    `resource_link`. In the list, structured content replaces the text, as a part with its JSON.
    """
    parts = [_convert_block(block) for block in result.content]
    only_text = all(part["type"] == "text" for part in parts)
    if result.structured_content is not None:
        if only_text:  # the text repeats the structured content, for clients that do not support it
            return result.structured_content
        structured = {"type": "text", "text": json.dumps(result.structured_content, ensure_ascii=False)}
        return [structured, *(part for part in parts if part["type"] != "text")]
    return result_text(result) if only_text else parts


def result_text(result: CallToolResult) -> str:
    """Return all text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def _convert_block(block: ContentBlock) -> dict[str, Any]:
    match block.type:
        case "text":
            return {"type": "text", "text": block.text}
        case "image" | "audio":
            return {"type": block.type, "data": block.data, "mime_type": block.mime_type}
        case "resource":
            return {"type": "resource", **block.resource.model_dump(mode="json", exclude_none=True)}
        case "resource_link":
            fields = {"type", "name", "title", "uri", "description", "mime_type", "size"}
            return block.model_dump(mode="json", include=fields, exclude_none=True)


# -- the tools of several servers

MAX_NAME_LENGTH: Final = 64
"""The length in characters that every provider accepts for the name of a tool."""
_SUFFIX_LENGTH: Final = 8
"""The characters of a suffix after the dash."""

ToolKey = tuple[str, str]
"""The name of a server, and its name for one of its tools."""


def fit_names(keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
    """Return a unique name for each tool that every provider accepts."""
    names = {key: _sanitize("-".join(key)) for key in keys}
    counts = Counter(names.values())
    return {
        key: name if len(name) <= MAX_NAME_LENGTH and counts[name] == 1 else _with_suffix(name, key)
        for key, name in names.items()
    }


def _sanitize(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"


def _with_suffix(name: str, key: ToolKey) -> str:
    digest = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX_LENGTH]
    return f"{name[: MAX_NAME_LENGTH - _SUFFIX_LENGTH - 1]}-{digest}"


# -- tools

OnUnavailable = Literal["error", "warn"]
Servers = Mapping[str, Any] | Iterable[McpServer | Mapping[str, Any]]
Listing = Mapping[McpServer, "Future[tuple[ListedTool, ...]]"]


class McpUnavailableWarning(UserWarning):
    """A server cannot be used, so its tools are omitted."""


class McpTools:
    """The tools of MCP servers. Connections are opened when they are first used, and closed by `close`.

    McpTools objects with equal server descriptions share a connection, which is closed with the last of them. An object
    is also closed when it and its tools are garbage-collected. With `on_unavailable="warn"`, the tools of a server that
    cannot be used are omitted, with an McpUnavailableWarning. Raises InvalidConfig for invalid server descriptions.
    """

    def __init__(self, servers: Servers, *, on_unavailable: OnUnavailable = "error") -> None:
        if on_unavailable not in ("error", "warn"):
            raise InvalidConfig(f"on_unavailable is {on_unavailable!r}. Pass 'error' or 'warn'.")
        self.servers = read_servers(servers)
        self._on_unavailable: OnUnavailable = on_unavailable
        self._owner = Owner()

    async def tools(self) -> tuple[McpTool, ...]:
        """Return the allowed tools that the servers have now, in the order of the servers.

        Raises ToolError, which names every server that cannot be used, unless `on_unavailable` is "warn".
        """
        listing = self._list_all()
        await asyncio.gather(*map(asyncio.wrap_future, listing.values()), return_exceptions=True)
        return self._build_tools(listing)

    def load(self) -> tuple[McpTool, ...]:
        """Like `tools`, for code without an event loop."""
        listing = self._list_all()
        wait(listing.values())
        return self._build_tools(listing)

    async def tool(self, name: str, *, server: str | None = None) -> McpTool:
        """Return a tool by its full name; or by the server's name for it, if no other server has a tool of that name.

        Raises ToolError if there is no such tool, or if there are several.
        """
        self._check_enabled(server)
        tools = [candidate for candidate in await self.tools() if server in (None, candidate.server.name)]
        matches = [candidate for candidate in tools if candidate.name == name] or [
            candidate for candidate in tools if candidate.remote_name == name
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            full_names = ", ".join(candidate.name for candidate in matches)
            raise ToolError(f"Several MCP servers have a tool {name!r}. Use a full name: {full_names}.")
        names = [candidate.remote_name if server else candidate.name for candidate in tools]
        owner = f"MCP server {server!r} has no" if server else "No MCP server has a"
        raise ToolError(f"{owner} tool {name!r}. {suggestion(name, names, noun='Tools')}")

    def close(self) -> None:
        """Close the connections that no other object shares, and wait until their server programs have exited."""
        self._owner.close().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wrap_future(self._owner.close())

    def __repr__(self) -> str:
        return f"McpTools({[server.name for server in self.servers]})"

    def _list_all(self) -> dict[McpServer, Future[tuple[ListedTool, ...]]]:
        return {server: self._owner.submit(McpHost.tools, server) for server in self.servers if server.enabled}

    def _check_enabled(self, name: str | None) -> None:
        """Raise ToolError if a server is disabled or does not exist."""
        for server in self.servers:
            if server.name == name and not server.enabled:
                raise ToolError(f"{server.shown} is disabled. Enable it to use its tools.")
        names = [server.name for server in self.servers]
        if name is not None and name not in names:
            raise ToolError(f"MCP server {name!r} does not exist. {suggestion(name, names, noun='Servers')}")

    def _build_tools(self, listing: Listing) -> tuple[McpTool, ...]:
        allowed, problems = self._allowed_tools(listing)
        if problems and self._on_unavailable == "error":
            raise ToolError("\n".join(problems))
        for problem in problems:
            warnings.warn(problem, McpUnavailableWarning, stacklevel=3)
        names = fit_names((server.name, tool.name) for server, tool in allowed)
        return tuple(McpTool(names[server.name, tool.name], tool, server, self._owner) for server, tool in allowed)

    def _allowed_tools(self, listing: Listing) -> tuple[list[tuple[McpServer, ListedTool]], list[str]]:
        """Return the tools of the servers that can be used, and the problems of the other servers."""
        allowed: list[tuple[McpServer, ListedTool]] = []
        problems: list[str] = []
        for server, answer in listing.items():
            try:
                allowed += [(server, tool) for tool in _filter_allowed(server, answer.result())]
            except ToolError as error:
                problems.append(str(error))
        return allowed, problems


def _filter_allowed(server: McpServer, listed: tuple[ListedTool, ...]) -> list[ListedTool]:
    """Return the allowed tools of a server. Raises ToolError for an allowed tool that does not exist."""
    if server.allowed_tools is None:
        return list(listed)
    names = [tool.name for tool in listed]
    for name in server.allowed_tools:
        if name not in names:
            hint = suggestion(name, names, noun="Tools")
            raise ToolError(f"{server.shown} has no tool {name!r}, which is in allowed_tools. {hint}")
    return [tool for tool in listed if tool.name in server.allowed_tools]
