"""Managed values: computed from the step and the step at which the limit is reached."""

from typing import Any, get_args

import pytest

from statewright.state import IsLastStep, Managed, RemainingSteps


@pytest.mark.parametrize(
    ("annotation", "step", "stop", "value"),
    [
        (IsLastStep, 0, 3, False),
        (IsLastStep, 1, 3, False),
        (IsLastStep, 2, 3, True),
        (IsLastStep, 0, 1, True),
        (IsLastStep, 9, 3, True),
        (RemainingSteps, 0, 3, 3),
        (RemainingSteps, 2, 3, 1),
        (RemainingSteps, 10, 12, 2),
    ],
)
def test_managed_values_are_computed_from_the_step_and_the_limit(
    annotation: Any, step: int, stop: int, value: Any
) -> None:
    _, managed = get_args(annotation)
    assert managed.compute(step, stop) == value


def test_the_last_step_is_the_step_with_one_remaining() -> None:
    (_, last), (_, remaining) = get_args(IsLastStep), get_args(RemainingSteps)
    for step in range(5):
        assert last.compute(step, 5) == (remaining.compute(step, 5) == 1)


@pytest.mark.parametrize(("annotation", "kind"), [(IsLastStep, bool), (RemainingSteps, int)])
def test_a_managed_annotation_has_the_type_of_its_value(annotation: Any, kind: type) -> None:
    assert get_args(annotation)[0] is kind


def test_a_custom_managed_value_has_its_name_as_repr() -> None:
    managed = Managed("Progress", lambda step, stop: step / stop)
    assert repr(managed) == "Progress"
    assert managed.compute(1, 4) == 0.25
