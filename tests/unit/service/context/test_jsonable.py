"""Errors, instants and metadata as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from statewright.clock import iso
from statewright.errors import GraphRecursionError, InvalidRequest, code_of
from statewright.service.context.records import entries_as_text
from statewright.service.engine.changeset import MAX_MESSAGE_LENGTH, error_from_text, error_json


class Coded(Exception):
    code = "LUCK"
    details = {"at": datetime(2030, 1, 1, tzinfo=UTC)}


def test_an_error_has_its_message_and_its_code() -> None:
    assert error_json(ValueError("no luck")) == {"message": "ValueError: no luck", "code": "ValueError"}
    told = error_json(Coded("oh"), step="try")
    assert told == {
        "message": "Coded: oh",
        "code": "LUCK",
        "step": "try",
        "details": {"at": "2030-01-01T00:00:00Z"},
    }
    assert error_json(InvalidRequest("No."))["message"] == "No."


def test_the_message_of_an_error_is_truncated() -> None:
    assert len(error_json(ValueError("x" * 10_000))["message"]) == MAX_MESSAGE_LENGTH
    assert len(error_from_text("ValueError: " + "x" * 10_000)["message"]) == MAX_MESSAGE_LENGTH


def test_an_error_is_read_back_from_its_text() -> None:
    assert error_from_text("ValueError: no: luck") == {"message": "ValueError: no: luck", "code": "ValueError"}
    assert error_from_text("plain words") == {"message": "plain words", "code": "ERROR"}


def test_an_error_of_the_engine_read_from_its_text_has_its_code() -> None:
    told = error_from_text("GraphRecursionError: too far: 3")
    assert told == {"message": "too far: 3", "code": GraphRecursionError.code}


@pytest.mark.parametrize(
    "error", [ValueError("no luck"), ValueError("no: luck"), InvalidRequest("No: never.")], ids=str
)
def test_an_error_reads_the_same_from_its_text(error: Exception) -> None:
    assert error_from_text(f"{type(error).__name__}: {error}") == error_json(error)


def test_lone_surrogates_are_replaced_in_errors() -> None:
    for told in (error_json(ValueError("\ud800!")), error_from_text("ValueError: \ud800!")):
        assert told == {"message": "ValueError: ?!", "code": "ValueError"}


def test_the_code_of_an_error_is_a_non_empty_string() -> None:
    empty = ValueError("x")
    empty.code = ""  # type: ignore[attr-defined]
    number = ValueError("x")
    number.code = 5  # type: ignore[attr-defined]
    assert (code_of(Coded()), code_of(empty), code_of(number)) == ("LUCK", "ValueError", "ValueError")


def test_an_instant_is_written_in_utc() -> None:
    there = datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert iso(there) == "2030-01-01T00:00:00Z"
    assert iso(there.replace(microsecond=5)) == "2030-01-01T00:00:00.000005Z"


def test_entries_are_texts_or_sorted_json() -> None:
    assert entries_as_text({"a": "x", "b": {"d": 1, "c": [None]}, "e": True}) == {
        "a": "x",
        "b": '{"c": [null], "d": 1}',
        "e": "true",
    }
