"""States on standard output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from statewright import Message
from statewright.cli.console.values import print_state, to_json, to_plain


@dataclass
class Point:
    x: int
    tags: frozenset[str] = frozenset()


class Model(BaseModel):
    at: date


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Point(1), {"x": 1, "tags": frozenset()}),
        (Model(at=date(2026, 1, 2)), {"at": "2026-01-02"}),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({1, "a"}), ["a", 1]),
        (b"bytes", "bytes"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (Opaque(), "<opaque>"),
        (1 + 2j, "(1+2j)"),
        (len, "<built-in function len>"),
    ],
)
def test_what_json_does_not_know_becomes_what_comes_nearest(value: Any, shown: Any) -> None:
    assert to_plain(value) == shown


@pytest.mark.parametrize(
    "value",
    [
        Point,
        pytest.param(Model),
        pytest.param(datetime),
    ],
)
def test_a_class_is_shown_by_its_repr(value: type) -> None:
    assert to_plain(value) == repr(value)


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    assert json.loads(to_json({"raw": b"\xff"})) == {"raw": "\ufffd"}


def test_a_message_is_shown_with_its_role_and_content() -> None:
    shown = json.loads(to_json({"messages": [Message("hello", role="user")]}))
    assert (shown["messages"][0]["role"], shown["messages"][0]["content"]) == ("user", "hello")


def test_values_inside_values_are_turned_too() -> None:
    shown = json.loads(to_json({"points": [Point(1, frozenset({"b", "a"}))], "at": {"day": date(2026, 1, 2)}}))
    assert shown == {"points": [{"x": 1, "tags": ["a", "b"]}], "at": {"day": "2026-01-02"}}


def test_text_keeps_its_letters() -> None:
    assert to_json("Grüße, 世界") == '"Grüße, 世界"'


@pytest.mark.parametrize("json_wanted", [True, False])
def test_a_state_that_somebody_else_reads_is_one_json_document(
    capsys: pytest.CaptureFixture[str], json_wanted: bool
) -> None:
    print_state({"n": 1, "who": None}, json_wanted=json_wanted)
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"n": 1, "who": None}, "")
    assert "\x1b" not in said.out


@pytest.mark.parametrize("json_wanted", [True, False])
def test_a_terminal_shows_the_same_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], json_wanted: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    print_state({"n": 1}, json_wanted=json_wanted)
    assert json.loads(capsys.readouterr().out) == {"n": 1}


@pytest.mark.parametrize("state", [{(1, 2): 3}, {"n": {Opaque(): 1}}], ids=["tuple", "object"])
def test_keys_that_json_does_not_know_are_shown_too(state: Any) -> None:
    assert isinstance(json.loads(to_json(state)), dict)


def test_numbers_that_json_does_not_know_make_no_broken_document() -> None:
    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(to_json({"n": float("nan"), "m": float("inf")}), parse_constant=refuse)
