"""The context of handlers: copies that are made on access."""

from __future__ import annotations

from statewright.workflow.steps import StepContext


def test_changes_by_a_handler_affect_only_its_context() -> None:
    workflow_input, state, config = {"a": [1]}, {"b": {"c": 1}}, {"d": [2]}
    ctx = StepContext(workflow_input=workflow_input, workflow_state=state, config=config)
    ctx.workflow_input["a"].append(2)
    ctx.workflow_state["b"]["c"] = 2
    ctx.config["d"].clear()
    assert (workflow_input, state, config) == ({"a": [1]}, {"b": {"c": 1}}, {"d": [2]})
    assert ctx.workflow_input == {"a": [1, 2]}  # the handler sees its own changes


def test_all_arguments_of_a_context_are_optional() -> None:
    ctx = StepContext()
    assert (ctx.workflow_input, ctx.workflow_state, ctx.config) == ({}, {}, {})
    assert (ctx.step_name, ctx.run_id, ctx.workspace_id, ctx.idempotency_key, ctx.attempt) == ("", "", None, "", 1)
    assert ctx.runtime is None
