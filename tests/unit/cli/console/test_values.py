"""States on standard output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from statewright import Message
from statewright.cli.console.table import print_state
from statewright.cli.console.values import to_json


@dataclass
class Point:
    x: int
    tags: frozenset[str] = frozenset()


class Opaque:
    def __str__(self) -> str:
        return "<opaque>"


def test_a_message_is_shown_with_its_role_and_content() -> None:
    document = json.loads(to_json({"messages": [Message("hello", role="user")]}))
    assert (document["messages"][0]["role"], document["messages"][0]["content"]) == ("user", "hello")


def test_nested_values_are_converted() -> None:
    document = json.loads(to_json({"points": [Point(1, frozenset({"b", "a"}))], "at": {"day": date(2026, 1, 2)}}))
    assert document == {"points": [{"x": 1, "tags": ["a", "b"]}], "at": {"day": "2026-01-02"}}


def test_non_ascii_text_is_not_escaped() -> None:
    assert to_json("Grüße, 世界") == '"Grüße, 世界"'


@pytest.mark.parametrize("as_json", [True, False])
def test_a_state_for_programs_is_one_json_document(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    print_state({"n": 1, "who": None}, as_json=as_json)
    output = capsys.readouterr()
    assert (json.loads(output.out), output.err) == ({"n": 1, "who": None}, "")
    assert "\x1b" not in output.out


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
def test_keys_without_a_json_form_are_converted(state: Any) -> None:
    assert isinstance(json.loads(to_json(state)), dict)


def test_numbers_without_a_json_form_become_strings() -> None:
    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not valid JSON")

    numbers = json.loads(to_json({"n": float("nan"), "m": float("inf")}), parse_constant=refuse)
    assert numbers == {"n": "NaN", "m": "Infinity"}
