"""`[mcp]`: servers that the project keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.project.conftest import problems, read, warnings


def test_a_server_is_kept_as_it_is_written(folder: Path) -> None:
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
    kept = read(text, folder).mcp
    assert kept["files"] == {
        "command": "npx",
        "args": ["-y", "server-files"],
        "env": {"TOKEN": "env:TOKEN"},
        "cwd": str(folder / "documents"),
        "single_usage": True,
        "timeout": 5,
    }
    assert kept["tickets"]["url"] == "https://{{host}}/mcp"


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_what_cannot_be_is_told(text: str, told: str, folder: Path) -> None:
    found = problems(f"[mcp.a]\n{text}", folder)
    assert told in found[0]
    assert "hunter2" not in found[0]


def test_4_1_11_a_token_in_the_file_is_a_warning(folder: Path) -> None:
    text = '[mcp.a]\nurl = "http://x"\nauth_token = "hunter2-hunter2"\nheaders = {"X-Api-Key" = "hunter3"}'
    found = warnings(text, folder)
    assert len(found) == 2
    assert all("looks like a secret" in one and "hunter" not in one for one in found)
