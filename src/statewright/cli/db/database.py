"""The database that a command works on: which one it is, and how it is opened.

It is the one that `--database` names, else the environment, else `.statewright/runs.db`. Only `run` makes one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from statewright.checkpoint import DEFAULT_WORKSPACE, Checkpointer, SavedCheckpoint
from statewright.cli.console.failure import WrongUse
from statewright.cli.console.options import DEFAULT, MEMORY, VARIABLE
from statewright.errors import CheckpointNotFound, InvalidConfig, suggestion
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.storage.locations import path_of
from statewright.storage.sqlite import SqliteSaver

_MARK: Final = frozenset({"threads", "checkpoints"})
"""Tables of which a database of ours has one, whatever its format."""
_KEY_SIZES: Final = (16, 24, 32)


class Place(NamedTuple):
    """Where threads are kept."""

    path: Path | None
    """None where nothing is kept."""
    options: tuple[str, ...] = ()
    """What a later command line needs to find it again."""


def place_of(database: str | None, key_file: Path | None = None) -> Place:
    """The database that a command line means, whether it exists or not."""
    named = database or os.environ.get(VARIABLE)
    if named == MEMORY:
        return Place(None)
    if named in ("", ":memory:"):
        raise WrongUse(
            f"{named!r} is not the path of a database. For a run that is not saved give --database {MEMORY}."
        )
    options = (*(("--database", database) if database else ()), *(("--key-file", str(key_file)) if key_file else ()))
    try:
        path = path_of(named or str(DEFAULT))
    except InvalidConfig as error:
        raise WrongUse(str(error)) from error
    return Place(path, options)


def existing_path(database: str | None) -> Path:
    """The path of the database. Raises WrongUse where there is none."""
    path = place_of(database).path
    if path is None:
        raise WrongUse(f"{MEMORY} keeps nothing that could be looked at. Name a database with --database PATH.")
    check_is_ours(path)
    return path


def check_is_ours(path: Path) -> None:
    """Raise WrongUse for a file that does not exist, or holds something else: nobody's file is made into ours."""
    if not path.exists():
        raise WrongUse(
            f"There is no database {str(path)!r}. `statewright run FILE.py` makes one; "
            f"--database PATH or the variable {VARIABLE} names another."
        )
    if not path.is_file():
        raise WrongUse(f"{str(path)!r} is not a file. Give the path of a database.")
    if not _MARK & tables_of(path):
        raise WrongUse(f"{str(path)!r} is not a database of Statewright: it holds no threads. Give another path.")


def tables_of(path: Path) -> frozenset[str]:
    """The names of the tables of a SQLite file; where it can't be read, those that let the error come up on opening."""
    from statewright.cli.db.files import connect_to_read

    try:
        with closing(connect_to_read(path)) as connection:
            return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master"))
    except sqlite3.Error:
        return _MARK


def opened(database: str | None, key_file: Path | None) -> SqliteSaver:
    """The saver of a database that exists."""
    return SqliteSaver(existing_path(database), key=read_key(key_file))


@contextmanager
def opened_in(workspace: str, database: str | None, key_file: Path | None) -> Generator[SqliteSaver]:
    """The saver of a workspace, given by its slug or its id, in a database that exists."""
    with opened(database, key_file) as saver:
        yield in_workspace(saver, workspace)


def in_workspace(saver: SqliteSaver, named: str) -> SqliteSaver:
    """The saver of a workspace, given by its slug or its id. Raises WrongUse if the database knows none."""
    ids = _workspace_ids(saver)
    workspace = ids.get(named, named)
    if workspace not in {DEFAULT_WORKSPACE, *ids.values(), *resolve(saver.workspaces())}:
        known = sorted({*ids, *resolve(saver.workspaces())}.difference(ids.values()) | {DEFAULT_WORKSPACE})
        raise WrongUse(f"There is no workspace {named!r}. {suggestion(named, known, noun='Workspaces')}")
    return saver.for_workspace(workspace)


def _workspace_ids(saver: SqliteSaver) -> Mapping[str, str]:
    """The ids of the workspaces of a service by their slugs; empty where no service has worked."""
    with saver.database.read() as connection:
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'workspaces'").fetchone() is None:
            return {}
        return dict(connection.execute("SELECT slug, id FROM workspaces").fetchall())


def made(path: Path, key_file: Path | None, **options: Any) -> SqliteSaver:
    """The saver of a database, which is made where there is none."""
    key = read_key(key_file)
    if path.exists() and path.stat().st_size:
        check_is_ours(path)
    folder = path.parent
    try:
        if path == DEFAULT and not folder.exists():
            folder.mkdir()
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")  # what runs leave behind is nobody's source
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUse(f"The folder {str(folder)!r} cannot be made: {error.strerror}. Give --database PATH.") from error
    return SqliteSaver(path, key=key, **options)


def read_key(key_file: Path | None) -> bytes | None:
    """The key in a file: 16, 24 or 32 bytes, or twice as many hexadecimal digits. What it is, is never told."""
    if key_file is None:
        return None
    try:
        content = key_file.read_bytes()
    except OSError as error:
        raise WrongUse(f"The key file {str(key_file)!r} cannot be read: {error.strerror}.") from error
    try:
        key = bytes.fromhex(content.decode("ascii"))
    except ValueError:
        key = content if len(content) in _KEY_SIZES else content.rstrip(b"\r\n")
    if len(key) not in _KEY_SIZES:
        raise WrongUse(
            f"The key file {str(key_file)!r} holds {len(content)} bytes. It must hold 16, 24 or 32 bytes, "
            f"or as many in hexadecimal digits."
        )
    return key


def check_thread(saver: Checkpointer, thread_id: str) -> None:
    """Raise CheckpointNotFound if there is no such thread."""
    if resolve(saver.branches(thread_id)):
        return
    if all(entry.thread_id != thread_id for entry in resolve(saver.threads(prefix=thread_id))):
        raise CheckpointNotFound(f"There is no thread {thread_id!r}{_where_else(saver, thread_id)}")


def _where_else(saver: Checkpointer, thread_id: str) -> str:
    """End the message about a thread that is not there: with the workspaces that have one, else with near misses."""
    if isinstance(saver, SqliteSaver):
        others = [one for one in resolve(saver.workspaces()) if resolve(saver.for_workspace(one).branches(thread_id))]
        if others:
            named = " and ".join(repr(one) for one in others)
            look = f"statewright threads show {thread_id} --workspace {others[0]}"
            return f" in workspace {saver.workspace!r}. There is one in {named}: {look}"
    names = [entry.thread_id for entry in resolve(saver.threads(limit=10))]
    return f". {suggestion(thread_id, names, noun='The last threads')}"


def found_checkpoint(
    saver: Checkpointer, thread_id: str, branch: str, *, checkpoint: str | None = None, step: int | None = None
) -> SavedCheckpoint:
    """The checkpoint with an id, or of a step of a branch; the head of the branch if neither is given."""
    check_thread(saver, thread_id)
    if checkpoint is not None and step is not None:
        raise WrongUse("A checkpoint has one name: give --checkpoint or --step.")
    if step is not None:
        return _at_step(saver, thread_id, branch, step)
    wanted = CheckpointId(checkpoint) if checkpoint is not None else None
    found = resolve(saver.load(thread_id, branch=branch, checkpoint_id=wanted))
    if found is None and checkpoint is not None:
        raise CheckpointNotFound(
            f"Thread {thread_id!r} has no checkpoint {checkpoint!r}. `statewright threads history` lists them."
        )
    if found is None:
        known = suggestion(branch, resolve(saver.branches(thread_id)), noun="Branches")
        raise CheckpointNotFound(f"Thread {thread_id!r} has no branch {branch!r}. {known}")
    return found


def _at_step(saver: Checkpointer, thread_id: str, branch: str, step: int) -> SavedCheckpoint:
    steps: list[int] = []
    for saved in resolve(saver.history(thread_id, branch=branch)):
        if saved.checkpoint.step == step:
            return saved
        steps.append(saved.checkpoint.step)
    known = f"They are {min(steps)} to {max(steps)}" if steps else "There are none"
    raise CheckpointNotFound(
        f"Branch {branch!r} of thread {thread_id!r} has no step {step}. {known}; "
        f"`statewright threads history` lists them."
    )
