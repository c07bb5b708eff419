"""`statewright threads fork`, `prune`, `copy`, `rm`, `release`, `export`, `import`: change and move saved threads."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from statewright.checkpoint import Checkpointer, PrunePolicy, short_owner
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import GraphOption, ThreadArgument, WorkspaceOptions
from statewright.cli.console.printing import pluralize, say
from statewright.cli.console.table import format_instant
from statewright.cli.db.database import (
    advise_naming_graph,
    allow_types,
    call_with_stand_ins,
    check_is_database,
    check_thread,
    find_checkpoint,
    locate_database,
    open_or_create_saver,
    open_workspace_saver,
    read_key,
    saver_for_workspace,
)
from statewright.cli.db.files import check_output_path, replace_atomically
from statewright.cli.threads.describe import is_held
from statewright.cli.threads.show import CheckpointOption, StepOption
from statewright.cli.threads.transfer import transfer_thread
from statewright.cli.workflow.follow import SavedRun
from statewright.errors import WrongEncryptionKey
from statewright.futures import resolve
from statewright.graph import START
from statewright.ids import DEFAULT_WORKSPACE
from statewright.runtime import CompiledGraph, StateGraph
from statewright.storage.sqlite import SqliteSaver


def fork(
    thread: ThreadArgument,
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="The name of the new branch.")],
    source: Annotated[str, typer.Option("--from", metavar="NAME", help="The branch to fork from.")] = "main",
    checkpoint: CheckpointOption = None,
    step: StepOption = None,
    graph: GraphOption = None,
    *,
    database: WorkspaceOptions,
) -> None:
    """Start a new branch at a checkpoint, by default the head. The nodes that were next there run again."""
    with open_workspace_saver(database, graph) as saver:

        def fork_at_checkpoint() -> str:
            saved = find_checkpoint(saver, thread, source, checkpoint=checkpoint, step=step)
            config = {"thread_id": thread, "checkpoint_id": saved.id, "branch": saved.line.branch}
            head = make_placeholder_graph(saver, saved.graph_version).fork(config, branch=branch)
            return f"{saved.checkpoint.step} ({saved.id}) as {head['configurable']['checkpoint_id']}"

        position = call_with_stand_ins(saver.serde, fork_at_checkpoint)  # the values are not used
    say(f"Branch {branch!r} of thread {thread!r} begins at step {position}.")
    if database.workspace == DEFAULT_WORKSPACE:  # the command line runs no graph in another one
        words = (*database.args, "--branch", branch)
        say(f"Continue it with: {SavedRun(thread=thread, target=graph or 'FILE.py', options=words).resume_command()}")


def make_placeholder_graph(saver: Checkpointer, version: str | None) -> CompiledGraph:
    """Return a graph that accepts any thread, for operations that do not involve its nodes."""
    graph = StateGraph({}, version=version)

    def none(state: object) -> None: ...

    graph.add_node("none", none)
    return graph.add_edge(START, "none").compile(saver)


def prune(
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="Only this thread. Default: all threads.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=1, help="Keep the newest N checkpoints of each branch.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DURATION", help="Keep checkpoints younger than this, e.g. 90s, 15m, 12h, 7d or 4w."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted, and exit.")] = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """Delete old checkpoints. The head of each branch and the logs are kept."""
    if keep is None and since is None:
        raise UsageError("Give --keep N or --since DURATION, to select the checkpoints that are kept.")
    keep_since = datetime.now(UTC) - read_duration(since) if since is not None else None
    policy = PrunePolicy(keep_last=keep, keep_since=keep_since)
    with open_workspace_saver(database) as saver:
        if thread is not None:
            check_thread(saver, thread)
        pruned = call_with_stand_ins(
            saver.serde, lambda: resolve(saver.prune(policy, thread_id=thread, dry_run=dry_run))
        )
    verb = "Would delete" if dry_run else "Deleted"
    say(f"{verb} {pluralize(pruned.checkpoints, 'checkpoint')} of {pluralize(pruned.threads, 'thread')}.")


def copy(
    thread: ThreadArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the copy.")],
    *,
    database: WorkspaceOptions,
) -> None:
    """Copy a thread with its history, branches and open questions."""
    if not new:
        raise UsageError("The id of the copy is empty. Give another one.")
    with open_workspace_saver(database) as saver:
        check_thread(saver, thread)
        check_id_is_free(saver, new)
        resolve(saver.copy_thread(thread, new))
    say(f"Thread {new!r} is a copy of {thread!r}.")


def rm(
    thread: ThreadArgument,
    force: Annotated[bool, typer.Option("--force", help="Delete the thread even while a run holds it.")] = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """Delete a thread permanently."""
    with open_workspace_saver(database) as saver:
        check_thread(saver, thread)
        if not force:
            check_is_idle(saver, thread)
        resolve(saver.delete_thread(thread))
    say(f"Deleted thread {thread!r}.")


def release(
    thread: ThreadArgument,
    *,
    database: WorkspaceOptions,
) -> None:
    """Release a thread from the run that holds it, e.g. on a lost machine. A run that is still alive is stopped."""
    with open_workspace_saver(database) as saver:
        check_thread(saver, thread)
        lease = resolve(saver.lease(thread))
        if lease is not None:
            make_placeholder_graph(saver, None).release(thread)
    say(f"Thread {thread!r} was free." if lease is None else f"Took {thread!r} from run {short_owner(lease.owner)}.")


def check_id_is_free(saver: Checkpointer, thread: str) -> None:
    """Raise UsageError if the thread exists already."""
    if resolve(saver.branches(thread)):
        raise UsageError(
            f"There is a thread {thread!r} already. Give another id, or remove it: statewright threads rm."
        )


def check_is_idle(saver: Checkpointer, thread: str) -> None:
    """Raise UsageError if a run holds the lease of the thread."""
    lease = resolve(saver.lease(thread))
    if lease is not None and is_held(lease):
        raise UsageError(
            f"Thread {thread!r} is held by run {short_owner(lease.owner)} "
            f"(its lease ends at {format_instant(lease.until)}). "
            f"Wait for it, or pass --force."
        )


_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")


def read_duration(text: str) -> timedelta:
    """Parse a duration such as `90s`, `12h` or `1d12h`. Raises UsageError."""
    if not _DURATION.fullmatch(text):
        raise UsageError(f"{text!r} is not a duration. Give a number and a unit, e.g. 90s, 15m, 12h, 7d or 4w.")
    try:
        parts = re.findall(r"([\d.]+)(\w)", text)
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts), timedelta())
    except OverflowError as error:
        raise UsageError(f"{text!r} is longer than any date allows. Give a shorter duration.") from error


# -- export and import

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file with the thread.")]


def export(
    thread: ThreadArgument,
    file: FileArgument,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    graph: GraphOption = None,
    *,
    database: WorkspaceOptions,
) -> None:
    """Export a thread with its whole history to a file, for `threads import`.

    The file is a small database, encrypted with the key of --key-file.
    """
    check_output_path(file, "file", force=force)
    key = read_key(database.key_file)
    with open_workspace_saver(database, graph) as source:
        check_thread(source, thread)
        check_is_idle(source, thread)
        with replace_atomically(file) as draft, SqliteSaver(draft, key=key, serde=source.serde) as target:
            count = transfer_thread(source, thread, target, thread)
    say(f"Wrote thread {thread!r} with {pluralize(count, 'checkpoint')} to {file}.")


def import_(
    file: FileArgument,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The id of the imported thread. Default: its own.")
    ] = None,
    graph: GraphOption = None,
    *,
    database: WorkspaceOptions,
) -> None:
    """Import a thread from a file of `threads export`. Creates the database if there is none."""
    if not file.exists():
        raise UsageError(f"File {str(file)!r} does not exist. Give one that `statewright threads export` wrote.")
    check_is_database(file)
    path = locate_database(database.database)
    if path is None:
        raise UsageError("There is no database to import into. Name one with --database PATH.")
    with (
        _open_export(file, read_key(database.key_file)) as source,
        open_or_create_saver(path, database.key_file, serde=source.serde) as database_saver,
        advise_naming_graph(source.serde, graph),
    ):
        target = saver_for_workspace(database_saver, database.workspace)
        allow_types(source, graph)
        thread = _only_thread(source, file)
        target_id = name if name is not None else thread
        check_id_is_free(target, target_id)
        count = transfer_thread(source, thread, target, target_id)
    say(f"Thread {target_id!r} has {pluralize(count, 'checkpoint')}.")


def _open_export(file: Path, key: bytes | None) -> SqliteSaver:
    """Open an exported file, with the key only if it is encrypted."""
    if key is not None:
        with suppress(WrongEncryptionKey):
            return SqliteSaver(file)
    return SqliteSaver(file, key=key)


def _only_thread(source: SqliteSaver, file: Path) -> str:
    names = [entry.thread_id for entry in resolve(source.threads())]
    if len(names) != 1:
        raise UsageError(
            f"{str(file)!r} holds {pluralize(len(names), 'thread')}, and not the one that `statewright threads export` "
            f"writes. Export the thread from it: statewright threads export THREAD FILE --database {file}."
        )
    return names[0]
