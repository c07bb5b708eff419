"""Locations of databases: paths and URLs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from statewright.errors import InvalidConfig
from statewright.storage.locations import PostgresUrl, parse_location, parse_postgres_url, path_of
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


@pytest.mark.parametrize("location", ["postgres://anna:secret@host/db", "mysql://a:se/cret@host", "sqlite://runs.db"])
@pytest.mark.parametrize("opens", [SqliteDatabase, SqliteSaver, SqliteSaver.from_conn_string])
def test_an_unsupported_url_is_refused_with_an_example_and_without_its_secrets(
    location: str, opens: type[SqliteSaver]
) -> None:
    with pytest.raises(InvalidConfig, match=r"sqlite:///runs\.db") as refused:
        opens(location)
    assert "secret" not in str(refused.value)
    assert "cret@" not in str(refused.value)


@pytest.mark.parametrize(
    "location", ["file:runs.db", "file:///runs.db", "sqlite:runs.db", "", ":memory:", "sqlite:///"]
)
def test_a_location_without_a_file_is_refused(location: str) -> None:
    with pytest.raises(InvalidConfig):
        path_of(location)


# -- Postgres


@pytest.mark.parametrize(
    ("url", "for_libpq", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db", "postgresql://host/db"),
        ("postgres://anna@host:5433/db", "postgres://anna@host:5433/db", "postgres://anna@host:5433/db"),
        ("postgresql://anna:secret@host/db", "postgresql://anna:secret@host/db", "postgresql://anna@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:secret@host/db", "postgresql://host/db"),
        ("postgresql://a:se?cret@h/db", "postgresql://a:se?cret@h/db", "postgresql://a@h/db"),
        ("postgresql:///db?password=secret", "postgresql:///db?password=secret", "postgresql:///db"),
        (
            "postgresql://a:secret@h1:1,[::1]:2/db?sslmode=require&sslpassword=secret",
            "postgresql://a:secret@h1:1,[::1]:2/db?sslmode=require&sslpassword=secret",
            "postgresql://a@h1:1,[::1]:2/db?sslmode=require",
        ),
        (
            "postgresql://a:secret@h/db?schema=s&connect_timeout=3&prepare=false",
            "postgresql://a:secret@h/db?connect_timeout=3",
            "postgresql://a@h/db?connect_timeout=3&schema=s&prepare=false",
        ),
    ],
)
def test_the_url_of_a_server_is_shown_without_its_password(url: str, for_libpq: str, shown: str) -> None:
    location = parse_location(url)
    assert isinstance(location, PostgresUrl)
    assert (location.url, str(location)) == (for_libpq, shown)
    assert "secret" not in repr(location)


def test_the_url_that_is_shown_names_the_same_database() -> None:
    location = parse_postgres_url("postgresql://anna:secret@host/db?schema=s&prepare=false")
    again = parse_postgres_url(str(location))
    assert (again.schema, again.prepare, str(again)) == (location.schema, location.prepare, str(location))
    assert (location.schema, location.prepare) == ("s", False)
    assert (parse_postgres_url("postgresql://h/db").schema, parse_postgres_url("postgresql://h/db").prepare) == (
        None,
        True,
    )


@pytest.mark.parametrize(
    ("url", "replica"),
    [
        (
            "postgresql://anna:secret@h:1/db?replica=r:2&sslmode=require",
            "postgresql://anna:secret@r:2/db?sslmode=require",
        ),
        ("postgresql:///db?host=/run/postgresql&replica=r.example.com", "postgresql://r.example.com/db?"),
        ("postgresql://h/db", None),
    ],
)
def test_a_replica_has_the_parameters_of_the_primary(url: str, replica: str | None) -> None:
    location = parse_postgres_url(url)
    assert location.replica_url == (replica.removesuffix("?") if replica else None)
    assert parse_postgres_url(str(location)).replica_url == (
        replica and replica.removesuffix("?").replace(":secret", "")
    )


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("postgresql://anna:se/cret@host/db", "%2F"),
        ("postgresql://anna:se@cret@host/db", "%40"),
        ("postgresql://anna:secret/x@host/db", "%2F"),
        ("postgresql://anna:secret%xx@host/db", "%25"),
        ("postgresql://anna:secret@host/db?schema=A b", "lowercase"),
        ("postgresql://anna:secret@host/db?schema=", "lowercase"),
        ("postgresql://anna:secret@host/db?prepare=no", "true or false"),
        ("postgresql://anna:secret@host/db?replica=bob:cret@h", "replica_url="),
    ],
)
def test_an_ambiguous_url_of_a_server_is_refused_with_advice_and_not_quoted(url: str, advice: str) -> None:
    with pytest.raises(InvalidConfig, match=advice) as refused:
        parse_location(url)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("opens", [parse_location, SqliteDatabase])
@pytest.mark.parametrize(
    "location",
    [
        "'postgresql://anna:secret@host/db'",
        '"postgres://anna:secret@host/db"',
        " postgresql://anna:secret@host/db",
        "postgresql:/anna:secret@host/db",
        "postgres:anna:secret@host/db",
        "POSTGRESQL://anna:secret@host/db",
        "postgresql+psycopg://anna:secret@host/db",
        "host=127.0.0.1 password=secret dbname=db",
        "password = secret host = 127.0.0.1",
        Path("postgresql://anna:secret@host/db"),
        "'mysql://anna:secret@host/db'",
        "'sqlite:///secret.db'",
    ],
)
def test_a_miswritten_address_does_not_become_a_file_and_is_not_quoted(
    location: str | Path, opens: Callable[[str | Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfig) as refused:
        opens(location)
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["postgres.db", "data/postgres/runs.db", "kind=a/runs.db", "a b.db", "C:/runs.db"])
def test_a_path_that_resembles_an_address_is_a_path(path: str) -> None:
    assert parse_location(path) == Path(path)
