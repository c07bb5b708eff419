"""How the load is spread over several databases: by a hash of workspace and thread, in four ways, and by workspace.

Everything of a thread has to be in one database. Hashing the pair spreads a large workspace over all databases; hashing
the workspace alone keeps its runs together, and makes the database with the largest workspace the largest.

- *Rendezvous*: the database with the highest hash of (thread, database). Even, and needs no state, but a hash for each
  database. A database that is added takes its share from all others, and nothing else moves.
- *Ring*: the next of many points of each database on a circle. One hash, but uneven: the arcs differ.
- *Buckets by rendezvous*: one hash to one of a fixed number of buckets, and rendezvous for the bucket. One hash, even
  in the limit of many buckets.
- *Buckets by table*: as before, but a table assigns each bucket, the same number to each database. As even as the hash,
  a bucket can be moved alone, and clients need the table.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random

BUCKETS = 16_384
POINTS = 128
"""Points of a database on the ring."""
_MASK = 2**64 - 1
Shard = Callable[[int], int]
"""Returns the number of the database for the hash of a thread."""


def hash_of(*names: str) -> int:
    """Return 64 bits of a hash. Names are separated, so that ("a", "bc") and ("ab", "c") differ."""
    return int.from_bytes(blake2b("\0".join(names).encode(), digest_size=8).digest(), "big")


def mixed(key: int, number: int) -> int:
    """Return a hash of a hash and a number (the finalizer of splitmix64)."""
    value = (key ^ (number * 0x9E3779B97F4A7C15)) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def rendezvous(shards: int) -> Shard:
    """Choose the database with the highest hash."""
    numbers = range(1, shards + 1)
    return lambda key: max(numbers, key=lambda number: mixed(key, number)) - 1


def ring(shards: int) -> Shard:
    """Choose the database with the next point on a circle."""
    points = sorted(
        (hash_of(f"shard {shard}", str(point)), shard) for shard in range(shards) for point in range(POINTS)
    )
    positions = [position for position, _ in points]
    return lambda key: points[bisect(positions, key) % len(points)][1]


def buckets_by_rendezvous(shards: int) -> Shard:
    """Choose a bucket, and the database of the bucket by rendezvous."""
    choose = rendezvous(shards)
    table = [choose(mixed(bucket, 0)) for bucket in range(BUCKETS)]
    return lambda key: table[key % BUCKETS]


def buckets_by_table(shards: int) -> Shard:
    """Choose a bucket, and the database of the bucket from a table in which each has the same number of buckets."""
    return lambda key: key % BUCKETS % shards


METHODS: dict[str, Callable[[int], Shard]] = {
    "rendezvous": rendezvous,
    "ring, 128 points each": ring,
    "16 384 buckets by rendezvous": buckets_by_rendezvous,
    "16 384 buckets by table": buckets_by_table,
}


class Threads:
    """Threads of workspaces whose sizes follow Zipf's law: the second has half as many threads as the first, and so on.

    Runs are spread evenly over the threads of a workspace.
    """

    def __init__(self, count: int, workspaces: int, exponent: float = 1.0, seed: int = 1) -> None:
        weights = [1 / rank**exponent for rank in range(1, workspaces + 1)]
        chosen = Counter(Random(seed).choices(range(workspaces), weights, k=count))
        self.count = count
        self.sizes = [chosen[workspace] for workspace in range(workspaces)]
        """The number of threads of each workspace."""
        self._seed = seed
        self._keys: list[int] | None = None

    @property
    def keys(self) -> list[int]:
        """The hash of each thread."""
        if self._keys is None:
            # A hash of the pair would take a microsecond more for each; two rounds of mixing spread as evenly.
            bases = [hash_of(f"workspace {workspace}", str(self._seed)) for workspace in range(len(self.sizes))]
            self._keys = [
                mixed(base, number)
                for base, size in zip(bases, self.sizes, strict=True)
                for number in range(1, size + 1)
            ]
        return self._keys

    def count_by_shard(self, choose: Shard, shards: int) -> list[int]:
        """Return the number of threads in each database, if threads are spread."""
        counts = Counter(map(choose, self.keys))
        return [counts[shard] for shard in range(shards)]

    def count_by_workspace(self, choose: Shard, shards: int) -> list[int]:
        """Return the number of threads in each database, if workspaces are kept together."""
        counts = [0] * shards
        for workspace, size in enumerate(self.sizes):
            counts[choose(hash_of(f"workspace {workspace}", str(self._seed)))] += size
        return counts


def imbalance(counts: Sequence[int]) -> float:
    """Return the largest number, divided by the mean."""
    return max(counts) * len(counts) / sum(counts)


def moved_share(keys: Sequence[int], method: Callable[[int], Shard], shards: int) -> float:
    """Return the share of threads that belong to another database after one was added."""
    before, after = method(shards), method(shards + 1)
    return sum(before(key) != after(key) for key in keys) / len(keys)
