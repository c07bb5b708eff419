"""The sizes of chunks follow the measured cost of calls."""

from __future__ import annotations

from statewright.executors.chunks import LEAST_SECONDS, MAX_ITEMS, ROUNDS_LEFT, TARGET_BYTES, TARGET_SECONDS, ChunkSizes


def measured(seconds: float, *, rounds: int = 20, workers: int = 4) -> ChunkSizes:
    """Return sizes after some chunks whose calls took `seconds` each."""
    sizes = ChunkSizes()
    for _ in range(rounds):
        count = sizes.next_size(workers, 10**9)
        sizes.record_cost(count, count * seconds)
    return sizes


def test_the_first_chunks_have_one_call() -> None:
    assert ChunkSizes().next_size(4, 10**6) == 1


def test_a_chunk_takes_about_the_target_time() -> None:
    assert measured(0.001).next_size(4, 10**9) == round(TARGET_SECONDS / 0.001)


def test_long_calls_are_sent_alone() -> None:
    assert measured(5.0).next_size(4, 10**9) == 1


def test_sizes_grow_step_by_step_and_have_a_limit() -> None:
    sizes, seen = ChunkSizes(), list[int]()
    for _ in range(10):
        seen.append(sizes.next_size(4, 10**9))
        sizes.record_cost(seen[-1], 0.0)
    assert seen[:3] == [1, 8, 64]
    assert seen[-1] == MAX_ITEMS


def test_large_inputs_make_small_chunks() -> None:
    sizes = measured(0.0001)
    sizes.record_size(2, TARGET_BYTES)
    assert sizes.next_size(4, 10**9) == 2


def test_the_last_calls_are_divided_among_the_workers() -> None:
    assert measured(0.001).next_size(4, 160) == 160 // (4 * ROUNDS_LEFT)


def test_the_last_calls_are_not_divided_into_chunks_that_cost_more_than_they_save() -> None:
    assert measured(0.001).next_size(4, 8) == round(LEAST_SECONDS / 0.001)


def test_one_slow_chunk_does_not_decide_alone() -> None:
    sizes = measured(0.001)
    sizes.record_cost(1, 0.003)
    assert sizes.next_size(4, 10**9) == round(TARGET_SECONDS / 0.002)
