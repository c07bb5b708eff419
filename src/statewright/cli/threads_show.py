"""`statewright threads show`: where one thread stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.options import (
    BranchOption,
    DatabaseOption,
    GraphOption,
    JsonOption,
    KeyOption,
    ThreadArgument,
    WorkspaceOption,
)
from statewright.cli.printing import say
from statewright.ids import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from statewright.checkpoint import Lease, SavedCheckpoint

CheckpointOption = Annotated[
    str | None, typer.Option("--checkpoint", metavar="ID", help="The id of a checkpoint. Default: the head.")
]
StepOption = Annotated[
    int | None, typer.Option("--step", metavar="N", help="The step of a checkpoint, in place of its id.")
]


def show(
    thread: ThreadArgument,
    branch: BranchOption = "main",
    checkpoint: CheckpointOption = None,
    step: StepOption = None,
    graph: GraphOption = None,
    json: JsonOption = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Show a thread: its values, what is next, its open questions, its branches, and who holds it."""
    from statewright.cli.database import found_checkpoint, opened_in
    from statewright.cli.describe import status_of
    from statewright.cli.known_types import allow_types, pointing_to_graph
    from statewright.cli.show import as_json
    from statewright.futures import resolve

    with opened_in(workspace, database, key_file) as saver, pointing_to_graph(saver.serde, graph):
        allow_types(saver, graph)
        saved = found_checkpoint(saver, thread, branch, checkpoint=checkpoint, step=step)
        branches, lease = resolve(saver.branches(thread)), resolve(saver.lease(thread))
    status = status_of(saved, lease) if checkpoint is None and step is None else None
    if json:
        say(as_json(record(saved, status, branches, lease)))
    else:
        _print(saved, status, branches, lease)


def record(saved: SavedCheckpoint, status: str | None, branches: Sequence[str], lease: Lease | None) -> dict[str, Any]:
    """What there is to say of a thread at a checkpoint, as data."""
    from statewright.cli.describe import checkpoint_record, lease_record

    return {
        "thread": saved.line.thread_id,
        "status": status,
        **checkpoint_record(saved),
        "branches": branches,
        "lease": lease_record(lease),
        "values": saved.checkpoint.values,
    }


def _print(saved: SavedCheckpoint, status: str | None, branches: Sequence[str], lease: Lease | None) -> None:
    from statewright.cli.describe import due_nodes
    from statewright.cli.following import told_question
    from statewright.cli.show import print_state
    from statewright.cli.table import moment, print_fields

    fields = [
        ("thread", saved.line.thread_id),
        *([("status", status)] if status is not None else []),  # only a head has one
        ("checkpoint", saved.id),
        ("step", f"{saved.checkpoint.step} ({saved.source}), {moment(saved.created_at)}"),
        ("branch", saved.line.branch),
        ("branches", ", ".join(branches)),
        ("next", ", ".join(due_nodes(saved)) or "nothing"),
        ("held by", _holder(lease)),
        *(("waits for", told_question(one)) for one in saved.pending.open),
        *(("error", error) for error in saved.pending.errors.values()),
    ]
    print_fields(fields)
    say("\nvalues")
    print_state(saved.checkpoint.values, json_wanted=False)


def _holder(lease: Lease | None) -> str:
    from statewright.checkpoint import short_owner
    from statewright.cli.describe import is_held
    from statewright.cli.table import moment

    if lease is None:
        return "nobody"
    return f"run {short_owner(lease.owner)}, {'until' if is_held(lease) else 'lapsed at'} {moment(lease.until)}"
