"""Permissions of tools: no access to the machine unless the project grants it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
    """Maximum bytes of each output of a command; the rest is dropped."""
    http_seconds: float = 30.0
    """Timeout of one request, including redirects."""
    shell_seconds: float = 300.0
