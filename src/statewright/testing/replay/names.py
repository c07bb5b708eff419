"""Deterministic ids: the random ids of runs are replaced by ids that depend on the recording alone.

Ids of commits, tasks, interrupts and messages derive from random ids, so they differ from run to run. A file contains
the ids that would result if call 1 were the run `run-1` and its commits were numbered. `replay` derives the same ids,
so everything that is derived from an id agrees.
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
"""An id of a message as `short_id` packs it in MessagePack: the code of bytes, their length, and the id first."""


class Names:
    """Ids of a recording by random id. Both have 32 digits, so they can be exchanged in stored bytes."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._runs: dict[str, str] = {}
        self._questions: Counter[str] = Counter()
        """The number of interrupts by task."""

    def add_run(self, run_id: str, number: int) -> None:
        self._runs[run_id] = run_name(number)

    def add_commit(self, checkpoint_id: str, number: int, namespace: str, step: int) -> None:
        self._add(checkpoint_id, commit_name(run_name(number), self.text(namespace), step))

    def add_existing(self, existing_id: str, *path: object) -> None:
        """Name the id of an existing checkpoint or task after its path in the recording."""
        self._add(existing_id, digest("found", *path))

    def add_task(self, task: Task) -> None:
        self._add(task.id, task_id(self._origin(task.origin), task.position))

    def add_interrupt(self, interrupt_id: str, asking_task: str) -> None:
        """Name an interrupt as the next one of its task. One that has a name is that of a subgraph, passed on."""
        if interrupt_id not in self._names:
            task_name = self.text(asking_task)
            self._add(interrupt_id, digest("question", task_name, self._questions[task_name]))
            self._questions[task_name] += 1

    def _add(self, random_id: str, name: str) -> None:
        if _ID.fullmatch(random_id):
            self._names.setdefault(random_id, name)

    def __contains__(self, random_id: str) -> bool:
        return random_id in self._names

    def _origin(self, origin: str) -> str:
        run_id, dot, step = origin.rpartition(".")
        if run_id in self._runs:
            return f"{self._runs[run_id]}{dot}{step}"
        return self._runs.get(origin) or self.text(origin)

    def text(self, text: str) -> str:
        """Return a text with the ids of the recording in it."""
        return _ID.sub(lambda match: self._names.get(match[0], match[0]), text)

    def data(self, stored: bytes) -> bytes:
        """Return the output of a serde with the ids of the recording in it."""
        names = {random_id.encode(): name.encode() for random_id, name in self._names.items()}
        replaced = bytearray(_ID_BYTES.sub(lambda match: names.get(match[0], match[0]), stored))
        short = {
            cast(bytes, short_id(random_id)): cast(bytes, short_id(name)) for random_id, name in self._names.items()
        }
        for match in _SHORT_ID.finditer(bytes(replaced)):
            name = short.get(match[1])
            if name is not None:
                replaced[match.start(1) : match.end(1)] = name
        return bytes(replaced)


def run_name(number: int) -> str:
    """Return the id of the run of a call."""
    return f"run-{number}"


def commit_name(run_id: str, namespace: str, step: int) -> str:
    """Return the id of a commit to a saver."""
    return digest("commit", run_id, namespace, step)
