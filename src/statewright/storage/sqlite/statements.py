"""SQL statements of SQLite by name, from files under `sql/`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import partial
from typing import Final

from statewright.storage import scripts
from statewright.storage.database import Connection

_PACKAGE: Final = "statewright.storage.sqlite"
script = partial(scripts.script, _PACKAGE)


def statements(name: str) -> Mapping[str, str]:
    """Return the statements of a file by name."""
    return scripts.statements(_PACKAGE, name)


def run_script(connection: sqlite3.Connection | Connection, name: str) -> None:
    """Execute the statements of a file in the open transaction, unlike `executescript`."""
    for statement in scripts.split_script(_PACKAGE, name):
        connection.execute(statement)
