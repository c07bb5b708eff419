"""`statewright threads history`: how a thread came to where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.options import DatabaseOption, GraphOption, JsonOption, KeyOption, ThreadArgument, WorkspaceOption
from statewright.cli.printing import say
from statewright.ids import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from statewright.checkpoint import Checkpointer, SavedCheckpoint


def history(
    thread: ThreadArgument,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="Only this branch and its ancestors. Default: all branches."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="List only the newest N.")] = None,
    graph: GraphOption = None,
    json: JsonOption = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """List the checkpoints of a thread, newest first: which nodes ran, and which were due next.

    With --json, each has the values of the state too.
    """
    from statewright.cli.database import opened_in
    from statewright.cli.known_types import allow_types, pointing_to_graph, with_stand_ins
    from statewright.cli.show import as_json

    with opened_in(workspace, database, key_file) as saver, pointing_to_graph(saver.serde, graph):
        allow_types(saver, graph)
        if json:
            found = read_history(saver, thread, branch, limit)
        else:  # values are not shown, so nobody has to know their types
            # One more than is shown: which agent ran stands in the checkpoint before.
            more = limit + 1 if limit is not None else None
            found = with_stand_ins(saver.serde, lambda: read_history(saver, thread, branch, more))
    if json:
        from statewright.cli.describe import checkpoint_record

        say(as_json([{**checkpoint_record(one), "values": one.checkpoint.values} for one in found]))
    else:
        _print(found, limit)


def read_history(saver: Checkpointer, thread: str, branch: str | None, limit: int | None) -> Sequence[SavedCheckpoint]:
    """The checkpoints that were asked for. Raises CheckpointNotFound for a thread or branch that does not exist."""
    from statewright.cli.database import check_thread, found_checkpoint
    from statewright.futures import resolve

    check_thread(saver, thread)
    if branch is not None:
        found_checkpoint(saver, thread, branch)
    return resolve(saver.history(thread, branch=branch, limit=limit))


def _print(found: Sequence[SavedCheckpoint], limit: int | None) -> None:
    from statewright.cli.describe import due_tasks
    from statewright.cli.table import Column, moment, print_table

    by_id = {one.id: one for one in found}
    several = len({one.line.branch for one in found[:limit]}) > 1
    columns = [
        Column("STEP", whole=True, right=True),
        Column("CHECKPOINT", whole=True),
        *([Column("BRANCH")] if several else []),
        Column("RAN"),
        Column("NEXT"),
        Column("AT", whole=True),
    ]
    rows = [
        (
            one.checkpoint.step,
            one.id,
            *([one.line.branch] if several else []),
            _ran(one, by_id.get(one.parent_id) if one.parent_id is not None else None),
            ", ".join(due_tasks(one)),
            moment(one.created_at)[5:],
        )
        for one in found[:limit]
    ]
    print_table(columns, rows)


def _ran(saved: SavedCheckpoint, parent: SavedCheckpoint | None) -> str:
    """Return what led to a checkpoint: the nodes that ran, or what else it was.

    Agents of a network are named by the tasks that the checkpoint before had due.
    """
    from statewright.cli.describe import task_label
    from statewright.graph import START

    if saved.source in ("input", "fork"):
        return f"({saved.source})"
    labels = {task.node: task_label(task) for task in parent.checkpoint.frontier} if parent is not None else {}
    names: list[str] = [node for node in dict.fromkeys(saved.metadata.get("nodes", ())) if node != START]
    nodes = ", ".join(labels.get(node, node) for node in names)
    return f"{nodes} (update)" if saved.source == "update" else nodes
