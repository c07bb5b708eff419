"""The execution that the present code belongs to, as a context variable.

One scope object serves all tasks that run one after another in a run's own context; its fields are renewed per
task. Tasks that run beside others get a scope, and a context, of their own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from statewright.errors import InvalidUpdateError

if TYPE_CHECKING:
    from statewright.checkpoint import Checkpoint, Task
    from statewright.runtime.run import Run


class Scope:
    """Which task is being executed, in which run."""

    __slots__ = ("calls", "checkpoint", "input", "keys", "ordinal", "picture", "run", "task")

    def __init__(self, run: Run, task: Task | None = None, checkpoint: Checkpoint | None = None) -> None:
        self.run = run
        self.task = task
        self.checkpoint = checkpoint
        self.input: Any = None
        """What the node was given; kept for error handlers."""
        self.picture: Any = None
        """What the state looked like before the node ran, where changes in place are looked for."""
        self.ordinal = 0
        self.calls = 0
        """How many subgraphs the task has called."""
        self.keys: set[str] | None = None

    def enter(self, task: Task, checkpoint: Checkpoint) -> None:
        """Go on to another task."""
        self.task = task
        self.checkpoint = checkpoint
        self.ordinal = 0
        self.calls = 0
        self.keys = None

    def copy(self) -> Scope:
        """A scope for the same task, which stays with it."""
        return Scope(self.run, self.task, self.checkpoint)

    def next_question(self, key: str | None) -> int | str:
        """What tells the next question of this task from its others: its ordinal, or its key."""
        if key is None:
            self.ordinal += 1
            return self.ordinal - 1
        self.keys = set() if self.keys is None else self.keys
        if key in self.keys:
            node = self.task.node if self.task else None
            raise InvalidUpdateError(f"Node {node!r} used the interrupt key {key!r} twice. Give each its own key.")
        self.keys.add(key)
        return key


_current: ContextVar[Scope | None] = ContextVar("statewright_scope", default=None)
current_scope = _current.get
enter_scope = _current.set
leave_scope = _current.reset
