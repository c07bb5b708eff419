"""Calls of subgraphs forgotten, once the tasks that made them are done.

A call belongs to one branch, as its caller does. Whatever forked from it is kept whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from statewright.serde.serde import Serde
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.checkpoints.prune import Pruner
from statewright.storage.sqlite.checkpoints.removal import delete_line, keep_log
from statewright.storage.sqlite.statements import statements

_SQL: Final = statements("drop")


def drop_calls(
    connection: sqlite3.Connection, serde: Serde, seal: Encryptor, thread: int, branch: str, namespaces: Sequence[str]
) -> None:
    """Forget namespaces of a thread, and those inside them, on one branch."""
    inside = tuple(namespace + end for namespace in namespaces for end in "|:")
    found = connection.execute(_SQL["calls"], (thread, branch)).fetchall()
    for line, namespace in found:
        if namespace in namespaces or namespace.startswith(inside):
            for (row_id,) in connection.execute(_SQL["forks"], {"line": line}).fetchall():
                Pruner(connection, serde, seal).make_whole(row_id)
            keep_log(connection, serde, seal, line)
            delete_line(connection, line)
