"""The results of conditions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from statewright.workflow.steps.model import ConditionStep
from statewright.workflow.steps.perform import perform_condition, result_key

STEP = ConditionStep(type="condition", name="good", expression="lead.score", true_step="a", false_step="b")


def test_a_condition_selects_one_of_its_two_steps() -> None:
    for state, value, target in (
        ({"lead": {"score": 1}}, True, "a"),
        ({"lead": {"score": 0}}, False, "b"),
        ({}, False, "b"),
    ):
        result = perform_condition(STEP, cast(Any, SimpleNamespace(state=state)))
        assert result.state_updates == {"__condition_good": value, "__nextStep": target}
        assert result.output == {"result": value, "nextStep": target}


def test_the_result_has_its_own_key() -> None:
    assert result_key("my step") == "__condition_my step"
