"""Chunk sizes: the number of calls to send together.

Sending one call costs a fraction of a millisecond between processes and about a millisecond with Ray, which is more
than many calls take. A chunk shares that cost among its calls, but one that is too large leaves workers idle at the
end, is lost as a whole if its worker dies, and delays the saving of its results. So a chunk should take
`TARGET_SECONDS`, by the durations that workers have measured so far.
"""

from __future__ import annotations

from typing import Final

TARGET_SECONDS: Final = 0.1
"""The desired duration of a chunk: a hundred times what it costs to send one."""
TARGET_BYTES: Final = 8 * 1024 * 1024
"""The desired size of the calls in a chunk."""
MAX_ITEMS: Final = 2000
GROWTH: Final = 8
"""The largest factor between successive chunk sizes: the first calls are not typical, since they import modules."""
ROUNDS_LEFT: Final = 2
"""The last calls are divided so that each worker gets about this many more chunks, and all end at about the same time.
"""
LEAST_SECONDS: Final = 0.01
"""The duration below which chunks are not divided for that: it would cost more than the time at stake."""


class ChunkSizes:
    """Chooses the sizes of the chunks of one function, from the measured cost of its calls."""

    __slots__ = ("_bytes", "_largest", "_seconds")

    def __init__(self) -> None:
        self._seconds: float | None = None
        """The duration of a call, with a weight that halves with each chunk."""
        self._bytes = 0.0
        self._largest = 1

    def record_cost(self, items: int, seconds: float) -> None:
        """Record that a worker has executed a chunk in some seconds."""
        mean = seconds / items
        self._seconds = mean if self._seconds is None else (self._seconds + mean) / 2
        self._largest = max(self._largest, items)

    def record_size(self, items: int, size: int) -> None:
        """Record the size of the calls of a chunk in bytes."""
        mean = size / items
        self._bytes = max(self._bytes / 2, mean)

    def next_size(self, workers: int, unsent: int) -> int:
        """Return the number of calls of the next chunk, if `unsent` calls are left for a number of workers."""
        if self._seconds is None:
            return 1  # nothing is known yet: each worker measures one call
        size = min(TARGET_SECONDS / max(self._seconds, 1e-7), self._largest * GROWTH, MAX_ITEMS)
        if self._bytes > 0:
            size = min(size, TARGET_BYTES / self._bytes)
        share = unsent / (workers * ROUNDS_LEFT)
        return max(1, int(min(size, max(share, LEAST_SECONDS / max(self._seconds, 1e-7)))))
