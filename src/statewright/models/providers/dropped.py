"""Asynchronous generators that a library drops without closing them.

google-genai reads an answer through generators that lie within each other, and keeps one of them in an object that the
generator refers to. If a stream is left early, only the outermost is closed. The others wait for the garbage collector,
with the connection open; and if the loop ends first, it closes all at once, and each fails since another one is at it.
So they are looked up before the stream is closed, and closed after it, the innermost first.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from types import AsyncGeneratorType
from typing import Any, Final, cast

_LIBRARIES: Final = ("google.genai", "pydantic_ai", "httpx", "httpcore")
"""Objects of these are looked into, beside the generators themselves."""
_MOST_OBJECTS: Final = 10_000


def generators_below(root: object) -> list[AsyncGenerator[Any]]:
    """Return the asynchronous generators that an object refers to, directly or through others; the outermost first."""
    found: list[AsyncGenerator[Any]] = []
    seen: dict[int, object] = {id(root): root}
    level: Sequence[object] = [root]
    while level and len(seen) < _MOST_OBJECTS:
        below: list[object] = []
        for item in gc.get_referents(*level):
            if id(item) in seen or not _is_followed(item):
                continue
            seen[id(item)] = item
            below.append(item)
            if isinstance(item, AsyncGeneratorType):
                found.append(cast("AsyncGenerator[Any]", item))
        level = below
    return found


def _is_followed(item: object) -> bool:
    return isinstance(item, AsyncGeneratorType | dict) or type(item).__module__.startswith(_LIBRARIES)


async def close_generators(generators: Sequence[AsyncGenerator[Any]]) -> None:
    """Close generators, the last one first. One that is closed or running already is left alone."""
    for generator in reversed(generators):
        with suppress(RuntimeError):
            await generator.aclose()
