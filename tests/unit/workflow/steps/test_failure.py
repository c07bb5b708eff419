"""The failure of a step as an error."""

from __future__ import annotations

import copy
import pickle

from statewright.errors import RunError
from statewright.workflow.steps import StepFailed


def test_a_failure_keeps_its_fields_when_copied_or_pickled() -> None:
    error = StepFailed("no", code="E1", details={"a": 1}, is_final=True, retry_after=2.0)
    assert isinstance(error, RunError)
    for failure in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(failure), failure.code, failure.details, failure.is_final, failure.retry_after) == (
            "no",
            "E1",
            {"a": 1},
            True,
            2.0,
        )


def test_a_failure_has_defaults() -> None:
    error = StepFailed("no")
    assert (error.code, error.details, error.is_final, error.retry_after) == ("STEP_FAILED", None, False, None)
