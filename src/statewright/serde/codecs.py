"""Codecs for types that MessagePack lacks.

The tag of a codec is part of stored data, so its meaning never changes. The codec of a value is found by the exact type
of the value, not by a base class. Types are referred to by name, so that no module is imported for values that do not
occur.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from functools import partial
from typing import Any, NamedTuple, cast

from statewright import errors
from statewright.channels import MISSING, Added, Merged, MessageBatch, Overwrite
from statewright.errors import SerdeError, StoredError, add_note
from statewright.ids import short_id, whole_id
from statewright.langchain_forms import ROLES
from statewright.messages import Message, RemoveMessage, ToolCall, ToolResult


class Codec(NamedTuple):
    """The conversion of values of one type."""

    tag: int
    type: str
    """The module and name of the type, joined by a dot."""
    encode: Callable[[Any], Any]
    """Converts a value to plain data, which may contain values of other types that have codecs."""
    decode: Callable[[Any], Any]
    """Converts the plain data back to a value."""


CODECS: dict[str, Codec] = {}
"""Codecs by the name of their type."""
BY_TAG: dict[int, Codec] = {}
"""Codecs by their tag."""


def register_codec(tag: int, cls: str | type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Register a codec for a type of Statewright or Python, which is given by its class or by its name.

    Users' types are registered with a `Serde` instead.
    """
    name = cls if isinstance(cls, str) else type_name(cls)
    codec = Codec(tag, name, encode, decode)
    if BY_TAG.setdefault(tag, codec).type != name:
        raise errors.InternalError(f"The tag {tag} of {name!r} is taken by {BY_TAG[tag].type!r}.")
    CODECS[name] = codec


_MODULES: Mapping[int, str] = {
    47: "statewright.checkpoint.model",
    50: "statewright.graph.command",
    51: "statewright.graph.context",
    52: "statewright.graph.mapping",
    **dict.fromkeys((53, 54, 55), "statewright.workflow.states.engine.visit"),
    56: "statewright.workflow.states.engine.token",
    57: "statewright.agents.state.result",
    58: "statewright.graph.command",
    59: "statewright.serde.langchain_codec",
}
"""Modules that register codecs, by tag. Most belong to higher layers. A module is imported when its tag is read."""


def codec_of(tag: int) -> Codec | None:
    """Return the codec of a tag; None if this version of Statewright has none."""
    if tag not in BY_TAG and tag in _MODULES:
        importlib.import_module(_MODULES[tag])
    return BY_TAG.get(tag)


def type_name(cls: type) -> str:
    """Return the module and the name of a type, joined by a dot."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _trimmed(*parts: Any) -> list[Any]:
    """Return the parts without None values at the end."""
    trimmed = list(parts)
    while trimmed and trimmed[-1] is None:
        trimmed.pop()
    return trimmed


# -- Python's types

register_codec(2, tuple, list, tuple)
register_codec(3, set, list, set)
register_codec(4, frozenset, list, frozenset)


def _encode_zone(zone: tzinfo | None) -> Any:
    """Return a time zone as its key, its offset in seconds, or a list of the offset and a custom name."""
    if zone is None:
        return None
    name = getattr(zone, "key", None)
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(None)
    if offset is None:
        raise ValueError(f"the time zone {zone!r} has neither a name nor a fixed offset. Use zoneinfo.ZoneInfo")
    seconds, offset_name = offset.total_seconds(), zone.tzname(None)
    is_default_name = offset_name is None or offset_name == timezone(offset).tzname(None)
    return seconds if is_default_name else [seconds, offset_name]


def _decode_zone(stored: Any) -> tzinfo | None:
    if isinstance(stored, str):
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            return ZoneInfo(stored)
        except ZoneInfoNotFoundError:
            raise SerdeError(
                f"the time zone {stored!r}", "it is not in the time zone database of this machine. Install tzdata"
            ) from None
    if isinstance(stored, list):
        seconds, name = cast("list[Any]", stored)
        return timezone(timedelta(seconds=seconds), name)
    return None if stored is None else timezone(timedelta(seconds=stored))


def _encode_time(value: datetime | time) -> list[Any]:
    return [value.replace(tzinfo=None, fold=0).isoformat(), _encode_zone(value.tzinfo), value.fold]


def _decode_time(cls: type[datetime] | type[time], parts: Sequence[Any]) -> datetime | time:
    return cls.fromisoformat(parts[0]).replace(tzinfo=_decode_zone(parts[1]), fold=parts[2])


register_codec(5, datetime, _encode_time, partial(_decode_time, datetime))
register_codec(6, date, date.isoformat, date.fromisoformat)
register_codec(7, time, _encode_time, partial(_decode_time, time))
register_codec(
    8, timedelta, lambda value: [value.days, value.seconds, value.microseconds], lambda parts: timedelta(*parts)
)


def _function_of(module: str, name: str) -> Callable[..., Any]:
    """Return a function that, when it is called, imports a module and calls the function `name` of the module."""

    def call(value: Any) -> Any:
        return getattr(importlib.import_module(module), name)(value)

    return call


register_codec(9, "decimal.Decimal", str, _function_of("decimal", "Decimal"))
for _number, _path in enumerate(("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")):
    _class = _path if _path.startswith("Pure") else "Path"  # a path of another system is restored as one of this system
    register_codec(10 + _number, f"pathlib.{_path}", str, _function_of("pathlib", _class))
    CODECS[f"pathlib._local.{_path}"] = BY_TAG[10 + _number]  # the module of these classes in Python 3.13
register_codec(
    14, "uuid.UUID", lambda value: value.bytes, lambda stored: importlib.import_module("uuid").UUID(bytes=stored)
)
register_codec(
    15,
    int,
    lambda value: value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True),
    lambda stored: int.from_bytes(stored, "little", signed=True),
)
"""Integers of more than 64 bits, which MessagePack lacks."""
register_codec(
    16,
    str,
    lambda value: value.encode("utf-8", "surrogatepass"),
    lambda stored: stored.decode("utf-8", "surrogatepass"),
)
"""Text with lone surrogates, which is not valid Unicode."""
register_codec(17, dict, lambda value: [[key, item] for key, item in value.items()], dict)
"""Dicts with keys that MessagePack lacks."""
register_codec(19, complex, lambda value: [value.real, value.imag], lambda parts: complex(*parts))
register_codec(20, range, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts))
register_codec(
    21,
    "collections.deque",
    lambda value: [list(value), value.maxlen],
    lambda parts: importlib.import_module("collections").deque(*parts),
)
register_codec(
    22, "collections.OrderedDict", lambda value: list(value.items()), _function_of("collections", "OrderedDict")
)
register_codec(23, "collections.Counter", dict, _function_of("collections", "Counter"))
register_codec(27, bytearray, bytes, bytearray)

# -- numpy


def _encode_array(array: Any) -> Any:
    if array.dtype.hasobject:
        raise ValueError(f"an array of {array.dtype} contains objects. Store a list of them")
    return [_encode_dtype(array.dtype), list(array.shape), array.tobytes()]


def _encode_dtype(dtype: Any) -> Any:
    stored = dtype.str if dtype.names is None else [list(field) for field in dtype.descr]
    if _decode_dtype(stored) != dtype:
        raise ValueError(f"{dtype!r} has gaps between its fields. Use numpy.lib.recfunctions.repack_fields")
    return stored


def _decode_dtype(stored: Any) -> Any:
    numpy = importlib.import_module("numpy")
    return numpy.dtype(stored if isinstance(stored, str) else [tuple(field) for field in stored])


def _decode_array(parts: Sequence[Any]) -> Any:
    numpy = importlib.import_module("numpy")
    # The bytearray makes the array writable; one that shares the memory of bytes would be read-only. The memoryview
    # rejects an integer in damaged or tampered data, for which bytearray would allocate that many bytes.
    return numpy.frombuffer(bytearray(memoryview(parts[2])), dtype=_decode_dtype(parts[0])).reshape(parts[1])


def _encode_scalar(value: Any) -> Any:
    return _encode_array(importlib.import_module("numpy").asarray(value))


def _decode_scalar(parts: Sequence[Any]) -> Any:
    return _decode_array(parts)[()]


register_codec(24, "numpy.ndarray", _encode_array, _decode_array)
NUMPY_SCALAR = Codec(25, "numpy.generic", _encode_scalar, _decode_scalar)
BY_TAG[25] = NUMPY_SCALAR

# -- exceptions, for logs and error handlers


def _encode_exception(error: BaseException) -> Any:
    """Return the name of the class, the message, the notes and, unless they are just the message, the arguments."""
    name = error.kind if isinstance(error, StoredError) else type_name(type(error))
    text, args = str(error), error.args
    parts = [name, text, [str(note) for note in getattr(error, "__notes__", ())]]
    return [*parts, list(args)] if args != (text,) and _is_simple(args) else parts


def _is_simple(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_simple, cast("tuple[Any, ...]", value)))
    return value is None or type(value) in (str, bytes, bool, int, float)


def _decode_exception(parts: Sequence[Any]) -> BaseException:
    """Return the exception if its class belongs to Python or Statewright, else a StoredError."""
    name, text, notes, *args = parts
    error = _rebuild_exception(name, text, [*args, [text]]) or StoredError(name, text)
    for note in notes:
        add_note(error, note)
    return error


def _rebuild_exception(name: str, text: str, candidates: Sequence[Sequence[Any]]) -> BaseException | None:
    """Return an exception with the first of the candidate arguments that give it the message `text`.

    Returns None if no candidate does, or if the class is not an exception of Python or Statewright.
    """
    module_name, _, class_name = name.rpartition(".")
    module: Any = {"builtins": builtins, errors.__name__: errors}.get(module_name)
    cls: Any = getattr(module, errors.FORMER_NAMES.get(class_name, class_name), None)
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        return None
    for args in candidates:
        try:
            # Statewright's errors compose their message in `__init__`, which must not be called with the message.
            error = cls(*args) if module is builtins else cls.__new__(cls, *args)
        except Exception:  # the class requires other arguments, as ExceptionGroup does
            continue
        error.args = tuple(args)
        if str(error) == text:
            return error
    return None


EXCEPTION = Codec(26, "builtins.BaseException", _encode_exception, _decode_exception)
BY_TAG[26] = EXCEPTION


# -- Statewright's types


def _encode_message(message: Message) -> Any:
    role = message.role
    return _trimmed(
        message.content,
        ROLES.index(role) if role in ROLES else role,
        None if message.id is None else short_id(message.id),
        message.name,
        list(message.tool_calls) or None,
        message.tool_call_id,
        message.metadata,
    )


def _decode_message(parts: list[Any]) -> Message:
    if len(parts) == 3:  # nearly all messages, handled first for speed
        content, role, message_id = parts
        return Message(content, ROLES[role] if type(role) is int else role, whole_id(message_id))
    content, role, *optional = parts
    if len(parts) > 2 and optional[0] is not None:
        optional[0] = whole_id(optional[0])
    if len(parts) > 4:
        optional[2] = tuple(cast("list[Any]", optional[2] or ()))
    return Message(content, cast(str, role if type(role) is str else ROLES[role]), *optional)


register_codec(40, Message, _encode_message, _decode_message)
register_codec(
    41,
    ToolCall,
    lambda call: _trimmed(call.id, call.name, call.arguments, call.invalid),
    lambda parts: ToolCall(*parts),
)
register_codec(
    42,
    ToolResult,
    lambda result: [result.tool_call_id, result.content, result.name],
    lambda parts: ToolResult(*parts),
)
register_codec(43, RemoveMessage, lambda message: message.id, RemoveMessage)
register_codec(
    44,
    MessageBatch,
    lambda batch: [batch.items, batch.all_new],
    lambda parts: MessageBatch(parts[0], all_new=parts[1]),
)
register_codec(45, Overwrite, lambda update: update.value, Overwrite)
register_codec(46, cast("type[Any]", type(MISSING)), lambda _: None, lambda _: MISSING)
register_codec(48, Added, lambda change: list(change.items), Added)
register_codec(49, Merged, lambda change: list(change.items), Merged)
