"""Validation of request values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import InvalidRequest
from statewright.service.context.validation import (
    validate_bool,
    validate_choice,
    validate_datetime,
    validate_field_names,
    validate_limit,
    validate_mapping,
    validate_string,
    validate_strings,
)


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (validate_string, "a b", "a b"),
        (validate_string, "größe", "größe"),
        (validate_string, "x" * 200, "x" * 200),
        (validate_strings, ["b", "a", "b"], ["b", "a"]),
        (validate_strings, (), []),
        (validate_mapping, {"a": [1]}, {"a": [1]}),
        (validate_bool, False, False),
        (validate_limit, 1, 1),
        (validate_limit, 1_000_000, 1_000_000),
        (validate_limit, None, None),
        (validate_datetime, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_valid_values_are_returned(check: Callable[[Any, str], Any], value: Any, expected: Any) -> None:
    assert check(value, "It") == expected


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (validate_string, None, "It must be a string, not null"),
        (validate_string, "", "1 to 200 characters"),
        (validate_string, " \t", "not all of them blank"),
        (validate_string, "x" * 201, "it has 201"),
        (validate_string, "a\x00b", "contains unprintable characters: 'a\\x00b'"),
        (validate_string, "\ud800", "unprintable"),
        (validate_strings, "abc", "list of strings"),
        (validate_strings, {"a": 1}, "list of strings"),
        (validate_strings, ["a", 5], "It[1] must be a string"),
        (validate_mapping, [("a", 1)], "must be an object"),
        (validate_mapping, {"": 1}, "A key of It"),
        (validate_bool, 0, "true or false, not 0"),
        (validate_bool, "yes", "true or false"),
        (validate_limit, 0, "from 1 to 1000000"),
        (validate_limit, True, "whole number"),
        (validate_limit, 1.0, "whole number"),
        (validate_limit, 1_000_001, "whole number"),
        (validate_datetime, "2026-01-01", "a date and time with a time zone"),
        (validate_datetime, datetime(2026, 1, 1), "a date and time with a time zone"),
    ],
)
def test_invalid_values_are_refused(check: Callable[[Any, str], Any], value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(value, "It")
    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["bleu", None, 5, ["blue"]])
def test_an_unknown_choice_is_refused(value: Any) -> None:
    assert validate_choice("blue", "A colour", ("red", "blue")) == "blue"
    with pytest.raises(InvalidRequest, match=r"A colour cannot be .* Choices: blue, red\."):
        validate_choice(value, "A colour", ("red", "blue"))


def test_unknown_fields_are_refused_with_a_suggestion() -> None:
    validate_field_names({"cron": 1}, ("cron", "name"), "A schedule")
    with pytest.raises(InvalidRequest, match=r"A schedule has no field 'corn'.*Did you mean 'cron'"):
        validate_field_names({"corn": 1}, ("cron", "name"), "A schedule")
