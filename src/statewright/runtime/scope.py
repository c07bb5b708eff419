"""The execution that the present code belongs to, as a context variable.

One scope object serves all tasks that run one after another in a run's own context; its fields are renewed per
task. Tasks that run beside others get a scope, and a context, of their own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from statewright.errors import InvalidUpdateError

if TYPE_CHECKING:
    from statewright.checkpoint import Checkpoint, Task
    from statewright.runtime.effects import Outcome
    from statewright.runtime.run import Run


class Ends(Protocol):
    """Runs tasks beside each other."""

    def ended(self, scope: Scope, outcome: Outcome) -> None: ...


class Scope:
    """Which task is being executed, in which run."""

    __slots__ = (
        "_asked",
        "_calls",
        "_keys",
        "_ordinal",
        "apart",
        "checkpoint",
        "input",
        "picture",
        "place",
        "plain",
        "run",
        "task",
    )

    def __init__(self, run: Run, task: Task | None = None, checkpoint: Checkpoint | None = None) -> None:
        self.run = run
        self.apart: Ends | None = None
        """Who takes the outcome of a task that runs beside others; None for one that runs alone."""
        self.place = 0
        """Where the task stands among those that run beside each other."""
        self.plain = run.program.lean and run.watch is None
        """Whether a task is reading, calling and writing and no more: nobody watches, nothing has to be computed."""
        self.task = task
        self.checkpoint = checkpoint
        self.input: Any = None
        """What the node was given; kept for error handlers."""
        self.picture: Any = None
        """What the state looked like before the node ran, where changes in place are looked for."""
        self._asked: Task | None = None
        """The task to which the counts belong: they begin anew when another one asks."""

    def enter_apart(self, task: Task, place: int) -> Scope:
        """A scope of its own for a task that runs beside others, entered."""
        scope = Scope(self.run, task, self.checkpoint)
        scope.apart, scope.place = self.apart, place
        enter_scope(scope)
        return scope

    def copy(self) -> Scope:
        """A scope for the same task, which stays with it."""
        return Scope(self.run, self.task, self.checkpoint)

    def next_question(self, key: str | None) -> int | str:
        """What tells the next question of this task from its others: its ordinal, or its key."""
        self._begin_counts()
        if key is None:
            self._ordinal += 1
            return self._ordinal - 1
        if key in self._keys:
            node = self.task.node if self.task else None
            raise InvalidUpdateError(f"Node {node!r} used the interrupt key {key!r} twice. Give each its own key.")
        self._keys.add(key)
        return key

    def next_call(self) -> int:
        """How many subgraphs the task has called before."""
        self._begin_counts()
        self._calls += 1
        return self._calls - 1

    def _begin_counts(self) -> None:
        if self._asked is not self.task:
            self._asked, self._calls, self._ordinal = self.task, 0, 0
            self._keys: set[str] = set()


_current: ContextVar[Scope | None] = ContextVar("statewright_scope", default=None)
current_scope = _current.get
enter_scope = _current.set
leave_scope = _current.reset
