"""`statewright threads ls`: which threads there are, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.options import DatabaseOption, JsonOption, KeyOption, WorkspaceOption
from statewright.cli.printing import say
from statewright.ids import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from statewright.storage.sqlite import SqliteSaver


def ls(
    prefix: Annotated[str, typer.Option("--prefix", metavar="P", help="Only threads whose ids begin with P.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="List at most N.")] = 50,
    json: JsonOption = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """List threads, most recently changed first, with their status and the nodes that are next."""
    from statewright.cli.database import opened_in
    from statewright.cli.show import as_json

    with opened_in(workspace, database, key_file) as saver:
        found = entries(saver, prefix, limit)
    if json:
        say(as_json(found))
    elif found:
        _print(found)
    else:
        say(f"There are no threads whose ids begin with {prefix!r}." if prefix else "There are no threads.")


def entries(saver: SqliteSaver, prefix: str, limit: int) -> list[dict[str, Any]]:
    """What there is to say of each thread in a list."""
    from statewright.futures import resolve

    return [
        {"thread": entry.thread_id, **_standing(saver, entry.thread_id), "changed_at": entry.changed_at}
        for entry in resolve(saver.threads(prefix=prefix, limit=limit))
    ]


def _standing(saver: SqliteSaver, thread: str) -> dict[str, Any]:
    """Where a thread stands. One that cannot be read does not hide the others."""
    from statewright.cli.describe import due_nodes, status_of
    from statewright.cli.known_types import with_stand_ins
    from statewright.errors import DamagedDatabase
    from statewright.futures import resolve

    try:
        head = with_stand_ins(saver.serde, lambda: resolve(saver.load(thread)))
    except DamagedDatabase:
        return {"status": "damaged", "step": None, "next": []}
    if head is None:
        return {"status": "", "step": None, "next": []}
    status = status_of(head, resolve(saver.lease(thread)))
    return {"status": status, "step": head.checkpoint.step, "next": due_nodes(head)}


def _print(found: list[dict[str, Any]]) -> None:
    from statewright.cli.table import Column, moment, print_table

    columns = (
        Column("THREAD", whole=True),
        Column("STATUS", whole=True),
        Column("STEP", whole=True, right=True),
        Column("NEXT"),
        Column("CHANGED", whole=True),
    )
    rows = [
        (one["thread"], one["status"], _shown(one["step"]), ", ".join(one["next"]), moment(one["changed_at"]))
        for one in found
    ]
    print_table(columns, rows)


def _shown(step: int | None) -> str:
    return "" if step is None else str(step)
