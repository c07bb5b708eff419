"""`statewright db check`: verify that a database is intact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from statewright.cli.console.failure import FAILED, exit_with
from statewright.cli.console.options import DatabaseOption, KeyOption
from statewright.cli.console.printing import count_of, say
from statewright.cli.db.database import existing_database, iter_pages, open_saver, with_stand_ins
from statewright.errors import DamagedDatabase, StorageError
from statewright.futures import resolve
from statewright.ids import DEFAULT_WORKSPACE
from statewright.storage.sqlite import SqliteSaver


def check(
    full: Annotated[bool, typer.Option("--full", help="Read every checkpoint and log, not only heads.")] = False,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Check that the database is intact and every thread is readable. Exits with 1 if not."""
    path = existing_database(database)
    try:
        with open_saver(database, key_file) as saver:
            checkup = DatabaseCheck(saver)
            checkup.read_heads()
            if full:
                checkup.read_all()
    except DamagedDatabase as error:  # even the list of tables is unreadable
        _end_with([f"the file: {short_reason(error)}"], path)
    if checkup.problems:
        _end_with(checkup.problems, path)
    what = count_of(checkup.read, "checkpoint" if full else "head")
    say(f"ok: {path}, {count_of(len(checkup.threads), 'thread')}, {what} read")


def _end_with(problems: list[str], path: Path) -> NoReturn:
    lines = [f"Error: {count_of(len(problems), 'problem')} in {path}:", *problems]
    exit_with("\n  ".join(lines) + "\nA backup replaces it: statewright db restore BACKUP", FAILED)


class DatabaseCheck:
    """A check of a database: reads its contents and collects the problems."""

    def __init__(self, saver: SqliteSaver) -> None:
        self._saver = saver
        self.problems: list[str] = []
        self.lines: list[tuple[str, str, str, str]] = []
        """Workspace, thread, namespace and branch of every branch."""
        self.read = 0
        """Number of checkpoints read."""
        self._attempt("the file", self._check_file)
        self._attempt("the list of threads", self._list_lines)

    @property
    def threads(self) -> list[tuple[str, str]]:
        """Workspace and id of each thread."""
        return list(dict.fromkeys(line[:2] for line in self.lines))

    def read_heads(self) -> None:
        """Read the head of every branch."""
        for workspace, thread, namespace, branch in self.lines:
            where = f"{_named(workspace, thread)}, branch {branch!r}{_inside(namespace)}"
            self._attempt(where, partial(self._read_head, workspace, thread, namespace, branch))

    def read_all(self) -> None:
        """Read every checkpoint and every log."""
        self.read = 0
        for workspace, thread, namespace in dict.fromkeys(line[:3] for line in self.lines):
            where = f"the history of {_named(workspace, thread)}{_inside(namespace)}"
            self._attempt(where, partial(self._read_history, workspace, thread, namespace))
        for workspace, thread in self.threads:
            own = self._saver.for_workspace(workspace)
            self._attempt(f"the log of {_named(workspace, thread)}", partial(own.events, thread))

    def _attempt(self, what: str, read: Callable[[], object]) -> None:
        try:
            with_stand_ins(self._saver.serde, read)
        except StorageError as error:
            self.problems.append(f"{what}: {short_reason(error)}")

    def _check_file(self) -> None:
        with self._saver.database.read() as connection:
            messages = [text for (text,) in connection.execute("PRAGMA integrity_check")]
        self.problems.extend(f"the file: {text}" for text in messages if text != "ok")

    def _list_lines(self) -> None:
        with self._saver.database.read() as connection:
            self.lines = connection.execute(_LINES).fetchall()

    def _read_head(self, workspace: str, thread: str, namespace: str, branch: str) -> None:
        own = self._saver.for_workspace(workspace)
        if resolve(own.load(thread, namespace=namespace, branch=branch)) is None:
            raise DamagedDatabase("the newest checkpoint is missing")
        self.read += 1

    def _read_history(self, workspace: str, thread: str, namespace: str) -> None:
        own = self._saver.for_workspace(workspace)
        count = sum(len(page) for page in iter_pages(own, thread, namespace))
        self.read += count


def _named(workspace: str, thread: str) -> str:
    """Return the name of a thread for a message, with its workspace unless that is the default one."""
    return f"thread {thread!r}" + (f" of workspace {workspace!r}" if workspace != DEFAULT_WORKSPACE else "")


def _inside(namespace: str) -> str:
    return f", subgraph {namespace!r}" if namespace else ""


def short_reason(error: StorageError) -> str:
    """Return the message of an error without its advice."""
    return str(error).partition(". Restore a copy of it")[0]


_LINES = (
    "SELECT workspace, thread_id, namespace, branch FROM lines JOIN threads ON threads.id = lines.thread "
    "ORDER BY workspace, thread_id, lines.id"
)
