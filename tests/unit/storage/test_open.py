"""One function opens a database of any kind by its location."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.postgres_server import new_schema_url

from statewright.errors import InvalidConfig, WrongEncryptionKey
from statewright.futures import resolve
from statewright.runs import Workspace
from statewright.storage.locations import PostgresUrl, parse_location
from statewright.storage.open import has_tables, ledger_of, open_database, open_saver, store_of


@pytest.fixture(params=["file", "sqlite URL", "server"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """The location of a database that does not exist yet."""
    match request.param:
        case "file":
            return tmp_path / "runs.db"
        case "sqlite URL":
            return f"sqlite:///{tmp_path}/runs.db"
        case _:
            return new_schema_url("opened")


def test_a_location_gives_a_database_with_all_its_views(location: str | Path) -> None:
    with open_database(location) as database:
        store_of(database).put(("a",), "b", {"c": 1})
        item = store_of(database).get(("a",), "b")
        assert item is not None
        assert item.value == {"c": 1}
        assert list(resolve(ledger_of(database).find(Workspace))) == []
    with open_saver(location, workspace="w") as saver:
        assert list(resolve(saver.threads())) == []


def test_options_of_all_databases_are_passed_on(location: str | Path) -> None:
    open_database(location, key=bytes(32)).close()
    with pytest.raises(WrongEncryptionKey):
        open_database(location)
    with open_saver(location, key=bytes(32)) as saver:
        assert saver.database.encryptor.encrypts


def test_a_location_that_is_neither_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="no storage for 'mysql' URLs"):
        open_database("mysql://host/db")


def test_a_look_at_a_schema_does_not_create_its_tables() -> None:
    url = new_schema_url("looked_at")
    location = parse_location(url)
    assert isinstance(location, PostgresUrl)
    assert [has_tables(location), has_tables(location)] == [False, False]
    open_database(url).close()
    assert has_tables(location)


CODE = """
import sys
sys.modules["psycopg"] = None
from statewright.errors import MissingLibrary
from statewright.storage.open import open_database
open_database(sys.argv[1]).close()
try:
    open_database("postgresql://anna:geheim@host/db")
except MissingLibrary as error:
    print(error)
"""


def test_only_a_url_of_a_server_needs_its_library(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path / "runs.db")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pip install 'statewright[postgres]'" in ended.stdout
    assert "geheim" not in ended.stdout + ended.stderr
