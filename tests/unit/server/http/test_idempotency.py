"""The header Idempotency-Key says the same as the field of the body, wherever there is one."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.server.serving import LEAD, PAYMENT, serving

from statewright.errors import InvalidRequest, RequestConflict
from statewright.server.http.parameters import read_key


@pytest.mark.parametrize(
    ("header", "field", "key"),
    [(None, None, None), (None, "f", "f"), ("h", None, "h"), ("k", "k", "k"), ('"k"', "k", "k"), ('"', None, '"')],
)
def test_either_is_taken(header: str | None, field: str | None, key: str | None) -> None:
    assert read_key(header, field, "idempotencyKey") == key


@pytest.mark.parametrize("header", ["", '""', "x" * 256, "a\x00b"])
def test_what_cannot_be_a_key_is_refused(header: str) -> None:
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        read_key(header, None, "idempotencyKey")


def test_two_that_differ_are_a_conflict() -> None:
    with pytest.raises(RequestConflict, match="signalId in the body is 'b'"):
        read_key("a", "b", "signalId")


def test_runs_signals_and_events_count_once() -> None:
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
            told = [await api.post("/events", event, headers=header) for _ in range(2)]
            assert told[0]["id"] == told[1]["id"]

    asyncio.run(run())
