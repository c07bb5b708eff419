"""`statewright db copy`: copy everything from one database to another, of any kind."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import EXAMPLE_URL, MEMORY, DatabaseOptions
from statewright.cli.console.printing import pluralize, say
from statewright.cli.console.table import PrintableConsole
from statewright.cli.db.database import check_is_database, locate_database, prepare_file, read_key
from statewright.errors import StorageLocked, WrongEncryptionKey
from statewright.storage.copy import check_is_idle, copy_database
from statewright.storage.copy.copy import OnProgress
from statewright.storage.database import Database
from statewright.storage.locations import Location
from statewright.storage.open import open_database

_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


def copy(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help=f"The database to copy: a file, or a URL such as {EXAMPLE_URL}.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The database to fill, which must be new or empty: a file or a URL.")
    ],
    source_key_file: Annotated[
        Path | None, typer.Option("--source-key-file", metavar="PATH", help="A file with the encryption key of SOURCE.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", metavar="PATH", help="A file with the encryption key of TARGET.")
    ] = None,
    decrypt: Annotated[
        bool, typer.Option("--decrypt", help="Copy an encrypted database to one that is not encrypted.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Copy SOURCE as it is now, even if runs or servers are using it.")
    ] = False,
) -> None:
    """Copy all threads, runs and stored items to an empty database, and verify the copy.

    SOURCE and TARGET may be files or Postgres databases. Cached results are not copied. If the copy fails or is
    interrupted, TARGET stays empty. Stop all servers of SOURCE first: runs and workers that use it are noticed, but
    `statewright serve --no-work` is not, and what it accepts later is not in the copy.
    """
    source_location, target_location = _locate(source), _locate(target)
    source_key, key = read_key(source_key_file), read_key(key_file)
    if source_key is not None and key is None and not decrypt:
        raise UsageError(
            "The copy of an encrypted database would not be encrypted. Pass its key with --key-file, which may be the "
            "same file, or --decrypt."
        )
    check_is_database(source_location, DatabaseOptions(database=source))
    with _open_source(source_location, source_key) as source_database, _advising_force(is_used=force):
        if not force:
            check_is_idle(source_database)  # before a file is created for the target
        if isinstance(target_location, Path):
            prepare_file(target_location)
        with open_database(target_location, key=key) as target_database, _showing_progress() as on_progress:
            report = copy_database(source_database, target_database, allow_active=force, on_progress=on_progress)
    counts = (
        pluralize(report.rows["threads"], "thread"),
        pluralize(report.rows.get("workflow_runs", 0), "run"),
        pluralize(report.rows.get("items", 0), "item"),
    )
    say(f"Copied {source_location} to {target_location}: {', '.join(counts)}; {report.total} rows, verified.")


def _open_source(location: Location, key: bytes | None) -> Database:
    try:
        return open_database(location, key=key)
    except WrongEncryptionKey as error:
        raise UsageError(f"{error} Use the option --source-key-file PATH. [{error.code}]") from error


def _locate(text: str) -> Location:
    location = locate_database(text)
    if location is None:
        raise UsageError(f"With {MEMORY!r} nothing is saved. Specify a file or a URL.")
    return location


@contextmanager
def _advising_force(*, is_used: bool) -> Generator[None]:
    """Add advice to use --force, unless it is used, to the error about a source that is in use."""
    try:
        yield
    except StorageLocked as error:
        # An error that a database reports has a cause: the target may be locked, and --force would not help.
        if is_used or error.__cause__ is not None:
            raise
        raise StorageLocked(f"{error} Or pass --force to copy it as it is now.") from error


@contextmanager
def _showing_progress() -> Generator[OnProgress | None]:
    """Provide a function that shows the progress on standard error; None unless that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Progress(*_COLUMNS, console=PrintableConsole(stderr=True), transient=True) as progress:
        bar = progress.add_task("Copying and verifying rows", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
