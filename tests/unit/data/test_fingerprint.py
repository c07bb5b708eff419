"""Fingerprints of values."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from statewright import Message
from statewright.data.fingerprint import fingerprint
from statewright.errors import InvalidUpdateError


@dataclass
class Point:
    x: int
    tags: list[str]


ALIKE: list[tuple[Any, Any]] = [
    ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}),
    ({1, 2, "x"}, {"x", 2, 1}),
    (Point(1, ["a"]), Point(1, ["a"])),
    (Message("hello", id="1"), Message("hello", id="1")),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    (Decimal("1.50"), Decimal("1.50")),
    ((), ()),
    ({"deep": {"a": {1, 2}}}, {"deep": {"a": {2, 1}}}),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, 1.0),
    (1, True),
    (1, "1"),
    ("", None),
    ([1, 2], (1, 2)),
    ([1, 2], [2, 1]),
    ([[1], 2], [[1, 2]]),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, [("a", 1)]),
    (Point(1, ["a"]), Point(1, ["b"])),
    (len, print),
    (Point, Message),
    ("a\x1fb", "a"),
    (["a", "b"], ["a\x1fstr:'b'"]),
]


@pytest.mark.parametrize(("first", "second"), ALIKE)
def test_equal_values_have_equal_fingerprints(first: Any, second: Any) -> None:
    assert fingerprint(first) == fingerprint(second)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different_values_have_different_fingerprints(first: Any, second: Any) -> None:
    assert fingerprint(first) != fingerprint(second)


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    code = "from statewright.data.fingerprint import fingerprint as f; print(f({'a': {'x', 'y', 'z'}, 'b': (1, None)}))"
    fingerprints = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(fingerprints) == 1


def test_circular_values_and_generators_are_rejected() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidUpdateError, match="contains itself"):
        fingerprint(endless)
    with pytest.raises(InvalidUpdateError, match="generator"):
        fingerprint(x for x in ())


def test_an_object_can_occur_twice() -> None:
    shared = [1]
    assert fingerprint([shared, shared]) == fingerprint([[1], [1]])
