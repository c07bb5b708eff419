"""Cron expressions: due times, and errors of invalid ones."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import examples

from statewright.errors import InvalidRequest
from statewright.service.schedules.cron import iter_times, last_times, next_time, validate_cron, zone_of

SPRING = "2026-03-28T22:30"
AUTUMN = "2026-10-24T21:30"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due(cron: str, timezone: str, after: str, count: int) -> list[str]:
    return [f"{item:%d %H:%M}" for item in islice(iter_times(cron, timezone, at(after)), count)]


@pytest.mark.parametrize(
    ("cron", "timezone", "after", "expected"),
    [
        # without daylight saving
        ("30 2 * * *", "UTC", SPRING, ["29 02:30", "30 02:30"]),
        ("0 12 * * MON", "UTC", "2026-03-02T11:59", ["02 12:00", "09 12:00"]),
        ("0 12 * * MON", "UTC", "2026-03-02T12:00", ["09 12:00", "16 12:00"]),
        ("0 0 L * *", "UTC", "2026-02-01T00:00", ["28 00:00", "31 00:00"]),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["29 00:00"]),
        ("0 7 * * *", "Asia/Kathmandu", "2026-03-02T00:00", ["02 01:15", "03 01:15"]),
        # on 29 March, clocks in Berlin go from 2:00 to 3:00, which is 01:00 in UTC
        ("30 2 * * *", "Europe/Berlin", SPRING, ["29 01:00", "30 00:30"]),
        ("0 2,3 * * *", "Europe/Berlin", SPRING, ["29 01:00", "30 00:00", "30 01:00"]),
        ("30 1 * * *", "Europe/Berlin", SPRING, ["29 00:30", "29 23:30"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00", ["29 00:30", "29 01:00", "29 01:30"]),
        ("30 * * * *", "Europe/Berlin", "2026-03-29T00:00", ["29 00:30", "29 01:30", "29 02:30"]),
        # on 25 October, they go back from 3:00 to 2:00, which is 01:00 in UTC: 2:30 occurs twice
        ("30 2 * * *", "Europe/Berlin", AUTUMN, ["25 00:30", "26 01:30"]),
        ("*/30 2 * * *", "Europe/Berlin", AUTUMN, ["25 00:00", "25 00:30", "25 01:00", "25 01:30", "26 01:00"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-25T00:00", ["25 00:30", "25 01:30", "25 02:30"]),
        ("45 2 * * *", "Europe/Berlin", "2026-10-25T01:30", ["26 01:45"]),
        # the gap is half an hour wide, from 2:00 to 2:30 on 4 October
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", ["03 15:30", "04 15:15"]),
        ("30 1 * * *", "America/New_York", "2026-11-01T00:00", ["01 05:30", "02 06:30"]),
        # 30 December 2011 was skipped
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-29T00:00", ["30 10:00"]),
    ],
)
def test_due_times_follow_the_expression_and_the_time_zone(
    cron: str, timezone: str, after: str, expected: list[str]
) -> None:
    assert due(cron, timezone, after, len(expected)) == expected


def test_a_time_is_after_the_instant_and_in_utc() -> None:
    result = next_time("* * * * *", "Europe/Berlin", at("2026-03-02T12:00"))
    assert result == at("2026-03-02T12:01")
    assert result is not None
    assert result.tzinfo is UTC


def test_seconds_and_fractions_are_ignored() -> None:
    assert next_time("0 12 * * *", "UTC", at("2026-03-02T11:59:59.999999")) == at("2026-03-02T12:00")
    assert next_time("0 12 * * *", "UTC", at("2026-03-02T12:00:00.000001")) == at("2026-03-03T12:00")


def test_an_expression_that_is_never_due_has_no_time() -> None:
    assert next_time("0 0 */29 2 MON#5", "UTC", at("2026-01-01T00:00")) is None


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/7", "5,35", "10-12"]),
    st.sampled_from(["*", "1", "2", "*/2", "1-3", "0,23"]),
    st.sampled_from(["*", "1", "L", "*/10"]),
    st.sampled_from(["*", "3", "10,11"]),
    st.sampled_from(["*", "SUN", "MON-FRI"]),
).map(" ".join)
NEAR_CHANGES = st.sampled_from(["2026-03-29T00:00", "2026-10-25T00:00", "2026-11-01T05:00", "2026-04-04T14:30"])
OFFSETS = st.integers(-7200, 7200)


@given(cron=FIELDS, zone=st.sampled_from(ZONES), change=NEAR_CHANGES, offset=OFFSETS, between=st.floats(0, 0.999))
@settings(deadline=None)
def test_times_increase_and_do_not_depend_on_where_the_search_begins(
    cron: str, zone: str, change: str, offset: int, between: float
) -> None:
    result = list(islice(iter_times(cron, zone, at(change) + timedelta(seconds=offset)), 8))
    for earlier, later in pairwise(result):
        assert earlier < later
        assert next_time(cron, zone, earlier + (later - earlier) * between) == later


@given(cron=FIELDS, zone=st.sampled_from(ZONES), change=NEAR_CHANGES, days=st.integers(0, 9), limit=st.integers(1, 30))
@settings(deadline=None, max_examples=examples(60))
def test_the_last_times_are_the_last_of_all_times(cron: str, zone: str, change: str, days: int, limit: int) -> None:
    since, until = at(change) - timedelta(days=days), at(change) + timedelta(hours=5)
    all_times: list[datetime] = []
    for time in iter_times(cron, zone, since):
        if time > until:
            break
        all_times.append(time)
    assert last_times(cron, zone, since=since, until=until, limit=limit) == all_times[-limit:]


def test_a_downtime_of_years_does_not_slow_the_search() -> None:
    since, until = at("1996-01-01T00:00"), at("2026-01-01T00:00")
    result = last_times("* * * * *", "Europe/Berlin", since=since, until=until, limit=100)
    assert result == [until - timedelta(minutes=99 - minutes) for minutes in range(100)]


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("0 25 * * *", "the hour is '25'; allowed are 0 to 23"),
        ("61 * * * *", "the minute is '61'"),
        ("*/0 * * * *", "the minute is '*/0'"),
        ("0 0 32 * *", "the day of the month is '32'"),
        (
            "0 0 31 2 *",
            "the day of the month is '31'; allowed are 1 to 31, L or LW, and in a month that has such a day",
        ),
        ("0 0 1 FOO *", "the month is 'FOO'"),
        ("0 0 * * 8", "the day of the week is '8'; allowed are 0 to 7, or SUN to SAT"),
        ("0 0 * * MON#6", "the day of the week is 'MON#6'"),
        ("5-1 * * * *", "the minute is '5-1'"),
        ("², * * * *", "the minute is '²,'"),
        ("* * * *", "has 4 fields"),
        ("0 * * * * *", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("", "1 to 200 characters"),
        ("*" * 201, "1 to 200 characters"),
        ("* * * *\x00 *", "unprintable"),
        (5, "must be a string"),
        (None, "must be a string"),
    ],
)
def test_an_error_names_the_invalid_field(cron: object, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate_cron(cron)
    assert message in str(caught.value)


@given(st.text(alphabet="0123456789*/,-#LWMON ²", max_size=40))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    try:
        validate_cron(text)
    except InvalidRequest:
        return
    result = next_time(text, "Europe/Berlin", at(SPRING))
    assert result is None or result > at(SPRING)


@pytest.mark.parametrize(
    "name", ["europe/berlin", "../etc/passwd", "/etc/passwd", "Europe", "tzdata.zi", "\ud800", "", 1]
)
def test_an_unknown_time_zone_is_refused(name: object) -> None:
    with pytest.raises(InvalidRequest):
        zone_of(name)


def test_a_similar_time_zone_is_suggested() -> None:
    with pytest.raises(InvalidRequest, match="Did you mean 'Europe/Berlin'"):
        zone_of("Europe/Berln")


def test_a_missing_library_is_reported_with_its_extra() -> None:
    program = (
        "import sys; sys.modules['cronsim'] = None\n"
        "from statewright.service.schedules.cron import validate_cron\n"
        "try: validate_cron('* * * * *')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert result.stdout.startswith("MissingLibrary")
    assert "pip install 'statewright[server]'" in result.stdout
