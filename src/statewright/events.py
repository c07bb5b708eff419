"""Events of runs: one class, whose instances are distinguished by their `kind`.

Events of *durable* kinds belong to the log of the run. A saver numbers and stores them in the commit that they
describe. Events of *live* kinds are for observers, and never stored. Stream modes, instruments and the log are all
derived from these events. An event is created only if it has a receiver.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

DurableKind = Literal[
    "run_started",
    "run_finished",
    "superstep_finished",
    "task_finished",
    "interrupted",
    "model_called",
    "tool_called",
    "step_reported",
    "question_changed",
]
LiveKind = Literal[
    "input_applied",
    "superstep_started",
    "task_started",
    "task_begun",
    "attempt_failed",
    "task_ended",
    "step_started",
    "step_finished",
    "call_finished",
    "call_continued",
    "committed",
    "resumed",
    "run_broken_off",
    "message",
    "custom",
]
EventKind = DurableKind | LiveKind
Entry = tuple[DurableKind, int, str | None, str | None, Any]
"""An entry of a log: the kind, the step, the node, the id of the task, and the data of a durable event."""
DURABLE: Final[frozenset[str]] = frozenset(DurableKind.__args__)  # pyright: ignore  # a Literal has this attribute


class Event:
    """Something that happened in a run."""

    __slots__ = (
        "_task_id",
        "at",
        "attempt",
        "data",
        "kind",
        "namespace",
        "node",
        "program",
        "run_id",
        "seq",
        "step",
        "task",
        "thread_id",
    )

    def __init__(
        self,
        kind: EventKind,
        data: Any = None,
        *,
        run_id: str = "",
        thread_id: str | None = None,
        namespace: str = "",
        step: int = 0,
        node: str | None = None,
        task_id: str | None = None,
        at: datetime | None = None,
        program: Any = None,
        seq: int | None = None,
    ) -> None:
        self.kind: EventKind = kind
        self.data = data
        """Depends on the kind; see `runtime/instrument.py`. In the log, it is a small amount of plain data."""
        self.at = at
        """The time of the commit; None for a live event."""
        self.run_id = run_id
        self.thread_id = thread_id
        self.namespace = namespace
        """The path of tasks that leads to a subgraph; empty for the run's own graph."""
        self.step = step
        self.node = node
        self._task_id = task_id
        self.task: Any = None
        """The task of a live event."""
        self.attempt = 1
        """The number of the attempt, from 1; 0 if the result comes from a cache."""
        self.seq = seq
        """The number of the event in the log of the run, from 1; None for a live event."""
        self.program = program
        """The compiled program of the graph in which the event happened, whose schema stream modes read."""

    @property
    def task_id(self) -> str | None:
        """The id of the task. For a live event, it is computed on access, because few receivers need it."""
        return self._task_id if self.task is None else self.task.id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "program")

    __hash__ = None  # pyright: ignore  # its data may be unhashable

    def __repr__(self) -> str:
        number = f"#{self.seq} " if self.seq is not None else ""
        node = f" {self.node!r}" if self.node else ""
        return f"<{number}{self.kind}{node} step={self.step}>"


class Log(NamedTuple):
    """The entries that a commit adds to the log of a run."""

    run_id: str
    at: datetime
    entries: tuple[Entry, ...]

    def events(self, thread_id: str, namespace: str, number: int) -> list[Event]:
        """Return the entries as events, numbered consecutively from `number`."""
        return [
            Event(
                kind,
                data,
                run_id=self.run_id,
                thread_id=thread_id,
                namespace=namespace,
                step=step,
                node=node,
                task_id=task_id,
                at=self.at,
                seq=seq,
            )
            for seq, (kind, step, node, task_id, data) in enumerate(self.entries, number)
        ]
