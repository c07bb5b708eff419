"""The built-in tools, which the settings of a project enable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from statewright.agents import Tool, ToolFunction
from statewright.workflow.states.tools.files import Files
from statewright.workflow.states.tools.settings import ToolSettings
from statewright.workflow.states.tools.shell import Shell

TURNED_ON_BY: Final = {
    "read_file": 'root = "."',
    "write_file": 'root = "."',
    "edit_file": 'root = "."',
    "list_files": 'root = "."',
    "search_files": 'root = "."',
    "http_request": 'allow_hosts = ["api.example.com"]',
    "run_command": "allow_shell = true",
}
"""The line under `[tools]` that enables each tool."""


def builtin_tools(settings: ToolSettings) -> Iterator[Tool]:
    """Yield the enabled tools. Raises ToolError for an invalid allow-list.

    Optional arguments and commands are never read from the context: a model whose answer contains a `method` must not
    choose it.
    """
    if settings.root is not None:
        files = Files(settings)
        yield ToolFunction(files.read_file)
        yield ToolFunction(files.write_file)
        yield ToolFunction(files.edit_file)
        yield ToolFunction(files.list_files, never_from_context=("path", "pattern"))
        yield ToolFunction(files.search_files, never_from_context=("path", "pattern"))
    if settings.allow_hosts:
        from statewright.workflow.states.tools.http_request import HttpRequests  # loads an HTTP client

        requests = HttpRequests(settings)
        yield ToolFunction(requests.http_request, never_from_context=("method", "headers", "json", "text"))
    if settings.allow_shell:
        yield ToolFunction(Shell(settings).run_command, never_from_context=("command",))
