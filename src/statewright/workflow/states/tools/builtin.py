"""The built-in tools, and the settings of a project that enable them. Without these settings, none is available."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from statewright.agents import Tool, ToolFunction
from statewright.workflow.states.tools.files import Files
from statewright.workflow.states.tools.shell import Shell


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """The enabled built-in tools, and their limits."""

    root: Path | None = None
    """The folder of the file tools and of commands; None disables the file tools."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that `http_request` and MCP servers may reach: `api.example.com`, `*.example.com`, `*`; see `guard.py`."""
    mcp_commands: tuple[str, ...] = ()
    """Names of the programs that a workflow may start as MCP servers."""
    allow_shell: bool = False
    folder: Path | None = None
    """The folder with the modules of the project's own tools."""
    file_limit: int = 1_000_000
    """Maximum bytes of a file that is read or written."""
    response_limit: int = 2_000_000
    """Maximum bytes of an HTTP response."""
    output_limit: int = 200_000
    """Maximum bytes of a command's stdout, and of its stderr. Further output is dropped."""
    http_seconds: float = 30.0
    """Timeout of a request, including its redirects."""
    shell_seconds: float = 300.0
    """Timeout of a command."""


ENABLED_BY: Final = {
    **dict.fromkeys(("read_file", "write_file", "edit_file", "list_files", "search_files"), 'root = "."'),
    "http_request": 'allow_hosts = ["api.example.com"]',
    "run_command": "allow_shell = true",
}
"""The line under `[tools]` in statewright.toml that enables each tool, by the name of the tool."""


def builtin_tools(settings: ToolSettings) -> Iterator[Tool]:
    """Yield the enabled tools. Raises ToolError for an invalid allow-list.

    Missing arguments of a tool are read from the context of the workflow. Optional arguments and commands are excluded,
    because a model whose answer happens to have a key `method` must not choose the method of a request.
    """
    if settings.root is not None:
        files = Files(settings.root, limit=settings.file_limit)
        yield ToolFunction(files.read_file)
        yield ToolFunction(files.write_file)
        yield ToolFunction(files.edit_file)
        yield ToolFunction(files.list_files, never_from_context=("path", "pattern"))
        yield ToolFunction(files.search_files, never_from_context=("path", "pattern"))
    if settings.allow_hosts:
        from statewright.workflow.states.tools.http_request import HttpRequests  # loads an HTTP client

        requests = HttpRequests(settings.allow_hosts, limit=settings.response_limit, seconds=settings.http_seconds)
        yield ToolFunction(requests.http_request, never_from_context=("method", "headers", "json", "text"))
    if settings.allow_shell:
        folder = settings.root or settings.folder or Path()
        shell = Shell(folder, limit=settings.output_limit, seconds=settings.shell_seconds)
        yield ToolFunction(shell.run_command, never_from_context=("command",))
