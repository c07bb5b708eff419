"""Validation of requested schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statewright.errors import InvalidRequest
from statewright.service.schedules.registry import NewSchedule, check_schedule

GOOD = NewSchedule(name="nightly", cron="0 2 * * *", graph="report", timezone="Europe/Berlin", tags=["a"])


@pytest.mark.parametrize("overlap", ["skip", "enqueue", "allow", "cancel"])
@pytest.mark.parametrize("catch_up", ["none", "last", "all"])
def test_only_known_policies_are_accepted(overlap: str, catch_up: str) -> None:
    asked = replace(GOOD, overlap=overlap, catch_up=catch_up)
    check_schedule(asked)
    for field in ("overlap", "catch_up"):
        with pytest.raises(InvalidRequest, match="sometimes"):
            check_schedule(replace(asked, **{field: "sometimes"}))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "", "1 to 200 characters"),
        ("name", "x" * 201, "1 to 200 characters"),
        ("name", "a\nb", "unprintable"),
        ("name", None, "must be a string"),
        ("cron", "x", "fields"),
        ("timezone", "Berlin", "Time zone 'Berlin' does not exist"),
        ("overlap", "skipp", "Did you mean 'skip'"),
        ("catch_up", "latest", "Did you mean 'last'"),
        ("catch_up", None, "cannot be None"),
        ("paused", 1, "true or false"),
        ("tags", "abc", "list of strings"),
        ("tags", [1], "tags of a schedule[0]"),
        ("metadata", [], "must be an object"),
        ("metadata", {1: 2}, "must be a string"),
        ("metadata", {"scheduledFor": "x"}, "cannot contain 'scheduledFor'"),
    ],
)
def test_invalid_schedules_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_schedule(replace(GOOD, **{field: value}))
    assert message in str(caught.value)
