"""Exponential backoff with a cap."""

from __future__ import annotations


def backoff(attempt: int, *, initial: float, longest: float, factor: float = 2.0) -> float:
    """Return the seconds to wait after a failed attempt, counted from 1, without jitter."""
    try:
        return min(initial * factor ** (attempt - 1), longest)
    except OverflowError:  # a float, after about a thousand attempts
        return longest if initial else 0.0


def half_jitter(seconds: float, chance: float) -> float:
    """Reduce a delay by up to 50 %, so that retries spread out; `chance` is between 0 and 1."""
    return seconds * (1 + chance) / 2
