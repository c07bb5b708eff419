"""The section `[tools]`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import read, read_problems

TEXT = """
[tools]
triple = "own:triple"
allow_hosts = ["api.example.com"]
mcp_commands = ["npx", "uvx"]
allow_shell = true
root = "."
"""


def test_functions_and_settings_are_read(folder: Path) -> None:
    project = read(TEXT, folder)
    settings = project.tool_settings
    assert project.functions == {"triple": "own:triple"}
    assert (settings.allow_hosts, settings.mcp_commands) == (("api.example.com",), ("npx", "uvx"))
    assert (settings.allow_shell, settings.root, settings.folder) == (True, folder / ".", folder)
    assert project.tool_registry().settings == settings


def test_4_1_8_programs_are_allowed_by_name_and_not_by_path(folder: Path) -> None:
    messages = read_problems('[tools]\nmcp_commands = ["npx", "./npx", "/bin/sh", ""]', folder)
    assert [message.split(": ", 1)[1].split(".")[0] for message in messages[1:]] == [
        "'/bin/sh' is not the name of a program",
        "'' is not the name of a program",
    ]
    assert "'./npx'" in messages[0]
    assert "define the server under [mcp.NAME]" in messages[0]
