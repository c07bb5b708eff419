"""Checks of what a child was told: acknowledged commits and results are saved, and no run is too far ahead."""

from __future__ import annotations

from collections.abc import Sequence

from tests.durability.chaos.audit.state import (
    AuditState,
    BrokenPromise,
    Note,
    branch_key,
    describe_task,
    task_key,
    thread_branch,
)

from statewright.checkpoint import BranchKey


class CommitAudit:
    """Compares reported commits, supersteps and results with the file."""

    def __init__(self, state: AuditState) -> None:
        self._state = state

    def check(self, notes: Sequence[Note]) -> None:
        self._check_acknowledged(notes)
        self._check_progress(notes)
        self._check_finished(notes)

    def _check_acknowledged(self, notes: Sequence[Note]) -> None:
        """Check that acknowledged commits are saved; under `async` the last reported one may be missing."""
        unconfirmed: dict[BranchKey, str] = {}
        for note in notes:
            if note["kind"] == "committed":
                key = branch_key(note)
                if key in unconfirmed:
                    self._require(key, unconfirmed.pop(key))
                if self._state.durability == "async":
                    unconfirmed[key] = note["id"]
                else:
                    self._require(key, note["id"])
            elif note["kind"] == "returned":
                returned = thread_branch(branch_key(note))
                for key in [key for key in unconfirmed if thread_branch(key) == returned]:
                    self._require(key, unconfirmed.pop(key))
                if note["id"] is not None:
                    self._require(branch_key(note), note["id"])
            elif note["kind"] == "read" and not self._state.has_checkpoint(branch_key(note), note["id"]):
                raise BrokenPromise(f"Checkpoint {note['id']} of {branch_key(note)} was read, and is missing.")
        for key, checkpoint_id in unconfirmed.items():
            is_saved = self._state.has_checkpoint(key, checkpoint_id)
            self._state.count["acknowledged" if is_saved else "lost in flight"] += 1

    def _require(self, key: BranchKey, checkpoint_id: str) -> None:
        if not self._state.has_checkpoint(key, checkpoint_id):
            raise BrokenPromise(f"Checkpoint {checkpoint_id} of {key} was acknowledged, and is missing.")
        self._state.count["acknowledged"] += 1

    def _check_progress(self, notes: Sequence[Note]) -> None:
        """Check that no run is further ahead of the file than its durability allows."""
        last_steps: dict[BranchKey, int] = {}
        for note in notes:
            if note["kind"] == "superstep":
                last_steps[branch_key(note)] = max(note["step"], last_steps.get(branch_key(note), 0))
        max_lead = 1 if self._state.durability == "sync" else 2
        for key, step in last_steps.items():
            saved = self._state.histories[key].step if key in self._state.histories else -1
            if self._state.durability == "exit":
                self._state.count["lost under exit"] += saved < step
            elif saved < step - max_lead and not self._state.is_consumed(key):
                raise BrokenPromise(f"Superstep {step} of {key} had started, but the last saved one is {saved}.")

    def _check_finished(self, notes: Sequence[Note]) -> None:
        """Check that under `sync` the result of a task is saved before its end is reported."""
        for note in notes if self._state.durability == "sync" else ():
            if note["kind"] == "finished":
                is_saved = task_key(note) in self._state.finished or self._state.is_consumed(branch_key(note))
                if not is_saved:
                    raise BrokenPromise(f"{describe_task(note)} had finished, and its result is missing.")
