"""The model of a workflow of steps: the validated JSON document, with defaults for missing keys.

Fields have names in snake case here, and in camel case in JSON. `read_definition` parses a document, and reports all of
its problems together.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError
from pydantic.alias_generators import to_camel

from statewright.data.problems import expects, problems_from
from statewright.errors import Problem, WorkflowError, suggestion
from statewright.graph.command import RESERVED
from statewright.workflow.steps.json_positions import find_positions

Integer = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]


def _reject_number(value: Any) -> Any:
    """Return a timestamp unchanged. Reject a number, because it could mean seconds or milliseconds."""
    if isinstance(value, str | datetime):
        return value
    raise ValueError


Timestamp = Annotated[datetime, BeforeValidator(_reject_number), expects("a timestamp such as 2026-01-31T09:00:00Z")]
Milliseconds = Annotated[Integer, Field(ge=0)]
StepName = Annotated[str, Field(min_length=1, max_length=100)]


class _StrictModel(BaseModel):
    """Base class of all models. Models are immutable, and unknown keys are errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, extra="forbid", frozen=True
    )


class Retry(_StrictModel):
    """Retry settings of a step."""

    max_attempts: Integer = Field(default=3, ge=1, le=20)
    """The number of attempts, including the first one."""
    backoff_ms: Integer = Field(default=1000, ge=100)
    """The delay before the second attempt. Jitter reduces it by up to 50 %."""
    backoff_multiplier: Number = Field(default=2.0, ge=1, le=10)
    max_backoff_ms: Integer = Field(default=300_000, ge=100)


class WaitRetry(Retry):
    """Retry settings of a step that waits for a person or a signal. By default it waits once, until its timeout."""

    max_attempts: Integer = Field(default=1, ge=1, le=20)


class _Step(_StrictModel):
    """Fields that all steps share."""

    name: StepName
    retry: Retry = Retry()
    next: StepName | None = None
    """The next step; by default, the following step in the document."""
    end: Flag = False
    """True if the run ends after this step."""


class TaskStep(_Step):
    """A step that calls a registered handler function."""

    type: Literal["task"]
    handler: str = Field(min_length=1)
    """A registered name, or `module:function`."""
    config: dict[str, Any] = Field(default_factory=dict)


class PromptMessage(_StrictModel):
    """A message to a model. Its content may contain placeholders."""

    role: Literal["system", "user", "assistant"]
    content: str


class LlmTool(_StrictModel):
    """A tool that the model of a step may call."""

    name: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)


class Guardrails(_StrictModel):
    """Checks of the answer of a model."""

    post_checks: tuple[str, ...] = ()
    """Names of checks: `content_safety`, `schema_validation`, `confidence_threshold`, or registered checks."""
    on_failure: Literal["block", "warn", "retry_with_feedback"] = "warn"
    confidence_threshold: Number = Field(default=0.7, ge=0, le=1)
    """The minimum confidence that the check `confidence_threshold` accepts."""


class LlmStep(_Step):
    """A step that calls a chat model."""

    type: Literal["llm"]
    model: str = Field(min_length=1)
    fallback_models: tuple[str, ...] = ()
    system_prompt: str = ""
    messages: tuple[PromptMessage, ...] = Field(min_length=1)
    temperature: Number | None = Field(default=None, ge=0, le=2)
    max_tokens: Integer | None = Field(default=None, ge=1)
    response_format: Literal["json", "text"] = "text"
    output_schema: dict[str, Any] | None = None
    output_key: str | None = None
    """The state field for the answer. By default text is stored under the name of the step, and JSON is merged."""
    tools: tuple[LlmTool, ...] = ()
    guardrails: Guardrails = Guardrails()
    max_tool_rounds: Integer = Field(default=10, ge=1, le=20)


class WaitStep(_Step):
    """A step that waits for a duration or until a point in time."""

    type: Literal["wait"]
    duration_ms: Milliseconds | None = None
    until_timestamp: Timestamp | None = None


class ConditionStep(_Step):
    """A step that selects one of two steps by a value in the state."""

    type: Literal["condition"]
    expression: str = Field(min_length=1)
    """A dotted path into the state. Truthiness is that of JavaScript: an empty list or map is true."""
    true_step: StepName
    false_step: StepName


class ExternalEventStep(_Step):
    """A step that waits for an external signal, whose payload is merged into the state."""

    type: Literal["external_event"]
    retry: WaitRetry = WaitRetry()  # pyright: ignore[reportIncompatibleVariableOverride]  # models are frozen
    signal_type: str = Field(min_length=1)
    timeout_ms: Milliseconds | None = None


class ApprovalStep(_Step):
    """A step that asks a person to approve a field of the state."""

    type: Literal["approval"]
    retry: WaitRetry = WaitRetry()  # pyright: ignore[reportIncompatibleVariableOverride]  # models are frozen
    content_key: str = Field(min_length=1)
    prompt: str = ""
    timeout_ms: Milliseconds | None = None
    on_reject: Literal["fail", "continue"] = "fail"


Step = TaskStep | LlmStep | WaitStep | ConditionStep | ExternalEventStep | ApprovalStep


class Definition(_StrictModel):
    """A complete workflow, which starts at its first step. It is immutable: a changed workflow is a new version."""

    name: str = Field(min_length=1, max_length=200)
    version: str = Field(min_length=1, max_length=50)
    description: str = Field(default="", max_length=1000)
    steps: tuple[Annotated[Step, Field(discriminator="type")], ...] = Field(min_length=1)

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON, including defaults."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def digest(self) -> str:
        """The SHA-256 of the content in hexadecimal. It does not depend on the formatting of the document."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def step(self, name: str) -> Step:
        """Return a step by its name. Raises KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)


# -- parsing


def read_definition(document: str | bytes | Mapping[str, Any], *, source: str = "the workflow") -> Definition:
    """Parse a definition from JSON text or from decoded JSON. Raises WorkflowError with all problems."""
    value = _parse_json(document, source) if isinstance(document, str | bytes) else document
    try:
        definition = Definition.model_validate(value)
    except ValidationError as error:
        raise WorkflowError(_locate(problems_from(error, Definition), document), source=source) from None
    names = Counter(step.name for step in definition.steps)
    problems = [
        Problem(f"steps[{index}]{key}", 0, 0, message, advice)
        for check in (_check_name, _check_transitions, _check_wait)
        for index, step in enumerate(definition.steps)
        for key, message, advice in check(step, definition, names)
    ]
    if problems:
        raise WorkflowError(_locate(problems, document), source=source)
    return definition


def _locate(problems: Iterable[Problem], document: str | bytes | Mapping[str, Any]) -> list[Problem]:
    """Return problems with the line and the column of their path, if the document is a text."""
    if not isinstance(document, str | bytes):
        return list(problems)
    text = document if isinstance(document, str) else document.decode(json.detect_encoding(document))
    positions = find_positions(text)
    return [_replace_position(problem, positions) for problem in problems]


def _replace_position(problem: Problem, positions: Mapping[str, tuple[int, int]]) -> Problem:
    path = problem.path
    while path and path not in positions:  # a key that is missing has the position of its object
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    line, column = positions.get(path, (0, 0))
    return problem._replace(line=line, column=column)


def _parse_json(text: str | bytes, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        problem = Problem("", line, column, f"It is not valid JSON: {getattr(error, 'msg', error)}.")
        raise WorkflowError([problem], source=source) from None


_StepProblems = Iterator[tuple[str, str, str]]
"""The problems of a step. Each consists of the path of a key within the step, a message, and advice."""


def _check_name(step: Step, definition: Definition, names: Counter[str]) -> _StepProblems:
    # Colons and bars separate the parts of generated names.
    if step.name in RESERVED or ":" in step.name or "|" in step.name:
        advice = "Choose a name without ':' and '|' that the engine does not reserve."
        yield ".name", f"A step cannot be named {step.name!r}.", advice
    if names[step.name] > 1 and definition.step(step.name) is not step:
        yield ".name", f"Another step has the name {step.name!r}.", "Rename one of them."


def _check_transitions(step: Step, definition: Definition, names: Counter[str]) -> _StepProblems:
    """Report transitions to unknown steps, and transitions that cannot be combined."""
    is_condition = isinstance(step, ConditionStep)
    targets = [("trueStep", step.true_step), ("falseStep", step.false_step)] if is_condition else []
    for key, target in [*targets, ("next", step.next)]:
        if target is not None and target not in names:
            yield f".{key}", f"Step {target!r} does not exist.", suggestion(target, names, noun="Steps")
    if is_condition and (step.next or step.end):
        yield "", "A condition leads only to its trueStep and falseStep.", "Remove next and end."
    elif step.next and step.end:
        yield "", "The step has both next and end.", "Keep one of them."


def _check_wait(step: Step, definition: Definition, names: Counter[str]) -> _StepProblems:
    if not isinstance(step, WaitStep):
        return
    if step.duration_ms is None and step.until_timestamp is None:
        yield "", "The step has neither durationMs nor untilTimestamp.", "Add one of them."
    elif step.duration_ms is not None and step.until_timestamp is not None:
        yield "", "The step has both durationMs and untilTimestamp.", "Keep one of them."
    elif step.until_timestamp is not None and step.until_timestamp.tzinfo is None:
        yield ".untilTimestamp", "The timestamp has no time zone.", "Add one, such as Z for UTC."
