"""The cache of recently used keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.errors import Unauthorized
from statewright.runs import ApiKey, InMemoryLedger, Ledger
from statewright.service.access import KeyRing, create_key, revoke_key


class CountingLedger(InMemoryLedger):
    """Counts what is looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def find(self, *args: Any, **options: Any) -> Sequence[Any]:  # type: ignore[override]
        self.reads += 1
        return super().find(*args, **options)


@pytest.fixture
def counting() -> CountingLedger:
    return CountingLedger()


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def create(ledger: Ledger, now: datetime, **values: Any) -> tuple[ApiKey, str]:
    return asyncio.run(create_key(ledger, "default", "ci", ["runs:read"], now=now, **values))


def find(ring: KeyRing, key: str, now: datetime) -> ApiKey:
    return asyncio.run(ring.find(key, now))


def test_a_key_in_use_is_cached_for_some_time(counting: CountingLedger, now: datetime) -> None:
    record, key = create(counting, now)
    ring = KeyRing(counting)
    for tenth in range(50):
        assert find(ring, key, now + seconds(tenth / 10)) == record
    assert counting.reads == 1
    find(ring, key, now + seconds(5))
    assert counting.reads == 2


def test_a_key_revoked_in_this_process_is_refused_at_once(ledger: Ledger, now: datetime) -> None:
    record, key = create(ledger, now)
    ring = KeyRing(ledger)
    find(ring, key, now)
    revoked = asyncio.run(ring.revoke("default", record.id, now))
    assert revoked.revoked_at == now
    with pytest.raises(Unauthorized, match="revoked"):
        find(ring, key, now)


def test_a_key_revoked_elsewhere_is_refused_within_seconds(ledger: Ledger, now: datetime) -> None:
    record, key = create(ledger, now)
    ring = KeyRing(ledger)
    find(ring, key, now)
    asyncio.run(revoke_key(ledger, "default", record.id, now))
    assert find(ring, key, now + seconds(4.9)).id == record.id
    with pytest.raises(Unauthorized, match="revoked"):
        find(ring, key, now + seconds(5))


def test_a_cached_key_that_expires_is_refused(ledger: Ledger, now: datetime) -> None:
    _, key = create(ledger, now, expires_at=now + seconds(2))
    ring = KeyRing(ledger)
    find(ring, key, now)
    with pytest.raises(Unauthorized, match="expired"):
        find(ring, key, now + seconds(2))


def test_a_clock_that_is_set_back_does_not_extend_the_cache(counting: CountingLedger, now: datetime) -> None:
    _, key = create(counting, now)
    ring = KeyRing(counting)
    find(ring, key, now)
    find(ring, key, now - seconds(3600))
    assert counting.reads == 2


def test_the_size_of_the_cache_is_limited(counting: CountingLedger, now: datetime) -> None:
    keys = [create(counting, now)[1] for _ in range(3)]
    ring = KeyRing(counting, max_keys=2)
    for key in keys:
        find(ring, key, now)
    find(ring, keys[1], now)
    find(ring, keys[2], now)
    assert counting.reads == 3
    find(ring, keys[0], now)
    assert counting.reads == 4


def test_unknown_keys_are_not_cached(counting: CountingLedger, now: datetime) -> None:
    ring = KeyRing(counting)
    for _ in range(2):
        with pytest.raises(Unauthorized):
            find(ring, "stw_" + "a" * 43, now)
    assert counting.reads == 2
    for nonsense in ("", "abc", "stw_" + "a" * 1000):
        with pytest.raises(Unauthorized):
            find(ring, nonsense, now)
    assert counting.reads == 2


def test_a_record_read_before_a_revocation_is_not_cached(ledger: Ledger, now: datetime) -> None:
    """The read is under way while the key is revoked through the same ring."""
    record, key = create(ledger, now)

    ring = KeyRing(ledger)

    async def both() -> None:
        await asyncio.gather(
            *(ring.find(key, now) for _ in range(3)), ring.revoke("default", record.id, now), return_exceptions=True
        )

    asyncio.run(both())
    with pytest.raises(Unauthorized, match="revoked"):
        find(ring, key, now)
