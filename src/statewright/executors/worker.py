"""The execution of a chunk in a worker: call a function for each of its items, and return the replies as bytes.

The function is called as `function(item, effects)`. It appends to `effects` what else it has done, which the caller
performs: values for a stream, amounts to count against a budget. The effects of a call that raises are returned too.

Pickle fails as a whole, and one value of a call that pickles may not be restored elsewhere. So each part of a reply is
pickled alone: what one call returns costs neither another call its result nor its own effects. The items of a chunk are
pickled together, because they often share large values. If they cannot be restored, nothing has been executed yet, and
the caller sends them again as `SeparateItems`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from contextvars import copy_context
from time import perf_counter
from typing import Any, NamedTuple

from statewright.executors.exceptions import Dumps, PackedError, pack_error, repr_of
from statewright.executors.port import SharedValue, pickling_error, restoring_error

ItemFunction = Callable[[Any, list[Any]], Any]


class SeparateItems(NamedTuple):
    """Calls that were pickled one by one."""

    items: list[bytes]


class Reply(NamedTuple):
    """The result of one call."""

    value: bytes | None
    """The pickled result of the call."""
    error: PackedError | None = None
    """The exception that the call has raised; None if it has returned `value`."""
    effects: tuple[bytes, ...] = ()
    """Its other effects, each pickled."""


class ChunkReplies(NamedTuple):
    """The results of a chunk. Holds bytes and text only, so that it can always be restored."""

    seconds: float
    """The duration of all calls, without pickling."""
    replies: list[Reply | bytes] | None
    """Bytes are the value of a call without effects. None if the items could not be restored together, so that nothing
    was executed."""


_functions: dict[str, ItemFunction] = {}
"""The functions that this process has loaded, by the keys of their shared values."""
MAX_FUNCTIONS = 64


def run_chunk(function: SharedValue, payload: bytes, dumps: Dumps) -> bytes:
    """Execute a chunk, and return its pickled `ChunkReplies`. Raises an error if nothing could be executed at all."""
    call = _load(function)
    try:
        items: Any = pickle.loads(payload)
    except Exception:
        return pickle.dumps(ChunkReplies(0.0, None))
    run_item = _call
    if isinstance(items, SeparateItems):
        items, run_item = items.items, _call_pickled
    began_at = perf_counter()
    results = [run_item(call, item, dumps) for item in items]
    seconds = perf_counter() - began_at
    replies = [_pickle(*result, dumps) for result in results]
    return pickle.dumps(ChunkReplies(seconds, replies), pickle.HIGHEST_PROTOCOL)


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


_Result = tuple[Any, PackedError | None, list[Any]]
"""The value that a call has returned, the error that it has raised, and its effects."""


def _call(call: ItemFunction, item: Any, dumps: Dumps) -> _Result:
    effects: list[Any] = []
    try:
        value = copy_context().run(call, item, effects)  # what one call sets there is not for the next
    except BaseException as error:  # SystemExit too: it is the caller's process that the node wants to end
        return None, pack_error(error, dumps), effects
    return value, None, effects


def _call_pickled(call: ItemFunction, data: bytes, dumps: Dumps) -> _Result:
    try:
        item = pickle.loads(data)
    except Exception as error:
        return None, pack_error(restoring_error("The input", "in a worker", error), dumps), []
    return _call(call, item, dumps)


def _pickle(value: Any, error: PackedError | None, effects: list[Any], dumps: Dumps) -> Reply | bytes:
    """Return a result as bytes. If a part cannot be pickled, the result is an error, but the other effects are kept."""
    data, pickled = None, list[bytes]()
    if error is None:
        try:
            data = dumps(value)
            if not effects:
                return data
        except Exception as failure:
            error = pack_error(pickling_error(f"The result {_short(value)}", failure), dumps)
    for effect in effects:
        try:
            pickled.append(dumps(effect))
        except Exception as failure:
            error = error or pack_error(pickling_error(f"The effect {_short(effect)} of the call", failure), dumps)
    return Reply(data if error is None else None, error, tuple(pickled))


def _short(value: Any) -> str:
    text = repr_of(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
