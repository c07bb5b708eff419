"""Locating and opening the database of a command.

It is named by `--database`, else by the environment, else it is `.statewright/runs.db`: the path of a file, or the URL
of a Postgres database. Most commands require that it exists. Values of user-defined types are decoded by the types of a
graph, or as stand-ins if the values do not matter.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from statewright.checkpoint import DEFAULT_WORKSPACE, Checkpointer, SavedCheckpoint
from statewright.cli.console.failure import NoTables, UsageError, report_os_errors
from statewright.cli.console.options import (
    DATABASE_VARIABLE,
    DEFAULT_DATABASE,
    MEMORY,
    DatabaseOptions,
    WorkspaceOptions,
)
from statewright.cli.db.files import connect_to_read
from statewright.errors import CheckpointNotFound, InvalidConfig, SerdeError, suggestion
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.locations import Location, PostgresUrl, parse_location
from statewright.storage.open import has_tables
from statewright.storage.open import open_saver as open_saver_at

T = TypeVar("T")
_TABLES: Final = frozenset({"threads", "checkpoints"})
"""A Statewright database has at least one of these tables, in every version of its format."""
PAGE: Final = 500
"""Checkpoints read at a time."""
_KEY_SIZES: Final = (16, 24, 32)
"""Valid sizes of an encryption key, in bytes."""


def locate_database(database: str | None) -> Location | None:
    """Return the location of the database, which need not exist; None if nothing is saved."""
    value = database or os.environ.get(DATABASE_VARIABLE)
    if value == MEMORY:
        return None
    if value in ("", ":memory:"):
        raise UsageError(f"{value!r} is not the path of a database. To run without saving, use --database {MEMORY}.")
    try:
        return parse_location(value or str(DEFAULT_DATABASE))
    except InvalidConfig as error:
        raise UsageError(str(error)) from error


def require_database(database: str | None) -> Location:
    """Return the location of an existing database. Raises UsageError if there is none."""
    location = locate_database(database)
    if location is None:
        raise UsageError(f"With {MEMORY!r} nothing is saved. Specify a database with --database PATH or URL.")
    check_is_database(location, DatabaseOptions(database=database))
    return location


def require_file(database: str | None, advice: str) -> Path:
    """Return the path of an existing database that is a file. Raises UsageError, with advice, for a server."""
    location = locate_database(database)
    if isinstance(location, PostgresUrl):
        raise UsageError(f"{location} is a Postgres database, and this command works on files. {advice}")
    path = require_database(database)
    assert isinstance(path, Path)
    return path


def check_is_database(location: Location, options: DatabaseOptions | None = None) -> None:
    """Raise UsageError for a location that does not exist or is not a Statewright database.

    `options` are those of the command, which the message repeats; NoTables is raised for a server without tables.
    """
    if isinstance(location, PostgresUrl):
        if not has_tables(location):
            raise NoTables(describe_missing_tables(location, options or DatabaseOptions()))
    else:
        check_is_file(location)


def describe_missing_tables(location: Location, options: DatabaseOptions) -> str:
    """Return the message about a database that has no tables, with the command that creates them."""
    where = ""
    if isinstance(location, PostgresUrl):
        where = f" in its schema {location.schema!r}" if location.schema is not None else " in its default schema"
    command = shlex.join(["statewright", "db", "migrate", *options.args])
    return f"Database {str(location)!r} has no tables of Statewright{where}. Create them with: {command}"


def check_is_file(path: Path) -> None:
    """Raise UsageError for a file that does not exist or is not a Statewright database."""
    if not path.exists():
        raise UsageError(
            f"Database {str(path)!r} does not exist. Create it with `statewright run FILE.py`, or specify another one "
            f"with --database PATH or the environment variable {DATABASE_VARIABLE}."
        )
    if not path.is_file():
        raise UsageError(f"{str(path)!r} is not a file. Use the path of a database file.")
    if not _has_our_tables(path):
        raise UsageError(f"{str(path)!r} is not a Statewright database: it has no threads. Use another path.")


def _has_our_tables(path: Path) -> bool:
    """Return True if a SQLite file has tables of Statewright, or cannot be read: opening it then reports the error."""
    try:
        with closing(connect_to_read(path)) as connection:
            return any(name in _TABLES for (name,) in connection.execute("SELECT name FROM sqlite_master"))
    except sqlite3.Error:
        return True


def open_saver(options: DatabaseOptions) -> DatabaseSaver[Any]:
    """Open the saver of an existing database."""
    return open_saver_at(require_database(options.database), key=read_key(options.key_file))


@contextmanager
def open_workspace_saver(options: WorkspaceOptions, graph: str | None = None) -> Generator[DatabaseSaver[Any]]:
    """Open the saver of a workspace, named by slug or id, with the types of `graph` if it is given.

    An error about an unknown type becomes advice to use --graph.
    """
    with open_saver(options) as database_saver:
        saver = saver_for_workspace(database_saver, options.workspace)
        with advise_naming_graph(saver.serde, graph):
            allow_types(saver, graph)
            yield saver


def saver_for_workspace(saver: DatabaseSaver[Any], name: str) -> DatabaseSaver[Any]:
    """Return the saver of a workspace, named by slug or id. Raises UsageError for an unknown workspace."""
    ids = _workspace_ids(saver)
    workspace = ids.get(name, name)
    if workspace not in {DEFAULT_WORKSPACE, *ids.values(), *resolve(saver.workspaces())}:
        names = sorted({*ids, *resolve(saver.workspaces())}.difference(ids.values()) | {DEFAULT_WORKSPACE})
        raise UsageError(f"Workspace {name!r} does not exist. {suggestion(name, names, noun='Workspaces')}")
    return saver.for_workspace(workspace)


def _workspace_ids(saver: DatabaseSaver[Any]) -> Mapping[str, str]:
    """Return the workspace ids of a service by slug; empty if no service has used the database."""
    if not saver.database.has_tables("ledger"):
        return {}
    with saver.database.read() as connection:
        return dict(connection.execute("SELECT slug, id FROM workspaces").fetchall())


def open_or_create_saver(location: Location, key_file: Path | None, **options: Any) -> DatabaseSaver[Any]:
    """Open the saver of a database, creating the file or the tables if needed."""
    key = read_key(key_file)
    if isinstance(location, Path):
        prepare_file(location)
    return open_saver_at(location, key=key, **options)


def prepare_file(path: Path) -> None:
    """Create the folder of a database file. Raises UsageError if a file is there that is not a database."""
    if path.exists() and path.stat().st_size:
        check_is_file(path)
    folder = path.parent
    with report_os_errors(f"The folder {str(folder)!r} cannot be created", "Use another --database PATH."):
        if path == DEFAULT_DATABASE and not folder.exists():
            folder.mkdir()
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")  # run data does not belong in version control
        folder.mkdir(parents=True, exist_ok=True)


def read_key(key_file: Path | None) -> bytes | None:
    """Read an encryption key from a file: 16, 24 or 32 bytes, raw or in hexadecimal. Errors never contain it."""
    if key_file is None:
        return None
    with report_os_errors(f"The key file {str(key_file)!r} cannot be read"):
        content = key_file.read_bytes()
    try:
        key = bytes.fromhex(content.decode("ascii"))
    except ValueError:
        key = content if len(content) in _KEY_SIZES else content.rstrip(b"\r\n")
    if len(key) not in _KEY_SIZES:
        raise UsageError(
            f"The key file {str(key_file)!r} contains {len(content)} bytes. It must contain a key of 16, 24 or 32 "
            f"bytes, raw or in hexadecimal."
        )
    return key


def check_thread(saver: Checkpointer, thread_id: str) -> None:
    """Raise CheckpointNotFound for an unknown thread."""
    if resolve(saver.branches(thread_id)):
        return
    # A thread without checkpoints has no branches, but is listed.
    if all(entry.thread_id != thread_id for entry in resolve(saver.threads(prefix=thread_id))):
        raise CheckpointNotFound(f"Thread {thread_id!r} does not exist{_suggest_thread(saver, thread_id)}")


def _suggest_thread(saver: Checkpointer, thread_id: str) -> str:
    """Return the end of a message about an unknown thread: other workspaces that have it, else similar ids."""
    if isinstance(saver, DatabaseSaver):
        workspaces = [
            name for name in resolve(saver.workspaces()) if resolve(saver.for_workspace(name).branches(thread_id))
        ]
        if workspaces:
            names = " and ".join(repr(name) for name in workspaces)
            command = f"statewright threads show {thread_id} --workspace {workspaces[0]}"
            return f" in workspace {saver.workspace!r}. It exists in {names}: {command}"
    thread_ids = [entry.thread_id for entry in resolve(saver.threads(limit=10))]
    return f". {suggestion(thread_id, thread_ids, noun='The last threads')}"


def find_checkpoint(
    saver: Checkpointer, thread_id: str, branch: str, *, checkpoint: str | None = None, step: int | None = None
) -> SavedCheckpoint:
    """Return a checkpoint by its id or by its step on the branch, by default the head of the branch.

    Raises UsageError if both are given, and CheckpointNotFound.
    """
    check_thread(saver, thread_id)
    if checkpoint is not None and step is not None:
        raise UsageError("Use only one of --checkpoint and --step.")
    if step is not None:
        return _find_step(saver, thread_id, branch, step)
    checkpoint_id = CheckpointId(checkpoint) if checkpoint is not None else None
    saved = resolve(saver.load(thread_id, branch=branch, checkpoint_id=checkpoint_id))
    if saved is None and checkpoint is not None:
        raise CheckpointNotFound(
            f"Thread {thread_id!r} has no checkpoint {checkpoint!r}. List them with `statewright threads history`."
        )
    if saved is None:
        hint = suggestion(branch, resolve(saver.branches(thread_id)), noun="Branches")
        raise CheckpointNotFound(f"Thread {thread_id!r} has no branch {branch!r}. {hint}")
    return saved


def _find_step(saver: Checkpointer, thread_id: str, branch: str, step: int) -> SavedCheckpoint:
    steps: list[int] = []
    for saved in resolve(saver.history(thread_id, branch=branch)):
        if saved.checkpoint.step == step:
            return saved
        steps.append(saved.checkpoint.step)
    steps_text = f"Its steps are {min(steps)} to {max(steps)}" if steps else "It has no steps"
    raise CheckpointNotFound(
        f"Branch {branch!r} of thread {thread_id!r} has no step {step}. {steps_text}; "
        f"list them with `statewright threads history`."
    )


def iter_pages(saver: Checkpointer, thread_id: str, namespace: str) -> Iterator[Sequence[SavedCheckpoint]]:
    """Yield the checkpoints of a namespace, newest first, page by page."""
    before: CheckpointId | None = None
    while page := resolve(saver.history(thread_id, namespace=namespace, before=before, limit=PAGE)):
        yield page
        before = page[-1].id


# -- values of user-defined types


def allow_types(saver: Checkpointer, graph: str | None) -> None:
    """Register the types in the state of a graph with the saver, if a graph is given."""
    if graph is not None:
        # Imported here, because most commands on threads are called without a graph.
        from statewright.cli.workflow.load import load_graph

        saver.allow(load_graph(graph).program.stored_types)


@contextmanager
def advise_naming_graph(serde: Serde, graph: str | None) -> Generator[None]:
    """Turn an error about an unknown type into advice to use --graph."""
    try:
        yield
    except SerdeError as error:
        if not _is_about_unknown_type(serde, error):
            raise
        hint = "Pass the graph that defines it with --graph FILE.py" if graph is None else f"{graph} does not define it"
        raise UsageError(f"{str(error).rstrip('.')}. {hint}. [{error.code}]") from error


def _is_about_unknown_type(serde: Serde, error: SerdeError) -> bool:
    """Return True if the error is about an unregistered type. Tags stand for built-in types."""
    return serde.class_of(error.key_path) is None and not error.key_path.startswith("tag ")


def call_with_stand_ins(serde: Serde, operation: Callable[[], T]) -> T:
    """Call an operation that does not use values, with stand-ins for values of unknown types.

    Stand-ins are stored unchanged. Raises SerdeError if a value of a registered type cannot be decoded.
    """
    while True:
        try:
            return operation()
        except SerdeError as error:
            if not _is_about_unknown_type(serde, error):
                raise
            _register_stand_in(serde, error.key_path)


def _register_stand_in(serde: Serde, name: str) -> None:
    class StandIn:
        def __init__(self, stored: Any) -> None:
            self.stored = stored

    serde.register(StandIn, name=name, encode=lambda value: value.stored, decode=StandIn)
