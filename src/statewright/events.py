"""What happens in a run, as one type told apart by its kind.

Stream modes and instruments are views of these events. An event is made only where somebody wants its kind.
"""

from __future__ import annotations

from typing import Any, Literal

EventKind = Literal[
    "run_started",
    "run_finished",
    "input_applied",
    "superstep_started",
    "superstep_finished",
    "task_started",
    "task_finished",
    "attempt_failed",
    "call_finished",
    "committed",
    "interrupted",
    "message",
    "custom",
]


class Event:
    """Something that happened in a run."""

    __slots__ = ("attempt", "data", "kind", "namespace", "node", "program", "run_id", "step", "thread_id")

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
        program: Any = None,
    ) -> None:
        self.kind: EventKind = kind
        self.data = data
        """What there is to say about this kind: see `runtime/instrument.py`."""
        self.run_id = run_id
        self.thread_id = thread_id
        self.namespace = namespace
        """Empty for the run's own graph; the path of tasks that leads to a subgraph."""
        self.step = step
        self.node = node
        self.attempt = 1
        """Which try of the task; 0 if its result comes from a cache."""
        self.program = program
        """The compiled program of the graph that it happened in: views read the schema off it."""

    def __repr__(self) -> str:
        where = f" {self.node!r}" if self.node else ""
        return f"<{self.kind}{where} step={self.step}>"
