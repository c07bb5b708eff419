"""Fingerprints of values: the same text for equal values, in every process.

What a cached answer or a journalled step was given is kept as a fingerprint. Containers are taken apart, sets and
mappings in an order of their own; other objects are known by what they would be copied from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from statewright.errors import InvalidUpdateError

_ATOMS = (str, bytes, int, float, bool, complex, type(None), type(...))


def fingerprint(value: Any) -> str:
    """32 hexadecimal digits that depend on every part of the value. Raises InvalidUpdateError for what has none."""
    digest = hashlib.blake2b(digest_size=16)
    seen: set[int] = set()
    for part in _parts(value, seen):
        digest.update(part.encode(errors="surrogatepass"))
        digest.update(b"\x1f")
    return digest.hexdigest()


def _parts(value: Any, above: set[int]) -> Iterable[str]:
    kind = cast("type[Any]", type(value))
    if kind in _ATOMS:
        yield f"{kind.__name__}:{value!r}"
        return
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        yield f"name:{value.__module__}.{cast(Any, value).__qualname__}"
        return
    identity = id(value)
    if identity in above:
        raise InvalidUpdateError(f"A value of type {kind.__name__} contains itself, so it has no fingerprint.")
    above.add(identity)
    yield f"{kind.__module__}.{kind.__qualname__}("
    if isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value).items()
        yield from sorted(f"{fingerprint(key)}={fingerprint(content)}" for key, content in pairs)
    elif isinstance(value, set | frozenset):
        yield from sorted(map(fingerprint, cast(Iterable[Any], value)))
    elif isinstance(value, list | tuple):
        for item in cast(Iterable[Any], value):
            yield from _parts(item, above)
    else:
        yield from _parts(_made_from(value), above)
    yield ")"
    above.discard(identity)


def _made_from(value: Any) -> list[Any]:
    """What a copy of an object would be made from: its parts, without its place in memory."""
    try:
        made = value.__reduce_ex__(4)
    except TypeError as error:
        raise InvalidUpdateError(
            f"A value of type {type(value).__name__} cannot be told from others of its kind: {error}. "
            f"Give the policy a key_func, or pass plain data."
        ) from error
    if isinstance(made, str):
        return [made]
    parts = cast(tuple[Any, ...], made)
    return [*parts[:3], *(list(part) if part is not None else None for part in parts[3:5])]
