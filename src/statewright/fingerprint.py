"""Fingerprints of values: the same text for equal values, in every process.

The inputs of cached results and the arguments of journalled steps are stored as fingerprints. Containers are
decomposed, sets and mappings in a canonical order; other objects are identified by the parts from which they would be
copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from statewright.errors import InvalidUpdateError

_ATOMS = (str, bytes, int, float, bool, complex, type(None), type(...))


def fingerprint(value: Any) -> str:
    """32 hexadecimal digits that depend on every part of the value. Raises InvalidUpdateError for what has none."""
    parts: list[str] = []
    _take_apart(value, parts, set())
    return hashlib.blake2b("\x1f".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _take_apart(value: Any, parts: list[str], above: set[int]) -> None:
    """Add the parts of a value. `above` are the objects that hold it."""
    kind = cast("type[Any]", type(value))
    if kind in _ATOMS:
        parts.append(f"{kind.__name__}:{value!r}")
        return
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        parts.append(f"name:{value.__module__}.{cast(Any, value).__qualname__}")
        return
    identity = id(value)
    if identity in above:
        raise InvalidUpdateError(f"A value of type {kind.__name__} contains itself, so it has no fingerprint.")
    above.add(identity)
    parts.append(f"{kind.__module__}.{kind.__qualname__}(")
    if kind is tuple or isinstance(value, list | tuple):
        for item in cast(Iterable[Any], value):
            _take_apart(item, parts, above)
    elif isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value).items()
        parts.extend(sorted(f"{_whole(key, above)}={_whole(content, above)}" for key, content in pairs))
    elif isinstance(value, set | frozenset):
        parts.extend(sorted(_whole(item, above) for item in cast(Iterable[Any], value)))
    else:
        _take_apart(_made_from(value), parts, above)
    parts.append(")")
    above.discard(identity)


def _whole(value: Any, above: set[int]) -> str:
    """Return a value as one part."""
    parts: list[str] = []
    _take_apart(value, parts, above)
    return "\x1e".join(parts)


def _made_from(value: Any) -> list[Any]:
    """Return the parts from which a copy of an object would be made, without its address in memory."""
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
