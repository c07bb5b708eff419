"""The meaning of limits and offsets, which is the same in every store, saver and ledger."""

from __future__ import annotations


def cut_page(limit: int | None, offset: int = 0) -> slice:
    """Return the slice of at most `limit` entries from `offset`; negative numbers count as 0."""
    first = max(offset, 0)
    return slice(first, None if limit is None else first + max(limit, 0))
