"""The due runs of a schedule, with missed times caught up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from statewright.runs import Schedule
from statewright.service.schedules.scheduler import Firing, due_firings

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOURLY = Schedule(
    id="sch_1", workspace_id="default", name="h", graph="g", cron="0 * * * *", next_at=NOON, created_at=NOON
)


def starts(schedule: Schedule, now: datetime) -> list[str]:
    return [f"{item.at:%H:%M}" for item in due_firings(schedule, now) if item.at is not None]


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def test_nothing_is_due_before_its_time() -> None:
    assert due_firings(HOURLY, NOON - timedelta(microseconds=1)) == []


def test_at_its_time_one_run_is_due() -> None:
    assert due_firings(HOURLY, NOON) == [Firing(NOON, NOON + hours(1))]


@pytest.mark.parametrize("schedule", [replace(HOURLY, paused=True), replace(HOURLY, next_at=None)])
def test_paused_and_ended_schedules_are_not_due(schedule: Schedule) -> None:
    assert due_firings(schedule, NOON + hours(5)) == []


@pytest.mark.parametrize(
    ("catch_up", "late", "expected"),
    [
        ("none", hours(0), ["12:00"]),
        ("none", timedelta(seconds=59), ["12:00"]),
        ("none", timedelta(minutes=2), []),
        ("none", hours(3), ["15:00"]),
        ("none", hours(3.5), []),
        ("last", timedelta(minutes=2), ["12:00"]),
        ("last", hours(3.5), ["15:00"]),
        ("all", timedelta(minutes=2), ["12:00"]),
        ("all", hours(3.5), ["12:00", "13:00", "14:00", "15:00"]),
    ],
)
def test_missed_times_are_caught_up_as_configured(catch_up: str, late: timedelta, expected: list[str]) -> None:
    schedule = replace(HOURLY, catch_up=catch_up)
    assert starts(schedule, NOON + late) == expected
    assert due_firings(schedule, NOON + late)[-1].next_at == NOON + hours(late // hours(1) + 1)


def test_the_last_hundred_missed_times_are_caught_up() -> None:
    firings = due_firings(replace(HOURLY, catch_up="all"), NOON + hours(1000.5))
    assert [firing.at for firing in firings] == [NOON + hours(count) for count in range(901, 1001)]


def test_each_firing_leads_to_the_next() -> None:
    firings = due_firings(replace(HOURLY, catch_up="all"), NOON + hours(2.5))
    assert [firing.next_at for firing in firings] == [NOON + hours(1), NOON + hours(2), NOON + hours(3)]


def test_a_time_that_is_no_longer_due_is_skipped() -> None:
    """The rules of its time zone have changed since it was noted."""
    moved = replace(HOURLY, next_at=NOON + timedelta(minutes=30))
    assert due_firings(moved, NOON + timedelta(minutes=31)) == [Firing(None, NOON + hours(1))]
