"""Values as bytes and back: MessagePack with extension types, for known types only.

A type is known if the schema of a state names it, if it was registered (`classes.py` converts its values), or if it
belongs to Python or Statewright (`codecs.py`). Values of other types are refused when they are written, with their
path. Reading never imports, calls or creates anything because stored data names it, so a tampered file cannot run code.
Types are marked by extension tags, because marks in dicts could occur in the data of users.

*Speed.* `encode` first lets ormsgpack pack the value, with a callback for each value of a type that MessagePack lacks.
That is fast, but silently wrong for a bytearray and fails without a path. So if there may be a bytearray, or after an
error, the value is converted again by `_with_care`, which walks it in Python, knows the path of each part, and also
handles big integers, lone surrogates and keys of other types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

import ormsgpack

from statewright.errors import DamagedDatabase, SerdeError, StatewrightError, StorageError, suggestion
from statewright.ids import is_unicode
from statewright.serde.classes import Decoder, Plain, Upgrade, conversions_of, plain_pydantic
from statewright.serde.codecs import BY_TAG, CODECS, EXCEPTION, NUMPY_SCALAR, Codec, codec_of, type_name

OBJECT = 1
"""The tag of a value of a registered type: its name and its plain form."""
_MAX_DEPTH = 200
"""Levels of nested containers; MessagePack libraries give up at about a thousand."""
_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
# Only if all keys are native: dates, members of enums and parts of tuples would come back as text.
_CAREFUL_OPTIONS = _OPTIONS | ormsgpack.OPT_NON_STR_KEYS
_NATIVE = (bool, float, bytes, list, memoryview, type(None))
"""The types that MessagePack supports, except those with uncommon values that need a codec."""
_NO_BYTEARRAY = frozenset({str, int, float, bool, bytes, type(None)})
_NATIVE_KEYS = (str, int, float, bool, bytes, type(None))


class _Registered:
    """The conversion of values of a user-defined class."""

    __slots__ = ("made", "name", "plain", "type")

    def __init__(self, kind: type, name: str, plain: Plain, made: Decoder) -> None:
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
        # One callback for each level: nesting is limited, because each level needs Python's stack when it is read.
        self._callbacks = tuple(partial(self._extension, depth) for depth in range(_MAX_DEPTH))
        self.allow(types)

    def allow(self, types: Iterable[type]) -> None:
        """Permit values of these classes to be stored under their modules and names, unless they are known already."""
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
        decode: Decoder | None = None,
    ) -> None:
        """Permit values of a class to be stored under a name, by default its module and name.

        Values stored under `former_names` are read as this class. `upgrade` converts the fields stored by an earlier
        version of the class to the current ones. Dataclasses, pydantic models, enums and named tuples can be stored;
        other classes need `encode`, to a value that can be stored, and `decode`. Raises SerdeError without them.
        """
        plain, made = (encode, decode) if encode and decode else conversions_of(kind, upgrade)
        registered = _Registered(kind, name or type_name(kind), plain, made)
        self._by_type[kind] = registered
        for known_name in (registered.name, *former_names):
            self._by_name[known_name] = registered

    def knows(self, kind: type) -> bool:
        """Return whether values of a class can be stored."""
        return kind in self._by_type or kind in _NATIVE or self._codec(kind) is not None

    def name_of(self, kind: type[Any]) -> str | None:
        """Return the stored name of a registered class."""
        registered = self._by_type.get(kind)
        return registered.name if registered is not None else None

    def named(self, name: str) -> type[Any] | None:
        """Return the registered class for a name."""
        registered = self._by_name.get(name)
        return registered.type if registered is not None else None

    def encode(self, value: Any, where: str = "value") -> bytes:
        """Return the value as bytes. Raises SerdeError with the path, from `where`, to a part that cannot be stored."""
        try:
            packed = ormsgpack.packb(value, self._callbacks[0], _OPTIONS)
        except Exception:  # to find the path of the part, or to store a value that only needs more care
            return ormsgpack.packb(self._with_care(value, where, 0), None, _CAREFUL_OPTIONS)
        # ormsgpack packs a bytearray as bytes without calling back. Search for one only if there may be bytes.
        may_hold_bytes = b"\xc4" in packed or b"\xc5" in packed or b"\xc6" in packed  # the headers of bytes
        if may_hold_bytes and self._holds_bytearray(value):
            return ormsgpack.packb(self._with_care(value, where, 0), None, _CAREFUL_OPTIONS)
        return packed

    def decode(self, data: bytes) -> Any:
        """Reverse `encode`. Raises SerdeError for unknown types, DamagedDatabase for invalid bytes."""
        errors: list[BaseException] = []
        try:
            return self._unpack(data, errors)
        except Exception as error:
            reason = errors[0] if errors else error
        if isinstance(reason, StorageError) or not isinstance(reason, Exception):
            raise reason
        raise DamagedDatabase(f"a stored value cannot be read: {reason}") from reason

    # -- writing

    def _extension(self, depth: int, value: object) -> ormsgpack.Ext:
        """Return a value of a type that MessagePack lacks as an extension. Called back by ormsgpack."""
        registered = self._by_type.get(type(value))
        if registered is not None:
            tag, plain = OBJECT, [registered.name, registered.plain(value)]
        else:
            codec = self._codec(type(value))
            if codec is None:
                raise TypeError
            tag, plain = codec.tag, codec.plain(value)
        return ormsgpack.Ext(tag, ormsgpack.packb(plain, self._callbacks[depth + 1], _OPTIONS))

    def _holds_bytearray(self, value: Any) -> bool:
        """Return whether a value contains a bytearray. A loop, because calls would cost more than packing the value."""
        stack: list[Any] = [value]
        while stack:
            part = stack.pop()
            kind = cast("type[Any]", type(part))
            if kind is bytearray:
                return True
            if kind is dict:
                items: Iterable[Any] = part.values()
            elif kind is list or kind is tuple:
                items = part
            else:
                conversion = self._by_type.get(kind) or self._codec(kind)
                items = (conversion.plain(part),) if conversion is not None else ()
            stack.extend([item for item in items if type(item) not in _NO_BYTEARRAY])
        return False

    def _codec(self, kind: type) -> Codec | None:
        try:
            return self._codecs[kind]
        except KeyError:
            codec = self._codecs[kind] = _codec_of(kind)
            return codec

    def _with_care(self, value: Any, path: str, depth: int) -> Any:
        """Return the value with extensions for everything that MessagePack lacks. Raises SerdeError."""
        if depth > _MAX_DEPTH:
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
            return [self._with_care(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if kind is dict:
            if not all(type(key) in _NATIVE_KEYS and _is_native_key(key) for key in value):
                return self._pairs(value, path, depth)
            return {key: self._with_care(item, _path_of(path, key), depth + 1) for key, item in value.items()}
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
            [self._with_care(key, f"a key of {path}", depth + 1), self._with_care(item, _path_of(path, key), depth + 1)]
            for key, item in value.items()
        ]
        return ormsgpack.Ext(CODECS["builtins.dict"].tag, ormsgpack.packb(pairs, None, _CAREFUL_OPTIONS))

    def _object(self, registered: _Registered, value: Any, path: str, depth: int) -> ormsgpack.Ext:
        plain = _call(registered.plain, value, path)
        if (
            registered.plain is plain_pydantic
        ):  # a list with the fields in its first part, whose index is not part of a path
            packable = [self._with_care(part, path, depth + 1) for part in plain]
        else:
            packable = self._with_care(plain, path, depth + 1)
        return ormsgpack.Ext(OBJECT, ormsgpack.packb([registered.name, packable], None, _CAREFUL_OPTIONS))

    def _packed(self, codec: Codec, value: Any, path: str, depth: int) -> ormsgpack.Ext:
        packable = self._with_care(_call(codec.plain, value, path), path, depth + 1)
        return ormsgpack.Ext(codec.tag, ormsgpack.packb(packable, None, _CAREFUL_OPTIONS))

    def _unknown(self, value: Any) -> str:
        kind = cast("type[Any]", type(value))
        return (
            f"its type {type_name(kind)} is not known. Name the type in the annotations of the state, "
            f"or register it: saver.serde.register({kind.__name__})"
        )

    # -- reading

    def _unpack(self, data: bytes, errors: list[BaseException]) -> Any:
        """Return the value of packed bytes. The first nested error is added to `errors`, since ormsgpack hides it."""

        unpack, codecs, options = ormsgpack.unpackb, BY_TAG, ormsgpack.OPT_NON_STR_KEYS

        def unpack_extension(tag: int, packed: bytes) -> Any:
            try:
                plain = unpack(packed, ext_hook=unpack_extension, option=options)
                codec = codecs.get(tag)
                return codec.made(plain) if codec is not None else self._unpack_object(tag, plain)
            except BaseException as error:
                errors.append(error)
                raise

        return unpack(data, ext_hook=unpack_extension, option=options)

    def _unpack_object(self, tag: int, plain: Any) -> Any:
        """Return a value of a user-defined type, or of one whose codec has not been loaded."""
        codec = codec_of(tag)
        if codec is not None:
            return codec.made(plain)
        if tag != OBJECT:
            raise SerdeError(f"tag {tag}", "it was stored by a newer version of Statewright: use that one")
        name, content = plain
        registered = self._by_name.get(name)
        if registered is None:
            raise SerdeError(
                name,
                "values of this type are stored, but it is not registered. Compile a graph whose state names it, "
                "or register it. " + suggestion(name, self._by_name, noun="Known types"),
            )
        try:
            return registered.made(content)
        except StatewrightError:
            raise
        except Exception as error:
            raise SerdeError(name, f"its class does not accept the stored value: {error}") from error


def _codec_of(kind: type) -> Codec | None:
    """Return the codec for values of a type of Python's or of Statewright's."""
    codec = CODECS.get(type_name(kind))
    if codec is not None:
        return codec
    if issubclass(kind, BaseException):
        return EXCEPTION
    if kind.__module__.startswith("langchain_core."):
        from statewright.serde.langchain_codec import codec_for  # few states hold messages of LangChain

        return codec_for(cast("type[Any]", kind))
    return NUMPY_SCALAR if any(type_name(base) == "numpy.generic" for base in kind.__mro__) else None


def _call(plain: Plain, value: Any, path: str) -> Any:
    """Return the plain form of a value. Raises SerdeError with the path for an exception of a user's function."""
    try:
        return plain(value)
    except StatewrightError:
        raise
    except Exception as error:
        raise SerdeError(path, str(error)) from error


def _is_native_key(key: Any) -> bool:
    if type(key) is str:
        return is_unicode(key)
    return type(key) is not int or -(2**63) <= key < 2**64


def _path_of(path: str, key: object) -> str:
    """Return the path of the value of a key."""
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"
