"""The header Idempotency-Key is an alternative to the field of the body."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.server.serving import LEAD, PAYMENT, serving

from statewright.errors import InvalidRequest, RequestConflict
from statewright.server.http.parameters import resolve_idempotency_key


@pytest.mark.parametrize(
    ("header", "field", "key"),
    [(None, None, None), (None, "f", "f"), ("h", None, "h"), ("k", "k", "k"), ('"k"', "k", "k"), ('"', None, '"')],
)
def test_header_or_field_is_accepted(header: str | None, field: str | None, key: str | None) -> None:
    assert resolve_idempotency_key(header, field, "idempotencyKey") == key


@pytest.mark.parametrize("header", ["", '""', "x" * 256, "a\x00b"])
def test_invalid_keys_are_refused(header: str) -> None:
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        resolve_idempotency_key(header, None, "idempotencyKey")


def test_different_keys_are_a_conflict() -> None:
    with pytest.raises(RequestConflict, match="signalId in the body is 'b'"):
        resolve_idempotency_key("a", "b", "signalId")


def test_repeated_runs_signals_and_events_count_once() -> None:
    async def run() -> None:
        async with serving() as api:
            lead, header = await api.define(LEAD), {"idempotency-key": "k"}
            first = await api.post("/workflow-runs", {"definitionId": lead}, 201, headers=header)
            second = await api.post("/workflow-runs", {"definitionId": lead, "idempotencyKey": "k"}, 200)
            third = await api.post("/workflow-runs?wait=60", {"definitionId": lead}, 200, headers=header)
            assert first["id"] == second["id"] == third["id"]
            both = {"definitionId": lead, "idempotencyKey": "other"}
            assert (await api.post("/workflow-runs", both, 409, headers=header))["code"] == "CONFLICT"

            waiting = await api.start(PAYMENT, wait=60)
            signal = {"signalType": "early", "payload": {}}
            path = f"/workflow-runs/{waiting['id']}/signals"
            await api.post(path, signal, headers=header)
            await api.post(path, {**signal, "signalId": "k"})
            await api.post(path, {**signal, "signalId": "other"}, 409, headers=header)

            event = {"name": "happened"}
            events = [await api.post("/events", event, headers=header) for _ in range(2)]
            assert events[0]["id"] == events[1]["id"]

    asyncio.run(run())
