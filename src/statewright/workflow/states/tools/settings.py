"""What tools may do: nothing of the machine, until a project says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Which built-in tools there are, and how far they go."""

    root: Path | None = None
    """The folder that the file tools see, and in which commands run; without it there are no file tools."""
    allow_hosts: tuple[str, ...] = ()
    """What `http_request` and MCP servers may ask: `api.example.com`, `*.example.com`, `*`; see `guard.py`."""
    mcp_commands: tuple[str, ...] = ()
    """The programs, by name, that a workflow may start as MCP servers."""
    allow_shell: bool = False
    folder: Path | None = None
    """Where the modules of a project's own tools are looked for."""
    file_limit: int = 1_000_000
    """Bytes of a file that is read or written."""
    response_limit: int = 2_000_000
    """Bytes of the answer of a service."""
    output_limit: int = 200_000
    """Bytes of each output of a command; the rest is dropped."""
    http_seconds: float = 30.0
    """For one request with all its redirects."""
    shell_seconds: float = 300.0
