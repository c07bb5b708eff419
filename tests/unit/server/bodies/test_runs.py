"""Bodies about runs, converted to requests of the service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from statewright.runs import RunStatus
from statewright.server.routes.runs import FilterBody, ResumeBody, StartRunBody
from statewright.service import RunFilter, StartRun


def test_a_start_with_all_fields_is_converted():
    body = {
        "graph": "lead",
        "input": [1],
        "threadId": "t",
        "idempotencyKey": "k",
        "onBusy": "enqueue",
        "after": "2026-01-01T00:00:00Z",
        "timeout": 5,
        "tags": ["a"],
        "metadata": {"b": 1},
        "concurrencyKey": "c",
        "concurrencyLimit": 2,
        "settings": {"recursionLimit": 3, "durability": "sync"},
    }
    assert StartRunBody.model_validate(body).to_request() == StartRun(
        graph="lead",
        input=[1],
        thread_id="t",
        idempotency_key="k",
        on_busy="enqueue",
        after=datetime(2026, 1, 1, tzinfo=UTC),
        timeout=5.0,
        tags=["a"],
        metadata={"b": 1},
        concurrency_key="c",
        concurrency_limit=2,
        settings={"recursionLimit": 3, "durability": "sync"},
    )


def test_a_start_without_optional_fields_has_defaults():
    assert StartRunBody.model_validate({"definitionId": "d"}).to_request() == StartRun(
        definition_id="d", input={}, tags=[], metadata={}
    )


def test_falsy_inputs_are_kept():
    for value in (0, False, "", [], {}):
        assert StartRunBody.model_validate({"graph": "g", "input": value}).to_request().input == value


def test_a_filter_is_converted():
    body = FilterBody.model_validate({"status": ["FAILED", "waiting"], "tags": ["a"], "metadata": {"x": "1"}})
    expected = RunFilter(status=[RunStatus.FAILED, RunStatus.WAITING], tags=["a"], any_tags=[], metadata={"x": "1"})
    assert body.to_filter() == expected


@pytest.mark.parametrize(
    "body", [{}, {"status": []}, {"tags": [], "metadata": {}}, {"graph": None}, {"status": "failed"}]
)
def test_an_empty_or_invalid_filter_is_refused(body: dict[str, Any]):
    with pytest.raises(ValidationError):
        FilterBody.model_validate(body)


@pytest.mark.parametrize(
    "body",
    [
        {"answers": {}},
        {"answers": {"a": 1}, "signalType": "x"},
        {"payload": {}},
        {"signalId": "s"},
        {"signalType": "x", "payload": [1]},
        {"signalType": ""},
    ],
)
def test_invalid_combinations_of_resume_fields_are_refused(body: dict[str, Any]):
    with pytest.raises(ValidationError):
        ResumeBody.model_validate(body)
