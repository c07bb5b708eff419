"""Fingerprints of values: a digest that is the same for equal values in every process.

The inputs of cached results and the arguments of journalled steps are stored as fingerprints. The fingerprint of a
container is computed from its items, which are sorted if it is a set or a mapping; that of any other object is computed
from the data from which `copy` and `pickle` would rebuild the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from statewright.errors import InvalidUpdateError

_ATOMS = (str, bytes, int, float, bool, complex, type(None), type(...))


def fingerprint(value: Any) -> str:
    """Return 32 hexadecimal digits that depend on every part of the value.

    Raises InvalidUpdateError for a value that contains itself, or an object that cannot be copied.
    """
    from hashlib import blake2b  # imported here because it loads OpenSSL, and few runs need fingerprints

    parts: list[str] = []
    _add_parts(value, parts, set())
    return blake2b("\x1f".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _add_parts(value: Any, parts: list[str], containers: set[int]) -> None:
    """Append the parts of a value to `parts`. `containers` has the object ids of the values that contain the value."""
    cls = cast("type[Any]", type(value))
    if cls in _ATOMS:
        parts.append(f"{cls.__name__}:{value!r}")
        return
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        parts.append(f"name:{value.__module__}.{cast(Any, value).__qualname__}")
        return
    object_id = id(value)
    if object_id in containers:
        raise InvalidUpdateError(f"A value of type {cls.__name__} contains itself, so it has no fingerprint.")
    containers.add(object_id)
    parts.append(f"{cls.__module__}.{cls.__qualname__}(")
    if isinstance(value, list | tuple):
        for item in cast(Iterable[Any], value):
            _add_parts(item, parts, containers)
    elif isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        parts.extend(sorted(f"{_join_parts(key, containers)}={_join_parts(item, containers)}" for key, item in items))
    elif isinstance(value, set | frozenset):
        parts.extend(sorted(_join_parts(item, containers) for item in cast(Iterable[Any], value)))
    else:
        _add_parts(_reduce(value), parts, containers)
    parts.append(")")
    containers.discard(object_id)


def _join_parts(value: Any, containers: set[int]) -> str:
    """Return the parts of a value as one string."""
    parts: list[str] = []
    _add_parts(value, parts, containers)
    return "\x1e".join(parts)


def _reduce(value: Any) -> list[Any]:
    """Return the data from which `copy` and `pickle` would rebuild an object."""
    try:
        reduced = value.__reduce_ex__(4)
    except TypeError as error:
        raise InvalidUpdateError(
            f"A value of type {type(value).__name__} has no fingerprint, because it cannot be copied: {error}. "
            f"Give the policy a key_func, or pass plain data."
        ) from error
    if isinstance(reduced, str):
        return [reduced]
    parts = cast(tuple[Any, ...], reduced)
    return [*parts[:3], *(list(part) if part is not None else None for part in parts[3:5])]
