"""Exponential backoff with a cap."""

from statewright.clock import backoff, half_jitter


def test_delays_grow_up_to_a_cap() -> None:
    assert [backoff(attempt, initial=0.5, longest=3) for attempt in (1, 2, 3, 4)] == [0.5, 1, 2, 3]
    assert backoff(3, initial=1, longest=100, factor=3) == 9


def test_thousands_of_attempts_do_not_overflow() -> None:
    assert backoff(5000, initial=0.5, longest=3) == 3
    assert backoff(5000, initial=0.0, longest=3) == 0


def test_jitter_removes_at_most_half() -> None:
    assert (half_jitter(4, 0), half_jitter(4, 0.5), half_jitter(4, 1)) == (2, 3, 4)
