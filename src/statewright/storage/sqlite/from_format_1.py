"""The migration from format 1: the assignment of threads to workspaces.

In format 1 the name of a thread was unique in the file. Each thread is assigned to the workspace of the runs that
advanced it, or to the default one if there are none. Two runs that began at the same moment could use one name for two
workspaces: such a thread is assigned to the workspace of the first run, and a warning is logged.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import Final

from statewright.ids import DEFAULT_WORKSPACE
from statewright.storage.sqlite.statements import run_script

logger = logging.getLogger("statewright.storage")


def give_threads_to_workspaces(connection: sqlite3.Connection) -> None:
    """Rebuild the table of threads with a workspace for each; within a transaction."""
    run_script(connection, "0002_tables")
    if connection.execute(_HAS_RUNS).fetchone():
        shared = connection.execute(_SHARED).fetchall()
        connection.execute(_TO_WORKSPACES_OF_RUNS, (DEFAULT_WORKSPACE,))
        for statement in _INDEX_OF_RUNS:
            connection.execute(statement)
    else:
        shared = []
        connection.execute(_TO_DEFAULT, (DEFAULT_WORKSPACE,))
    connection.execute("DROP TABLE threads")
    connection.execute("ALTER TABLE threads_of_workspaces RENAME TO threads")
    _report(connection, shared)


def _report(connection: sqlite3.Connection, shared: list[tuple[str, str]]) -> None:
    """Warn of each thread that runs of several workspaces shared: all workspaces but the first have lost it."""
    for thread_id, workspaces in shared:
        (owner,) = connection.execute("SELECT workspace FROM threads WHERE thread_id = ?", (thread_id,)).fetchone()
        logger.warning(
            "Thread %r was advanced by runs of several workspaces (%s). It now belongs to workspace %r, whose run was "
            "the first; in the others its id is free, and their runs on it cannot continue.",
            thread_id,
            workspaces.replace(",", ", "),
            owner,
            extra={"thread_id": thread_id, "workspace_id": owner},
        )


_HAS_RUNS: Final = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'workflow_runs'"
_SHARED: Final = (
    "SELECT name, group_concat(DISTINCT workspace_id) FROM threads "
    "JOIN workflow_runs ON workflow_runs.thread_id = name "
    "GROUP BY name HAVING count(DISTINCT workspace_id) > 1"
)
_COPY: Final = (
    "INSERT INTO threads_of_workspaces (id, workspace, thread_id, epoch, owner, until, wanted, changed) "
    "SELECT threads.id, {workspace}, name, epoch, owner, until, wanted, changed FROM threads"
)
_TO_DEFAULT: Final = _COPY.format(workspace="?")
_TO_WORKSPACES_OF_RUNS: Final = _COPY.format(
    workspace="ifnull((SELECT workspace_id FROM workflow_runs WHERE workflow_runs.thread_id = name "
    "ORDER BY created_at, workflow_runs.id LIMIT 1), ?)"
)
_INDEX_OF_RUNS: Final = (
    "DROP INDEX IF EXISTS runs_by_thread",
    "CREATE INDEX runs_by_thread ON workflow_runs (workspace_id, thread_id, status)",
)
"""The index for searches by thread, which now begins with the workspace."""
