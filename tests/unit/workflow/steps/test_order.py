"""Where a run goes from a step."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import END
from statewright.errors import InvalidUpdateError
from statewright.workflow.steps import Definition, read_definition
from statewright.workflow.steps.node import StepOrder


def definition(*more: dict[str, Any]) -> Definition:
    steps = [{"type": "task", "name": name, "handler": "h", **extra} for name, extra in zip("abcd", more, strict=True)]
    return read_definition({"name": "n", "version": "1", "steps": steps})


FLOW = definition({}, {"next": "d"}, {"end": True}, {})
ORDER = StepOrder(FLOW)


@pytest.mark.parametrize(("name", "expected"), [("a", "b"), ("b", "d"), ("c", END), ("d", END)])
def test_what_follows_by_itself(name: str, expected: str) -> None:
    assert ORDER.default_next(FLOW.step(name)) == expected
    assert ORDER.resolve_next(FLOW.step(name), None) == expected
    assert ORDER.resolve_next(FLOW.step(name), "c") == "c"


@pytest.mark.parametrize("named", ["e", "", 1, ["a"], END])
def test_what_is_no_step(named: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="which is not a step"):
        ORDER.resolve_next(FLOW.step("a"), named)


@pytest.mark.parametrize(
    ("source", "target", "visits", "expected"),
    [
        ("a", "b", {}, []),
        ("a", "d", {}, ["b", "c"]),
        ("a", END, {"c": 1}, ["b", "d"]),
        ("a", "d", {"b": 0}, ["c"]),
        ("d", "a", {}, []),
        ("b", "b", {}, []),
    ],
)
def test_what_is_left_out(source: str, target: str, visits: dict[str, int], expected: list[str]) -> None:
    assert list(ORDER.iter_skipped(FLOW.step(source), target, visits)) == expected


def test_the_names_are_in_order() -> None:
    assert ORDER.names == ("a", "b", "c", "d")
