"""`statewright threads ls`: which threads there are, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.database import DatabaseOption, JsonOption, KeyOption

if TYPE_CHECKING:
    from statewright.storage.sqlite import SqliteSaver


def ls(
    prefix: Annotated[str, typer.Option("--prefix", metavar="P", help="Only threads whose ids begin so.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = 50,
    json: JsonOption = False,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """List threads, the last changed first: where they stand, and which nodes are next."""
    from statewright.cli.database import opened
    from statewright.cli.show import as_json

    with opened(database, key_file) as saver:
        found = entries(saver, prefix, limit)
    if json:
        print(as_json(found))
    elif found:
        _print(found)
    else:
        print(f"There are no threads whose ids begin with {prefix!r}." if prefix else "There are no threads.")


def entries(saver: SqliteSaver, prefix: str, limit: int) -> list[dict[str, Any]]:
    """What there is to say of each thread in a list."""
    from statewright.cli.describe import due_nodes, status_of
    from statewright.cli.known_types import with_stand_ins
    from statewright.runtime.saver_calls import resolved

    found: list[dict[str, Any]] = []
    for entry in resolved(saver.threads(prefix=prefix, limit=limit)):
        thread: str = entry.thread_id
        head = with_stand_ins(saver.serde, lambda thread=thread: resolved(saver.load(thread)))
        status = status_of(head, resolved(saver.lease(thread))) if head is not None else ""
        step = head.checkpoint.step if head is not None else None
        following = due_nodes(head) if head is not None else []
        found.append(
            {"thread": thread, "status": status, "step": step, "next": following, "changed_at": entry.changed_at}
        )
    return found


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
        (one["thread"], one["status"], one["step"], ", ".join(one["next"]), moment(one["changed_at"])) for one in found
    ]
    print_table(columns, rows)
