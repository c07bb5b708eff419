"""What the answer of a model is held to: functions that say what is wrong with it.

Three are here; `post_check` registers more, and may replace these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from statewright.models import ModelResponse
from statewright.redaction import find_secret
from statewright.workflow.steps.llm.answer import json_in
from statewright.workflow.steps.model import LlmStep


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer of a model, with the step that asked for it."""

    response: ModelResponse
    step: LlmStep

    @property
    def text(self) -> str:
        return self.response.text

    @cached_property
    def value(self) -> Any:
        """The JSON in the answer. Raises ValueError if there is none."""
        return json_in(self.text)


Check = Callable[[CheckedAnswer], str | Awaitable[str | None] | None]
"""Says what is wrong with an answer, in a sentence that the model may be told; None if nothing is."""
C = TypeVar("C", bound=Check)
CHECKS: Final[dict[str, Check]] = {}
"""The checks that definitions may name."""


def post_check(name: str) -> Callable[[C], C]:
    """A decorator that lets definitions name a function under `guardrails.postChecks`, for the whole process."""

    def register(check: C) -> C:
        CHECKS[name] = check
        return check

    return register


@post_check("content_safety")
def content_safety(answer: CheckedAnswer) -> str | None:
    """Refuse secrets and numbers of people, and answers that the model refused to give."""
    if answer.response.finish_reason == "refused":
        return "The model refused to answer."
    secret = find_secret(answer.text)
    return f"The answer holds {secret}. Leave it out." if secret is not None else None


@post_check("schema_validation")
def schema_validation(answer: CheckedAnswer) -> str | None:
    """JSON with the keys that the output schema asks for; anything passes without a schema."""
    schema = answer.step.output_schema
    if schema is None:
        return None
    try:
        value = answer.value
    except ValueError:
        return "The answer is no JSON. Answer with nothing but the JSON."
    missing = list(_missing(value, schema))
    if not missing:
        return None
    return f"The answer lacks {', '.join(map(repr, missing))}. Answer with JSON that has all keys."


def _missing(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    held: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    for key in keys_of(schema):
        if key not in held:
            yield key


def keys_of(schema: Mapping[str, Any]) -> list[str]:
    """The keys that an answer must have: those that are required, else all properties; a plain map lists them."""
    for name in ("required", "properties"):
        named = schema.get(name)
        if isinstance(named, list | Mapping):
            return [str(key) for key in cast("list[Any]", named)]
    return [] if "type" in schema or "$ref" in schema else [key for key in schema if not key.startswith("$")]


@post_check("confidence_threshold")
def confidence_threshold(answer: CheckedAnswer) -> str | None:
    """JSON whose `confidence` is a number of at least the threshold of the step."""
    try:
        value = answer.value
    except ValueError:
        value = None
    confidence = cast("Mapping[str, Any]", value).get("confidence") if isinstance(value, Mapping) else None
    if not isinstance(confidence, int | float) or isinstance(confidence, bool):
        return "The answer does not say how sure it is. Answer with JSON that has a 'confidence' between 0 and 1."
    least = answer.step.guardrails.confidence_threshold
    return None if confidence >= least else f"The answer has a confidence of {confidence:g}, and {least:g} is wanted."
