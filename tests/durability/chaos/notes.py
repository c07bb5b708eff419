"""The notes of the children: a file for each child, with a line for everything that it does or learns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from statewright import Instrument
from statewright.checkpoint import TaskResult


class Notes:
    """Writes the notes of a child."""

    def __init__(self, folder: Path, generation: int) -> None:
        self._marks = folder / "marks"
        self._marks.mkdir(exist_ok=True)
        path = folder / f"notes-{generation:05}.log"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, *, durable: bool = False, **fields: Any) -> None:
        os.write(self._file, json.dumps({"kind": kind, **fields}).encode() + b"\n")
        if durable:
            os.fsync(self._file)

    def is_first(self, name: str) -> bool:
        """Return whether this is the first call with a name, by any child."""
        try:
            os.close(os.open(self._marks / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class DiscardedNotes(Notes):
    """Discards notes, for runs that are not killed."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def write(self, kind: str, *, durable: bool = False, **fields: Any) -> None:
        pass

    def is_first(self, name: str) -> bool:
        is_first = name not in self._names
        self._names.add(name)
        return is_first


def read_notes(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of the notes of a child."""
    if not path.exists():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines]


def branch_of(run_id: str) -> str:
    """Return the branch that a run advances: its id begins with the branch, unless that is `main`."""
    branch, slash, _ = run_id.partition("/")
    return branch if slash else "main"


class NoteTaker(Instrument):
    """Notes the supersteps that start, and the commits and results that are reported."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_superstep(self, event: Any) -> None:
        tasks = [task.id for task in event.data]
        self._notes.write("superstep", branch=_branch_of_event(event), step=event.step, tasks=tasks)

    def on_commit(self, event: Any) -> None:
        checkpoint, key = event.data.checkpoint, [*event.data.branch_key]
        self._notes.write("committed", branch=key, step=checkpoint.step, id=checkpoint.id, source=event.data.source)

    def on_task_finished(self, event: Any) -> None:
        if type(event.data) is TaskResult:
            self._notes.write("finished", branch=_branch_of_event(event), node=event.node, task=event.data.task.id)


def _branch_of_event(event: Any) -> list[str]:
    return [event.thread_id, event.namespace, branch_of(event.run_id)]
