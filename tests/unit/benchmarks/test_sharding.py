"""How threads are spread over databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.scale.sharding import (
    METHODS,
    Shard,
    Threads,
    hash_of,
    imbalance,
    mixed,
    moved_share,
    rendezvous,
)  # fmt: skip

THREADS = Threads(20_000, 500)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_gives_each_database_about_its_share(method: Callable[[int], Shard]) -> None:
    counts = THREADS.count_by_shard(method(5), 5)
    assert sum(counts) == 20_000
    assert imbalance(counts) < 1.25


def test_rendezvous_is_as_even_as_chance() -> None:
    assert imbalance(THREADS.count_by_shard(rendezvous(5), 5)) < 1.05


def test_workspaces_that_are_kept_together_are_uneven() -> None:
    """The database with the largest workspace has at least that."""
    counts = THREADS.count_by_workspace(rendezvous(16), 16)
    assert sum(counts) == 20_000
    assert max(counts) >= max(THREADS.sizes) > 0.1 * 20_000
    assert imbalance(counts) > 2


def test_another_database_takes_threads_from_all_others_and_moves_nothing_else() -> None:
    keys = [mixed(hash_of("workspace", "1"), number) for number in range(4000)]
    before, after = rendezvous(7), rendezvous(8)
    moved = [key for key in keys if before(key) != after(key)]
    assert {after(key) for key in moved} == {7}
    assert {before(key) for key in moved} == set(range(7))
    assert moved_share(keys, rendezvous, 7) == pytest.approx(1 / 8, abs=0.02)


def test_names_that_are_divided_differently_have_different_hashes() -> None:
    assert hash_of("a", "bc") != hash_of("ab", "c")
