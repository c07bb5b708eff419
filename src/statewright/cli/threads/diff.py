"""`statewright threads diff`: what differs between two checkpoints of a thread."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.console.options import (
    BranchOption,
    DatabaseOption,
    GraphOption,
    JsonOption,
    KeyOption,
    ThreadArgument,
    WorkspaceOption,
)
from statewright.cli.console.printing import say
from statewright.ids import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statewright.checkpoint import Checkpointer, SavedCheckpoint


def diff(
    thread: ThreadArgument,
    a: Annotated[str, typer.Argument(metavar="A", help="A checkpoint: its id, or a step of the branch.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The checkpoint to compare it with.")],
    branch: BranchOption = "main",
    graph: GraphOption = None,
    json: JsonOption = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Show which values differ between two checkpoints, and how."""
    from statewright.cli.console.values import as_json
    from statewright.cli.db.database import opened_in
    from statewright.cli.db.known_types import allow_types, pointing_to_graph

    with opened_in(workspace, database, key_file) as saver, pointing_to_graph(saver.serde, graph):
        allow_types(saver, graph)
        before, after = (named_checkpoint(saver, thread, branch, name) for name in (a, b))
    if json:
        say(as_json(record(before, after)))
    else:
        _print(before, after)


def named_checkpoint(saver: Checkpointer, thread: str, branch: str, name: str) -> SavedCheckpoint:
    """The checkpoint that a text names: by its step if it is a short number, else by its id."""
    from statewright.cli.db.database import found_checkpoint

    is_step = name.isdecimal() and len(name) < 10
    named: Any = {"step": int(name)} if is_step else {"checkpoint": name}
    return found_checkpoint(saver, thread, branch, **named)


def record(before: SavedCheckpoint, after: SavedCheckpoint) -> dict[str, Any]:
    """What differs, as data. A side where a field is absent is left out."""
    from statewright.cli.threads.describe import checkpoint_record

    shown = ("checkpoint", "branch", "step", "next")
    sides = [{name: checkpoint_record(one)[name] for name in shown} for one in (before, after)]
    values: dict[str, dict[str, Any]] = {}
    for key, was, now in changes(before, after):
        values[key] = {**({"before": was[0]} if was else {}), **({"after": now[0]} if now else {})}
    return {"thread": before.line.thread_id, "before": sides[0], "after": sides[1], "values": values}


def changes(before: SavedCheckpoint, after: SavedCheckpoint) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """The fields that differ as they are shown, with their values in both; nothing where they are absent."""
    from statewright.cli.console.values import as_json, jsonable
    from statewright.runtime import diff as diff_of

    old, new = jsonable(before.checkpoint.values), jsonable(after.checkpoint.values)
    # Compared as text: for Python 1, 1.0 and True are equal.
    texts = ({key: as_json(value) for key, value in one.items()} for one in (old, new))
    for key in diff_of(*texts):
        yield key, [old[key]] if key in old else [], [new[key]] if key in new else []


def _print(before: SavedCheckpoint, after: SavedCheckpoint) -> None:
    from rich.text import Text

    from statewright.cli.console.printing import console

    terminal = console(highlight=False)
    for sign, one, style in (("-", before, "red"), ("+", after, "green")):
        terminal.print(Text(f"{sign} step {one.checkpoint.step}  {one.id}  {one.line.branch}", style), soft_wrap=True)
    count = 0
    for key, was, now in changes(before, after):
        count += 1
        terminal.print(Text(f"\n{key}", "bold"), soft_wrap=True)
        for line in value_lines(was, now):
            style = {"-": "red", "+": "green"}.get(line[0], "")
            terminal.print(Text(f"  {line}", style), soft_wrap=True)
    if not count:
        say("\nThe values are the same.")


def value_lines(was: list[Any], now: list[Any]) -> list[str]:
    """What changed of a value, line by line, with a little of what is around it."""
    from statewright.cli.console.values import as_json

    old, new = (as_json(one[0]).splitlines() if one else [] for one in (was, now))
    lines = list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
    return ["..." if line.startswith("@@") else line for line in lines if not _is_first_place(line)]


def _is_first_place(line: str) -> bool:
    """Whether a line says that what follows begins with the beginning."""
    return line.startswith(("@@ -1,", "@@ -1 ", "@@ -0,0 ", "@@ -1,0 "))
