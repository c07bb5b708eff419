"""Exceptions that cross the border of a process, and keep their type.

Retry policies, error handlers and `except` clauses choose by type, so an error must arrive as an instance of its own
class. Pickle cannot always do that: many exceptions cannot be pickled (they hold a socket, a lock, a response), and
many can be pickled but not restored, because `__init__` takes other arguments than it passes on. So an exception that
does not survive a round trip is taken apart into its class, the arguments and attributes that can be pickled, and its
text, and is rebuilt without calling `__init__`. If not even its class can be imported, it arrives as a class of the
same name derived from its nearest base class that can; likewise if its text would differ without what was lost. The
exceptions of a group travel one by one, so that one that does not survive costs neither the others nor the group.

The caller would wait forever if an error could not be delivered. So `pack_error` and `unpack_error` do not raise
exceptions, whatever the class of an error does, and `PackedError` can be restored everywhere.

The traceback of the worker is text, as the cause of the exception: frames cannot be pickled.
"""

from __future__ import annotations

import builtins
import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import BuiltinMethodType, MemberDescriptorType
from typing import Any, NamedTuple, TypeGuard

from statewright.errors import add_note


class WorkerTraceback(Exception):  # not an error of its own, but the origin of one
    """The traceback of an exception in its worker process."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"\n{text}")


class PackedError(NamedTuple):
    """An exception as bytes and text, which can always be pickled and restored."""

    pickled: bytes | None
    """The whole exception; None if it does not survive pickling."""
    base: bytes
    """The pickled class of the exception, or its nearest base class that can be pickled."""
    builtin_base: str
    """The name of its nearest base class that exists everywhere."""
    name: str
    """The qualified name of its class."""
    module: str
    args: tuple[bytes, ...]
    """The pickled arguments; the text of those that cannot be pickled. The message, for a group."""
    attributes: dict[str, bytes]
    """The pickled attributes that can be pickled."""
    text: str
    """`str()` of the exception."""
    trace: str
    """The formatted traceback. That of a group shows its members."""
    members: tuple[PackedError, ...] = ()
    """The exceptions of a group."""


Dumps = Callable[[Any], bytes]


def pack_error(error: BaseException, dumps: Dumps) -> PackedError:
    """Return an exception as data. `dumps` pickles a value, and raises if it cannot."""
    try:
        return _pack(error, dumps, "".join(traceback.format_exception(error)))
    except Exception as failure:  # e.g. groups nested too deeply
        base = _builtin_base(type(error))
        if _is_group(error):  # it cannot be created without its members
            base = "Exception" if isinstance(error, Exception) else "BaseException"
        name = type(error).__qualname__
        trace = f"{name}, without a traceback: {type(failure).__name__}"
        return PackedError(None, b"", base, name, _module_of(type(error)), (), {}, _text_of(error), trace)


def unpack_error(packed: PackedError) -> BaseException:
    """Return the exception, with the traceback of the worker as its cause."""
    error = _restore(packed)
    add_note(error, "in a worker process")
    with suppress(Exception):  # of an exception that refuses attributes
        error.__cause__ = WorkerTraceback(packed.trace)
    return error


def _pack(error: BaseException, dumps: Dumps, trace: str) -> PackedError:
    kind, text = type(error), _text_of(error)
    builtin_base, name, module = _builtin_base(kind), kind.__qualname__, _module_of(kind)
    members: tuple[PackedError, ...] = ()
    if _is_group(error):
        args: tuple[Any, ...] = (error.message,)
        members = tuple(_pack(member, dumps, "") for member in error.exceptions)
    else:
        args = error.args
        data = _survivor(error, dumps)
        if data is not None:
            return PackedError(data, b"", builtin_base, name, module, (), {}, text, trace)
    base = next(data for data in (_surviving(base, dumps) for base in kind.__mro__) if data is not None)
    arguments = tuple(_surviving(value, dumps) or pickle.dumps(repr_of(value)) for value in args)
    pickled = {name: _surviving(value, dumps) for name, value in _attributes_of(error).items()}
    attributes = {name: data for name, data in pickled.items() if data is not None}
    return PackedError(None, base, builtin_base, name, module, arguments, attributes, text, trace, members)


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
    with suppress(Exception):  # e.g. its module can be imported in the worker only
        if packed.pickled is None:
            return _rebuild(pickle.loads(packed.base), packed)
        error = pickle.loads(packed.pickled)
        if isinstance(error, BaseException):
            return error
    base: type[BaseException] = getattr(builtins, packed.builtin_base)
    return _create(_derive(base, packed), packed)


def _rebuild(base: type[BaseException], packed: PackedError) -> BaseException:
    """Return an exception of a class, or of a class derived from it for one that cannot be imported."""
    kind = base
    if (base.__qualname__, _module_of(base)) != (packed.name, packed.module):
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
    """Return an exception of a class, without calling the `__new__` and `__init__` of its author."""
    new: Any = next(base.__new__ for base in kind.__mro__ if isinstance(vars(base).get("__new__"), BuiltinMethodType))
    args = tuple(_loaded(data) for data in packed.args)
    if packed.members:
        error: BaseException = new(kind, *args, [_restore(member) for member in packed.members])
    else:
        try:
            error = new(kind, *args)
        except Exception:  # of a class in C that takes other arguments
            error = new(kind)
        error.args = args
    for name, data in packed.attributes.items():
        with suppress(Exception):
            setattr(error, name, pickle.loads(data))
    return error


def _loaded(data: bytes) -> Any:
    """Return an argument, or the reason why it cannot be restored here."""
    try:
        return pickle.loads(data)
    except Exception as error:
        return f"<not restored: {type(error).__name__}: {error}>"


def _builtin_base(kind: type[BaseException]) -> str:
    return next(base.__name__ for base in kind.__mro__ if base.__module__ == "builtins")


def _module_of(kind: type) -> str:
    """Return the name of the module of a class. That of the program's script has another name in a worker."""
    return "__main__" if kind.__module__ == "__mp_main__" else str(kind.__module__)


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:]  # a slice, since `__str__` may return an instance of a subclass
    except Exception as failure:
        return f"<{type(failure).__name__} in __str__>"


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


def _surviving(value: Any, dumps: Dumps) -> bytes | None:
    """Return a pickled value, if it can be unpickled."""
    data = _attempt(dumps, value)
    if data is None:
        return None
    try:
        pickle.loads(data)
    except Exception:
        return None
    return data


def _attempt(dumps: Dumps, value: Any) -> bytes | None:
    try:
        return dumps(value)
    except Exception:
        return None


def repr_of(value: Any) -> str:
    """Return `repr()` of a value, or which error it has raised."""
    try:
        return repr(value)
    except Exception as failure:
        return f"<{type(value).__name__}, of which repr() fails: {type(failure).__name__}>"
