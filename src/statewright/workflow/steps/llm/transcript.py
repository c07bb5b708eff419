"""What was said in a conversation, kept in the journal of the thread.

Whoever executes a step again, after a crash, a pause, or an attempt that broke off, goes on where the conversation was:
nothing that a model or a tool has answered is asked again. A conversation that came to nothing is given up, and the
next attempt begins another one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from statewright.checkpoint import JournalKey
from statewright.errors import InternalError
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.runtime.tasks.task_calls import CalledFunction, call_task

T = TypeVar("T")


class Transcript:
    """The conversation that a step goes on with: the first one that was not given up."""

    def __init__(self) -> None:
        scope = current_scope()
        self._number = next(number for number in count() if not _is_given_up(scope, number))

    async def once(self, what: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What a function gives that is called once at this place of the conversation; it can be saved.

        It is a task of its own: what it asks, steps and starts is told apart from what the rest of the step does,
        whether it is called or not.
        """

        async def call() -> T:  # what is no coroutine function itself would go to a thread
            return await function()

        called = CalledFunction(call, _named(what, self._number), shows_result=False)
        return await call_task(called, (), {})

    async def give_up(self) -> None:
        """Begin another conversation the next time."""
        await self.once(_GIVEN_UP, _nothing)


_GIVEN_UP = "give_up"


async def _nothing() -> None:
    """All there is to do is to be in the journal."""


def _named(what: str, number: int) -> str:
    return what if number == 0 else f"{what}#{number + 1}"


def _is_given_up(scope: Scope | None, number: int) -> bool:
    if scope is None or scope.task is None:
        raise InternalError("A conversation began outside a node. Please report this.")
    key: JournalKey = (scope.task.id, _named(_GIVEN_UP, number), 0)
    return key in scope.run.journal
