"""What a condition tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from statewright.workflow.steps.model import ConditionStep
from statewright.workflow.steps.perform import perform_condition, result_key

STEP = ConditionStep(type="condition", name="good", expression="lead.score", true_step="a", false_step="b")


def test_it_names_one_of_its_steps() -> None:
    for state, way, target in (
        ({"lead": {"score": 1}}, True, "a"),
        ({"lead": {"score": 0}}, False, "b"),
        ({}, False, "b"),
    ):
        result = perform_condition(STEP, cast(Any, SimpleNamespace(state=state)))
        assert result.state_updates == {"__condition_good": way, "__nextStep": target}
        assert result.output == {"result": way, "nextStep": target}


def test_the_field_of_its_result() -> None:
    assert result_key("my step") == "__condition_my step"
