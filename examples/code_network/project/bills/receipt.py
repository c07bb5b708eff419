"""Receipts for shared bills."""

from collections.abc import Sequence

from bills.split import split


def receipt(total: int, names: Sequence[str]) -> str:
    """Return one line per person, with the share of each."""
    shares = split(total, len(names))
    return "\n".join(f"{name}: {share / 100:.2f}" for name, share in zip(names, shares, strict=True))
