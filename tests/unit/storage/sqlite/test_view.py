"""What faces of a database share."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.errors import InvalidConfig, StorageUnavailable, WrongEncryptionKey
from statewright.storage import database as port
from statewright.storage.sqlite.database import SqliteDatabase


class View(port.View[SqliteDatabase]):
    database_type = SqliteDatabase


def is_open(database: SqliteDatabase) -> bool:
    try:
        return database.write(lambda connection: True)
    except StorageUnavailable:
        return False


def test_a_face_closes_the_database_that_it_opened(tmp_path: Path) -> None:
    for view in (View(tmp_path / "a.db"), View(str(tmp_path / "a.db")), View.from_conn_string(f"{tmp_path}/a.db")):
        with view as entered:
            assert entered is view
            assert is_open(view.database)
        assert not is_open(view.database)
        view.close()


def test_a_face_leaves_the_database_open_that_it_was_given(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "a.db") as database:
        with View(database) as view:
            assert view.database is database
        assert is_open(database)


def test_options_are_for_the_database_that_is_opened(tmp_path: Path) -> None:
    View.from_conn_string(f"sqlite:///{tmp_path}/a.db", key=bytes(32)).close()
    with pytest.raises(WrongEncryptionKey):
        View(tmp_path / "a.db")
    with (
        SqliteDatabase(tmp_path / "b.db") as database,
        pytest.raises(InvalidConfig, match="key, serde: these options open a file"),
    ):
        View(database, key=bytes(32), serde=None)
    with pytest.raises(TypeError, match="colour"):
        View(tmp_path / "b.db", colour="red")


def test_a_face_says_which_file_it_shows(tmp_path: Path) -> None:
    with View(tmp_path / "a.db") as view:
        assert repr(view) == f"View('{tmp_path}/a.db')"
