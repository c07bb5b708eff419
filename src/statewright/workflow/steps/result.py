"""Results and failures of steps, and their conversion to JSON.

A result has an output, which is stored in the record of the step, and updates, which are merged into the state when the
step has completed. The merge is shallow: nested maps are replaced, and no key is ever removed.

The state contains only JSON values, because it is stored and sent as JSON. Values are copied between handlers and the
state, so a handler that later modifies its arguments or its result does not change the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Literal, cast, get_args

from pydantic.alias_generators import to_camel

from statewright.data.jsonable import quoted, to_strict_jsonable
from statewright.errors import InvalidUpdateError, RunError, suggestion

DEFAULT_CODE: Final = "STEP_FAILED"


class StepFailed(RunError):
    """A step failed. The step is retried according to its `retry`, unless the failure is final.

    A handler may raise this error, or return a result with the status `failed`, which is converted to this error.
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
        self.code = code or DEFAULT_CODE
        self.details = details
        """Details for programs, as JSON."""
        self.is_final = is_final
        """True if another attempt would fail in the same way."""
        self.retry_after = retry_after
        """The minimum delay before the next attempt in seconds, such as that in a Retry-After header."""
        super().__init__(message)


# -- results

NEXT_STEP: Final = "__nextStep"
"""The key by which updates name the next step. It is not written to the state."""
StepStatus = Literal["completed", "failed", "waiting"]
_STATUSES: Final = get_args(StepStatus)


@dataclass(frozen=True, slots=True)
class StepFailure:
    """The reason why a step failed."""

    message: str
    code: str | None = None
    details: Any = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result that a handler returns."""

    status: StepStatus = "completed"
    output: Mapping[str, Any] | None = None
    state_updates: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: StepFailure | None = None
    wait_until: datetime | None = None
    """The time at which a waiting step resumes."""
    signal_type: str | None = None
    """The signal that resumes a waiting step."""

    def merged_into(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state after the step. Only a completed step changes it, and `__nextStep` is left out."""
        if self.status != "completed":
            return dict(state)
        return {**state, **{key: value for key, value in self.state_updates.items() if key != NEXT_STEP}}

    @property
    def next_step(self) -> str | None:
        """The next step that the updates name; None if they name none."""
        return self.state_updates.get(NEXT_STEP) if self.status == "completed" else None


_FIELDS_BY_KEY: Final = {to_camel(field.name): field.name for field in fields(StepResult)}
"""The fields of a result, by their keys in the map that a handler may return."""


def read_result(value: Any, step: str) -> StepResult:
    """Convert the return value of a handler to a result.

    The value is a StepResult, a map with the fields of a StepResult in camel case, or None for a completed step. Raises
    InvalidUpdateError for any other value.
    """
    if value is None:
        return StepResult()
    if isinstance(value, Mapping):
        value = _from_map(cast("Mapping[str, Any]", value), step)
    if not isinstance(value, StepResult):
        raise InvalidUpdateError(
            f"The handler of step {step!r} returned {value!r} of type {type(value).__name__}. Return a StepResult, "
            f"a map with its keys, or None."
        )
    _check_result(value, step)
    return value


def _from_map(mapping: Mapping[str, Any], step: str) -> StepResult:
    unknown = next((key for key in mapping if key not in _FIELDS_BY_KEY), None)
    if unknown is not None:
        hint = suggestion(str(unknown), _FIELDS_BY_KEY, noun="Keys")
        raise InvalidUpdateError(f"The result of step {step!r} has an unknown key {unknown!r}. {hint}")
    values = {_FIELDS_BY_KEY[key]: value for key, value in mapping.items() if value is not None}
    try:
        if isinstance(values.get("error"), Mapping):
            values["error"] = StepFailure(**{"message": "", **values["error"]})
        if isinstance(values.get("wait_until"), str):
            values["wait_until"] = datetime.fromisoformat(values["wait_until"])
    except (TypeError, ValueError) as error:
        raise InvalidUpdateError(
            f"The result of step {step!r} is not valid: {error}. Return 'error' as a map with the keys message, code "
            f"and details, and 'waitUntil' as an ISO 8601 timestamp."
        ) from error
    return StepResult(**values)


def _check_result(result: StepResult, step: str) -> None:
    """Raise InvalidUpdateError for an unknown status, for fields that are not maps, and for an invalid wait."""
    if result.status not in _STATUSES:
        hint = suggestion(result.status, _STATUSES, noun="Statuses")
        raise InvalidUpdateError(f"The result of step {step!r} has the status {result.status!r}. {hint}")
    maps = cast("tuple[object, object]", (result.output, result.state_updates))
    for name, value in zip(("output", "stateUpdates"), maps, strict=True):
        if not isinstance(value, Mapping | None):
            raise InvalidUpdateError(f"{name} of step {step!r} is {value!r}. Return a map.")
    if result.status == "waiting" and result.wait_until is None and result.signal_type is None:
        raise InvalidUpdateError(
            f"Step {step!r} has the status 'waiting', but nothing to wait for. Return waitUntil, signalType, or both."
        )
    if result.wait_until is not None and getattr(result.wait_until, "tzinfo", None) is None:
        raise InvalidUpdateError(
            f"waitUntil of step {step!r} is {result.wait_until}, which has no time zone. Return a datetime with a time "
            f"zone, such as datetime.now(UTC)."
        )


# -- conversion to JSON


def to_jsonable(value: Any, label: str) -> Any:
    """Return a copy of a value as a JSON value.

    Dataclasses and models become maps, datetimes become strings, and NaN and infinity become null. Raises
    InvalidUpdateError for a value that JSON cannot represent; `label` names the value in the message.
    """
    try:
        return to_strict_jsonable(value)
    except ValueError as error:
        raise InvalidUpdateError(
            f"{label} cannot be written as JSON: {error}. Use strings, numbers, booleans, lists and maps."
        ) from error


def to_jsonable_map(value: Any, label: str) -> dict[str, Any]:
    """Return a copy of a map as a JSON value. Raises InvalidUpdateError for any other value."""
    if not isinstance(value, Mapping):
        raise InvalidUpdateError(f"{label} is {quoted(value)} of type {type(value).__name__}. Use a map.")
    return to_jsonable(cast("Mapping[str, Any]", value), label)
