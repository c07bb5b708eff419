"""Rate limits: accepted requests, the time of the next try, and bounded memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import TooManyRequests
from statewright.service.access.rates import RateLimiter

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def passed(limiter: RateLimiter, name: str, per_minute: int | None, now: datetime) -> bool:
    try:
        limiter.check(name, per_minute, now)
    except TooManyRequests:
        return False
    return True


def test_a_burst_of_a_minute_is_allowed() -> None:
    limiter = RateLimiter()
    assert [passed(limiter, "key", 3, NOW) for _ in range(5)] == [True, True, True, False, False]
    assert not passed(limiter, "key", 3, NOW + seconds(19.9))
    assert passed(limiter, "key", 3, NOW + seconds(20))


def test_the_error_contains_the_time_of_the_next_try() -> None:
    limiter = RateLimiter()
    limiter.check("key", 1, NOW)
    with pytest.raises(TooManyRequests, match=r"At most 1 per minute.*in 45\.0 seconds") as caught:
        limiter.check("key", 1, NOW + seconds(15))
    assert caught.value.retry_after == pytest.approx(45)
    limiter.check("key", 1, NOW + seconds(15 + caught.value.retry_after))


def test_each_name_has_its_own_bucket() -> None:
    limiter = RateLimiter()
    assert passed(limiter, "one", 1, NOW)
    assert passed(limiter, "other", 1, NOW)
    assert not passed(limiter, "one", 1, NOW)


def test_without_a_limit_all_requests_are_allowed() -> None:
    limiter = RateLimiter()
    assert all(passed(limiter, "key", None, NOW) for _ in range(1000))


def test_a_refused_request_costs_nothing() -> None:
    limiter = RateLimiter()
    limiter.check("key", 1, NOW)
    assert not any(passed(limiter, "key", 1, NOW + seconds(item)) for item in range(59))
    assert passed(limiter, "key", 1, NOW + seconds(60))


def test_a_lower_limit_counts_from_now() -> None:
    limiter = RateLimiter()
    limiter.check("key", 1000, NOW)
    assert limiter.remaining("key", 1000, NOW) == 999
    assert limiter.remaining("key", 2, NOW) == 2


def test_a_clock_that_is_set_back_adds_no_tokens() -> None:
    limiter = RateLimiter()
    assert passed(limiter, "key", 1, NOW)
    assert not passed(limiter, "key", 1, NOW - seconds(3600))
    assert not passed(limiter, "key", 1, NOW)


def test_the_number_of_buckets_is_limited() -> None:
    limiter = RateLimiter(max_buckets=3)
    for name in ("a", "b", "c", "a", "d"):
        limiter.check(name, 5, NOW)
    remaining = {name: limiter.remaining(name, 5, NOW) for name in ("a", "c", "d")}
    assert remaining == {"a": 3, "c": 4, "d": 4}
    assert limiter.remaining("b", 5, NOW) == 5


@given(st.integers(1, 30), st.lists(st.floats(0, 30), max_size=120))
def test_never_more_than_the_limit_and_the_first_burst(per_minute: int, pauses: list[float]) -> None:
    limiter, now, let = RateLimiter(), NOW, 0
    for pause in pauses:
        now += seconds(pause)
        let += passed(limiter, "key", per_minute, now)
    assert let <= per_minute * (1 + (now - NOW).total_seconds() / 60) + 1e-6
