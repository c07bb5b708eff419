"""`statewright db check`: can everything be read?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from statewright.cli.database import DatabaseOption, KeyOption
from statewright.cli.failure import FAILED, end

if TYPE_CHECKING:
    from statewright.errors import StorageError
    from statewright.storage.sqlite import SqliteSaver


class Checked(NamedTuple):
    """What was read, and what could not be."""

    threads: int
    checkpoints: int
    problems: list[str]


def check(
    full: Annotated[bool, typer.Option("--full", help="Read every checkpoint and every log, not only heads.")] = False,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Check that a database is whole, and that every thread can be read. Exits with 1 if something cannot be."""
    from statewright.cli.database import existing_path, opened
    from statewright.cli.threads_edit import counted
    from statewright.errors import DamagedDatabase

    path = existing_path(database)
    try:
        with opened(database, key_file) as saver:
            found = checked(saver, full=full)
    except DamagedDatabase as error:  # not even the list of tables can be read
        found = Checked(0, 0, [f"the file: {reason(error)}"])
    if found.problems:
        lines = [f"Error: {counted(len(found.problems), 'problem')} in {path}:", *found.problems]
        end("\n  ".join(lines) + "\nA backup replaces it: statewright db restore BACKUP", FAILED)
    what = counted(found.checkpoints, "checkpoint" if full else "head")
    print(f"ok: {path}, {counted(found.threads, 'thread')}, {what} read")


def checked(saver: SqliteSaver, *, full: bool) -> Checked:
    """What there is to say of a database."""
    from statewright.cli.known_types import with_stand_ins
    from statewright.errors import StorageError

    problems: list[str] = []
    threads, count = set[str](), 0

    def attempt(what: str, read: Callable[[], int]) -> int:
        try:
            return with_stand_ins(saver.serde, read)
        except StorageError as error:
            problems.append(f"{what}: {reason(error)}")
            return 0

    attempt("the file", lambda: _integrity(saver, problems))
    lines: list[tuple[str, str, str]] = []
    attempt("the list of threads", lambda: len(_lines(saver, lines)))
    for thread, namespace, branch in lines:
        threads.add(thread)
        where = f"thread {thread!r}, branch {branch!r}" + (f", subgraph {namespace!r}" if namespace else "")
        count += attempt(where, lambda: _head(saver, thread, namespace, branch))  # noqa: B023  # called at once
    if full:
        count = 0
        for thread, namespace in dict.fromkeys(line[:2] for line in lines):
            where = f"the history of thread {thread!r}" + (f", subgraph {namespace!r}" if namespace else "")
            count += attempt(where, lambda: sum(1 for _ in _all(saver, thread, namespace)))  # noqa: B023
        for thread in sorted(threads):
            attempt(f"the log of thread {thread!r}", lambda: _log(saver, thread))  # noqa: B023
    return Checked(len(threads), count, list(dict.fromkeys(problems)))


def reason(error: StorageError) -> str:
    """What an error found, without the advice to look for it."""
    return str(error).partition(". Restore a copy of it")[0]


def _integrity(saver: SqliteSaver, problems: list[str]) -> int:
    with saver.database.read() as connection:
        found = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
    problems.extend(f"the file: {text}" for text in found)
    return len(found)


def _lines(saver: SqliteSaver, lines: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    with saver.database.read() as connection:
        lines.extend(connection.execute(_LINES).fetchall())
    return lines


def _head(saver: SqliteSaver, thread: str, namespace: str, branch: str) -> int:
    from statewright.errors import DamagedDatabase
    from statewright.runtime.saver_calls import resolved

    if resolved(saver.load(thread, namespace=namespace, branch=branch)) is None:
        raise DamagedDatabase("the newest checkpoint is not there")
    return 1


def _all(saver: SqliteSaver, thread: str, namespace: str) -> Iterator[object]:
    from statewright.cli.transfer import listed_pages

    for page in listed_pages(saver, thread, namespace):
        yield from page


def _log(saver: SqliteSaver, thread: str) -> int:
    from statewright.runtime.saver_calls import resolved

    return len(resolved(saver.events(thread)))


_LINES = (
    "SELECT threads.name, namespace, branch FROM lines JOIN threads ON threads.id = lines.thread "
    "ORDER BY threads.name, lines.id"
)
