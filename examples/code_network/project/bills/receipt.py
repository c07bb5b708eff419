"""Writes down who pays what."""

from collections.abc import Sequence

from bills.split import split


def receipt(total: int, names: Sequence[str]) -> str:
    """A line for each of those who share a bill."""
    shares = split(total, len(names))
    return "\n".join(f"{name}: {share / 100:.2f}" for name, share in zip(names, shares, strict=True))
