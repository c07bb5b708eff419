"""The audit after each child: all checks in order, and the check of threads that have ended."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.durability.chaos.actions import next_action, thread_ids, view_thread
from tests.durability.chaos.audit.commits import CommitAudit
from tests.durability.chaos.audit.copies import CopyAudit
from tests.durability.chaos.audit.effects import EffectAudit
from tests.durability.chaos.audit.executions import ExecutionAudit
from tests.durability.chaos.audit.file import FileAudit
from tests.durability.chaos.audit.state import AuditState, BrokenPromise, Note, iter_checkpoints
from tests.durability.chaos.reference import is_token, normalized
from tests.durability.chaos.shapes import ShiftedClock


class Auditor:
    """Compares the notes of all children with the contents of the file; raises BrokenPromise if they contradict."""

    def __init__(self, shape: str, durability: str, reference: Mapping[str, Any]) -> None:
        self._reference = reference
        """The final states of the branches of a thread."""
        self._state = AuditState(shape, durability)
        self._executions = ExecutionAudit(self._state)
        self._effects = EffectAudit(self._state)
        self._file = FileAudit(self._state)
        self._copies = CopyAudit(self._state)
        self._commits = CommitAudit(self._state)

    @property
    def count(self) -> Counter[str]:
        return self._state.count

    def count_kill(self, notes: Sequence[Note]) -> None:
        """Count a kill, and the operations that it interrupted."""
        running = Counter(note["operation"] for note in notes if note["kind"] == "begin")
        running.subtract(note["operation"] for note in notes if note["kind"] == "end")
        self.count["kills"] += 1
        self.count["in commits"] += running["commit"] > 0
        self.count["in compactions"] += running["compaction"] > 0
        self.count["in forks or copies"] += running["fork"] + running["copy"] > 0

    def check_generation(self, generation: int, notes: Sequence[Note], app: Any, path: Path) -> None:
        """Compare the notes of a child with the file that it left."""
        self._executions.check(notes)
        self._effects.check(generation, notes)
        self._file.read(app, path, notes)
        self._copies.check(app, notes)
        self._file.check_missing_branches()
        self._commits.check(notes)
        self._executions.add_interrupted(notes)
        self._check_done(app, notes)

    def _check_done(self, app: Any, notes: Sequence[Note]) -> None:
        """Check the threads that have ended, and that none of them continues."""
        done = {note["thread"] for note in notes if note["kind"] == "done"}
        for thread in self.open_threads():
            view = view_thread(app, self._state.shape, thread)
            states = {branch: app.get_state(thread_id=thread, branch=branch) for branch in view.branches}
            action = next_action(self._state.shape, thread, view, states, ShiftedClock(0).now())
            if action is None:
                self._check_end(app, thread, states)
            elif thread in done:
                raise BrokenPromise(f"Thread {thread!r} was done, and is now at {states[action[0]].next}.")

    def _check_end(self, app: Any, thread: str, states: Mapping[str, Any]) -> None:
        """Check that a thread ended in the state of a run without kills, and that its whole history can be read."""
        ends = {branch: normalized(state.values) for branch, state in states.items()}
        if ends != self._reference:
            raise BrokenPromise(f"Thread {thread!r} ended with:\n{ends}\nexpected:\n{self._reference}")
        tokens = {entry for state in states.values() for entry in state.values.get("log", ()) if is_token(entry)}
        if unknown := tokens - self._effects.recorded_tokens:
            raise BrokenPromise(f"Thread {thread!r} ended with {unknown}, which no step returned.")
        for key, history in self._state.histories.items():
            if key.thread_id == thread and not self._state.is_consumed(key):
                ids = [saved.id for saved in iter_checkpoints(app, key)][::-1]
                if ids != history.ids:
                    raise BrokenPromise(f"The history of {key} is {ids}; the committed checkpoints are {history.ids}.")
        self._state.done.add(thread)
        self.count["runs"] += 1

    def first_open_round(self) -> int:
        """Return the first round with threads that have not ended."""
        rounds = itertools.count()
        return next(number for number in rounds if not self._state.done.issuperset(self._thread_ids(number)))

    def _thread_ids(self, number: int) -> list[str]:
        return thread_ids(self._state.shape, number)

    def open_threads(self) -> list[str]:
        """Return the threads in the file that have not ended."""
        return sorted({key.thread_id for key in self._state.histories} - self._state.done)
