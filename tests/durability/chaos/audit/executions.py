"""Checks of executions: a finished task does not run again, and attempts are counted across kills."""

from __future__ import annotations

from collections.abc import Sequence

from tests.durability.chaos.audit.state import (
    AuditState,
    BrokenPromise,
    Note,
    TaskKey,
    branch_key,
    describe_task,
    task_key,
    thread_branch,
)

from statewright.checkpoint import BranchKey


class ExecutionAudit:
    """Follows the executions of tasks by all children."""

    def __init__(self, state: AuditState) -> None:
        self._state = state
        self._attempts: dict[TaskKey, int] = {}
        self._interrupted: set[TaskKey] = set()
        """The tasks that were running when a child was killed, and had not finished."""

    def check(self, notes: Sequence[Note]) -> None:
        """Check that no finished task runs again, and that attempts are counted across kills.

        A task is finished when its superstep was committed, or if it had ended when its run became idle; in a new
        branch, if its result was saved at the checkpoint where the branch begins.
        """
        begun: dict[BranchKey, dict[int, list[TaskKey]]] = {}
        ended: dict[tuple[str, str], set[TaskKey]] = {}
        finished, returned = set[TaskKey](), set[TaskKey]()
        for note in notes:
            if note["kind"] == "superstep":
                begun.setdefault(branch_key(note), {})[note["step"]] = [task_key(note, task) for task in note["tasks"]]
            elif note["kind"] == "committed" and note["source"] == "loop":
                steps = begun.get(branch_key(note), {})
                for step in [step for step in steps if step <= note["step"]]:
                    finished.update(steps.pop(step))
            elif note["kind"] == "ended":
                ended.setdefault(thread_branch(branch_key(note)), set()).add(task_key(note))
            elif note["kind"] == "forking":
                returned |= {task_key(note, task) for task in note["saved"]}
            elif note["kind"] == "returned":
                returned |= ended.pop(thread_branch(branch_key(note)), set())
            elif note["kind"] == "started":
                self._check_start(note, finished | returned)
        self._state.finished |= returned

    def _check_start(self, note: Note, finished: set[TaskKey]) -> None:
        task, description = task_key(note), describe_task(note)
        if task in self._state.finished or task in finished:
            raise BrokenPromise(f"{description} ran again, though it was finished.")
        if self._state.is_consumed(branch_key(note)):
            raise BrokenPromise(f"{description} ran again, though the task that had called its graph was finished.")
        earlier = self._attempts.get(task, 0)
        if note["attempt"] < earlier and self._state.durability != "exit":
            raise BrokenPromise(f"{description} was at attempt {earlier}, and then at {note['attempt']} again.")
        self._attempts[task] = note["attempt"]
        if task in self._interrupted:
            self._interrupted.discard(task)
            self._state.count["tasks run again"] += 1

    def add_interrupted(self, notes: Sequence[Note]) -> None:
        """Remember the tasks that the kill interrupted, to count those that run again."""
        asking = {
            (*thread_branch(key), task_id)
            for key, history in self._state.histories.items()
            for task_id in history.asking
        }
        started = {task_key(note) for note in notes if note["kind"] == "started"}
        self._interrupted |= started - self._state.finished - asking
