"""Reads that may see the state of some time ago, so that a replica of a database can answer them."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def for_history(port: T) -> T:
    """Return a view of a saver or a ledger whose reads may be a little old; the object itself if it has none.

    Use it for histories, logs and lists that are shown. Whatever decides reads the object itself.
    """
    view = getattr(port, "for_history", None)
    return view() if view is not None else port
