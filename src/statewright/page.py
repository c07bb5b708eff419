"""What is shown of many: the same part, wherever they are kept."""

from __future__ import annotations


def cut_page(limit: int | None, offset: int = 0) -> slice:
    """At most `limit` from the one at `offset`; numbers below 0 are taken for 0."""
    first = max(offset, 0)
    return slice(first, None if limit is None else first + max(limit, 0))
