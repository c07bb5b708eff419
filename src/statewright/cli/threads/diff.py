"""`statewright threads diff`: compare two checkpoints of a thread."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from statewright.checkpoint import Checkpointer, SavedCheckpoint
from statewright.cli.console.options import (
    BranchOption,
    DatabaseOption,
    GraphOption,
    JsonOption,
    KeyOption,
    ThreadArgument,
    WorkspaceOption,
)
from statewright.cli.console.printing import console, say
from statewright.cli.console.values import jsonable, to_json
from statewright.cli.db.database import find_checkpoint, open_workspace_saver
from statewright.cli.threads.describe import checkpoint_record
from statewright.ids import DEFAULT_WORKSPACE
from statewright.runtime import diff as diff_of


def diff(
    thread: ThreadArgument,
    a: Annotated[str, typer.Argument(metavar="A", help="A checkpoint: its id, or a step of the branch.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The checkpoint to compare with.")],
    branch: BranchOption = "main",
    graph: GraphOption = None,
    json: JsonOption = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Show the differences between the values of two checkpoints."""
    with open_workspace_saver(workspace, database, key_file, graph) as saver:
        before, after = (named_checkpoint(saver, thread, branch, name) for name in (a, b))
    if json:
        say(to_json(diff_record(before, after)))
    else:
        _print(before, after)


def named_checkpoint(saver: Checkpointer, thread: str, branch: str, name: str) -> SavedCheckpoint:
    """Return a checkpoint by its step if the name is a short number, else by its id."""
    is_step = name.isdecimal() and len(name) < 10
    selector: Any = {"step": int(name)} if is_step else {"checkpoint": name}
    return find_checkpoint(saver, thread, branch, **selector)


def diff_record(before: SavedCheckpoint, after: SavedCheckpoint) -> dict[str, Any]:
    """Return the differences as data. A side in which a field is absent is left out."""
    names = ("checkpoint", "branch", "step", "next")
    sides = [{name: checkpoint_record(saved)[name] for name in names} for saved in (before, after)]
    values: dict[str, dict[str, Any]] = {}
    for key, was, now in iter_changes(before, after):
        values[key] = {**({"before": was[0]} if was else {}), **({"after": now[0]} if now else {})}
    return {"thread": before.line.thread_id, "before": sides[0], "after": sides[1], "values": values}


def iter_changes(before: SavedCheckpoint, after: SavedCheckpoint) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield the fields that differ, with a list of the value before and after; the list is empty if absent."""
    old, new = jsonable(before.checkpoint.values), jsonable(after.checkpoint.values)
    # Compared as text, because 1, 1.0 and True are equal in Python.
    texts = ({key: to_json(value) for key, value in values.items()} for values in (old, new))
    for key in diff_of(*texts):
        yield key, [old[key]] if key in old else [], [new[key]] if key in new else []


def _print(before: SavedCheckpoint, after: SavedCheckpoint) -> None:
    terminal = console(highlight=False)
    for sign, saved, style in (("-", before, "red"), ("+", after, "green")):
        terminal.print(
            Text(f"{sign} step {saved.checkpoint.step}  {saved.id}  {saved.line.branch}", style), soft_wrap=True
        )
    count = 0
    for key, was, now in iter_changes(before, after):
        count += 1
        terminal.print(Text(f"\n{key}", "bold"), soft_wrap=True)
        for line in diff_lines(was, now):
            style = {"-": "red", "+": "green"}.get(line[0], "")
            terminal.print(Text(f"  {line}", style), soft_wrap=True)
    if not count:
        say("\nThe values are equal.")


def diff_lines(was: list[Any], now: list[Any]) -> list[str]:
    """Return the diff of a value, line by line, with two lines of context."""
    old, new = (to_json(values[0]).splitlines() if values else [] for values in (was, now))
    lines = list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
    return ["..." if line.startswith("@@") else line for line in lines if not _is_first_hunk(line)]


def _is_first_hunk(line: str) -> bool:
    """Return True for the header of a hunk that starts at the first line."""
    return line.startswith(("@@ -1,", "@@ -1 ", "@@ -0,0 ", "@@ -1,0 "))
