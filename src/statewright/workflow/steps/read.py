"""Parsing of definitions. All problems of one are reported together."""

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
"""Characters that separate the parts of names that the engine generates."""


def read_definition(document: str | bytes | Mapping[str, Any], *, source: str = "the workflow") -> Definition:
    """Parse a definition from JSON text or from decoded JSON. Raises WorkflowError with all problems."""
    value = _parse_json(document, source) if isinstance(document, str | bytes) else document
    kinds = list(_find_unknown_types(value))
    if kinds:
        raise WorkflowError(kinds, source=source)
    try:
        definition = Definition.model_validate(value)
    except ValidationError as error:
        errors = cast("list[Any]", error.errors(include_url=False))
        raise WorkflowError([_problem(item) for item in errors], source=source) from None
    problems = [*_check_names(definition), *_check_transitions(definition), *_check_waits(definition)]
    if problems:
        raise WorkflowError(problems, source=source)
    return definition


def _parse_json(text: str | bytes, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = Problem("", error.lineno, error.colno, f"This is not JSON: {error.msg}.")
        raise WorkflowError([problem], source=source) from None
    except (UnicodeDecodeError, RecursionError) as error:
        problem = Problem("", 0, 0, f"This is not JSON: {error}.")
        raise WorkflowError([problem], source=source) from None


def _find_unknown_types(value: Any) -> Iterator[Problem]:
    """Report unknown step types. They come first, as all other checks depend on the type."""
    steps: Any = cast("Mapping[str, Any]", value).get("steps") if isinstance(value, Mapping) else None
    for index, step in enumerate(cast("list[Any]", steps) if isinstance(steps, list) else ()):
        kind: Any = cast("Mapping[str, Any]", step).get("type") if isinstance(step, Mapping) else None
        if isinstance(kind, str) and kind not in STEP_KINDS:
            hint = suggestion(kind, STEP_KINDS, noun="Types")
            yield Problem(f"steps[{index}].type", 0, 0, f"{kind!r} is not a type of step.", hint)


def _problem(error: Any) -> Problem:
    """Convert an error of pydantic to a problem in the terms of the language."""
    location = list(error["loc"])
    model: type[BaseModel] = Definition
    if len(location) > 2 and location[0] == "steps":
        model = STEP_KINDS[location.pop(2)]  # pydantic puts the type of the step into the path
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


# -- references between the parts


def _check_names(definition: Definition) -> Iterator[Problem]:
    counts = Counter(step.name for step in definition.steps)
    for index, step in enumerate(definition.steps):
        if step.name in RESERVED or any(sign in step.name for sign in _SEPARATORS):
            message = f"A step cannot be called {step.name!r}."
            yield Problem(
                f"steps[{index}].name",
                0,
                0,
                message,
                "Choose a name without ':' and '|' that the engine does not reserve.",
            )
        if counts[step.name] > 1 and definition.step(step.name) is not step:
            yield Problem(f"steps[{index}].name", 0, 0, f"Another step is called {step.name!r} too.", "Rename one.")


def _check_transitions(definition: Definition) -> Iterator[Problem]:
    """Report transitions to unknown steps, and transitions that exclude each other."""
    names = [step.name for step in definition.steps]
    for index, step in enumerate(definition.steps):
        for key, target in _targets(step):
            if target not in names:
                hint = suggestion(target, names, noun="Steps")
                yield Problem(f"steps[{index}].{key}", 0, 0, f"There is no step {target!r}.", hint)
        if isinstance(step, ConditionStep) and (step.next or step.end):
            yield Problem(f"steps[{index}]", 0, 0, "A condition leads to its two steps only.", "Remove next and end.")
        elif step.next and step.end:
            yield Problem(f"steps[{index}]", 0, 0, "The step has both next and end.", "Keep one of them.")


def _targets(step: Step) -> Iterator[tuple[str, str]]:
    if isinstance(step, ConditionStep):
        yield "trueStep", step.true_step
        yield "falseStep", step.false_step
    if step.next is not None:
        yield "next", step.next


def _check_waits(definition: Definition) -> Iterator[Problem]:
    for index, step in enumerate(definition.steps):
        if isinstance(step, WaitStep) and (step.duration_ms is None) == (step.until_timestamp is None):
            which = "neither" if step.duration_ms is None else "both"
            yield Problem(
                f"steps[{index}]", 0, 0, f"It has {which} of durationMs and untilTimestamp.", "Give one of them."
            )
        elif isinstance(step, WaitStep) and step.until_timestamp is not None and step.until_timestamp.tzinfo is None:
            yield Problem(
                f"steps[{index}].untilTimestamp", 0, 0, "The instant has no time zone.", "Add one, e.g. Z for UTC."
            )
