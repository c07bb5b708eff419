"""The order of steps."""

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
def test_the_default_next_step_can_be_overridden(name: str, expected: str) -> None:
    assert ORDER.get_default_next(FLOW.step(name)) == expected
    assert ORDER.resolve_next(FLOW.step(name), None) == expected
    assert ORDER.resolve_next(FLOW.step(name), "c") == "c"


@pytest.mark.parametrize("target", ["e", "", 1, ["a"], END])
def test_invalid_step_names_are_rejected(target: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="which is not a step"):
        ORDER.resolve_next(FLOW.step("a"), target)


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
def test_skipped_steps_are_listed(source: str, target: str, visits: dict[str, int], expected: list[str]) -> None:
    assert list(ORDER.iter_skipped(FLOW.step(source), target, visits)) == expected


def test_names_are_in_the_order_of_the_definition() -> None:
    assert ORDER.names == ("a", "b", "c", "d")
