"""A workflow of steps as data: what an author wrote in JSON, checked for its form, with defaults filled in.

Names are those of the language in Python's spelling; JSON has them in camel case. See `read` for how one is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]


def _as_written(value: Any) -> Any:
    """The text of an instant: a number could be seconds or milliseconds."""
    if isinstance(value, str | datetime):
        return value
    raise ValueError("should be an instant, written as 2026-01-31T09:00:00Z")


Instant = Annotated[datetime, BeforeValidator(_as_written)]
Milliseconds = Annotated[Whole, Field(ge=0)]
StepName = Annotated[str, Field(min_length=1, max_length=100)]


class _Part(BaseModel):
    """What all parts have in common: they are never changed, and know no other keys than theirs."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, extra="forbid", frozen=True
    )


class Retry(_Part):
    """How often a step is tried."""

    max_attempts: Whole = Field(default=3, ge=1, le=20)
    """Tries in all, the first one too."""
    backoff_ms: Whole = Field(default=1000, ge=100)
    """Before the second attempt; jitter makes it shorter, by a half at most."""
    backoff_multiplier: Number = Field(default=2.0, ge=1, le=10)
    max_backoff_ms: Whole = Field(default=300_000, ge=100)


class WaitRetry(Retry):
    """How often a step that waits for somebody is tried: its time is not to be waited for again and again."""

    max_attempts: Whole = Field(default=1, ge=1, le=20)


class _Step(_Part):
    """What all steps have in common."""

    name: StepName
    retry: Retry = Retry()
    next: StepName | None = None
    """The step that follows, if it is not the one that is written next."""
    end: Flag = False
    """Whether the run ends after it."""


class TaskStep(_Step):
    """Calls a function that was registered as a handler."""

    type: Literal["task"]
    handler: str = Field(min_length=1)
    """The name it was registered under, or `module:function`."""
    config: dict[str, Any] = Field(default_factory=dict)


class PromptMessage(_Part):
    """A message to a model; its text may have places for values."""

    role: Literal["system", "user", "assistant"]
    content: str


class LlmTool(_Part):
    """A tool that the model of a step may ask for."""

    name: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)


class Guardrails(_Part):
    """What the answer of a model is held to."""

    post_checks: tuple[str, ...] = ()
    """Names of checks: `content_safety`, `schema_validation`, `confidence_threshold`, or one that was registered."""
    on_failure: Literal["block", "warn", "retry_with_feedback"] = "warn"
    confidence_threshold: Number = Field(default=0.7, ge=0, le=1)
    """The least confidence with which the check of that name lets an answer pass."""


class LlmStep(_Step):
    """Asks a chat model."""

    type: Literal["llm"]
    model: str = Field(min_length=1)
    fallback_models: tuple[str, ...] = ()
    system_prompt: str = ""
    messages: tuple[PromptMessage, ...] = Field(min_length=1)
    temperature: Number | None = Field(default=None, ge=0, le=2)
    max_tokens: Whole | None = Field(default=None, ge=1)
    response_format: Literal["json", "text"] = "text"
    output_schema: dict[str, Any] | None = None
    output_key: str | None = None
    """The field of the state that gets the answer. Without one a text gets the name of the step, and JSON is merged."""
    tools: tuple[LlmTool, ...] = ()
    guardrails: Guardrails = Guardrails()
    max_tool_rounds: Whole = Field(default=10, ge=1, le=20)


class WaitStep(_Step):
    """Lets time pass."""

    type: Literal["wait"]
    duration_ms: Milliseconds | None = None
    until_timestamp: Instant | None = None


class ConditionStep(_Step):
    """Goes on with one of two steps."""

    type: Literal["condition"]
    expression: str = Field(min_length=1)
    """A path into the state, with dots. Its value decides as JavaScript would: an empty list or map is true."""
    true_step: StepName
    false_step: StepName


class ExternalEventStep(_Step):
    """Waits for a signal from outside, whose payload becomes part of the state."""

    type: Literal["external_event"]
    retry: WaitRetry = WaitRetry()
    signal_type: str = Field(min_length=1)
    timeout_ms: Milliseconds | None = None


class ApprovalStep(_Step):
    """Asks somebody to agree to what stands in a field of the state."""

    type: Literal["approval"]
    retry: WaitRetry = WaitRetry()
    content_key: str = Field(min_length=1)
    prompt: str = ""
    timeout_ms: Milliseconds | None = None
    on_reject: Literal["fail", "continue"] = "fail"


Step = TaskStep | LlmStep | WaitStep | ConditionStep | ExternalEventStep | ApprovalStep
STEP_KINDS: Mapping[str, type[_Step]] = {
    "task": TaskStep,
    "llm": LlmStep,
    "wait": WaitStep,
    "condition": ConditionStep,
    "external_event": ExternalEventStep,
    "approval": ApprovalStep,
}


class Definition(_Part):
    """A whole workflow; the first step is where it begins. It never changes: a change is another version."""

    name: str = Field(min_length=1, max_length=200)
    version: str = Field(min_length=1, max_length=50)
    description: str = Field(default="", max_length=1000)
    steps: tuple[Annotated[Step, Field(discriminator="type")], ...] = Field(min_length=1)

    def to_json(self) -> dict[str, Any]:
        """The definition as plain JSON, defaults included."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def digest(self) -> str:
        """The same for the same content, however it was written: its SHA-256."""
        written = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()

    def step(self, name: str) -> Step:
        """A step by its name. Raises KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)
