"""Commands that inspect saved threads: `threads show`, `ls`, `history` and `diff`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from statewright.checkpoint import Checkpointer, Lease, SavedCheckpoint, short_owner
from statewright.cli.console.interrupts import format_interrupt
from statewright.cli.console.options import BranchOption, GraphOption, JsonOption, ThreadArgument, WorkspaceOptions
from statewright.cli.console.printing import say
from statewright.cli.console.table import (
    Column,
    PrintableConsole,
    format_instant,
    print_fields,
    print_list,
    print_records,
    print_state,
)
from statewright.cli.console.values import jsonable, to_json
from statewright.cli.db.database import call_with_stand_ins, check_thread, find_checkpoint, open_workspace_saver
from statewright.cli.threads.describe import (
    checkpoint_record,
    due_nodes,
    due_tasks,
    is_held,
    lease_record,
    task_label,
    thread_status,
)
from statewright.errors import DamagedDatabase
from statewright.futures import resolve
from statewright.graph import START
from statewright.runtime import diff as diff_of
from statewright.storage.checkpoints.saver import DatabaseSaver

CheckpointOption = Annotated[
    str | None, typer.Option("--checkpoint", metavar="ID", help="The checkpoint, by its id. Default: the head.")
]
StepOption = Annotated[int | None, typer.Option("--step", metavar="N", help="The checkpoint, by its step.")]


def show(
    thread: ThreadArgument,
    branch: BranchOption = "main",
    checkpoint: CheckpointOption = None,
    step: StepOption = None,
    graph: GraphOption = None,
    json: JsonOption = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """Show a thread: its values, next nodes, open questions and branches, and the run that holds it."""
    with open_workspace_saver(database, graph) as saver:
        saved = find_checkpoint(saver, thread, branch, checkpoint=checkpoint, step=step)
        branches, lease = resolve(saver.branches(thread)), resolve(saver.lease(thread))
        now = saver.clock.now()
    status = thread_status(saved, lease, now) if checkpoint is None and step is None else None
    if json:
        record = {"thread": thread, "status": status, **checkpoint_record(saved)}
        say(
            to_json(
                {**record, "branches": branches, "lease": lease_record(lease, now), "values": saved.checkpoint.values}
            )
        )
        return
    fields = [
        ("thread", thread),
        *([("status", status)] if status is not None else []),  # only the head has a status
        ("checkpoint", saved.id),
        ("step", f"{saved.checkpoint.step} ({saved.source}), {format_instant(saved.created_at)}"),
        ("branch", saved.branch_key.branch),
        ("branches", ", ".join(branches)),
        ("next", ", ".join(due_nodes(saved)) or "nothing"),
        ("held by", _format_holder(lease, now)),
        *(("waits for", format_interrupt(interrupt)) for interrupt in saved.pending.open),
        *(("error", error) for error in saved.pending.errors.values()),
    ]
    print_fields(fields)
    say("\nvalues")
    print_state(saved.checkpoint.values, as_json=False)


def _format_holder(lease: Lease | None, now: datetime) -> str:
    if lease is None:
        return "no run"
    until = "until" if is_held(lease, now) else "expired at"
    return f"run {short_owner(lease.owner)}, {until} {format_instant(lease.until)}"


# -- ls


def ls(
    prefix: Annotated[str, typer.Option("--prefix", metavar="P", help="Only threads whose id starts with P.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="List at most N threads.")] = 50,
    json: JsonOption = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """List threads with their status and next nodes, most recently changed first."""
    with open_workspace_saver(database) as saver:
        records: list[dict[str, Any]] = [
            {"thread": entry.thread_id, **_thread_summary(saver, entry.thread_id), "changed_at": entry.changed_at}
            for entry in resolve(saver.threads(prefix=prefix, limit=limit))
        ]
    print_list(
        records,
        {
            Column("THREAD", keep_words=True): lambda record: record["thread"],
            Column("STATUS", keep_words=True): lambda record: record["status"],
            Column("STEP", keep_words=True, right=True): lambda record: (
                "" if record["step"] is None else record["step"]
            ),
            Column("NEXT"): lambda record: ", ".join(record["next"]),
            Column("CHANGED", keep_words=True): lambda record: format_instant(record["changed_at"]),
        },
        as_json=json,
        if_empty=f"No thread ids start with {prefix!r}." if prefix else "There are no threads.",
    )


def _thread_summary(saver: DatabaseSaver[Any], thread: str) -> dict[str, Any]:
    """Return the status, step and next nodes of a thread. An unreadable thread is listed too, as `damaged`."""
    try:
        head = call_with_stand_ins(saver.serde, lambda: resolve(saver.load(thread)))
    except DamagedDatabase:
        return {"status": "damaged", "step": None, "next": []}
    if head is None:
        return {"status": "", "step": None, "next": []}
    status = thread_status(head, resolve(saver.lease(thread)), saver.clock.now())
    return {"status": status, "step": head.checkpoint.step, "next": due_nodes(head)}


# -- history


def history(
    thread: ThreadArgument,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="Only this branch and its ancestors. Default: all branches."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="List only the N newest checkpoints.")
    ] = None,
    graph: GraphOption = None,
    json: JsonOption = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """List the checkpoints of a thread, newest first, with the nodes that ran and the next nodes.

    With --json, each checkpoint includes the values of the state.
    """
    with open_workspace_saver(database, graph) as saver:
        if json:
            checkpoints = read_history(saver, thread, branch, limit)
        else:
            # One more than is printed: the agents that ran before a checkpoint are read from the checkpoint before it.
            count = limit + 1 if limit is not None else None
            checkpoints = call_with_stand_ins(saver.serde, lambda: read_history(saver, thread, branch, count))
    if json:
        say(to_json([{**checkpoint_record(saved), "values": saved.checkpoint.values} for saved in checkpoints]))
    else:
        _print_history(checkpoints, limit)


def read_history(saver: Checkpointer, thread: str, branch: str | None, limit: int | None) -> Sequence[SavedCheckpoint]:
    """Return checkpoints of a thread, newest first. Raises CheckpointNotFound for an unknown thread or branch."""
    check_thread(saver, thread)
    if branch is not None:
        find_checkpoint(saver, thread, branch)
    return resolve(saver.history(thread, branch=branch, limit=limit))


def _print_history(checkpoints: Sequence[SavedCheckpoint], limit: int | None) -> None:
    by_id: dict[str | None, SavedCheckpoint] = {saved.id: saved for saved in checkpoints}
    checkpoints = checkpoints[:limit]
    cells: dict[Column, Callable[[SavedCheckpoint], object]] = {
        Column("STEP", keep_words=True, right=True): lambda saved: saved.checkpoint.step,
        Column("CHECKPOINT", keep_words=True): lambda saved: saved.id,
        Column("BRANCH"): lambda saved: saved.branch_key.branch,
        Column("RAN"): lambda saved: _format_origin(saved, by_id.get(saved.parent_id)),
        Column("NEXT"): lambda saved: ", ".join(due_tasks(saved)),
        Column("AT", keep_words=True): lambda saved: format_instant(saved.created_at)[5:],  # without the year
    }
    if len({saved.branch_key.branch for saved in checkpoints}) <= 1:
        del cells[Column("BRANCH")]
    print_records(checkpoints, cells)


def _format_origin(saved: SavedCheckpoint, parent: SavedCheckpoint | None) -> str:
    """Return the nodes that ran before a checkpoint; `(input)`, `(fork)` or `NODE (update)` if it has another origin.

    Turns of a network are labelled with their agents, which are read from the due tasks of the parent checkpoint.
    """
    if saved.source in ("input", "fork"):
        return f"({saved.source})"
    labels = {task.node: task_label(task) for task in parent.checkpoint.frontier} if parent is not None else {}
    names: list[str] = [node for node in dict.fromkeys(saved.metadata.get("nodes", ())) if node != START]
    nodes = ", ".join(labels.get(node, node) for node in names)
    return f"{nodes} (update)" if saved.source == "update" else nodes


# -- diff


def diff(
    thread: ThreadArgument,
    a: Annotated[str, typer.Argument(metavar="A", help="The first checkpoint, by its id or its step on the branch.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The second checkpoint.")],
    branch: BranchOption = "main",
    graph: GraphOption = None,
    json: JsonOption = False,
    *,
    database: WorkspaceOptions,
) -> None:
    """Show the differences between the values of two checkpoints."""
    with open_workspace_saver(database, graph) as saver:
        before, after = (find_named_checkpoint(saver, thread, branch, name) for name in (a, b))
    if json:
        say(to_json(diff_record(before, after)))
    else:
        _print_diff(before, after)


def find_named_checkpoint(saver: Checkpointer, thread: str, branch: str, name: str) -> SavedCheckpoint:
    """Return a checkpoint by its step if `name` is a number of fewer than 10 digits, else by its id."""
    is_step = name.isdecimal() and len(name) < 10
    selector: Any = {"step": int(name)} if is_step else {"checkpoint": name}
    return find_checkpoint(saver, thread, branch, **selector)


def diff_record(before: SavedCheckpoint, after: SavedCheckpoint) -> dict[str, Any]:
    """Return the differences of two checkpoints as data.

    Each changed field has its values under `before` and `after`. A checkpoint without the field is left out.
    """
    names = ("checkpoint", "branch", "step", "next")
    sides = [{name: checkpoint_record(saved)[name] for name in names} for saved in (before, after)]
    values: dict[str, dict[str, Any]] = {}
    for key, old, new in iter_changes(before, after):
        values[key] = {**({"before": old[0]} if old else {}), **({"after": new[0]} if new else {})}
    return {"thread": before.branch_key.thread_id, "before": sides[0], "after": sides[1], "values": values}


def iter_changes(before: SavedCheckpoint, after: SavedCheckpoint) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield the name, the old value and the new value of each field that differs.

    Each value is in a list of its own, which is empty if the checkpoint does not have the field.
    """
    old, new = jsonable(before.checkpoint.values), jsonable(after.checkpoint.values)
    # Compared as text, because 1, 1.0 and True are equal in Python.
    texts = ({key: to_json(value) for key, value in values.items()} for values in (old, new))
    for key in diff_of(*texts):
        yield key, [old[key]] if key in old else [], [new[key]] if key in new else []


def _print_diff(before: SavedCheckpoint, after: SavedCheckpoint) -> None:
    terminal = PrintableConsole(highlight=False)
    for sign, saved, style in (("-", before, "red"), ("+", after, "green")):
        terminal.print(
            Text(f"{sign} step {saved.checkpoint.step}  {saved.id}  {saved.branch_key.branch}", style), soft_wrap=True
        )
    changes = list(iter_changes(before, after))
    for key, old, new in changes:
        terminal.print(Text(f"\n{key}", "bold"), soft_wrap=True)
        for line in diff_lines(old, new):
            style = {"-": "red", "+": "green"}.get(line[0], "")
            terminal.print(Text(f"  {line}", style), soft_wrap=True)
    if not changes:
        say("\nThe values are equal.")


def diff_lines(old: list[Any], new: list[Any]) -> list[str]:
    """Return the lines of a field's diff, with two lines of context. The values are as `iter_changes` yields them."""
    old_lines, new_lines = (to_json(values[0]).splitlines() if values else [] for values in (old, new))
    lines = list(difflib.unified_diff(old_lines, new_lines, n=2, lineterm=""))[2:]
    # The header of a hunk becomes "...", or nothing if the hunk starts at the first line.
    return ["..." if line.startswith("@@") else line for line in lines if not line.startswith(_FIRST_HUNK_HEADERS)]


_FIRST_HUNK_HEADERS: Final = ("@@ -1 ", "@@ -1,", "@@ -0,0 ")
"""The beginnings of the header of a hunk that starts at the first line."""
