"""Locations of SQLite files: paths and URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.errors import InvalidConfig
from statewright.storage.locations import path_of
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("runs.db", "runs.db"),
        ("a/runs.db", "a/runs.db"),
        (Path("runs.db"), "runs.db"),
        ("sqlite:///runs.db", "runs.db"),
        ("sqlite:////tmp/runs.db", "/tmp/runs.db"),
        ("~/runs.db", "/home/anna/runs.db"),
        (Path("~/runs.db"), "/home/anna/runs.db"),
        ("sqlite:///~/runs.db", "/home/anna/runs.db"),
    ],
)
def test_paths_and_urls_are_resolved(location: str | Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    assert path_of(location) == Path(path)


@pytest.mark.parametrize("location", ["postgres://anna:secret@host/db", "mysql://host", "sqlite://runs.db"])
@pytest.mark.parametrize("opens", [SqliteDatabase, SqliteSaver, SqliteSaver.from_conn_string])
def test_an_unsupported_url_is_refused_with_an_example_and_without_its_secrets(
    location: str, opens: type[SqliteSaver]
) -> None:
    with pytest.raises(InvalidConfig, match=r"sqlite:///runs\.db") as refused:
        opens(location)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "location", ["file:runs.db", "file:///runs.db", "sqlite:runs.db", "", ":memory:", "sqlite:///"]
)
def test_a_location_without_a_file_is_refused(location: str) -> None:
    with pytest.raises(InvalidConfig):
        path_of(location)
