"""What a worker does with a chunk: call a function for each of its items, and return the replies as bytes.

The function is called as `function(item, effects)`. It appends to `effects` what else it has done, which the caller
performs: values for a stream, amounts to count against a budget. The effects of a call that raises are returned too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from contextvars import copy_context
from time import perf_counter
from typing import Any, NamedTuple

from statewright.executors.exceptions import Dumps, PackedError, pack_error
from statewright.executors.port import SharedValue, pickling_error

ItemFunction = Callable[[Any, list[Any]], Any]


class Reply(NamedTuple):
    """The result of one call."""

    value: Any
    error: PackedError | None = None
    """The exception that the call has raised; None if it has returned `value`."""
    effects: list[Any] | None = None


class ChunkReplies(NamedTuple):
    """The results of a chunk."""

    seconds: float
    """The duration of all calls, without pickling."""
    replies: list[Reply]


_functions: dict[str, ItemFunction] = {}
"""The functions that this process has loaded, by the keys of their shared values."""
MAX_FUNCTIONS = 64


def run_chunk(function: SharedValue, payload: bytes, dumps: Dumps) -> bytes:
    """Execute a chunk, and return its pickled `ChunkReplies`. Raises an error if nothing could be executed at all."""
    call = _load(function)
    items: list[Any] = pickle.loads(payload)
    began_at = perf_counter()
    replies = [_call(call, item, dumps) for item in items]
    seconds = perf_counter() - began_at
    try:
        return dumps(ChunkReplies(seconds, replies))
    except Exception:
        return dumps(ChunkReplies(seconds, [_picklable(reply, dumps) for reply in replies]))


def forget_functions(keys: Iterable[str]) -> None:
    """Delete loaded functions that are not needed any more."""
    for key in keys:
        _functions.pop(key, None)


def _load(function: SharedValue) -> ItemFunction:
    call = _functions.get(function.key)
    if call is None:
        while len(_functions) >= MAX_FUNCTIONS:
            _functions.pop(next(iter(_functions)))
        call = _functions[function.key] = pickle.loads(function.get())
    return call


def _call(call: ItemFunction, item: Any, dumps: Dumps) -> Reply:
    effects: list[Any] = []
    try:
        value = copy_context().run(call, item, effects)  # what one call sets there is not for the next
    except BaseException as error:  # SystemExit too: it is the caller's process that the node wants to end
        return Reply(None, pack_error(error, dumps), effects or None)
    return Reply(value, None, effects or None)


def _picklable(reply: Reply, dumps: Dumps) -> Reply:
    """Return a reply, or in its place the error that it cannot be pickled."""
    try:
        dumps(reply)
    except Exception as error:
        failure = pickling_error(f"The result {_short(reply.value)}", error)
        return Reply(None, pack_error(failure, dumps))
    return reply


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
