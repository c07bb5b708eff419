"""Event streams are limited per workspace, and end when their key becomes invalid."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.server.serving import PAYMENT, serving, two_workspaces

from statewright.errors import StorageUnavailable, TooManyRequests
from statewright.runs import InMemoryLedger
from statewright.server.streaming.stream_limits import OpenStreams
from statewright.service.access import create_key, revoke_key

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_streams_are_counted_per_workspace() -> None:
    streams = OpenStreams(InMemoryLedger(), lambda: NOW, 2)
    with streams.register("a", None, print), streams.register("a", None, print):
        with pytest.raises(TooManyRequests):
            streams.check_capacity("a")
        streams.check_capacity("b")
    streams.check_capacity("a")


class UnavailableLedger(InMemoryLedger):
    is_unavailable = False

    def find(self, *args: Any, **options: Any) -> Any:
        if self.is_unavailable:
            raise StorageUnavailable("is_unavailable")
        return super().find(*args, **options)


def test_streams_end_when_another_process_has_revoked_their_key() -> None:
    async def run() -> None:
        ledger, now = UnavailableLedger(), NOW
        keys = [(await create_key(ledger, "a", name, ["admin"], now=NOW))[0] for name in ("one", "two")]
        short, _ = await create_key(ledger, "a", "short", ["runs:read"], now=NOW, expires_at=NOW + timedelta(hours=1))
        streams = OpenStreams(ledger, lambda: now, 9, check_interval=0.001)
        ended = [asyncio.Event() for _ in range(3)]
        with (
            streams.register("a", keys[0], ended[0].set),
            streams.register("a", keys[1], ended[1].set),
            streams.register("a", short, ended[2].set),
        ):
            ledger.is_unavailable = True
            await asyncio.sleep(0.01)  # the ledger cannot be read, and is read again later
            ledger.is_unavailable = False
            await streams.check_keys()
            assert [event.is_set() for event in ended] == [False] * 3
            await revoke_key(ledger, "a", keys[0].id, NOW)
            await asyncio.wait_for(ended[0].wait(), 600)
            now = NOW + timedelta(hours=2)
            await asyncio.wait_for(ended[2].wait(), 600)
            assert not ended[1].is_set()
        async with asyncio.timeout(600):
            while len(asyncio.all_tasks()) > 1:  # no stream is open, so no key is checked
                await asyncio.sleep(0)

    asyncio.run(run())


def test_a_stream_ends_as_soon_as_its_key_is_revoked() -> None:
    async def run() -> None:
        async with two_workspaces() as (owner, _):
            key = await owner.post("/api-keys", {"name": "reader", "scopes": ["runs:read"]}, 201)
            reader = owner.as_owner_of(key["key"])
            started = await owner.start(PAYMENT)
            path = f"/workflow-runs/{started['id']}/stream"
            reading = asyncio.create_task(reader.call("GET", path))
            streams = owner.app.state.context.streams
            async with asyncio.timeout(600):
                while True:
                    try:
                        streams.check_capacity("x")
                        assert streams._stops_by_key  # the stream is open
                        break
                    except AssertionError:
                        await asyncio.sleep(0.005)
                await owner.delete(f"/api-keys/{key['id']}", 200)
                response = await reading
            assert response.status_code == 200
            assert "WORKFLOW_COMPLETED" not in response.text
            assert (await reader.get(path, 401))["code"] == "AUTH_ERROR"

    asyncio.run(run())


def test_streams_above_the_limit_are_refused() -> None:
    async def run() -> None:
        async with serving(max_streams=1) as api:
            started = await api.start(PAYMENT)
            with api.app.state.context.streams.register("default", None, print):
                refused = await api.call("GET", f"/workflow-runs/{started['id']}/stream")
            assert (refused.status_code, "retry-after" in refused.headers) == (429, True)

    asyncio.run(run())
