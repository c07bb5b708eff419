"""SQL statements by name, from files under `sql/`: each statement follows a line `-- name`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- ([a-z0-9_]+)$", re.MULTILINE)


@cache
def script(name: str) -> str:
    """Return the text of a file of statements."""
    return files("statewright.storage.sqlite").joinpath(f"sql/{name}.sql").read_text("utf-8")


@cache
def statements(name: str) -> Mapping[str, str]:
    """Return the statements of a file by name."""
    _, *parts = _NAME.split(script(name))
    return {parts[index]: parts[index + 1].strip().rstrip(";") for index in range(0, len(parts), 2)}


def run_script(connection: sqlite3.Connection, name: str) -> None:
    """Execute the statements of a file in the open transaction, unlike `executescript`.

    Comments are removed, because a database stores the text of its tables, and small databases consist mostly of it.
    """
    part = ""
    for line in script(name).splitlines():
        part += line.partition("--")[0].strip() + " "
        if sqlite3.complete_statement(part):
            connection.execute(part)
            part = ""
