"""Values as bytes and back: MessagePack with extension types, for types that are known beforehand and for no others.

A type is known because a state's schema names it, because it was registered, or because it is Python's or Statewright's
own (see `codecs`). An unknown one is refused when it is written, with the path that leads to it; nothing is ever
imported, called or made because stored data names it. Tags cannot be mistaken for a user's data, as keys of a
dict could.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from enum import Enum, Flag
from functools import partial
from typing import Any, cast

import ormsgpack

from statewright.errors import DamagedDatabase, SerdeError, StatewrightError, StorageError, suggestion
from statewright.ids import is_unicode
from statewright.serde.codecs import BY_TAG, CODECS, EXCEPTION, NUMPY_SCALAR, Codec, codec_of, type_name

OBJECT = 1
"""The tag of a value of a registered type: `[name, what it holds]`."""
_DEEPEST = 200
"""How many containers may lie within each other; MessagePack libraries give up at about a thousand."""
_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
# Only where all keys are known to be native: dates, members of enums and parts of tuples would come back as text.
_CAREFUL_OPTIONS = _OPTIONS | ormsgpack.OPT_NON_STR_KEYS
_NATIVE = (bool, float, bytes, list, memoryview, type(None))
"""The types that MessagePack knows itself, except those of which uncommon values need a codec."""
_NO_BYTEARRAY = frozenset({str, int, float, bool, bytes, type(None)})
_NATIVE_KEYS = (str, int, float, bool, bytes, type(None))

Plain = Callable[[Any], Any]
Made = Callable[[Any], Any]
Upgrade = Callable[[dict[str, Any]], Mapping[str, Any]]
"""The fields of a value as they were stored, to those that its class has today."""


class _Registered:
    """How values of a user's type are stored."""

    __slots__ = ("made", "name", "plain", "type")

    def __init__(self, kind: type, name: str, plain: Plain, made: Made) -> None:
        self.type = kind
        self.name = name
        self.plain = plain
        self.made = made


class Serde:
    """Writes values as bytes, and reads them."""

    def __init__(self, types: Iterable[type] = ()) -> None:
        self._by_type: dict[type, _Registered] = {}
        self._by_name: dict[str, _Registered] = {}
        self._codecs: dict[type, Codec | None] = {}
        # How many values lie within each other is limited here: each takes some of Python's stack when it is read.
        self._extended = tuple(partial(self._extension, depth) for depth in range(_DEEPEST))
        self.allow(types)

    def allow(self, types: Iterable[type]) -> None:
        """Let values of these classes be stored, under their modules and names, unless that is known already."""
        for kind in types:
            if not self.knows(kind):
                self.register(kind)

    def register(
        self,
        kind: type,
        *,
        name: str | None = None,
        former_names: Sequence[str] = (),
        upgrade: Upgrade | None = None,
        encode: Plain | None = None,
        decode: Made | None = None,
    ) -> None:
        """Let values of a class be stored under a name, which is its module and name if not given.

        Values that were stored under `former_names` are read as this class. `upgrade` makes the fields that were
        stored by a version of the class that had others into those of today. A class of another kind
        needs `encode`, to something that can be stored, and `decode`. Raises SerdeError if it has neither.
        """
        plain, made = (encode, decode) if encode and decode else _ways(kind, upgrade)
        registered = _Registered(kind, name or type_name(kind), plain, made)
        self._by_type[kind] = registered
        for one in (registered.name, *former_names):
            self._by_name[one] = registered

    def knows(self, kind: type) -> bool:
        """Return whether values of a class can be stored."""
        return kind in self._by_type or kind in _NATIVE or self._codec(kind) is not None

    def name_of(self, kind: type[Any]) -> str | None:
        """Return the stored name of a registered class."""
        found = self._by_type.get(kind)
        return found.name if found is not None else None

    def named(self, name: str) -> type[Any] | None:
        """Return the registered class for a name."""
        found = self._by_name.get(name)
        return found.type if found is not None else None

    def encode(self, value: Any, where: str = "value") -> bytes:
        """Return the value as bytes. Raises SerdeError with the path, from `where`, to a part that cannot be stored."""
        try:
            packed = ormsgpack.packb(value, self._extended[0], _OPTIONS)
        except Exception:  # slowly now: find out where it is, or write what only needs more care
            return ormsgpack.packb(self._with_care(value, where, 0), None, _CAREFUL_OPTIONS)
        # A bytearray is packed as if it were bytes, and nobody is asked: look for one where something was.
        may_hold_bytes = b"\xc4" in packed or b"\xc5" in packed or b"\xc6" in packed  # what stands before bytes
        if may_hold_bytes and self._holds_bytearray(value):
            return ormsgpack.packb(self._with_care(value, where, 0), None, _CAREFUL_OPTIONS)
        return packed

    def decode(self, data: bytes) -> Any:
        """Reverse `encode`. Raises SerdeError for unknown types, DamagedDatabase for invalid bytes."""
        failed: list[BaseException] = []
        try:
            return self._unpacked(data, failed)
        except Exception as error:
            reason = failed[0] if failed else error
        if isinstance(reason, StorageError) or not isinstance(reason, Exception):
            raise reason
        raise DamagedDatabase(f"a stored value cannot be read: {reason}") from reason

    # -- writing

    def _extension(self, depth: int, value: object) -> ormsgpack.Ext:
        """Return a value of a type that MessagePack lacks as an extension."""
        registered = self._by_type.get(type(value))
        if registered is not None:
            tag, plain = OBJECT, [registered.name, registered.plain(value)]
        else:
            codec = self._codec(type(value))
            if codec is None:
                raise TypeError
            tag, plain = codec.tag, codec.plain(value)
        return ormsgpack.Ext(tag, ormsgpack.packb(plain, self._extended[depth + 1], _OPTIONS))

    def _holds_bytearray(self, value: Any) -> bool:
        """Look for one at any depth; a loop over a stack, as calls would cost more than the rest of `encode`."""
        stack: list[Any] = [value]
        while stack:
            part = stack.pop()
            kind = cast("type[Any]", type(part))
            if kind is bytearray:
                return True
            if kind is dict:
                inside: Iterable[Any] = part.values()
            elif kind is list or kind is tuple:
                inside = part
            else:
                convert = self._by_type.get(kind) or self._codec(kind)
                inside = (convert.plain(part),) if convert is not None else ()
            stack.extend([one for one in inside if type(one) not in _NO_BYTEARRAY])
        return False

    def _codec(self, kind: type) -> Codec | None:
        try:
            return self._codecs[kind]
        except KeyError:
            found = self._codecs[kind] = _codec_of(kind)
            return found

    def _with_care(self, value: Any, path: str, depth: int) -> Any:
        """Return the value with extensions for everything that MessagePack lacks. Raises SerdeError."""
        if depth > _DEEPEST:
            raise SerdeError(path, "it is nested too deep, or contains itself")
        kind = cast("type[Any]", type(value))
        if kind is str:
            return value if is_unicode(value) else self._packed(CODECS["builtins.str"], value, path, depth)
        if kind is int:
            return value if -(2**63) <= value < 2**64 else self._packed(CODECS["builtins.int"], value, path, depth)
        if value is None or kind in (bool, float, bytes):
            return value
        if kind is memoryview:
            return bytes(value)
        if kind is list:
            return [self._with_care(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
        if kind is dict:
            if not all(type(key) in _NATIVE_KEYS and _is_native_key(key) for key in value):
                return self._pairs(value, path, depth)
            return {key: self._with_care(one, _below(path, key), depth + 1) for key, one in value.items()}
        registered = self._by_type.get(kind)
        if registered is not None:
            return self._object(registered, value, path, depth)
        codec = self._codec(kind)
        if codec is None:
            raise SerdeError(path, self._unknown(value))
        return self._packed(codec, value, path, depth)

    def _pairs(self, value: dict[Any, Any], path: str, depth: int) -> ormsgpack.Ext:
        """Return a dict with keys that MessagePack lacks as an extension."""
        pairs = [
            [self._with_care(key, f"a key of {path}", depth + 1), self._with_care(one, _below(path, key), depth + 1)]
            for key, one in value.items()
        ]
        return ormsgpack.Ext(CODECS["builtins.dict"].tag, ormsgpack.packb(pairs, None, _CAREFUL_OPTIONS))

    def _object(self, registered: _Registered, value: Any, path: str, depth: int) -> ormsgpack.Ext:
        plain = _called(registered.plain, value, path)
        if registered.plain is _plain_pydantic:  # its fields are in the first part, which is no place of their path
            held = [self._with_care(part, path, depth + 1) for part in plain]
        else:
            held = self._with_care(plain, path, depth + 1)
        return ormsgpack.Ext(OBJECT, ormsgpack.packb([registered.name, held], None, _CAREFUL_OPTIONS))

    def _packed(self, codec: Codec, value: Any, path: str, depth: int) -> ormsgpack.Ext:
        inside = self._with_care(_called(codec.plain, value, path), path, depth + 1)
        return ormsgpack.Ext(codec.tag, ormsgpack.packb(inside, None, _CAREFUL_OPTIONS))

    def _unknown(self, value: Any) -> str:
        kind = cast("type[Any]", type(value))
        return (
            f"its type {type_name(kind)} is not known. Name the type in the annotations of the state, "
            f"or register it: saver.serde.register({kind.__name__})"
        )

    # -- reading

    def _unpacked(self, data: bytes, failed: list[BaseException]) -> Any:
        """Return the value of packed bytes. The first nested error is added to `failed`, since ormsgpack hides it."""

        unpack, codecs, options = ormsgpack.unpackb, BY_TAG, ormsgpack.OPT_NON_STR_KEYS

        def made(tag: int, inside: bytes) -> Any:
            try:
                plain = unpack(inside, ext_hook=made, option=options)
                codec = codecs.get(tag)
                return codec.made(plain) if codec is not None else self._made_object(tag, plain)
            except BaseException as error:
                failed.append(error)
                raise

        return unpack(data, ext_hook=made, option=options)

    def _made_object(self, tag: int, plain: Any) -> Any:
        """Return a value of a user-defined type."""
        codec = codec_of(tag)
        if codec is not None:
            return codec.made(plain)
        if tag != OBJECT:
            raise SerdeError(f"tag {tag}", "it was stored by a newer version of Statewright: use that one")
        name, inside = plain
        registered = self._by_name.get(name)
        if registered is None:
            raise SerdeError(
                name,
                "it was stored, but nobody has said that this type may be read. Compile a graph whose state names "
                "it, or register it. " + suggestion(name, self._by_name, noun="Known types"),
            )
        try:
            return registered.made(inside)
        except StatewrightError:
            raise
        except Exception as error:
            raise SerdeError(name, f"its class does not take what was stored: {error}") from error


def _codec_of(kind: type) -> Codec | None:
    """Return the codec for values of a type of Python's or of Statewright's."""
    found = CODECS.get(type_name(kind))
    if found is not None:
        return found
    if issubclass(kind, BaseException):
        return EXCEPTION
    if kind.__module__.startswith("langchain_core."):
        from statewright.serde.langchain_codec import codec_for  # few states hold messages of LangChain

        return codec_for(cast("type[Any]", kind))
    return NUMPY_SCALAR if any(type_name(one) == "numpy.generic" for one in kind.__mro__) else None


def _ways(kind: Any, upgrade: Upgrade | None) -> tuple[Plain, Made]:
    """Return the encoder and the decoder for values of a user-defined class."""
    if issubclass(kind, Flag):
        return (lambda value: value.value), kind  # several at once have no name
    if issubclass(kind, Enum):
        return (lambda value: value.name), _member_of(kind)
    if dataclasses.is_dataclass(kind):
        return _plain_dataclass(kind), _made_dataclass(kind, upgrade)
    if hasattr(kind, "model_fields"):
        return _plain_pydantic, _made_pydantic(kind, upgrade)
    if hasattr(kind, "_fields") and issubclass(kind, tuple):
        return (lambda value: value._asdict()), _made_named_tuple(kind, upgrade)
    refusal = "it is no dataclass, pydantic model, Enum or NamedTuple. Register it with encode= and decode="
    raise SerdeError(type_name(cast(type, kind)), refusal)


def _member_of(kind: type[Enum]) -> Made:
    def made(name: str) -> Any:
        try:
            return kind[name]
        except KeyError:
            known = suggestion(name, kind.__members__, noun="Members")
            raise SerdeError(type_name(kind), f"it has no member {name!r} any more. {known}") from None

    return made


def _plain_dataclass(kind: Any) -> Plain:
    names = tuple(field.name for field in dataclasses.fields(kind))

    def plain(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names if hasattr(value, name)}

    return plain


def _made_dataclass(kind: Any, upgrade: Upgrade | None) -> Made:
    """Makes values as they were, without their `__init__`: that was run when they were first made."""
    fields = {field.name: field for field in dataclasses.fields(kind)}

    def made(stored: dict[str, Any]) -> Any:
        values = _upgraded(stored, fields, upgrade)
        _check_fields(kind, values, fields)
        made: Any = object.__new__(kind)
        for name, field in fields.items():
            if name in values:
                object.__setattr__(made, name, values[name])
            elif field.default is not dataclasses.MISSING:
                object.__setattr__(made, name, field.default)
            elif field.default_factory is not dataclasses.MISSING:
                object.__setattr__(made, name, field.default_factory())
            elif field.init:  # others may never have been set
                raise TypeError(f"it has no {name!r}, which the class has without a default. Register it with upgrade=")
        return made

    return made


def _upgraded(stored: dict[str, Any], fields: Iterable[str], upgrade: Upgrade | None) -> dict[str, Any]:
    """Return stored fields in the form of the current class, if it had others then."""
    return stored if upgrade is None or stored.keys() == set(fields) else dict(upgrade(stored))


def _check_fields(kind: type, stored: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Raise SerdeError for stored fields that the class does not have any more: nothing is dropped in silence."""
    gone = [name for name in stored if name not in fields]
    if gone:
        raise SerdeError(
            type_name(kind),
            f"a value was stored with {', '.join(map(repr, gone))}, which the class does not have any more. "
            f"Register it with upgrade=, a function from the stored fields to those of today",
        )


def _plain_pydantic(value: Any) -> list[Any]:
    """Return the parts of a model: its fields, the names of set fields, extra values and private values."""
    state = value.__getstate__()
    held: dict[str, Any] = state["__dict__"]  # where cached properties are too
    names: Any = cast(Any, type(value)).model_fields
    parts: list[Any] = [{name: held[name] for name in names if name in held}, sorted(state["__pydantic_fields_set__"])]
    extra: Any = state.get("__pydantic_extra__")
    private: Any = state.get("__pydantic_private__")
    return [*parts, extra, private] if private else [*parts, extra] if extra else parts


def _made_pydantic(kind: Any, upgrade: Upgrade | None) -> Made:
    """Makes values as they were, without validators, unless the model has other fields by now."""

    def made(parts: list[Any]) -> Any:
        padded: list[Any] = [*parts, None, None]
        stored, were_set, extra, private = padded[:4]
        takes_extra = kind.model_config.get("extra") == "allow"
        if stored.keys() != kind.model_fields.keys() or (extra and not takes_extra):
            made = _validated(kind, stored, extra or {}, upgrade)
            # Values that nobody had set do not count as set because they are validated now.
            made.__pydantic_fields_set__.difference_update(stored.keys() - set(were_set))
            if private and made.__pydantic_private__ is not None:
                made.__pydantic_private__.update(_private(kind, private))
            return made
        made = kind.__new__(kind)
        made.__setstate__(
            {
                "__dict__": stored,
                "__pydantic_fields_set__": set(were_set),
                "__pydantic_extra__": (extra or {}) if takes_extra else None,
                "__pydantic_private__": _private(kind, private or {}) if kind.__private_attributes__ else None,
            }
        )
        return made

    return made


def _validated(kind: Any, stored: dict[str, Any], extra: dict[str, Any], upgrade: Upgrade | None) -> Any:
    """Return a model of the current class from the parts of a former class."""
    values = {**extra, **stored}
    if upgrade is not None:
        values = dict(upgrade(values))
    beside = extra if kind.model_config.get("extra") == "allow" else {}
    _check_fields(kind, values, {**kind.model_fields, **beside})
    return kind.model_validate(values, by_name=True, by_alias=False)


def _private(kind: Any, stored: dict[str, Any]) -> dict[str, Any]:
    """Return the private values of a model: the stored ones, and defaults of newer ones."""
    from pydantic_core import PydanticUndefined

    def default(attribute: Any) -> Any:
        return deepcopy(attribute.default) if attribute.default_factory is None else attribute.default_factory()

    attributes = kind.__private_attributes__
    values = {name: stored[name] if name in stored else default(one) for name, one in attributes.items()}
    return {name: value for name, value in values.items() if value is not PydanticUndefined}


def _made_named_tuple(kind: Any, upgrade: Upgrade | None) -> Made:
    def made(stored: dict[str, Any]) -> Any:
        values = _upgraded(stored, kind._fields, upgrade)
        _check_fields(kind, values, kind._fields)
        return kind(**values)

    return made


def _called(plain: Plain, value: Any, path: str) -> Any:
    try:
        return plain(value)
    except StatewrightError:
        raise
    except Exception as error:
        raise SerdeError(path, f"{error}") from error


def _is_native_key(key: Any) -> bool:
    if type(key) is str:
        return is_unicode(key)
    return type(key) is not int or -(2**63) <= key < 2**64


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"
