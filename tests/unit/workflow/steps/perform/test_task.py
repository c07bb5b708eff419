"""Tasks, run in a graph."""

from __future__ import annotations

from typing import Any

from statewright.workflow.steps import compile_steps


def run(handler: Any, **step: Any) -> Any:
    document = {"name": "n", "version": "1", "steps": [{"type": "task", "name": "a", "handler": "h", **step}]}
    return compile_steps(document, handlers={"h": handler}).invoke({"i": 1})


def test_a_handler_with_a_second_parameter_receives_the_step() -> None:
    def handler(ctx: Any, step: Any) -> Any:
        return {"stateUpdates": {"step": [step.name, step.handler, ctx.config]}}

    assert run(handler, config={"c": 1}) == {"step": ["a", "h", {"c": 1}]}


def test_an_object_may_be_a_handler() -> None:
    class Handler:
        async def __call__(self, ctx: Any) -> Any:
            return {"stateUpdates": ctx.workflow_input}

    assert run(Handler()) == {"i": 1}
