"""Definitions read: everything that is wrong with one is found at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from statewright.errors import Problem, WorkflowError, suggestion
from statewright.graph.command import RESERVED
from statewright.workflow.steps.model import STEP_KINDS, ConditionStep, Definition, Step, WaitStep

_SEPARATORS: Final = (":", "|")
"""Signs that stand between the parts of names that the engine makes."""


def read_definition(document: str | bytes | Mapping[str, Any], *, source: str = "the workflow") -> Definition:
    """The definition in a JSON text, or in what was read from one. Raises WorkflowError with everything wrong."""
    value = _parsed(document, source) if isinstance(document, str | bytes) else document
    kinds = list(_unknown_kinds(value))
    if kinds:
        raise WorkflowError(kinds, source=source)
    try:
        definition = Definition.model_validate(value)
    except ValidationError as error:
        found = cast("list[Any]", error.errors(include_url=False))
        raise WorkflowError([_problem(one) for one in found], source=source) from None
    problems = [*_names(definition), *_ways(definition), *_waits(definition)]
    if problems:
        raise WorkflowError(problems, source=source)
    return definition


def _parsed(text: str | bytes, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        found = Problem("", error.lineno, error.colno, f"This is not JSON: {error.msg}.")
        raise WorkflowError([found], source=source) from None
    except (UnicodeDecodeError, RecursionError) as error:
        found = Problem("", 0, 0, f"This is not JSON: {error}.")
        raise WorkflowError([found], source=source) from None


def _unknown_kinds(value: Any) -> Iterator[Problem]:
    """Steps of a type that there is not: told before the rest, which depends on it."""
    steps: Any = cast("Mapping[str, Any]", value).get("steps") if isinstance(value, Mapping) else None
    for place, step in enumerate(cast("list[Any]", steps) if isinstance(steps, list) else ()):
        kind: Any = cast("Mapping[str, Any]", step).get("type") if isinstance(step, Mapping) else None
        if isinstance(kind, str) and kind not in STEP_KINDS:
            hint = suggestion(kind, STEP_KINDS, noun="Types")
            yield Problem(f"steps[{place}].type", 0, 0, f"There is no type of step {kind!r}.", hint)


def _problem(error: Any) -> Problem:
    """What pydantic has found, in the words of this language."""
    location = list(error["loc"])
    model: type[BaseModel] = Definition
    if len(location) > 2 and location[0] == "steps":
        model = STEP_KINDS[location.pop(2)]  # the type of the step stands in the place of a key
    path = _path(location)
    if error["type"] == "extra_forbidden":
        known = [str(field.alias) for field in model.model_fields.values()]
        hint = suggestion(str(location[-1]), known, noun="Keys") if len(location) <= 3 else ""
        return Problem(path, 0, 0, f"There is no key {location[-1]!r}.", hint)
    if error["type"] in ("missing", "union_tag_not_found"):
        missing = location[-1] if error["type"] == "missing" else "type"
        return Problem(_path(location[:-1]) if error["type"] == "missing" else path, 0, 0, f"{missing!r} is missing.")
    return Problem(path, 0, 0, f"{error['msg']}, found {_shown(error['input'])}.")


def _path(location: list[str | int]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- what the parts say about each other


def _names(definition: Definition) -> Iterator[Problem]:
    counts = Counter(step.name for step in definition.steps)
    for place, step in enumerate(definition.steps):
        if step.name in RESERVED or any(sign in step.name for sign in _SEPARATORS):
            said = f"A step cannot be called {step.name!r}."
            yield Problem(
                f"steps[{place}].name", 0, 0, said, "Choose a name without ':' and '|', and none of the engine."
            )
        if counts[step.name] > 1 and definition.step(step.name) is not step:
            yield Problem(f"steps[{place}].name", 0, 0, f"Another step is called {step.name!r} too.", "Rename one.")


def _ways(definition: Definition) -> Iterator[Problem]:
    """Ways that lead nowhere, or that exclude each other."""
    names = [step.name for step in definition.steps]
    for place, step in enumerate(definition.steps):
        for key, target in _targets(step):
            if target not in names:
                hint = suggestion(target, names, noun="Steps")
                yield Problem(f"steps[{place}].{key}", 0, 0, f"There is no step {target!r}.", hint)
        if isinstance(step, ConditionStep) and (step.next or step.end):
            yield Problem(f"steps[{place}]", 0, 0, "A condition goes on by its two steps alone.", "Drop next and end.")
        elif step.next and step.end:
            yield Problem(f"steps[{place}]", 0, 0, "The step has both next and end.", "Keep one of them.")


def _targets(step: Step) -> Iterator[tuple[str, str]]:
    if isinstance(step, ConditionStep):
        yield "trueStep", step.true_step
        yield "falseStep", step.false_step
    if step.next is not None:
        yield "next", step.next


def _waits(definition: Definition) -> Iterator[Problem]:
    for place, step in enumerate(definition.steps):
        if isinstance(step, WaitStep) and (step.duration_ms is None) == (step.until_timestamp is None):
            found = "neither" if step.duration_ms is None else "both"
            yield Problem(
                f"steps[{place}]", 0, 0, f"It has {found} of durationMs and untilTimestamp.", "Give one of them."
            )
        elif isinstance(step, WaitStep) and step.until_timestamp is not None and step.until_timestamp.tzinfo is None:
            yield Problem(
                f"steps[{place}].untilTimestamp", 0, 0, "The instant has no time zone.", "Add one, e.g. Z for UTC."
            )
