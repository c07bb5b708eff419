"""The tasks of one superstep while they run, whoever runs them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from statewright.checkpoint import Checkpoint, Task, TaskResult
from statewright.runtime.effects import Failure, Outcome, RunTasks
from statewright.runtime.landing import Landing, landing_of
from statewright.runtime.program import NodeProgram
from statewright.runtime.run import Run


class Superstep:
    """Collects outcomes in task order, whatever the order of arrival.

    It closes when the last task has landed or the first one has failed. What arrives later is dropped: a plain
    function that was left running must not write any more.
    """

    __slots__ = (
        "_landing",
        "_left",
        "_lock",
        "_on_closed",
        "checkpoint",
        "closed",
        "nodes",
        "outcomes",
        "run",
        "tasks",
    )

    def __init__(self, run: Run, effect: RunTasks, on_closed: Callable[[], object]) -> None:
        self.run = run
        self.checkpoint: Checkpoint = effect.checkpoint
        self.tasks: tuple[Task, ...] = effect.tasks
        self.nodes: dict[str, NodeProgram] = run.program.nodes
        self.outcomes: list[Outcome | None] = [None] * len(effect.tasks)
        self.closed = False
        self._left = len(effect.tasks)
        self._lock = threading.Lock()
        self._on_closed = on_closed
        self._landing = landing_of(run, effect.checkpoint)

    def land(self, place: int, outcome: Outcome) -> None:
        """Take the outcome of the task at `place`, from any thread."""
        with self._lock:
            if self.closed:
                return
            self.outcomes[place] = outcome
            self._left -= 1
            self.closed = not self._left or type(outcome) is Failure
        if self._landing is not None:
            self._tell(self._landing, outcome)
        if self.closed:
            self._on_closed()

    def _tell(self, landing: Landing, outcome: Outcome) -> None:
        """Have a result saved while others still run."""
        if self.closed:
            landing.close()
        elif type(outcome) is TaskResult:
            landing.add(outcome)

    def close(self) -> None:
        """Take nothing any more: the run was cancelled or abandoned."""
        with self._lock:
            self.closed = True
        if self._landing is not None:
            self._landing.close()

    def abandon(self) -> None:
        """Like `close`, from anywhere: it takes no lock, so a result may land meanwhile, which nobody reads."""
        self.closed = True
        if self._landing is not None:
            self._landing.abandon()

    def task_nodes(self) -> list[NodeProgram]:
        """The node of each task."""
        nodes = self.nodes
        return [nodes[task.node] for task in self.tasks]
