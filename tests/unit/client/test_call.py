"""Requests as data."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from statewright.client.call import (
    Call,
    api_path,
    camel,
    delete,
    encode_json,
    get,
    ignore_content,
    patch,
    post,
    query_params,
    read_data,
    to_camel_case,
)
from statewright.errors import InvalidRequest


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ("run_1", "/api/v1/a/run_1"),
        ("a/b", "/api/v1/a/a%2Fb"),
        ("a b?c#d", "/api/v1/a/a%20b%3Fc%23d"),
        ("ü", "/api/v1/a/%C3%BC"),
    ],
)
def test_an_id_stays_one_segment_of_a_path(part: str, path: str) -> None:
    assert api_path("a", part) == path


@pytest.mark.parametrize("part", ["", ".", ".."])
def test_ids_that_lead_to_another_path_are_refused(part: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a valid id or name"):
        api_path("workflow-runs", part)


def test_parameters_are_strings() -> None:
    values = {"a": None, "b": True, "c": [1, "x", None], "d": datetime(2026, 1, 1, tzinfo=UTC), "e": ()}
    assert query_params(values) == [("b", "true"), ("c", "1"), ("c", "x"), ("d", "2026-01-01T00:00:00+00:00")]


class Lead(BaseModel):
    at: datetime


def test_bodies_are_encoded_as_json() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    body = json.loads(encode_json({"at": at, "lead": Lead(at=at), "set": {2, 1}, "text": "ü"}))
    assert body == {"at": at.isoformat(), "lead": {"at": "2026-01-01T00:00:00Z"}, "set": [1, 2], "text": "ü"}


@pytest.mark.parametrize("value", [float("nan"), object(), {("a", "b"): 1}], ids=["nan", "object", "key"])
def test_values_without_a_json_form_are_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="cannot be encoded as JSON"):
        encode_json({"input": value})


def test_names_are_in_camel_case_and_nested_values_unchanged() -> None:
    assert camel("created_at") == "createdAt"
    assert camel("id") == "id"
    assert to_camel_case({"step_runs": {"a_b": 1}}) == {"stepRuns": {"a_b": 1}}


def test_only_reads_are_repeatable() -> None:
    assert get("/x", read_data, {"a": 1}).repeatable
    for call in (post("/x", read_data), patch("/x", read_data, {}), delete("/x", ignore_content)):
        assert isinstance(call, Call)
        assert not call.repeatable
    assert post("/x", read_data).body is None
    assert ignore_content({"any": 1}) is None
    assert read_data({"data": 3}) == 3
