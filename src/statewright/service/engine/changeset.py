"""A set of changes to the records of a run, the removal of secrets from changes, and errors as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from statewright import errors
from statewright.data.jsonable import as_json
from statewright.errors import StatewrightError, code_of
from statewright.runs import Advance, Announce, Change, DailySpending, Json, ModelCall, NewEvent, StepRun, Update

Redact = Callable[[Any], Any]
"""Removes secrets from a JSON value."""


@dataclass(slots=True)
class ChangeSet:
    """The changes to the records of a run that one write will make, collected while a commit is interpreted."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """New values of the run, by column."""
    events: list[NewEvent] = field(default_factory=list[NewEvent])
    changes: list[Change] = field(default_factory=list[Change])
    """Changes to other records."""
    final_changes: list[Change] = field(default_factory=list[Change])
    """Changes to apply after all others, such as those that end all open steps."""
    spent: DailySpending | None = None
    """The sum of the model calls in `changes`; None if there are none."""

    def add_event(self, kind: str, payload: Mapping[str, Json], step: StepRun | None = None) -> None:
        """Add an event of the run, or of one of its steps."""
        if step is None:
            self.events.append(NewEvent(kind, payload, None))
        else:
            self.events.append(NewEvent(kind, {"stepName": step.name, **payload}, step.id))

    def spend(self, call: ModelCall) -> None:
        """Add a model call to the spending of its day."""
        spent = self.spent = self.spent or DailySpending.of(call.workspace_id, call.created_at)  # zero at first
        spent.requests += 1
        spent.input_tokens += call.input_tokens
        spent.output_tokens += call.output_tokens
        spent.cost += call.cost


def without_secrets(changes: Sequence[Change], redact: Redact) -> list[Change]:
    """Return the changes with secrets removed from events, errors and webhook messages, but not from outputs.

    The progress of a run is redacted, too, because it has the error of the last attempt.
    """
    for change in changes:
        match change:
            case Advance():
                change.events = [event._replace(payload=redact(event.payload)) for event in change.events]
                change.values = _redact_error(change.values, redact)
            case Update(values=values):
                change.values = _redact_error(values, redact)
            case Announce():
                output = {"output": change.data["output"]} if "output" in change.data else {}
                change.data = {**redact(change.data), **output}
            case _:
                pass
    return list(changes)


def _redact_error(values: Mapping[str, Any], redact: Redact) -> Mapping[str, Any]:
    shown = {name: redact(values[name]) for name in ("error", "progress") if values.get(name) is not None}
    return {**values, **shown} if shown else values


# -- errors

MAX_MESSAGE_LENGTH: Final = 4000
"""Characters of an error message that are stored."""


def error_json(error: BaseException, *, step: str | None = None) -> dict[str, Json]:
    """Return an error as records store it: with `message` and `code`, and with `step` and `details` if known."""
    message = f"{error}" if isinstance(error, StatewrightError) else f"{type(error).__name__}: {error}"
    record: dict[str, Json] = {"message": _storable(message), "code": code_of(error)}
    if step is not None:
        record["step"] = step
    details = getattr(error, "details", None)
    return {**record, "details": as_json(details)} if details is not None else record


def error_from_text(text: str) -> dict[str, Json]:
    """Return an error as records store it, given its text `Class: message`."""
    name, _, message = text.partition(": ")
    cls = getattr(errors, name, None)
    if isinstance(cls, type) and issubclass(cls, StatewrightError):
        return {"message": _storable(message), "code": cls.code}
    return {"message": _storable(text), "code": name if message else "ERROR"}


def _storable(text: str) -> str:
    """Truncate a message for storage, and replace lone surrogates, which cannot be encoded."""
    return text[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode()
