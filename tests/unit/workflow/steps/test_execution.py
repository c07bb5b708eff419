"""One execution of a step: its keys, context and reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from statewright.workflow.steps import read_definition
from statewright.workflow.steps.execution import StepExecution

STEP = read_definition({"name": "n", "version": "1", "steps": [{"type": "task", "name": "a", "handler": "h"}]}).step(
    "a"
)


def execution(values: dict[str, Any] | None = None, **configurable: Any) -> StepExecution:
    recorded: list[Any] = []
    info = SimpleNamespace(attempt=2, run_id="run_1")
    runtime = SimpleNamespace(
        execution_info=info, is_recorded=True, record=lambda *event: recorded.append(event), recorded=recorded
    )
    return StepExecution(STEP, values or {}, cast(Any, runtime), {"configurable": configurable})


@pytest.mark.parametrize(("visits", "key"), [({}, "o:a"), ({"a": 0}, "o:a"), ({"a": 1}, "o:a:2"), ({"b": 3}, "o:a")])
def test_each_visit_has_its_own_idempotency_key(visits: dict[str, int], key: str) -> None:
    assert execution({"visits": visits, "origin": "o"}).idempotency_key == key


def test_each_retry_has_its_own_request_key() -> None:
    assert execution().request_key == "0/2"
    assert execution(retry=3).request_key == "3/2"


def test_the_context_has_input_state_config_and_ids() -> None:
    context = execution({"input": {"i": 1}, "state": {"s": 1}, "origin": "o"}, workspace_id="ws_1").make_context(
        {"c": 1}
    )
    assert (context.step_name, context.run_id, context.workspace_id, context.attempt) == ("a", "run_1", "ws_1", 2)
    assert (context.workflow_input, context.workflow_state, context.config) == ({"i": 1}, {"s": 1}, {"c": 1})
    assert context.idempotency_key == "o:a"


def test_reports_are_recorded() -> None:
    step_execution = execution()
    step_execution.record()
    step_execution.record(output={"a": 1})
    step_execution.record_event("GUARDRAIL_FAILED", check="c")
    assert cast(Any, step_execution.runtime).recorded == [
        ("step_reported", {"output": {"a": 1}}),
        ("step_reported", {"event": {"type": "GUARDRAIL_FAILED", "payload": {"check": "c"}}}),
    ]
