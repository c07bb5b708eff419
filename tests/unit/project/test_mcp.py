"""The section `[mcp]`: servers of the project."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.project.conftest import read, read_problems, read_warnings


def test_a_server_is_read_as_written(folder: Path) -> None:
    text = """
[mcp.files]
command = "npx"
args = ["-y", "server-files"]
env = {TOKEN = "env:TOKEN"}
cwd = "documents"
single_usage = true
timeout = 5

[mcp.tickets]
url = "https://{{host}}/mcp"
auth_token = "env:TICKETS"
integration_alias = "tickets"
"""
    servers = read(text, folder).mcp
    assert servers["files"] == {
        "command": "npx",
        "args": ["-y", "server-files"],
        "env": {"TOKEN": "env:TOKEN"},
        "cwd": str(folder / "documents"),
        "single_usage": True,
        "timeout": 5,
    }
    assert servers["tickets"]["url"] == "https://{{host}}/mcp"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('command = "a"\nurl = "http://x"', "it has both a command and a url. Write one of them."),
        ('url = "http://x"\ntype = "hunter2-hunter2"', "type is unknown. Types: http, sse, "),
        ("args = []", "it has neither a command nor a url. Write one of them."),
        ('url = "ftp://x"', "Write a URL that begins with http:// or https://."),
        ('command = "a"\ntimeout = 0', "It must be a number of seconds above 0"),
        ('command = "a"\nargs = [1]', "It must be a list of strings"),
        ('url = "http://x"\nauth_token = "env:1 2"', "The text after env: is not a valid variable name."),
    ],
)
def test_invalid_servers_are_problems(text: str, expected: str, folder: Path) -> None:
    messages = read_problems(f"[mcp.a]\n{text}", folder)
    assert expected in messages[0]
    assert "hunter2" not in messages[0]


def test_4_1_11_a_token_in_the_file_causes_a_warning(folder: Path) -> None:
    text = '[mcp.a]\nurl = "http://x"\nauth_token = "hunter2-hunter2"\nheaders = {"X-Api-Key" = "hunter3"}'
    messages = read_warnings(text, folder)
    assert len(messages) == 2
    assert all("looks like a secret" in message and "hunter" not in message for message in messages)
