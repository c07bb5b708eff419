"""Stable ids, which replace the random ids of a run in a recording.

The ids of checkpoints, tasks, interrupts and messages differ from run to run, because they are random or derived from
random ids. A recording contains the ids that would result if the first call had the run id `run-1`, and if the id of
each checkpoint were derived from the position of its superstep in the recording. `replay` uses the same run ids and
checkpoint ids, so that all ids derived from them agree with the recording.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, cast

from statewright.checkpoint import Task
from statewright.ids import digest, short_id, task_id

_ID: Final = re.compile("[0-9a-f]{32}")
_ID_BYTES: Final = re.compile(rb"[0-9a-f]{32}")
_SHORT_ID: Final = re.compile(rb"(?=\xc4[\x10-\xff](.{16}))", re.S)
"""The id of a message in MessagePack, as shortened by `short_id`: the type code of bytes, the length, and the 16 bytes
of the id."""


class StableIds:
    """Maps random ids to stable ids. Both have 32 hexadecimal digits, so stable ids can be inserted in encoded data."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._run_ids: dict[str, str] = {}
        self._question_counts: Counter[str] = Counter()
        """The number of interrupts of each task, by its stable id."""

    def add_run(self, run_id: str, number: int) -> None:
        self._run_ids[run_id] = stable_run_id(number)

    def add_commit(self, checkpoint_id: str, number: int, namespace: str, step: int) -> None:
        self._add(checkpoint_id, stable_commit_id(stable_run_id(number), self.replace_in_text(namespace), step))

    def add_existing(self, existing_id: str, *path: object) -> None:
        """Derive the stable id of an existing checkpoint or task from its path in the recording."""
        self._add(existing_id, digest("found", *path))  # this word is part of the file format

    def add_task(self, task: Task) -> None:
        self._add(task.id, task_id(self._origin(task.origin), task.position))

    def add_interrupt(self, interrupt_id: str, asking_task: str) -> None:
        """Derive the stable id of an interrupt from its task and its number within the task.

        An interrupt that was already added belongs to a task of a subgraph; the task that called the subgraph passes
        it on.
        """
        if interrupt_id not in self._ids:
            stable_task_id = self.replace_in_text(asking_task)
            self._add(interrupt_id, digest("question", stable_task_id, self._question_counts[stable_task_id]))
            self._question_counts[stable_task_id] += 1

    def _add(self, random_id: str, stable_id: str) -> None:
        if _ID.fullmatch(random_id):
            self._ids.setdefault(random_id, stable_id)

    def __contains__(self, random_id: str) -> bool:
        return random_id in self._ids

    def _origin(self, origin: str) -> str:
        """Return the stable form of a task's origin: a run id with a superstep, a run id, or a checkpoint id."""
        run_id, dot, step = origin.rpartition(".")
        if run_id in self._run_ids:
            return f"{self._run_ids[run_id]}{dot}{step}"
        return self._run_ids.get(origin) or self.replace_in_text(origin)

    def replace_in_text(self, text: str) -> str:
        """Return a text with all known random ids replaced by stable ids."""
        return _ID.sub(lambda match: self._ids.get(match[0], match[0]), text)

    def replace_in_bytes(self, encoded: bytes) -> bytes:
        """Return encoded values with all known random ids replaced by stable ids."""
        ids = {random_id.encode(): stable_id.encode() for random_id, stable_id in self._ids.items()}
        replaced = bytearray(_ID_BYTES.sub(lambda match: ids.get(match[0], match[0]), encoded))
        short_ids = {short_id(old): cast(bytes, short_id(new)) for old, new in self._ids.items()}
        for match in _SHORT_ID.finditer(bytes(replaced)):
            stable_id = short_ids.get(match[1])
            if stable_id is not None:
                replaced[match.start(1) : match.end(1)] = stable_id
        return bytes(replaced)


def stable_run_id(number: int) -> str:
    """Return the run id of a call, from its number in the recording."""
    return f"run-{number}"


def stable_commit_id(run_id: str, namespace: str, step: int) -> str:
    """Return the id of the checkpoint that a run saves after a superstep."""
    return digest("commit", run_id, namespace, step)
