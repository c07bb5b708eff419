"""Parsing of definitions. All problems of a definition are reported together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from statewright.data.problems import problems_from
from statewright.errors import Problem, WorkflowError, suggestion
from statewright.graph.command import RESERVED
from statewright.workflow.steps.model import ConditionStep, Definition, Step, WaitStep

_SEPARATORS: Final = (":", "|")
"""Characters that separate the parts of names that the engine generates."""


def read_definition(document: str | bytes | Mapping[str, Any], *, source: str = "the workflow") -> Definition:
    """Parse a definition from JSON text or from decoded JSON. Raises WorkflowError with all problems."""
    value = _parse_json(document, source) if isinstance(document, str | bytes) else document
    try:
        definition = Definition.model_validate(value)
    except ValidationError as error:
        raise WorkflowError([*problems_from(error, Definition)], source=source) from None
    problems = [*_check_names(definition), *_check_transitions(definition), *_check_waits(definition)]
    if problems:
        raise WorkflowError(problems, source=source)
    return definition


def _parse_json(text: str | bytes, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = Problem("", error.lineno, error.colno, f"It is not valid JSON: {error.msg}.")
        raise WorkflowError([problem], source=source) from None
    except (UnicodeDecodeError, RecursionError) as error:
        problem = Problem("", 0, 0, f"It is not valid JSON: {error}.")
        raise WorkflowError([problem], source=source) from None


# -- references between the parts


def _check_names(definition: Definition) -> Iterator[Problem]:
    counts = Counter(step.name for step in definition.steps)
    for index, step in enumerate(definition.steps):
        if step.name in RESERVED or any(separator in step.name for separator in _SEPARATORS):
            hint = "Choose a name without ':' and '|' that the engine does not reserve."
            yield Problem(f"steps[{index}].name", 0, 0, f"A step cannot be called {step.name!r}.", hint)
        if counts[step.name] > 1 and definition.step(step.name) is not step:
            yield Problem(f"steps[{index}].name", 0, 0, f"Another step is called {step.name!r} too.", "Rename one.")


def _check_transitions(definition: Definition) -> Iterator[Problem]:
    """Report transitions to unknown steps, and transitions that exclude each other."""
    names = [step.name for step in definition.steps]
    for index, step in enumerate(definition.steps):
        for key, target in _targets(step):
            if target not in names:
                hint = suggestion(target, names, noun="Steps")
                yield Problem(f"steps[{index}].{key}", 0, 0, f"Step {target!r} does not exist.", hint)
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
            message = f"It has {which} of durationMs and untilTimestamp."
            yield Problem(f"steps[{index}]", 0, 0, message, "Give one of them.")
        elif isinstance(step, WaitStep) and step.until_timestamp is not None and step.until_timestamp.tzinfo is None:
            yield Problem(
                f"steps[{index}].untilTimestamp", 0, 0, "The instant has no time zone.", "Add one, e.g. Z for UTC."
            )
