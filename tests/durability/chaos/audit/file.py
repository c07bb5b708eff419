"""Checks of the file: it is intact, its branches have no gaps, and nothing that was saved is missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.durability.chaos.actions import is_copy
from tests.durability.chaos.audit.state import (
    AuditState,
    BranchHistory,
    BrokenPromise,
    Note,
    branch_key,
    iter_checkpoints,
    task_key,
    thread_branch,
)
from tests.durability.chaos.shapes import SHAPES

from statewright.checkpoint import BranchKey, SavedCheckpoint

_BRANCHES: Final = "SELECT threads.thread_id, namespace, branch FROM lines JOIN threads ON threads.id = lines.thread"
_ORPHANS: Final = {
    **{
        table: f"SELECT place FROM {table} WHERE place >> 32 NOT IN (SELECT id FROM lines)"
        for table in ("records", "segments", "pending", "jumps")
    },
    "grown": "SELECT line, field FROM grown WHERE line NOT IN (SELECT id FROM lines)",
    "events": "SELECT place FROM events WHERE place >> 32 NOT IN (SELECT id FROM runs)",
    "lines": "SELECT id FROM lines WHERE thread NOT IN (SELECT id FROM threads)",
    "runs": "SELECT id FROM runs WHERE thread NOT IN (SELECT id FROM threads)",
    "threads": "SELECT thread_id FROM threads WHERE id NOT IN (SELECT thread FROM lines)",
}
"""Queries for rows that belong to no branch (a row of `lines`), run or thread, by table."""


class FileAudit:
    """Reads the file into the state."""

    def __init__(self, state: AuditState) -> None:
        self._state = state

    def read(self, app: Any, path: Path, notes: Sequence[Note]) -> None:
        """Add the new checkpoints of all branches, and check the file."""
        with closing(sqlite3.connect(path)) as connection:
            errors = connection.execute("PRAGMA integrity_check").fetchall()
            keys = {BranchKey(*row) for row in connection.execute(_BRANCHES)}
            orphans = {table: connection.execute(statement).fetchall() for table, statement in _ORPHANS.items()}
        if errors != [("ok",)]:
            raise BrokenPromise(f"integrity_check reports {errors[:5]}.")
        if any(orphans.values()):
            raise BrokenPromise(f"Rows belong to no branch, run or thread: {orphans}.")
        for key in sorted(keys, key=lambda key: (key.branch != "main", key)):  # ancestors first
            if key.thread_id not in self._state.done:
                self._read_branch(app, key)
        self._state.present = keys
        self._add_skipped(notes)

    def check_missing_branches(self) -> None:
        """Check that a branch is deleted only with the task that had called its graph."""
        for key in self._state.histories.keys() - self._state.present:
            if not self._state.is_consumed(key):
                raise BrokenPromise(f"{key} is missing, though the task that called its graph has not finished.")

    def _read_branch(self, app: Any, key: BranchKey) -> None:
        history = self._state.histories.setdefault(key, BranchHistory())
        added: list[SavedCheckpoint] = []
        for saved in iter_checkpoints(app, key):
            if history.ids and saved.id == history.ids[-1]:
                self._add_pending(history, key, saved)
                break
            added.append(saved)
        else:
            if history.ids:
                raise BrokenPromise(f"Checkpoint {history.ids[-1]} of {key} was saved, and is missing.")
        for saved in reversed(added):
            self._add_checkpoint(history, key, saved)

    def _add_checkpoint(self, history: BranchHistory, key: BranchKey, saved: SavedCheckpoint) -> None:
        """Add a checkpoint. Check that its branch has no gaps and repeats no id, except those of ancestors of forks."""
        state, before, step = self._state, history.ids[-1] if history.ids else None, saved.checkpoint.step
        is_next = step > history.step if state.durability == "exit" else step == history.step + 1
        if not is_next or saved.parent_id != before:
            raise BrokenPromise(
                f"Checkpoint {saved.id} of {key} has step {step} and parent {saved.parent_id}, "
                f"but follows {before}, which has step {history.step}."
            )
        is_own = (key.thread_id, saved.id) not in state.checkpoint_ids
        if not is_own and (history.has_own or key.branch == "main"):
            raise BrokenPromise(f"Checkpoint {saved.id} of {key} was committed twice.")
        due = frozenset(task.id for task in saved.checkpoint.frontier)
        if is_own and not history.has_own and key.branch != "main" and not key.namespace:
            self._check_fork(history, key, saved, due)
        state.checkpoint_ids.add((key.thread_id, saved.id))
        state.finished |= {(*thread_branch(key), task_id) for task_id in history.due - due}
        history.ids.append(saved.id)
        history.step, history.due, history.has_own = step, due, is_own
        if is_own:
            self._check_idle(key, saved)
            self._add_pending(history, key, saved)
            state.count["supersteps"] += saved.source == "loop"

    def _check_fork(self, history: BranchHistory, key: BranchKey, saved: SavedCheckpoint, due: frozenset[str]) -> None:
        """Check that a branch begins with the tasks that are due at its parent."""
        if saved.source != "fork" or due != history.due:
            raise BrokenPromise(f"{key} begins with {saved.source!r} and {due}, after {history.due}.")
        self._state.count["forks"] += not is_copy(key.thread_id)

    def _check_idle(self, key: BranchKey, saved: SavedCheckpoint) -> None:
        """Check that under `exit`, a run that is idle only at its end has saved nothing before."""
        is_intermediate = saved.source == "loop" and not saved.checkpoint.is_complete
        if self._state.durability == "exit" and is_intermediate and not SHAPES[self._state.shape].saves_midway:
            raise BrokenPromise(f"Checkpoint {saved.id} of {key} was saved though its run was not idle.")

    def _add_pending(self, history: BranchHistory, key: BranchKey, saved: SavedCheckpoint) -> None:
        self._state.finished |= {(*thread_branch(key), task_id) for task_id in saved.pending.completed}
        history.asking = frozenset(saved.pending.interrupts)

    def _add_skipped(self, notes: Sequence[Note]) -> None:
        """Add the tasks of supersteps that were saved together with later ones: the file never showed them as due."""
        for note in notes:
            history = self._state.histories.get(branch_key(note)) if note["kind"] == "superstep" else None
            if history is not None and note["step"] <= history.step:
                self._state.finished |= {task_key(note, task) for task in note["tasks"] if task not in history.due}
