"""The section `[integrations]`, and warnings about secrets in the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.project.conftest import read, read_warnings

TEXT = """
[integrations.jira]
base_url = "https://jira.example.com"
token = "env:JIRA_TOKEN"
headers = { "X-Key" = "env:JIRA_KEY" }
"""


def test_credentials_are_read_from_the_environment_on_use(folder: Path) -> None:
    credentials = read(TEXT, folder).integrations.credentials("jira", {"JIRA_TOKEN": "one", "JIRA_KEY": "two"})
    assert (credentials["token"], credentials["headers"]["X-Key"]) == ("one", "two")


@pytest.mark.parametrize(
    "line",
    [
        'token = "abc"',
        'db_password = "x"',
        'API-Key = "x"',
        'note = "sk-abcdefghijklmnop"',
        'x = "ghp_0123456789abcdef"',
    ],
)
def test_4_1_11_a_secret_in_the_file_causes_a_warning_that_does_not_quote_it(line: str, folder: Path) -> None:
    (warning,) = read_warnings(f"[integrations.a]\n{line}", folder)
    assert "(line 2, column 1)" in warning
    assert "looks like a secret" in warning
    assert "write env:NAME" in warning
    assert line.split('"')[1] not in warning


def test_plain_values_and_variables_cause_no_warning(folder: Path) -> None:
    text = '[integrations.a]\nbase_url = "https://x"\ntoken = "env:TOKEN"\nretries = 3\nuser = "me"\ntoken2 = ""'
    assert read_warnings(text, folder) == []
