"""Validation of plans, and the steps that are ready."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from statewright.agents.prebuilt.planner import Plan, Replan, add_plan_validator, ready_steps, remaining_steps


def step(name: str, *after: str) -> dict[str, Any]:
    return {"id": name, "task": f"do {name}", "after": list(after)}


def test_a_validated_class_keeps_its_name_and_schema() -> None:
    form = add_plan_validator(Plan)

    assert form.__name__ == "Plan"
    assert form.model_json_schema()["required"] == ["steps"]
    assert form.model_json_schema()["description"] == Plan.model_json_schema()["description"]


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ValidationError) as caught:
        add_plan_validator(Plan).model_validate({"steps": [step("a", "x"), step("b"), step("b")]})

    assert "'x', which is not a step" in str(caught.value)
    assert "Two steps have the id 'b'" in str(caught.value)


def test_steps_of_a_new_plan_can_need_completed_steps() -> None:
    assert add_plan_validator(Replan, ["a"]).model_validate({"steps": [step("b", "a")]}).steps[0].after == ["a"]
    with pytest.raises(ValidationError, match="'a', which is not a step"):
        add_plan_validator(Replan).model_validate({"steps": [step("b", "a")]})


def test_a_response_needs_no_steps() -> None:
    assert add_plan_validator(Replan).model_validate({"response": "done"}).steps == []


def test_ready_steps_need_no_remaining_step() -> None:
    plan = [step("c", "a", "b"), step("a"), step("b"), step("d", "gone")]

    assert [message["id"] for message in ready_steps(plan, [])] == ["a", "b"]
    assert [message["id"] for message in ready_steps(plan, ["a", "b", "gone"])] == ["c", "d"]
    assert [message["id"] for message in remaining_steps(plan, ["a"])] == ["c", "b", "d"]
