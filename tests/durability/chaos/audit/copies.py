"""Checks of copied threads: each copy is complete, or absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.durability.chaos.actions import is_copied_when_idle
from tests.durability.chaos.audit.state import AuditState, BrokenPromise, Note, branch_key, iter_checkpoints

from statewright.checkpoint import BranchKey, SavedCheckpoint


class CopyAudit:
    """Compares copies with their threads."""

    def __init__(self, state: AuditState) -> None:
        self._state = state

    def check(self, app: Any, notes: Sequence[Note]) -> None:
        copied = {note["to"] for note in notes if note["kind"] == "copied"}
        used = copied | {branch_key(note).thread_id for note in notes if "branch" in note}
        for note in notes:
            if note["kind"] != "copying":
                continue
            source, to = note["source"], note["to"]
            if any(key.thread_id == to for key in self._state.histories):
                self._check_copy(app, source, to, note["heads"])
                if is_copied_when_idle(source) and to not in used:
                    self._check_equal_copy(app, source, to)
                self._state.count["copies"] += 1
            elif to in copied:
                raise BrokenPromise(f"The copy {to!r} was made, and is missing.")

    def _check_copy(self, app: Any, source: str, to: str, heads: Mapping[str, str]) -> None:
        """Check that thread and copy have the same history and the same log up to the copy."""
        histories = self._state.histories
        for branch, head in heads.items():
            key = BranchKey(to, "", branch)
            if key not in histories or head not in histories[key].ids:
                raise BrokenPromise(
                    f"The copy {to!r} has no checkpoint {head} on branch {branch!r}, which was the head of its thread."
                )
        for key in [key for key in histories if key.thread_id == to]:
            originals = [*iter_checkpoints(app, key._replace(thread_id=source))][::-1]
            for original, copied in zip(originals, [*iter_checkpoints(app, key)][::-1], strict=False):
                if original.id != copied.id:
                    break  # from here on, the thread and the copy have been advanced separately
                if _shared_attributes(original) != _shared_attributes(copied):
                    raise BrokenPromise(
                        f"The copy of checkpoint {original.id} in {key} is {_shared_attributes(copied)}, "
                        f"not {_shared_attributes(original)}."
                    )
        logs = _logs(app, source)
        for run_id, log in _logs(app, to).items():
            if run_id in logs and log != logs[run_id][: len(log)]:
                raise BrokenPromise(f"The copy of the log of run {run_id!r} in {to!r} is {log}, not {logs[run_id]}.")

    def _check_equal_copy(self, app: Any, source: str, to: str) -> None:
        """Check that thread and copy are equal, because no run has advanced either of them."""
        original, copied = ({key[1:] for key in self._state.present if key.thread_id == name} for name in (source, to))
        if copied != original:
            raise BrokenPromise(f"Thread {to!r} has the branches {sorted(copied)}, not {sorted(original)}.")
        for branch in sorted(copied):
            keys = (BranchKey(source, *branch), BranchKey(to, *branch))
            expected, ids = (self._state.histories[key].ids for key in keys)
            if ids != expected:
                raise BrokenPromise(f"Branch {branch} of {to!r} has the checkpoints {ids}, not {expected}.")
            pendings = [next(iter_checkpoints(app, key)).pending for key in keys]
            saved, copy = (
                (*map(repr, pending.completed.items()), replace(pending, completed={})) for pending in pendings
            )
            if copy != saved:
                raise BrokenPromise(f"The results saved for {branch} of {to!r} are {copy}, not {saved}.")
        if _logs(app, source) != _logs(app, to):
            raise BrokenPromise(f"The logs of {to!r} are not those of {source!r}.")


def _shared_attributes(saved: SavedCheckpoint) -> Mapping[str, Any]:
    """Return the attributes of a checkpoint that its copy shares."""
    names = ("parent_id", "checkpoint", "source", "run_id", "created_at", "metadata")
    return {name: getattr(saved, name) for name in names}


def _logs(app: Any, thread: str) -> dict[str, list[Any]]:
    """Return the events of a thread by run."""
    logs: dict[str, list[Any]] = {}
    for event in app.get_events(thread_id=thread):
        entry = (event.seq, event.kind, event.step, event.node, event.task_id, repr(event.data))
        logs.setdefault(event.run_id, []).append(entry)
    return logs
