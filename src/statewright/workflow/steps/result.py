"""The failure of a step, as the run that ends by it will tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from statewright.errors import InvalidUpdateError, RunError, suggestion

USUAL_CODE: Final = "STEP_FAILED"


class StepFailed(RunError):
    """A step did not do what it is there for. It is tried again as its `retry` says, unless the failure is final.

    Handlers may raise it; a result with the status `failed` becomes one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Any = None,
        is_final: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.code = code or USUAL_CODE
        self.details = details
        """More that programs may want to know, as JSON."""
        self.is_final = is_final
        """Whether another attempt would end in the same way."""
        self.retry_after = retry_after
        """Seconds for which a service asked to be left alone; the next attempt waits at least so long."""
        super().__init__(message)


# -- What a step answers, and what becomes of the state by it.
#
# Two things are told apart: the output, which is kept with the step, and the updates, which alone reach the state. These
# are merged when the step has completed, shallowly: a map in the state is replaced by another one, and no key ever goes.

NEXT_STEP: Final = "__nextStep"
"""The key of an update that names the step which follows. It is read and never kept."""
StepEnd = Literal["completed", "failed", "waiting"]
_ENDS: Final = ("completed", "failed", "waiting")
_KEYS: Final = {
    "status": "status",
    "output": "output",
    "stateUpdates": "state_updates",
    "error": "error",
    "waitUntil": "wait_until",
    "signalType": "signal_type",
}


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why a step failed."""

    message: str
    code: str | None = None
    details: Any = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a handler answers."""

    status: StepEnd = "completed"
    output: Mapping[str, Any] | None = None
    state_updates: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: StepFailure | None = None
    wait_until: datetime | None = None
    """Of a step that waits: when it goes on by itself."""
    signal_type: str | None = None
    """Of a step that waits: which signal it goes on with."""

    def merged_into(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state after the step. Only a completed step changes it; `__nextStep` is no part of it."""
        if self.status != "completed":
            return dict(state)
        return {**state, **{key: value for key, value in self.state_updates.items() if key != NEXT_STEP}}

    @property
    def next_step(self) -> str | None:
        """The step that the updates name as the next one; None if they name none."""
        return self.state_updates.get(NEXT_STEP) if self.status == "completed" else None


def read_result(answer: Any, step: str) -> StepResult:
    """What a handler's answer means: a StepResult, a map with its keys in JSON's spelling, or None for completed.

    Raises InvalidUpdateError, which names the step, for anything else.
    """
    if answer is None:
        return StepResult()
    if isinstance(answer, Mapping):
        answer = _from_map(cast("Mapping[str, Any]", answer), step)
    if not isinstance(answer, StepResult):
        raise InvalidUpdateError(
            f"The handler of step {step!r} answered {answer!r} of type {type(answer).__name__}. Return a StepResult, "
            f"a map with its keys, or None."
        )
    _check(answer, step)
    return answer


def _from_map(given: Mapping[str, Any], step: str) -> StepResult:
    unknown = next((key for key in given if key not in _KEYS), None)
    if unknown is not None:
        hint = suggestion(str(unknown), _KEYS, noun="Keys")
        raise InvalidUpdateError(f"The result of step {step!r} has a key {unknown!r}. {hint}")
    found = {_KEYS[key]: value for key, value in given.items() if value is not None}
    if isinstance(found.get("error"), Mapping):
        found["error"] = StepFailure(**{"message": "", **found["error"]})
    if isinstance(found.get("wait_until"), str):
        found["wait_until"] = datetime.fromisoformat(found["wait_until"])
    return StepResult(**found)


def _check(result: StepResult, step: str) -> None:
    """Refuse what fits the types and means nothing."""
    if result.status not in _ENDS:
        hint = suggestion(result.status, _ENDS, noun="Known")
        raise InvalidUpdateError(f"The result of step {step!r} has the status {result.status!r}. {hint}")
    maps = cast("tuple[object, object]", (result.output, result.state_updates))
    for name, value in zip(("output", "stateUpdates"), maps, strict=True):
        if not isinstance(value, Mapping | None):
            raise InvalidUpdateError(f"{name} of step {step!r} are {value!r}. Give a map.")
    if result.status == "waiting" and result.wait_until is None and result.signal_type is None:
        raise InvalidUpdateError(f"Step {step!r} wants to wait for nothing. Give waitUntil, signalType, or both.")
    if result.wait_until is not None and result.wait_until.tzinfo is None:
        raise InvalidUpdateError(
            f"waitUntil of step {step!r} is {result.wait_until}, which has no time zone. Give it one, e.g. {UTC}."
        )
