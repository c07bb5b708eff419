"""Validation of request values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import InvalidRequest
from statewright.service.context.validation import choice, flag, instant, known_fields, mapping, number, text, texts


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (text, "a b", "a b"),
        (text, "größe", "größe"),
        (text, "x" * 200, "x" * 200),
        (texts, ["b", "a", "b"], ["b", "a"]),
        (texts, (), []),
        (mapping, {"a": [1]}, {"a": [1]}),
        (flag, False, False),
        (number, 1, 1),
        (number, 1_000_000, 1_000_000),
        (number, None, None),
        (instant, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_valid_values_are_returned(check: Callable[[Any, str], Any], value: Any, expected: Any) -> None:
    assert check(value, "It") == expected


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (text, None, "It must be a string, and is null"),
        (text, "", "1 to 200 characters"),
        (text, " \t", "not all blank"),
        (text, "x" * 201, "it has 201"),
        (text, "a\x00b", "are not printable: 'a\\x00b'"),
        (text, "\ud800", "not printable"),
        (texts, "abc", "list of strings"),
        (texts, {"a": 1}, "list of strings"),
        (texts, ["a", 5], "It[1] must be a string"),
        (mapping, [("a", 1)], "must be an object"),
        (mapping, {"": 1}, "A key of It"),
        (flag, 0, "true or false, not 0"),
        (flag, "yes", "true or false"),
        (number, 0, "from 1 to 1000000"),
        (number, True, "whole number"),
        (number, 1.0, "whole number"),
        (number, 1_000_001, "whole number"),
        (instant, "2026-01-01", "a date and time with a time zone"),
        (instant, datetime(2026, 1, 1), "a date and time with a time zone"),
    ],
)
def test_invalid_values_are_refused(check: Callable[[Any, str], Any], value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(value, "It")
    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["bleu", None, 5, ["blue"]])
def test_an_unknown_word_is_refused(value: Any) -> None:
    assert choice("blue", "A colour", ("red", "blue")) == "blue"
    with pytest.raises(InvalidRequest, match=r"A colour cannot be .* It may be: blue, red\."):
        choice(value, "A colour", ("red", "blue"))


def test_unknown_fields_are_refused_with_a_suggestion() -> None:
    known_fields({"cron": 1}, ("cron", "name"), "A schedule")
    with pytest.raises(InvalidRequest, match=r"A schedule has no field 'corn'.*Did you mean 'cron'"):
        known_fields({"corn": 1}, ("cron", "name"), "A schedule")
