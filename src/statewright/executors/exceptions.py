"""Exceptions that cross the border of a process, and keep their type.

Retry policies, error handlers and `except` clauses choose by type, so an error must arrive as an instance of its own
class. Pickle cannot always do that: many exceptions cannot be pickled (they hold a socket, a lock, a response), and
many can be pickled but not restored, because `__init__` takes other arguments than it passes on. So an exception that
does not survive a round trip is taken apart into its class, the arguments and attributes that can be pickled, and its
text, and is rebuilt without calling `__init__`. If not even its class can be imported, it arrives as a class of the
same name derived from its nearest base class that can; likewise if its text would differ without what was lost.

The traceback of the worker is text, as the cause of the exception: frames cannot be pickled.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any, NamedTuple

from statewright.errors import add_note


class WorkerTraceback(Exception):  # not an error of its own, but the origin of one
    """The traceback of an exception in its worker process."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"\n{text}")


class PackedError(NamedTuple):
    """An exception as data that can always be pickled."""

    pickled: bytes | None
    """The whole exception; None if it does not survive pickling."""
    base: bytes
    """The pickled class of the exception, or its nearest base class that can be pickled."""
    name: str
    """The qualified name of its class."""
    module: str
    args: tuple[Any, ...]
    attributes: dict[str, Any]
    """The attributes that can be pickled."""
    text: str
    """`str()` of the exception."""
    trace: str
    """The formatted traceback."""


Dumps = Callable[[Any], bytes]


def pack_error(error: BaseException, dumps: Dumps) -> PackedError:
    """Return an exception as data. `dumps` pickles a value, and raises if it cannot."""
    trace = "".join(traceback.format_exception(error))
    kind, text = type(error), _text_of(error)
    data = _survivor(error, dumps)
    if data is not None:
        return PackedError(data, b"", kind.__qualname__, kind.__module__, (), {}, text, trace)
    base = next(data for data in (_attempt(dumps, base) for base in kind.__mro__) if data is not None)
    args = tuple(value if _survives(value, dumps) else repr(value) for value in error.args)
    attributes = {name: value for name, value in _attributes_of(error).items() if _survives(value, dumps)}
    return PackedError(None, base, kind.__qualname__, kind.__module__, args, attributes, text, trace)


def unpack_error(packed: PackedError) -> BaseException:
    """Return the exception, with the traceback of the worker as its cause."""
    error = _restore(packed)
    add_note(error, "in a worker process")
    with suppress(Exception):  # of an exception that refuses attributes
        error.__cause__ = WorkerTraceback(packed.trace)
    return error


def _attributes_of(error: BaseException) -> dict[str, Any]:
    """Return the attributes of an exception, those in slots included, such as `OSError.errno`."""
    slots = (
        name
        for kind in type(error).__mro__[:-1]
        for name, member in vars(kind).items()
        if isinstance(member, MemberDescriptorType) and not name.startswith("__")
    )
    values = {name: getattr(error, name, None) for name in slots}
    return {**{name: value for name, value in values.items() if value is not None}, **vars(error)}


def _restore(packed: PackedError) -> BaseException:
    if packed.pickled is not None:
        try:
            return pickle.loads(packed.pickled)
        except Exception:  # e.g. its module can be imported in the worker only
            return _rebuild(RuntimeError, packed)
    try:
        base: type[BaseException] = pickle.loads(packed.base)
    except Exception:
        base = RuntimeError
    return _rebuild(base if base is not object else Exception, packed)


def _rebuild(base: type[BaseException], packed: PackedError) -> BaseException:
    """Return an exception of a class, or of a class derived from it for one that cannot be imported."""
    kind = base
    if (base.__qualname__, base.__module__) != (packed.name, packed.module):
        kind = _derive(base, packed)
    error = _create(kind, packed)
    if _text_of(error) != packed.text:  # `__str__` uses what could not be pickled
        error = _create(_derive(base, packed), packed)
    return error


def _derive(base: type[BaseException], packed: PackedError) -> type[BaseException]:
    """Return a subclass that has the name and the text of the original."""
    text = packed.text

    def as_text(_: BaseException) -> str:
        return text

    body = {"__module__": packed.module, "__qualname__": packed.name, "__str__": as_text}
    return type(packed.name.rpartition(".")[2], (base,), body)


def _create(kind: type[BaseException], packed: PackedError) -> BaseException:
    try:
        error = kind.__new__(kind, *packed.args)
    except TypeError:
        error = kind.__new__(kind)
    error.args = packed.args
    for name, value in packed.attributes.items():
        with suppress(Exception):
            setattr(error, name, value)
    return error


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"<{type(failure).__name__} in __str__: {failure}>"


def _survivor(error: BaseException, dumps: Dumps) -> bytes | None:
    """Return a pickled exception, if unpickling it gives an exception of the same class and text."""
    data = _attempt(dumps, error)
    if data is None:
        return None
    try:
        copy: BaseException = pickle.loads(data)
    except Exception:
        return None
    is_same = type(copy) is type(error) and _text_of(copy) == _text_of(error)
    return data if is_same else None


def _survives(value: Any, dumps: Dumps) -> bool:
    data = _attempt(dumps, value)
    if data is None:
        return False
    try:
        pickle.loads(data)
    except Exception:
        return False
    return True


def _attempt(dumps: Dumps, value: Any) -> bytes | None:
    try:
        return dumps(value)
    except Exception:
        return None
