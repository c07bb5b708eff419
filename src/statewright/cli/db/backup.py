"""`statewright db backup`, `restore` and `vacuum`: copy, replace and shrink the database file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated, Final

import typer

from statewright.cli.console.failure import UsageError, report_os_errors
from statewright.cli.console.options import DatabaseOption, DatabaseOptions
from statewright.cli.console.printing import pluralize, say
from statewright.cli.db.check import DatabaseCheck
from statewright.cli.db.database import check_is_file, locate_database, read_key, require_file
from statewright.cli.db.files import (
    check_output_path,
    copy_database_file,
    rename_damaged,
    replace_atomically,
    replace_database,
    temporary_database,
    try_exclusive_access,
)
from statewright.cli.db.newer_work import find_newer_work
from statewright.errors import DamagedDatabase, StorageUnavailable
from statewright.storage.damage import UNREADABLE
from statewright.storage.locations import PostgresUrl
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver

_DUMP: Final = (
    "Save it with pg_dump, or copy it to a file with `statewright db copy URL FILE`, whose backup is a file too."
)
_LOAD: Final = (
    "Restore a dump of it with pg_restore or psql, or copy a file to a new schema with `statewright db copy`."
)
_AUTOVACUUM: Final = "Postgres reuses the space by itself (autovacuum). To return it to the disk, use VACUUM FULL."


def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Copy the database file, even while it is in use. An encrypted database stays encrypted."""
    path = require_file(database, _DUMP)
    if target.exists() and target.samefile(path):
        raise UsageError("The backup would replace the database itself. Choose another path.")
    check_output_path(target, "backup", force=force)
    with replace_atomically(target) as temporary_path:
        copy_database_file(path, temporary_path)
    say(f"Copied {path} to {target} ({target.stat().st_size} bytes).")


def restore(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The backup.")],
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace the database even if it is in use, contains newer work or cannot be read."
        ),
    ] = False,
    *,
    database: DatabaseOptions,
) -> None:
    """Replace the database file with a backup, unless the database is in use or contains newer work."""
    if not source.exists():
        raise UsageError(f"Backup {str(source)!r} does not exist. Use one that `statewright db backup` has written.")
    check_is_file(source)
    path = _path_to_restore(database.database, source)
    with temporary_database(path) as copy:
        copy_database_file(source, copy)
        threads = _check_backup(copy, source, read_key(database.key_file))
        if path.exists() and not force:
            check_replaceable(path, copy)
        damaged_path = _replace(copy, path)
    say(f"Restored {path} from {source}: {threads}.")
    if damaged_path is not None:
        say(f"The previous database could not be read. It was renamed to {damaged_path}.")


def _path_to_restore(database: str | None, source: Path) -> Path:
    """Return the path of the database to replace. Raises UsageError if it must not be replaced."""
    path = locate_database(database)
    if path is None:
        raise UsageError("There is no database to restore. Specify one with --database PATH.")
    if isinstance(path, PostgresUrl):
        raise UsageError(f"{path} is a Postgres database, and this command works on files. {_LOAD}")
    if path.exists() and path.samefile(source):
        raise UsageError("The backup is the database itself. Choose another path.")
    if path.exists() and path.stat().st_size:
        check_is_file(path)  # a file of another program is never overwritten, even with --force
    with report_os_errors(f"The folder {str(path.parent)!r} cannot be created"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _check_backup(copy: Path, source: Path, key: bytes | None) -> str:
    """Check the heads of a backup, and return the number of its threads as text. Raises DamagedDatabase."""
    with SqliteSaver(copy, key=key) as saver:
        database_check = DatabaseCheck(saver)
        database_check.read_heads()
    problems = database_check.problems
    if problems:
        raise DamagedDatabase(f"{pluralize(len(problems), 'problem')}: {problems[0]}", where=str(source))
    return pluralize(len(database_check.threads), "thread")


def check_replaceable(path: Path, copy: Path) -> None:
    """Raise UsageError if the database is in use, contains newer work than the backup, or cannot be read."""
    if not path.stat().st_size:
        return
    try:
        if not try_exclusive_access(path):
            raise UsageError(f"The database {str(path)!r} is in use. Stop the processes that use it, or pass --force.")
        newer_work = find_newer_work(path, copy)
    except (sqlite3.Error, *UNREADABLE) as error:
        raise UsageError(
            f"The database {str(path)!r} cannot be read: {error}. Pass --force to rename it and restore the backup."
        ) from error
    if newer_work is not None:
        raise UsageError(
            f"The database {str(path)!r} contains {newer_work}. Back it up first, or pass --force to discard this."
        )


def _replace(copy: Path, path: Path) -> Path | None:
    """Replace a database with the copy of a backup. If it is unreadable, rename it and return its new path."""
    damaged_path = None
    try:
        if path.exists() and path.stat().st_size and not try_exclusive_access(path):
            # The file itself stays, because other processes have it open; they see the new content at once.
            copy_database_file(copy, path)
            return None
    except (DamagedDatabase, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.OperationalError):
            raise StorageUnavailable(
                f"The database {path} cannot be replaced: {error}. Nothing was changed."
            ) from error
        damaged_path = rename_damaged(path)
    replace_database(copy, path)
    return damaged_path


# -- vacuum


def vacuum(*, database: DatabaseOptions) -> None:
    """Shrink the database file, e.g. after `threads prune` or `threads rm`. Blocks writers while it runs."""
    path = require_file(database.database, _AUTOVACUUM)
    with SqliteDatabase(path, key=read_key(database.key_file)) as opened:
        freed = opened.vacuum()
    say(f"Vacuumed {path}: {path.stat().st_size} bytes, {max(freed, 0)} fewer than before.")
