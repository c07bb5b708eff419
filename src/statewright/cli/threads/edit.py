"""Commands that change saved threads: `threads fork`, `prune`, `copy`, `rm`, `release`, `export` and `import`."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from statewright.checkpoint import Checkpointer, PrunePolicy, short_owner
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import GraphOption, ThreadArgument, WorkspaceOptions
from statewright.cli.console.printing import pluralize, say
from statewright.cli.console.saved_run import SavedRun
from statewright.cli.console.table import format_instant
from statewright.cli.db.database import (
    advise_naming_graph,
    allow_types,
    call_with_stand_ins,
    check_is_file,
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
from statewright.clock import clock_of
from statewright.errors import WrongEncryptionKey
from statewright.futures import resolve
from statewright.graph import START
from statewright.ids import DEFAULT_WORKSPACE
from statewright.runtime import CompiledGraph, StateGraph
from statewright.storage.locations import PostgresUrl
from statewright.storage.sqlite import SqliteSaver


def fork(
    thread: ThreadArgument,
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="The name of the new branch.")],
    source_branch: Annotated[str, typer.Option("--from", metavar="NAME", help="The branch to fork from.")] = "main",
    checkpoint: CheckpointOption = None,
    step: StepOption = None,
    graph: GraphOption = None,
    *,
    database: WorkspaceOptions,
) -> None:
    """Start a new branch at a checkpoint, by default the head. The nodes that were due there run again."""
    with open_workspace_saver(database, graph) as saver:

        def fork_at_checkpoint() -> str:
            saved = find_checkpoint(saver, thread, source_branch, checkpoint=checkpoint, step=step)
            config = {"thread_id": thread, "checkpoint_id": saved.id, "branch": saved.branch_key.branch}
            head = make_placeholder_graph(saver, saved.graph_version).fork(config, branch=branch)
            return f"{saved.checkpoint.step} ({saved.id}) as {head['configurable']['checkpoint_id']}"

        checkpoint_text = call_with_stand_ins(saver.serde, fork_at_checkpoint)
    say(f"Branch {branch!r} of thread {thread!r} begins at step {checkpoint_text}.")
    if database.workspace == DEFAULT_WORKSPACE:  # `resume` only works on the default workspace
        location_args = (*database.args, "--branch", branch)
        saved_run = SavedRun(thread=thread, target=graph or "FILE.py", location_args=location_args)
        say(f"Continue it with: {saved_run.resume_command()}")


def make_placeholder_graph(saver: Checkpointer, version: str | None) -> CompiledGraph:
    """Return a graph that accepts any thread, for methods of graphs that run no nodes, such as `fork` and `release`."""
    graph = StateGraph({}, version=version)

    def do_nothing(state: object) -> None: ...

    return graph.add_node("none", do_nothing).add_edge(START, "none").compile(saver)


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
            "--since", metavar="DURATION", help="Keep checkpoints newer than this, e.g. 90s, 15m, 12h, 7d or 4w."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print how much would be deleted, without deleting it.")
    ] = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """Delete old checkpoints. The head of each branch and the logs are kept."""
    if keep is None and since is None:
        raise UsageError("Specify which checkpoints to keep, with --keep N or --since DURATION.")
    age = read_duration(since) if since is not None else None
    with open_workspace_saver(database) as saver:
        policy = PrunePolicy(keep_last=keep, keep_since=saver.clock.now() - age if age is not None else None)
        if thread is not None:
            check_thread(saver, thread)
        pruned = call_with_stand_ins(
            saver.serde, lambda: resolve(saver.prune(policy, thread_id=thread, dry_run=dry_run))
        )
    verb = "Would delete" if dry_run else "Deleted"
    say(f"{verb} {pluralize(pruned.checkpoints, 'checkpoint')} of {pluralize(pruned.threads, 'thread')}.")


def copy(
    thread: ThreadArgument,
    copy_id: Annotated[str, typer.Argument(metavar="NEW", help="The id of the copy.")],
    *,
    database: WorkspaceOptions,
) -> None:
    """Copy a thread with its history, branches and open questions."""
    if not copy_id:
        raise UsageError("The id of the copy is empty. Choose another one.")
    with open_workspace_saver(database) as saver:
        check_thread(saver, thread)
        check_id_is_free(saver, copy_id)
        resolve(saver.copy_thread(thread, copy_id))
    say(f"Thread {copy_id!r} is a copy of {thread!r}.")


def rm(
    thread: ThreadArgument,
    force: Annotated[bool, typer.Option("--force", help="Delete the thread even if a run holds it.")] = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """Delete a thread permanently."""
    with open_workspace_saver(database) as saver:
        check_thread(saver, thread)
        if not force:
            check_is_idle(saver, thread, "Wait for it to end, or pass --force.")
        resolve(saver.delete_thread(thread))
    say(f"Deleted thread {thread!r}.")


def release(thread: ThreadArgument, *, database: WorkspaceOptions) -> None:
    """Release a thread from the run that holds it, e.g. a run on a crashed machine. A run that is still alive stops."""
    with open_workspace_saver(database) as saver:
        check_thread(saver, thread)
        lease = resolve(saver.lease(thread))
        if lease is not None:
            make_placeholder_graph(saver, None).release(thread)
    if lease is None:
        say(f"Thread {thread!r} is not held by a run.")
    else:
        say(f"Released thread {thread!r} from run {short_owner(lease.owner)}.")


def check_id_is_free(saver: Checkpointer, thread: str) -> None:
    """Raise UsageError if the thread already exists."""
    if resolve(saver.branches(thread)):
        raise UsageError(
            f"Thread {thread!r} already exists. Use another id, or delete it with: statewright threads rm {thread}"
        )


def check_is_idle(saver: Checkpointer, thread: str, advice: str) -> None:
    """Raise UsageError if a run holds the lease on the thread."""
    lease = resolve(saver.lease(thread))
    if lease is not None and is_held(lease, clock_of(saver).now()):
        raise UsageError(
            f"Thread {thread!r} is held by run {short_owner(lease.owner)}, whose lease ends at "
            f"{format_instant(lease.until)}. {advice}"
        )


_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")


def read_duration(text: str) -> timedelta:
    """Parse a duration such as `90s`, `12h` or `1d12h`. Raises UsageError."""
    if not _DURATION.fullmatch(text):
        raise UsageError(f"{text!r} is not a duration. Use a number and a unit, e.g. 90s, 15m, 12h, 7d or 4w.")
    try:
        parts = re.findall(r"([\d.]+)(\w)", text)
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts), timedelta())
    except OverflowError as error:
        raise UsageError(f"The duration {text!r} is too long. Use a shorter one.") from error


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

    The file is a small database, encrypted if --key-file is given.
    """
    check_output_path(file, "file", force=force)
    key = read_key(database.key_file)
    with open_workspace_saver(database, graph) as source:
        check_thread(source, thread)
        check_is_idle(source, thread, "Wait for it to end.")
        with (
            replace_atomically(file) as temporary_path,
            SqliteSaver(temporary_path, key=key, serde=source.serde) as target,
        ):
            count = transfer_thread(source, thread, target, thread)
    say(f"Exported thread {thread!r} with {pluralize(count, 'checkpoint')} to {file}.")


def import_(
    file: FileArgument,
    name: Annotated[
        str | None, typer.Option("--as", metavar="ID", help="The id of the imported thread. Default: its original id.")
    ] = None,
    graph: GraphOption = None,
    *,
    database: WorkspaceOptions,
) -> None:
    """Import a thread from a file written by `threads export`. Creates the database if there is none."""
    if not file.exists():
        raise UsageError(f"File {str(file)!r} does not exist. Use one that `statewright threads export` has written.")
    check_is_file(file)
    location = locate_database(database.database)
    if location is None:
        raise UsageError("There is no database to import into. Specify one with --database PATH or URL.")
    # The time of the last change of the original is restored, for which a server would take the time of its own clock.
    options = {"trusts_clocks": True} if isinstance(location, PostgresUrl) else {}
    with (
        _open_export(file, read_key(database.key_file)) as source,
        open_or_create_saver(location, database.key_file, serde=source.serde, **options) as database_saver,
        advise_naming_graph(source.serde, graph),
    ):
        target = saver_for_workspace(database_saver, database.workspace)
        allow_types(source, graph)
        thread = _only_thread(source, file)
        target_id = name if name is not None else thread
        check_id_is_free(target, target_id)
        count = transfer_thread(source, thread, target, target_id)
    say(f"Imported thread {target_id!r} with {pluralize(count, 'checkpoint')}.")


def _open_export(file: Path, key: bytes | None) -> SqliteSaver:
    """Open an exported file, with the key only if the file is encrypted: the target database may need the key, too."""
    if key is not None:
        with suppress(WrongEncryptionKey):
            return SqliteSaver(file)
    return SqliteSaver(file, key=key)


def _only_thread(source: SqliteSaver, file: Path) -> str:
    """Return the id of the only thread in an exported file."""
    thread_ids = [entry.thread_id for entry in resolve(source.threads())]
    if len(thread_ids) != 1:
        raise UsageError(
            f"{str(file)!r} contains {pluralize(len(thread_ids), 'thread')}, but an exported file contains one. Export "
            f"the thread first, with: statewright threads export THREAD FILE --database {file}"
        )
    return thread_ids[0]
