"""What the answer of a model is held to: functions that say what is wrong with it.

Three are here; `post_check` registers more, and may replace these.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from statewright.models import ModelResponse
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
    """Secrets and numbers of people that must not leave, and answers that the model refused to give."""
    if answer.response.finish_reason == "refused":
        return "The model refused to answer."
    found = next((what for what, pattern in _SECRETS.items() if pattern.search(answer.text)), None)
    if found is None and any(map(_is_card_number, _CARD.findall(answer.text))):
        found = "the number of a payment card"
    return f"The answer holds {found}. Leave it out." if found is not None else None


_SECRETS: Final = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a secret key of a service": re.compile(
        r"\b(?:sk-[A-Za-z0-9_-]{20,}|sk_live_[A-Za-z0-9]{16,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}"
        r"|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{35})\b"
    ),
    "a signed token": re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    "a social security number": re.compile(r"\b(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}\b"),
}
_CARD: Final = re.compile(r"(?<![\d.-])(?:\d[ -]?){12,18}\d(?![\d.-]*\d)")


def _is_card_number(text: str) -> bool:
    """Whether the last digit is the one that the others ask for, as on every card (Luhn)."""
    digits = [int(sign) for sign in reversed(text) if sign.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


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
