"""SQL statements of SQLite by name, from files under `sql/` and `../sql/`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import partial
from typing import Final

from statewright.storage.database import Connection
from statewright.storage.row_ids import RowIds
from statewright.storage.scripts import script as read_script
from statewright.storage.scripts import split_script
from statewright.storage.scripts import statements as read_statements

_PACKAGE: Final = "statewright.storage.sqlite"
ROW_IDS: Final = RowIds(number_bits=32)
"""The division of row ids in files."""
script = partial(read_script, _PACKAGE)


def statements(name: str) -> Mapping[str, str]:
    """Return a group of statements by name."""
    return read_statements(_PACKAGE, name, ROW_IDS)


def run_script(connection: sqlite3.Connection | Connection, name: str) -> None:
    """Execute the statements of a file in the open transaction, which `executescript` would commit."""
    for statement in split_script(_PACKAGE, name):
        connection.execute(statement)
