"""States on standard output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from statewright import Message
from statewright.cli.console.values import print_state, to_json


@dataclass
class Point:
    x: int
    tags: frozenset[str] = frozenset()


class Opaque:
    def __str__(self) -> str:
        return "<opaque>"


def test_a_message_is_shown_with_its_role_and_content() -> None:
    shown = json.loads(to_json({"messages": [Message("hello", role="user")]}))
    assert (shown["messages"][0]["role"], shown["messages"][0]["content"]) == ("user", "hello")


def test_values_inside_values_are_turned_too() -> None:
    shown = json.loads(to_json({"points": [Point(1, frozenset({"b", "a"}))], "at": {"day": date(2026, 1, 2)}}))
    assert shown == {"points": [{"x": 1, "tags": ["a", "b"]}], "at": {"day": "2026-01-02"}}


def test_text_keeps_its_letters() -> None:
    assert to_json("Grüße, 世界") == '"Grüße, 世界"'


@pytest.mark.parametrize("as_json", [True, False])
def test_a_state_that_somebody_else_reads_is_one_json_document(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    print_state({"n": 1, "who": None}, as_json=as_json)
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"n": 1, "who": None}, "")
    assert "\x1b" not in said.out


@pytest.mark.parametrize("as_json", [True, False])
def test_a_terminal_shows_the_same_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    print_state({"n": 1}, as_json=as_json)
    assert json.loads(capsys.readouterr().out) == {"n": 1}


@pytest.mark.parametrize("state", [{(1, 2): 3}, {"n": {Opaque(): 1}}], ids=["tuple", "object"])
def test_keys_that_json_does_not_know_are_shown_too(state: Any) -> None:
    assert isinstance(json.loads(to_json(state)), dict)


def test_numbers_that_json_does_not_know_make_no_broken_document() -> None:
    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    numbers = json.loads(to_json({"n": float("nan"), "m": float("inf")}), parse_constant=refuse)
    assert numbers == {"n": "NaN", "m": "Infinity"}
