"""`statewright threads export` and `import`: transfer a thread as a file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DatabaseOption, GraphOption, KeyOption, ThreadArgument, WorkspaceOption
from statewright.cli.console.printing import count_of, say
from statewright.cli.db.database import (
    allow_types,
    check_is_database,
    check_thread,
    locate_database,
    open_or_create_saver,
    open_workspace_saver,
    pointing_to_graph,
    read_key,
    saver_for_workspace,
)
from statewright.cli.db.files import check_target, replacing
from statewright.cli.threads.edit import check_id_is_free, check_is_idle
from statewright.cli.threads.transfer import transfer_thread
from statewright.errors import WrongEncryptionKey
from statewright.futures import resolve
from statewright.ids import DEFAULT_WORKSPACE
from statewright.storage.sqlite import SqliteSaver

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file with the thread.")]


def export(
    thread: ThreadArgument,
    file: FileArgument,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    graph: GraphOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Export a thread with its whole history to a file, for `threads import`.

    The file is a small database, encrypted with the key of --key-file.
    """
    check_target(file, "file", force=force)
    with open_workspace_saver(workspace, database, key_file, graph) as source:
        check_thread(source, thread)
        check_is_idle(source, thread)
        with replacing(file) as draft, SqliteSaver(draft, key=read_key(key_file), serde=source.serde) as target:
            count = transfer_thread(source, thread, target, thread)
    say(f"Wrote thread {thread!r} with {count_of(count, 'checkpoint')} to {file}.")


def import_(
    file: FileArgument,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The id of the imported thread. Default: its own.")
    ] = None,
    graph: GraphOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Import a thread from a file of `threads export`. Creates the database if there is none."""
    if not file.exists():
        raise UsageError(f"File {str(file)!r} does not exist. Give one that `statewright threads export` wrote.")
    check_is_database(file)
    path = locate_database(database).path
    if path is None:
        raise UsageError("There is no database to import into. Name one with --database PATH.")
    with (
        _open_export(file, key_file) as source,
        open_or_create_saver(path, key_file, serde=source.serde) as database_saver,
        pointing_to_graph(source.serde, graph),
    ):
        target = saver_for_workspace(database_saver, workspace)
        allow_types(source, graph)
        thread = _only_thread(source, file)
        target_id = name if name is not None else thread
        check_id_is_free(target, target_id)
        count = transfer_thread(source, thread, target, target_id)
    say(f"Thread {target_id!r} has {count_of(count, 'checkpoint')}.")


def _open_export(file: Path, key_file: Path | None) -> SqliteSaver:
    """Open an exported file, with the key only if it is encrypted."""
    key = read_key(key_file)
    if key is not None:
        with suppress(WrongEncryptionKey):
            return SqliteSaver(file)
    return SqliteSaver(file, key=key)


def _only_thread(source: SqliteSaver, file: Path) -> str:
    names = [entry.thread_id for entry in resolve(source.threads())]
    if len(names) != 1:
        raise UsageError(
            f"{str(file)!r} holds {count_of(len(names), 'thread')}, and not the one that `statewright threads export` "
            f"writes. Export the thread from it: statewright threads export THREAD FILE --database {file}."
        )
    return names[0]
