"""Serialization of values: MessagePack with extension types, for known types only.

A type is known if the schema of a state names it, if it was registered (`classes.py` converts its values), or if it
belongs to Python or Statewright (`codecs.py`). Values of other types are refused when they are written, with an error
that names their path. Reading never imports, calls or creates anything that stored data chooses, so a tampered file
cannot run code. Types are marked by extension tags, because a marker key in a dict could also occur in user data.

*Speed.* `encode` first lets ormsgpack pack the value, which calls back for each value of a type that MessagePack lacks.
That is fast, but ormsgpack packs a bytearray as bytes, and its errors do not contain a path. So after an error, or if
the value contains a bytearray, it is converted again by `_to_packable`, which traverses it in Python. This method knows
the path of each part, and also handles big integers, lone surrogates, and dict keys that MessagePack lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import ormsgpack

from statewright.errors import DamagedDatabase, SerdeError, StatewrightError, StorageError, suggestion
from statewright.ids import is_unicode
from statewright.serde.classes import Decoder, Encoder, Upgrade, conversions_of, encode_pydantic
from statewright.serde.codecs import BY_TAG, CODECS, EXCEPTION, NUMPY_SCALAR, Codec, codec_of, type_name

OBJECT = 1
"""The tag of values of registered types, which are stored as the registered name of the type and the encoded value."""
_MAX_DEPTH = 200
"""Maximum levels of nested containers; ormsgpack fails at about a thousand."""
_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
# Only for dicts whose keys are all native: with this option, ormsgpack writes dates and enum members as strings.
_NATIVE_KEY_OPTIONS = _OPTIONS | ormsgpack.OPT_NON_STR_KEYS
_NATIVE_TYPES = (bool, float, bytes, list, memoryview, type(None))
"""The types that MessagePack supports, except str, int and dict, because some of their values need a codec."""
_TYPES_WITHOUT_BYTEARRAY = frozenset({str, int, float, bool, bytes, type(None)})
"""Types whose values cannot contain a bytearray."""
_NATIVE_KEYS = (str, int, float, bool, bytes, type(None))
"""The types of dict keys that MessagePack supports."""


class _Registration(NamedTuple):
    """The conversion of values of a user-defined class."""

    type: type[Any]
    name: str
    encode: Encoder
    decode: Decoder


class Serde:
    """Converts values to bytes and back."""

    def __init__(self, types: Iterable[type] = ()) -> None:
        self._by_type: dict[type, _Registration] = {}
        self._by_name: dict[str, _Registration] = {}
        self._codecs: dict[type, Codec | None] = {}
        # One callback for each level of nesting. The depth is limited, because reading needs a Python frame per level.
        self._callbacks = tuple(partial(self._to_extension, depth) for depth in range(_MAX_DEPTH))
        self.allow(types)

    def allow(self, types: Iterable[type]) -> None:
        """Register the classes whose values cannot be stored yet, under their modules and names."""
        for cls in types:
            if not self.knows(cls):
                self.register(cls)

    def register(
        self,
        cls: type,
        *,
        name: str | None = None,
        former_names: Sequence[str] = (),
        upgrade: Upgrade | None = None,
        encode: Encoder | None = None,
        decode: Decoder | None = None,
    ) -> None:
        """Allow values of a class to be stored, under a name that is by default its module and name.

        Values stored under `former_names` are read as this class. `upgrade` converts the fields stored by an earlier
        version of the class to the current ones. Classes other than dataclasses, pydantic models, enums and named
        tuples need `encode`, which returns a value that can be stored, and `decode`. Raises SerdeError without them.
        """
        encode, decode = (encode, decode) if encode and decode else conversions_of(cls, upgrade)
        registration = _Registration(cls, name or type_name(cls), encode, decode)
        self._by_type[cls] = registration
        for known_name in (registration.name, *former_names):
            self._by_name[known_name] = registration

    def knows(self, cls: type) -> bool:
        """Return True if values of a class can be stored."""
        return cls in self._by_type or cls in _NATIVE_TYPES or self._codec(cls) is not None

    def name_of(self, cls: type[Any]) -> str | None:
        """Return the name under which values of a class are stored; None if it is not registered."""
        registration = self._by_type.get(cls)
        return registration.name if registration is not None else None

    def class_of(self, name: str) -> type[Any] | None:
        """Return the class that is registered under a name; None if there is none."""
        registration = self._by_name.get(name)
        return registration.type if registration is not None else None

    def encode(self, value: Any, where: str = "value") -> bytes:
        """Return a value as bytes.

        Raises SerdeError for a part of the value that cannot be stored, with the path of the part, which begins with
        `where`.
        """
        try:
            packed = ormsgpack.packb(value, self._callbacks[0], _OPTIONS)
        except Exception:  # the slower conversion either succeeds or raises an error with the path
            return self._encode_slowly(value, where)
        # ormsgpack packs a bytearray as bytes without a callback. Search for one only if there may be bytes.
        may_contain_bytes = b"\xc4" in packed or b"\xc5" in packed or b"\xc6" in packed  # the headers of bytes
        return self._encode_slowly(value, where) if may_contain_bytes and self._contains_bytearray(value) else packed

    def decode(self, data: bytes) -> Any:
        """Return the value that was encoded. Raises SerdeError for unknown types, DamagedDatabase for invalid bytes."""
        errors: list[BaseException] = []
        try:
            return self._unpack(data, errors)
        except Exception as error:
            reason = errors[0] if errors else error
        if isinstance(reason, StorageError) or not isinstance(reason, Exception):
            raise reason
        raise DamagedDatabase(f"a stored value cannot be read: {reason}") from reason

    # -- writing

    def _to_extension(self, depth: int, value: object) -> ormsgpack.Ext:
        """Return a value of a type that MessagePack lacks as an extension. ormsgpack calls this."""
        registration = self._by_type.get(type(value))
        if registration is not None:
            tag, plain = OBJECT, [registration.name, registration.encode(value)]
        else:
            codec = self._codec(type(value))
            if codec is None:
                raise TypeError
            tag, plain = codec.tag, codec.encode(value)
        return ormsgpack.Ext(tag, ormsgpack.packb(plain, self._callbacks[depth + 1], _OPTIONS))

    def _encode_slowly(self, value: Any, where: str) -> bytes:
        return ormsgpack.packb(self._to_packable(value, where, 0), None, _NATIVE_KEY_OPTIONS)

    def _contains_bytearray(self, value: Any) -> bool:
        """Return True if a value contains a bytearray.

        It is not recursive, because function calls would take longer than packing the value.
        """
        stack: list[Any] = [value]
        while stack:
            part = stack.pop()
            cls = cast("type[Any]", type(part))
            if cls is bytearray:
                return True
            if cls is dict:
                items: Iterable[Any] = part.values()
            elif cls is list or cls is tuple:
                items = part
            else:
                conversion = self._by_type.get(cls) or self._codec(cls)
                items = (conversion.encode(part),) if conversion is not None else ()
            stack.extend([item for item in items if type(item) not in _TYPES_WITHOUT_BYTEARRAY])
        return False

    def _codec(self, cls: type) -> Codec | None:
        try:
            return self._codecs[cls]
        except KeyError:
            codec = self._codecs[cls] = _codec_of(cls)
            return codec

    def _to_packable(self, value: Any, path: str, depth: int) -> Any:
        """Return a value in which everything that MessagePack lacks is replaced by an extension.

        Raises SerdeError with the path of a part that cannot be stored.
        """
        if depth > _MAX_DEPTH:
            raise SerdeError(path, "it is nested too deep, or contains itself")
        cls = cast("type[Any]", type(value))
        if cls is str:
            return value if is_unicode(value) else self._codec_extension(CODECS["builtins.str"], value, path, depth)
        if cls is int:
            if -(2**63) <= value < 2**64:
                return value
            return self._codec_extension(CODECS["builtins.int"], value, path, depth)
        if value is None or cls in (bool, float, bytes):
            return value
        if cls is memoryview:
            return bytes(value)
        if cls is list:
            return [self._to_packable(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if cls is dict:
            if not all(type(key) in _NATIVE_KEYS and _is_native_key(key) for key in value):
                return self._dict_extension(value, path, depth)
            return {key: self._to_packable(item, _path_of(path, key), depth + 1) for key, item in value.items()}
        registration = self._by_type.get(cls)
        if registration is not None:
            return self._object_extension(registration, value, path, depth)
        codec = self._codec(cls)
        if codec is None:
            raise SerdeError(
                path,
                f"its type {type_name(cls)} is not registered. Name the type in the annotations of the state, "
                f"or register it: saver.serde.register({cls.__name__})",
            )
        return self._codec_extension(codec, value, path, depth)

    def _dict_extension(self, value: dict[Any, Any], path: str, depth: int) -> ormsgpack.Ext:
        """Return a dict with keys that MessagePack lacks as an extension, which contains a list of pairs."""
        to_packable = self._to_packable
        pairs = [
            [to_packable(key, f"a key of {path}", depth + 1), to_packable(item, _path_of(path, key), depth + 1)]
            for key, item in value.items()
        ]
        return ormsgpack.Ext(CODECS["builtins.dict"].tag, ormsgpack.packb(pairs, None, _NATIVE_KEY_OPTIONS))

    def _object_extension(self, registration: _Registration, value: Any, path: str, depth: int) -> ormsgpack.Ext:
        plain = _call_encoder(registration.encode, value, path)
        if registration.encode is encode_pydantic:  # a list of parts, whose indexes do not belong in an error's path
            packable = [self._to_packable(part, path, depth + 1) for part in plain]
        else:
            packable = self._to_packable(plain, path, depth + 1)
        return ormsgpack.Ext(OBJECT, ormsgpack.packb([registration.name, packable], None, _NATIVE_KEY_OPTIONS))

    def _codec_extension(self, codec: Codec, value: Any, path: str, depth: int) -> ormsgpack.Ext:
        packable = self._to_packable(_call_encoder(codec.encode, value, path), path, depth + 1)
        return ormsgpack.Ext(codec.tag, ormsgpack.packb(packable, None, _NATIVE_KEY_OPTIONS))

    # -- reading

    def _unpack(self, data: bytes, errors: list[BaseException]) -> Any:
        """Return the value of packed bytes.

        Errors in extensions are appended to `errors`, innermost first, because ormsgpack replaces them with its own.
        """
        unpack, codecs, options = ormsgpack.unpackb, BY_TAG, ormsgpack.OPT_NON_STR_KEYS

        def unpack_extension(tag: int, packed: bytes) -> Any:
            try:
                plain = unpack(packed, ext_hook=unpack_extension, option=options)
                codec = codecs.get(tag)
                return codec.decode(plain) if codec is not None else self._unpack_object(tag, plain)
            except BaseException as error:
                errors.append(error)
                raise

        return unpack(data, ext_hook=unpack_extension, option=options)

    def _unpack_object(self, tag: int, plain: Any) -> Any:
        """Return a value of a user-defined type, or of a type whose codec has not been imported yet."""
        codec = codec_of(tag)
        if codec is not None:
            return codec.decode(plain)
        if tag != OBJECT:
            raise SerdeError(f"tag {tag}", "it was stored by a newer version of Statewright: use that version")
        name, content = plain
        registration = self._by_name.get(name)
        if registration is None:
            raise SerdeError(
                name,
                "values of this type are stored, but it is not registered. Compile a graph whose state names it, "
                "or register it. " + suggestion(name, self._by_name, noun="Known types"),
            )
        try:
            return registration.decode(content)
        except StatewrightError:
            raise
        except Exception as error:
            raise SerdeError(name, f"its class does not accept the stored value: {error}") from error


def _codec_of(cls: type) -> Codec | None:
    """Return the codec for a type of Python, Statewright or a supported library; None if there is none."""
    codec = CODECS.get(type_name(cls))
    if codec is not None:
        return codec
    if issubclass(cls, BaseException):
        return EXCEPTION
    if cls.__module__.startswith("langchain_core."):
        from statewright.serde.langchain_codec import codec_for  # imported here, as few states need it

        return codec_for(cast("type[Any]", cls))
    return NUMPY_SCALAR if any(type_name(base) == "numpy.generic" for base in cls.__mro__) else None


def _call_encoder(encode: Encoder, value: Any, path: str) -> Any:
    """Return the encoded value. Raises SerdeError, which names the path, if the encoder raises an exception."""
    try:
        return encode(value)
    except StatewrightError:
        raise
    except Exception as error:
        raise SerdeError(path, str(error)) from error


def _is_native_key(key: Any) -> bool:
    if type(key) is str:
        return is_unicode(key)
    return type(key) is not int or -(2**63) <= key < 2**64


def _path_of(path: str, key: object) -> str:
    """Return the path of the item under a key of the dict at `path`."""
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"
