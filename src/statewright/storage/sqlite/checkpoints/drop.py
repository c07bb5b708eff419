"""Deletion of the calls of subgraphs, once the calling tasks are done.

A call belongs to one branch, like its caller. Checkpoints that forked from it are kept, with their states.
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
    """Delete namespaces of a thread, and the namespaces inside them, on one branch."""
    inside = tuple(namespace + end for namespace in namespaces for end in "|:")
    lines = connection.execute(_SQL["calls"], (thread, branch)).fetchall()
    for line, namespace in lines:
        if namespace in namespaces or namespace.startswith(inside):
            for (row_id,) in connection.execute(_SQL["forks"], {"line": line}).fetchall():
                Pruner(connection, serde, seal).make_whole(row_id)
            keep_log(connection, serde, seal, line)
            delete_line(connection, line)
