"""Pausing from inside a node.

`interrupt()` stops its node; when the answer comes, the node runs again from its first line, and the call returns
the answer. The signal is a `BaseException`: it is no error, and `except Exception` in a node does not catch it.
"""

from __future__ import annotations

from typing import Any

from statewright.checkpoint import Interrupt
from statewright.errors import InvalidUpdateError
from statewright.graph import Command
from statewright.ids import interrupt_id
from statewright.runtime.scope import current_scope


class Paused(BaseException):
    """Leaves a node that waits. Raised by `interrupt()` and by subgraphs; never caught by users."""

    def __init__(self, *interrupts: Interrupt) -> None:
        self.interrupts = interrupts
        super().__init__("paused: " + ", ".join(interrupt.id for interrupt in interrupts))


class ChildCommand(BaseException):
    """Carries a Command that a subgraph answered for its parent out of the node that called it."""

    def __init__(self, command: Command[Any]) -> None:
        self.command = command
        super().__init__("a Command from a subgraph")


def interrupt(value: Any, *, key: str | None = None, schema: Any = None) -> Any:
    """Ask the world outside, and return its answer.

    The first call stops the node and the run; `invoke(Command(resume=answer))` on the thread runs the node again,
    and then the call returns. Several calls in one node are told apart by their order, or by `key` where that may
    change. `schema` is the type that an answer must have; a wrong answer is InvalidResume and changes nothing.
    Raises InvalidUpdateError outside a node, and for a key that the node has used already.
    """
    scope = current_scope()
    if scope is None or scope.task is None:
        raise InvalidUpdateError("interrupt() was called outside a node. Call it in a function that a graph runs.")
    identity = interrupt_id(scope.task.id, scope.next_question(key))
    answers = scope.run.answers
    if identity in answers:
        return answers[identity]
    raise Paused(Interrupt(id=identity, value=value, schema=schema))
