"""What a handler is told: copies, made when it looks."""

from __future__ import annotations

from statewright.workflow.steps import StepContext


def test_what_a_handler_does_to_it_stays_there() -> None:
    given, state, config = {"a": [1]}, {"b": {"c": 1}}, {"d": [2]}
    ctx = StepContext(workflow_input=given, workflow_state=state, config=config)
    ctx.workflow_input["a"].append(2)
    ctx.workflow_state["b"]["c"] = 2
    ctx.config["d"].clear()
    assert (given, state, config) == ({"a": [1]}, {"b": {"c": 1}}, {"d": [2]})
    assert ctx.workflow_input == {"a": [1, 2]}  # what it did it sees itself


def test_a_context_made_by_hand_needs_nothing() -> None:
    ctx = StepContext()
    assert (ctx.workflow_input, ctx.workflow_state, ctx.config) == ({}, {}, {})
    assert (ctx.step_name, ctx.run_id, ctx.workspace_id, ctx.idempotency_key, ctx.attempt) == ("", "", None, "", 1)
    assert ctx.runtime is None
