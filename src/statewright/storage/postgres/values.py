"""Conversion of values to and from the binary format of Postgres.

Only the types that occur in the tables of this package are supported: bigint, boolean, double precision, text, bytea,
and arrays of these. psycopg's adapters support all types, but they take more time than the statements of a commit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

BOOL, BYTEA, INT8, INT2, INT4, TEXT, FLOAT8, UNKNOWN = 16, 17, 20, 21, 23, 25, 701, 0
"""The object ids of types in the catalog `pg_type`."""
_ARRAYS: Final = {INT8: 1016, TEXT: 1009, BYTEA: 1001, FLOAT8: 1022}
"""The type of an array, by the type of its elements."""
TEXT_FORMAT, BINARY = 0, 1
_DOUBLE: Final = struct.Struct(">d")
_ARRAY_HEADER: Final = struct.Struct(">iiiii")
"""The number of dimensions, whether there are NULLs, the type of the elements, the length, and the first index."""


Parameter = tuple[int, bytes | None, int]
"""A parameter of a statement: the object id of its type, its encoded value, and its format.

With the type UNKNOWN, the server infers the type. The value is None for NULL. A plain tuple, because a commit has some
thirty parameters, and a named tuple takes as long to create as the value takes to encode.
"""


def encode(value: object) -> Parameter:
    """Return a value as a parameter.

    Raises UnicodeEncodeError for text with surrogates or null characters, which Postgres cannot store, OverflowError
    for an integer of more than 64 bits, and TypeError for a value of a type that is not supported.
    """
    cls = type(value)
    encoder = _ENCODERS.get(cls) or _encoder_of_base(cls)
    return encoder(value)


def _encoder_of_base(cls: type[object]) -> Callable[[Any], Parameter]:
    for base in cls.__mro__:
        if base in _ENCODERS:
            return _ENCODERS[base]
    raise TypeError(f"a value of type {cls.__name__} cannot be a parameter of a statement")


def _none(_: None) -> Parameter:
    return _NULL


def _integer(value: int) -> Parameter:
    return INT8, value.to_bytes(8, "big", signed=True), BINARY


def _boolean(value: bool) -> Parameter:
    return BOOL, b"\x01" if value else b"\x00", BINARY


def _text(value: str) -> Parameter:
    data = value.encode()
    position = value.find("\0")
    if position >= 0:
        raise UnicodeEncodeError("utf-8", value, position, position + 1, "a null character cannot be stored")
    return TEXT, data, BINARY


def _bytes(value: bytes) -> Parameter:
    return BYTEA, value, BINARY


def _real(value: float) -> Parameter:
    return FLOAT8, _DOUBLE.pack(value), BINARY


def _array(values: Sequence[Any]) -> Parameter:
    parameters = [encode(value) for value in values]
    types = {type_id for type_id, _, _ in parameters} - {UNKNOWN}
    if not types:  # the binary format needs the type of the elements, but the text format does not
        return UNKNOWN, b"{%s}" % b",".join([b"NULL"] * len(values)), TEXT_FORMAT
    (element_type,) = types
    has_null = any(data is None for _, data, _ in parameters)
    chunks = [_ARRAY_HEADER.pack(1, has_null, element_type, len(parameters), 1)]
    for _, data, _ in parameters:
        chunks.append(b"\xff\xff\xff\xff" if data is None else len(data).to_bytes(4, "big") + data)
    return _ARRAYS[element_type], b"".join(chunks), BINARY


_NULL: Final[Parameter] = UNKNOWN, None, BINARY
_ENCODERS: Final[dict[type, Callable[[Any], Parameter]]] = {
    type(None): _none,
    bool: _boolean,
    int: _integer,
    str: _text,
    bytes: _bytes,
    float: _real,
    list: _array,
    tuple: _array,
}


def decoder_of(type_id: int) -> Callable[[bytes], Any]:
    """Return the function that decodes values of a type. Values of types that are not supported remain bytes."""
    return _DECODERS.get(type_id, bytes)


def _decode_integer(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


_DECODERS: Final[dict[int, Callable[[bytes], Any]]] = {
    BOOL: lambda data: data == b"\x01",
    BYTEA: bytes,
    INT2: _decode_integer,
    INT4: _decode_integer,
    INT8: _decode_integer,
    TEXT: bytes.decode,
    19: bytes.decode,  # name
    1043: bytes.decode,  # varchar
    114: bytes.decode,  # json
    FLOAT8: lambda data: _DOUBLE.unpack(data)[0],
}
