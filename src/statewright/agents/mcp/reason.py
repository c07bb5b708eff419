"""Why something failed, in the words of a library."""

from __future__ import annotations

from typing import Any, cast


def told(error: BaseException) -> str:
    """What an error says, or the first of a group of them, with its kind where the text alone would not be clear."""
    first = error
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[Any]", first).exceptions[0]
    text, kind = str(first), type(first).__name__
    if not text:
        return kind
    return text if kind in ("MCPError", "TimeoutError") else f"{kind}: {text}"
