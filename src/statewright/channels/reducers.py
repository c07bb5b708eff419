"""Predefined reducers, and the conversion of reducers in annotations to channels.

`append` and `overwrite` can be called like any reducer. In an annotation, they stand for channels with the same effect
that are faster. For a list field, so does `operator.add`.
"""

from __future__ import annotations

import inspect
import operator
import typing
from collections.abc import Callable
from typing import Any, cast

from statewright.channels.channel import MISSING, Channel
from statewright.channels.kinds import AnyValue, Append, Ephemeral, Reduced, Reducer
from statewright.channels.messages import Messages, add_messages
from statewright.errors import InvalidSchema


def append(current: Any, update: Any) -> list[Any]:
    """Return `current` with an update added at its end: the items of a list, or any other value as one item."""
    return Append().apply(MISSING if current is None else current, [update])


def overwrite(current: Any, update: Any) -> Any:
    """Return `update`, which replaces `current`."""
    return update


AppendReducer = append
OverwriteReducer = overwrite
EphemeralReducer = Ephemeral

Start = Callable[[], Any]


def is_reducer(candidate: object) -> bool:
    """Return whether an object in an annotation is a channel, a class of channels or a function, rather than a type."""
    if typing.get_origin(candidate) is not None:
        return False
    if isinstance(candidate, type):
        return issubclass(candidate, Channel)
    return isinstance(candidate, Channel) or callable(candidate)


def channel_for(reducer: object, *, start: Start | None, is_list: bool, field: str) -> Channel:
    """Return the channel for a reducer in the annotation of a field.

    `start` returns the initial value of the field; it is None if there is none. Raises InvalidSchema for a reducer that
    does not accept two positional arguments.
    """
    if isinstance(reducer, Channel):
        return reducer
    if isinstance(reducer, type):
        return _create_channel(cast(type[Channel], reducer), field)
    if reducer is overwrite:
        return AnyValue()
    if reducer is add_messages:
        return Messages()
    channel = getattr(reducer, "channel", None)
    if isinstance(channel, Channel):  # a channel with the same effect as the reducer, whose changes are smaller
        return channel
    if reducer is append:
        return Append(start=start if is_list else None)
    if reducer is operator.add and is_list:
        return Append(items=False, start=start)
    _check_parameters(cast(Reducer, reducer), field)
    return Reduced(cast(Reducer, reducer), start=start)


def _create_channel(cls: type[Channel], field: str) -> Channel:
    try:
        return cls()
    except TypeError as error:
        raise InvalidSchema(f"Field {field!r}: {cls.__name__} needs arguments: {error}.") from error


def _check_parameters(reducer: Reducer, field: str) -> None:
    try:
        signature = inspect.signature(reducer)
    except ValueError:  # builtins such as max have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError:
        name = getattr(reducer, "__qualname__", repr(reducer))
        raise InvalidSchema(
            f"Field {field!r}: the reducer {name}{signature} cannot be called with (current, update). "
            f"Give it two positional parameters."
        ) from None
