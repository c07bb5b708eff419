"""The section `[serve]`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.project.conftest import read, read_problems

from statewright.project import Serving
from statewright.storage.locations import parse_postgres_url


def test_all_settings_have_defaults(folder: Path) -> None:
    assert read("", folder).serving == Serving()


def test_settings_can_be_set_in_python() -> None:
    serving = replace(Serving(port=80, cors_origins=("https://a.example",)), database=Path("runs.db"))
    assert (serving.port, serving.cors_origins, serving.database) == (80, ("https://a.example",), Path("runs.db"))


def test_settings_are_read(folder: Path) -> None:
    text = (
        '[serve]\nhost = "0.0.0.0"\nport = 80\ndatabase = "data/runs.db"\ncors_origins = ["https://a.example"]\n'
        'durability = "async"\ncapacity = 5\nretention_days = 30\nwebhook_hosts = ["hooks.local"]\ndrain = 2.5\n'
    )
    serving = read(text, folder).serving
    assert (serving.host, serving.port, serving.database) == ("0.0.0.0", 80, folder / "data/runs.db")
    assert (serving.cors_origins, serving.webhook_hosts) == (("https://a.example",), ("hooks.local",))
    assert (serving.durability, serving.capacity, serving.retention_days, serving.drain) == ("async", 5, 30, 2.5)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("port = 65536", "It must be a whole number from 0 to 65535, but is a number: 65536."),
        ("port = true", "It must be a whole number from 0 to 65535, but is a boolean: true."),
        ('durability = "exit"', "It must be 'sync' or 'async', but is a string"),
        ('database = ""', "It is not a valid path."),
        ('cors_origin = "x"', "Did you mean 'cors_origins'?"),
        ("retention_days = 0", "It must be a whole number of at least 1"),
    ],
)
def test_problems_name_the_key_and_the_line(folder: Path, line: str, expected: str) -> None:
    (problem,) = read_problems(f"[serve]\n{line}", folder)
    assert f"In 'serve.{line.split(' ')[0]}' (line 2, column 1): " in problem
    assert expected in problem


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("postgresql://anna@host/work?schema=s", False),
        ("postgresql://anna:geheim@host/work", True),
        ("postgresql://host/work?password=geheim", True),
    ],
)
def test_the_database_may_be_a_server_whose_password_belongs_elsewhere(folder: Path, url: str, warns: bool) -> None:
    project = read(f'[serve]\ndatabase = "{url}"\n', folder)
    assert project.serving.database == parse_postgres_url(url)
    assert [str(warning) for warning in project.warnings if "contains a password" in str(warning)] == [
        str(warning) for warning in project.warnings
    ]
    assert bool(project.warnings) == warns
    assert "geheim" not in repr(project)


@pytest.mark.parametrize("url", ["mysql://anna:geheim@host/db", "postgresql://anna:gehe@im@host/db"])
def test_an_invalid_url_of_a_database_is_reported_and_not_quoted(folder: Path, url: str) -> None:
    (problem,) = read_problems(f'[serve]\ndatabase = "{url}"\n', folder)
    assert "In 'serve.database' (line 2, column 1): " in problem
    assert "gehe" not in problem
