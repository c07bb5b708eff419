"""Answers of models kept in the journal of the task that asked for them.

An answer is saved with the superstep of its task. Where something that may fail stands between the two, a hook or
another call of a model, the answer is put into the journal first: a later execution of the task, in whatever process,
finds it there, and the model is not paid again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from statewright.checkpoint import Pending
from statewright.graph import Runtime
from statewright.models import ModelResponse, Usage

_STEP: Final = "answer of "
"""How the names of the steps begin."""


async def keep_answer(runtime: Runtime[Any], name: str, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:
    """Return what `ask` returns, or what it returned in an earlier execution of the task.

    `name` tells the answers of one task apart: it must be that of the same request in each execution.
    """
    message, usage, model, finish_reason = await runtime.step(f"{_STEP}{name}", partial(_parts, ask))
    return ModelResponse(message, Usage(*usage), model, finish_reason)


async def _parts(ask: Callable[[], Awaitable[ModelResponse]]) -> list[Any]:
    """A response as a value that any saver takes."""
    response = await ask()
    return [response.message, response.usage.to_list(), response.model, response.finish_reason]


def usage_in_journal(pending: Pending) -> Usage:
    """Return the usage of the answers that the journal of a checkpoint keeps."""
    kept = [entry.value for (_, name, _), entry in pending.journal.items() if name.startswith(_STEP)]
    return sum((Usage(*parts[1]) for parts in kept), Usage())
