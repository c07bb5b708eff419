"""Creating nodes from steps."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.graph import is_coroutine_function
from statewright.workflow.steps import read_definition
from statewright.workflow.steps.compile import StepNodeFactory
from statewright.workflow.steps.node import StepOrder


async def async_handler(ctx: Any) -> None: ...


STEPS: list[dict[str, Any]] = [
    {"type": "task", "name": "plain", "handler": "plain"},
    {"type": "task", "name": "async_handler", "handler": "async_handler"},
    {"type": "llm", "name": "llm", "model": "gpt-5", "messages": [{"role": "user", "content": "x"}]},
    {"type": "wait", "name": "wait", "durationMs": 1},
    {"type": "condition", "name": "condition", "expression": "x", "trueStep": "wait", "falseStep": "wait"},
    {"type": "external_event", "name": "event", "signalType": "x"},
    {"type": "approval", "name": "approval", "contentKey": "x"},
]
FLOW = read_definition({"name": "n", "version": "1", "steps": STEPS})


@pytest.mark.parametrize("name", [step["name"] for step in STEPS])
def test_every_type_of_step_has_a_node(name: str) -> None:
    factory = StepNodeFactory(handlers={"plain": lambda ctx: None, "async_handler": async_handler})
    node = factory.make_node(FLOW.step(name), 0, StepOrder(FLOW))
    assert factory.problems == []
    assert is_coroutine_function(node) is (name in ("async_handler", "llm"))


def test_a_missing_handler_is_a_problem() -> None:
    factory = StepNodeFactory(handlers={})
    factory.make_node(FLOW.step("plain"), 3, StepOrder(FLOW))
    assert [problem.path for problem in factory.problems] == ["steps[3].handler"]
