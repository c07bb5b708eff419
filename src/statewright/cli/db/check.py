"""`statewright db check`: check that a database is intact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, NoReturn

import typer

from statewright.cli.console.failure import FAILED, exit_with
from statewright.cli.console.options import DatabaseOptions
from statewright.cli.console.printing import pluralize, say
from statewright.cli.db.database import call_with_stand_ins, iter_pages, open_saver, require_database
from statewright.errors import DamagedDatabase, StorageError
from statewright.futures import resolve
from statewright.ids import DEFAULT_WORKSPACE
from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.locations import Location, PostgresUrl
from statewright.storage.sqlite import SqliteDatabase


def check(
    full: Annotated[
        bool, typer.Option("--full", help="Read all checkpoints and logs, not only the head of each branch.")
    ] = False,
    *,
    database: DatabaseOptions,
) -> None:
    """Check that the database is intact and all threads can be read. Exits with 1 if not."""
    location = require_database(database.database)
    try:
        with open_saver(database) as saver:
            database_check = DatabaseCheck(saver)
            database_check.read_heads()
            if full:
                database_check.read_all()
    except DamagedDatabase as error:  # the database cannot even be opened
        _exit_with_problems([f"the file: {short_reason(error)}"], location)
    if database_check.problems:
        _exit_with_problems(database_check.problems, location)
    read = pluralize(database_check.read_count, "checkpoint" if full else "head")
    say(f"ok: {location}, {pluralize(len(database_check.threads), 'thread')}, {read} read")


def _exit_with_problems(problems: list[str], location: Location) -> NoReturn:
    lines = [f"Error: {pluralize(len(problems), 'problem')} in {location}:", *problems]
    advice = "Replace it with a backup: statewright db restore BACKUP"
    if isinstance(location, PostgresUrl):
        advice = "Restore a dump of it, e.g. with pg_restore."
    exit_with("\n  ".join(lines) + f"\n{advice}", FAILED)


class DatabaseCheck:
    """A check of a database that reads its contents and collects the problems."""

    def __init__(self, saver: DatabaseSaver[Any]) -> None:
        self._saver = saver
        self.problems: list[str] = []
        self.branches: list[tuple[str, str, str, str]] = []
        """Workspace, thread, namespace and branch of every branch."""
        self.read_count = 0
        """Number of checkpoints read."""
        if isinstance(saver.database, SqliteDatabase):  # a server checks its own pages, if they have checksums
            self._attempt("the file", self._check_file)
        self._attempt("the list of threads", self._list_branches)

    @property
    def threads(self) -> list[tuple[str, str]]:
        """Workspace and id of each thread."""
        return list(dict.fromkeys(row[:2] for row in self.branches))

    def read_heads(self) -> None:
        """Read the head of every branch."""
        for workspace, thread, namespace, branch in self.branches:
            subject = f"{_thread_name(workspace, thread)}, branch {branch!r}{_subgraph_name(namespace)}"
            self._attempt(subject, partial(self._read_head, workspace, thread, namespace, branch))

    def read_all(self) -> None:
        """Read every checkpoint and every log."""
        self.read_count = 0
        for workspace, thread, namespace in dict.fromkeys(row[:3] for row in self.branches):
            subject = f"the history of {_thread_name(workspace, thread)}{_subgraph_name(namespace)}"
            self._attempt(subject, partial(self._read_history, workspace, thread, namespace))
        for workspace, thread in self.threads:
            saver = self._saver.for_workspace(workspace)
            self._attempt(f"the log of {_thread_name(workspace, thread)}", partial(saver.events, thread))

    def _attempt(self, subject: str, read: Callable[[], object]) -> None:
        try:
            call_with_stand_ins(self._saver.serde, read)
        except StorageError as error:
            self.problems.append(f"{subject}: {short_reason(error)}")

    def _check_file(self) -> None:
        with self._saver.database.read() as connection:
            messages = [text for (text,) in connection.execute("PRAGMA integrity_check")]
        self.problems.extend(f"the file: {text}" for text in messages if text != "ok")

    def _list_branches(self) -> None:
        with self._saver.database.read() as connection:
            self.branches = connection.execute(_BRANCHES).fetchall()

    def _read_head(self, workspace: str, thread: str, namespace: str, branch: str) -> None:
        saver = self._saver.for_workspace(workspace)
        if resolve(saver.load(thread, namespace=namespace, branch=branch)) is None:
            raise DamagedDatabase("the newest checkpoint is missing")
        self.read_count += 1

    def _read_history(self, workspace: str, thread: str, namespace: str) -> None:
        saver = self._saver.for_workspace(workspace)
        self.read_count += sum(len(page) for page in iter_pages(saver, thread, namespace))


def _thread_name(workspace: str, thread: str) -> str:
    """Return the name of a thread for a message, with its workspace unless that is the default workspace."""
    return f"thread {thread!r}" + (f" of workspace {workspace!r}" if workspace != DEFAULT_WORKSPACE else "")


def _subgraph_name(namespace: str) -> str:
    return f", subgraph {namespace!r}" if namespace else ""


def short_reason(error: StorageError) -> str:
    """Return the message of an error without its advice."""
    return str(error).partition(". Restore a copy of it")[0]


_BRANCHES: Final = (
    "SELECT workspace, thread_id, namespace, branch FROM lines JOIN threads ON threads.id = lines.thread "
    "ORDER BY workspace, thread_id, lines.id"
)
