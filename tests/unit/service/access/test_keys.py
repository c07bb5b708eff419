"""API keys: creation, lookup by hash, expiry and revocation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from statewright.errors import InvalidRequest, NotFound, RequestConflict, Unauthorized
from statewright.runs import ApiKey, Ledger
from statewright.service.access import count_keys, create_key, find_key, list_keys, revoke_key


def create(ledger: Ledger, now: datetime, workspace: str = "default", **values: Any) -> tuple[ApiKey, str]:
    name, scopes = values.pop("name", "ci"), values.pop("scopes", ["runs:read"])
    return asyncio.run(create_key(ledger, workspace, name, scopes, now=now, **values))


def find(ledger: Ledger, key: str, now: datetime) -> ApiKey:
    return asyncio.run(find_key(ledger, key, now))


def test_a_key_is_found_with_its_workspace_and_scopes(ledger: Ledger, now: datetime) -> None:
    record, key = create(ledger, now, workspace="sales", requests_per_minute=60)
    assert find(ledger, key, now) == record
    assert (record.workspace_id, record.name, record.scopes) == ("sales", "ci", ["runs:read"])
    assert record.requests_per_minute == 60


def test_only_the_hash_of_a_key_is_stored(ledger: Ledger, now: datetime) -> None:
    record, key = create(ledger, now)
    assert re.fullmatch(r"stw_[A-Za-z0-9_-]{43}", key)
    assert record.digest == sha256(key.encode()).hexdigest()
    assert record.prefix == key[:12]
    assert all(key not in str(getattr(record, field.name)) for field in fields(record))


def test_keys_are_unique(ledger: Ledger, now: datetime) -> None:
    assert len({create(ledger, now)[1] for _ in range(50)}) == 50


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda key: "",
        lambda key: key[:-1],
        lambda key: key + "a",
        lambda key: key.swapcase(),
        lambda key: key.removeprefix("stw_"),
        lambda key: "stw_",
        lambda key: "stw_" + "a" * 10_000_000,
        lambda key: key + "\ud800",
        lambda key: key + "\x00",
        lambda key: sha256(key.encode()).hexdigest(),
    ],
)
def test_invalid_keys_are_refused(ledger: Ledger, now: datetime, corrupt: Callable[[str], str]) -> None:
    _, key = create(ledger, now)
    with pytest.raises(Unauthorized, match="unknown"):
        find(ledger, corrupt(key), now)


def test_a_key_expires_at_its_instant(ledger: Ledger, now: datetime) -> None:
    end = now + timedelta(hours=1)
    record, key = create(ledger, now, expires_at=end)
    assert find(ledger, key, end - timedelta(microseconds=1)).id == record.id
    with pytest.raises(Unauthorized, match=f"{record.prefix}.*has expired"):
        find(ledger, key, end)


def test_a_revoked_key_is_refused(ledger: Ledger, now: datetime) -> None:
    record, key = create(ledger, now)
    revoked = asyncio.run(revoke_key(ledger, "default", record.id, now))
    assert revoked == replace(record, revoked_at=now)
    with pytest.raises(Unauthorized, match="was revoked") as caught:
        find(ledger, key, now)
    assert key not in str(caught.value)


def test_revoking_a_key_again_keeps_the_first_time(ledger: Ledger, now: datetime) -> None:
    record, _ = create(ledger, now)
    asyncio.run(revoke_key(ledger, "default", record.id, now))
    assert asyncio.run(revoke_key(ledger, "default", record.id, now + timedelta(days=1))).revoked_at == now


def test_records_of_other_workspaces_are_not_found(ledger: Ledger, now: datetime) -> None:
    record, key = create(ledger, now, workspace="other")
    for key_id in (record.id, "key_none"):
        with pytest.raises(NotFound, match=key_id):
            asyncio.run(revoke_key(ledger, "default", key_id, now))
    assert find(ledger, key, now) == record


def test_keys_are_listed_newest_first(ledger: Ledger, now: datetime) -> None:
    created = [create(ledger, now + timedelta(seconds=number))[0] for number in range(3)]
    create(ledger, now, workspace="other")
    assert asyncio.run(list_keys(ledger, "default")) == created[::-1]
    assert asyncio.run(list_keys(ledger, "default", limit=1, offset=1)) == [created[1]]
    assert asyncio.run(count_keys(ledger, "default")) == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": ""}, "name of a key"),
        ({"scopes": []}, "at least one scope"),
        ({"scopes": ["all"]}, "Scope 'all' does not exist"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"expires_at": datetime(2030, 1, 1)}, "time zone"),
    ],
)
def test_invalid_requests_for_keys_are_refused(
    ledger: Ledger, now: datetime, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        create(ledger, now, **values)
    assert message in str(caught.value)
    assert asyncio.run(count_keys(ledger, "default")) == 0


def test_a_new_key_cannot_have_expired(ledger: Ledger, now: datetime) -> None:
    with pytest.raises(InvalidRequest, match="must be in the future"):
        create(ledger, now, expires_at=now)


def test_the_last_admin_key_cannot_be_revoked(ledger: Ledger, now: datetime) -> None:
    async def run() -> None:
        first, _ = await create_key(ledger, "a", "first", ["admin"], now=now)
        await create_key(ledger, "a", "reader", ["runs:read"], now=now)
        await create_key(ledger, "b", "elsewhere", ["admin"], now=now)
        later = now + timedelta(seconds=1)
        await create_key(ledger, "a", "short", ["admin"], now=now, expires_at=later)
        with pytest.raises(RequestConflict, match="is the last one with the scope 'admin'"):
            await revoke_key(ledger, "a", first.id, later)
        second, _ = await create_key(ledger, "a", "second", ["admin", "runs:read"], now=now)
        assert (await revoke_key(ledger, "a", first.id, later)).revoked_at == later
        assert (await revoke_key(ledger, "a", first.id, later)).revoked_at == later
        with pytest.raises(RequestConflict):
            await revoke_key(ledger, "a", second.id, later)

    asyncio.run(run())


def test_concurrent_revocations_of_the_last_two_keys_leave_one(ledger: Ledger, now: datetime) -> None:
    async def run() -> None:
        keys = [(await create_key(ledger, "a", name, ["admin"], now=now))[0] for name in ("one", "two")]
        results = await asyncio.gather(*(revoke_key(ledger, "a", key.id, now) for key in keys), return_exceptions=True)
        assert sorted(type(item).__name__ for item in results) == ["ApiKey", "RequestConflict"]
        assert len([key for key in await list_keys(ledger, "a") if key.revoked_at is None]) == 1

    asyncio.run(run())
