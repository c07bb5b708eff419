"""The base class of savers, ledgers, stores and caches: opening and closing the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.errors import InvalidConfig, StorageUnavailable, WrongEncryptionKey
from statewright.storage import database as port
from statewright.storage.sqlite.database import SqliteDatabase


class Backend(port.Backend[SqliteDatabase]):
    database_type = SqliteDatabase


def is_open(database: SqliteDatabase) -> bool:
    try:
        return database.write(lambda connection: True)
    except StorageUnavailable:
        return False


def test_a_backend_closes_the_database_that_it_opened(tmp_path: Path) -> None:
    for backend in (
        Backend(tmp_path / "a.db"),
        Backend(str(tmp_path / "a.db")),
        Backend.from_conn_string(f"{tmp_path}/a.db"),
    ):
        with backend as entered:
            assert entered is backend
            assert is_open(backend.database)
        assert not is_open(backend.database)
        backend.close()


def test_a_backend_leaves_a_shared_database_open(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "a.db") as database:
        with Backend(database) as backend:
            assert backend.database is database
        assert is_open(database)


def test_options_are_refused_with_a_database_that_is_already_open(tmp_path: Path) -> None:
    Backend.from_conn_string(f"sqlite:///{tmp_path}/a.db", key=bytes(32)).close()
    with pytest.raises(WrongEncryptionKey):
        Backend(tmp_path / "a.db")
    with (
        SqliteDatabase(tmp_path / "b.db") as database,
        pytest.raises(InvalidConfig, match="The options key, serde are for opening a database"),
    ):
        Backend(database, key=bytes(32), serde=None)
    with pytest.raises(TypeError, match="colour"):
        Backend(tmp_path / "b.db", colour="red")


def test_the_repr_of_a_backend_shows_its_file(tmp_path: Path) -> None:
    with Backend(tmp_path / "a.db") as backend:
        assert repr(backend) == f"Backend('{tmp_path}/a.db')"
