"""The tools that come with Statewright, as far as the settings of a project turn them on."""

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
"""What to write under `[tools]` for each."""


def builtin_tools(settings: ToolSettings) -> Iterator[Tool]:
    """Those that are turned on. Raises ToolError for an allow-list that cannot be read.

    What nobody wrote for an optional argument is not taken from the context: a model whose answer holds a `method` must
    not choose it. Nor is a command.
    """
    if settings.root is not None:
        files = Files(settings)
        yield ToolFunction(files.read_file)
        yield ToolFunction(files.write_file)
        yield ToolFunction(files.edit_file)
        yield ToolFunction(files.list_files, never_from_context=("path", "pattern"))
        yield ToolFunction(files.search_files, never_from_context=("path", "pattern"))
    if settings.allow_hosts:
        from statewright.workflow.states.tools.http_request import HttpRequests  # an HTTP client, for those who use it

        asked = HttpRequests(settings)
        yield ToolFunction(asked.http_request, never_from_context=("method", "headers", "json", "text"))
    if settings.allow_shell:
        yield ToolFunction(Shell(settings).run_command, never_from_context=("command",))
