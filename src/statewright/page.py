"""Pagination by a limit and an offset, with the same meaning in every store, saver and ledger."""

from __future__ import annotations


def cut_page(limit: int | None, offset: int = 0) -> slice:
    """Return a slice of at most `limit` entries (None for all) that starts at `offset`. Negative numbers mean 0."""
    first = max(offset, 0)
    return slice(first, None if limit is None else first + max(limit, 0))
