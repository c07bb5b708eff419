"""Checks of model answers: extraction of JSON, the built-in checks and their registry, and guardrails."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import isawaitable
from typing import Any, Final, NamedTuple, TypeVar, cast

from statewright.errors import InvalidConfig
from statewright.models import ModelResponse
from statewright.redaction import find_secret
from statewright.workflow.steps.execution import StepExecution
from statewright.workflow.steps.model import LlmStep
from statewright.workflow.steps.result import StepFailed

_CODE_BLOCK: Final = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.S)
_OPENING_BRACKET: Final = re.compile(r"[{\[]")
MAX_BRACKETS: Final = 1000
"""The maximum number of brackets in an answer that are tried as the start of JSON."""


def extract_json(text: str) -> Any:
    """Return the value of the JSON in a text.

    The JSON is the whole text, or else the first code block that is JSON, or else the first JSON object or array in the
    text. Raises ValueError if the text contains no JSON.
    """
    for candidate in (text, *_CODE_BLOCK.findall(text)):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    value = next(_iter_embedded(text), None)
    if value is None:
        raise ValueError("the answer contains no JSON")
    return value


def _iter_embedded(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    for number, match in enumerate(_OPENING_BRACKET.finditer(text)):
        if number == MAX_BRACKETS:
            return
        try:
            yield decoder.raw_decode(text, match.start())[0]
        except (ValueError, RecursionError):
            continue


# -- built-in checks, and the registration of others


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer to check, with the step that requested it."""

    response: ModelResponse
    step: LlmStep

    @property
    def text(self) -> str:
        return self.response.text

    @cached_property
    def value(self) -> Any:
        """The value of the JSON in the answer. Raises ValueError if the answer contains no JSON."""
        return extract_json(self.text)


Check = Callable[[CheckedAnswer], str | Awaitable[str | None] | None]
"""Returns what is wrong with an answer, as a sentence for the model; None if the answer passes."""
C = TypeVar("C", bound=Check)
CHECKS: Final[dict[str, Check]] = {}
"""The registered checks by name."""


def post_check(name: str) -> Callable[[C], C]:
    """Return a decorator that registers a check for `guardrails.postChecks`, for the whole process.

    A check that has the name of a built-in check replaces that check.
    """

    def register(check: C) -> C:
        CHECKS[name] = check
        return check

    return register


@post_check("content_safety")
def content_safety(answer: CheckedAnswer) -> str | None:
    """Reject refusals by the model, and answers with secrets, card numbers or social security numbers."""
    if answer.response.finish_reason == "refused":
        return "The model refused to answer."
    description = find_secret(answer.text)
    return f"The answer contains {description}. Leave it out." if description is not None else None


@post_check("schema_validation")
def schema_validation(answer: CheckedAnswer) -> str | None:
    """Require JSON with the keys of the output schema. Without a schema, accept any answer."""
    schema = answer.step.output_schema
    if schema is None:
        return None
    try:
        value = answer.value
    except ValueError:
        return "The answer is not valid JSON. Answer with nothing but the JSON."
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    missing = [key for key in list_required_keys(schema) if key not in fields]
    if not missing:
        return None
    return f"The answer lacks {', '.join(map(repr, missing))}. Answer with JSON that has all of these keys."


def list_required_keys(schema: Mapping[str, Any]) -> list[str]:
    """Return the keys that an answer must have: those in `required`, or else those in `properties`.

    A schema without any of `required`, `properties`, `type` and `$ref` is read as an example of an answer, and all keys
    of the example are required.
    """
    for name in ("required", "properties"):
        keys = schema.get(name)
        if isinstance(keys, list | Mapping):
            return [str(key) for key in cast("list[Any]", keys)]
    return [] if "type" in schema or "$ref" in schema else [key for key in schema if not key.startswith("$")]


@post_check("confidence_threshold")
def confidence_threshold(answer: CheckedAnswer) -> str | None:
    """Require JSON with a `confidence` that reaches the threshold of the step."""
    try:
        value = answer.value
    except ValueError:
        value = None
    confidence = cast("Mapping[str, Any]", value).get("confidence") if isinstance(value, Mapping) else None
    if not isinstance(confidence, int | float) or isinstance(confidence, bool):
        return "The answer has no confidence. Answer with JSON that has a 'confidence' from 0 to 1."
    threshold = answer.step.guardrails.confidence_threshold
    if confidence >= threshold:
        return None
    return f"The answer has a confidence of {confidence:g}, but at least {threshold:g} is required."


# -- guardrails

MAX_FEEDBACK_ROUNDS: Final = 2
"""The maximum number of times that feedback is sent to the model before the attempt fails."""


class FailedCheck(NamedTuple):
    """A failed check, with its reason."""

    check: str
    reason: str


class OutputGuard:
    """The guardrails of one step."""

    def __init__(self, step: LlmStep, checks: Mapping[str, Check]) -> None:
        """Select the checks that the step names. All of them must be among `checks`."""
        self._step = step
        self._on_failure = step.guardrails.on_failure
        self._checks = {name: checks[name] for name in step.guardrails.post_checks}

    async def run_checks(self, answer: CheckedAnswer, execution: StepExecution) -> list[FailedCheck]:
        """Return the checks that an answer fails, and record them in the log of the run.

        Raises InvalidConfig for a check that returns neither a string nor None.
        """
        failed_checks = [
            FailedCheck(name, reason) for name in self._checks if (reason := await self._run_check(name, answer))
        ]
        for failed in failed_checks:
            execution.record_event(
                "GUARDRAIL_FAILED", check=failed.check, reason=failed.reason, onFailure=self._on_failure
            )
        return failed_checks

    def make_feedback(self, failed_checks: Sequence[FailedCheck], corrections: int) -> str | None:
        """Return the feedback to send to the model; None if its answer is accepted.

        `corrections` is the number of times that feedback was sent so far. Raises StepFailed if the answer is rejected,
        or if it still fails after the maximum number of times.
        """
        if not failed_checks or self._on_failure == "warn":
            return None
        if self._on_failure == "retry_with_feedback" and corrections < MAX_FEEDBACK_ROUNDS:
            return "Your answer was not accepted.\n" + "\n".join(failed.reason for failed in failed_checks)
        reasons = " ".join(f"{failed.check}: {failed.reason}" for failed in failed_checks)
        raise StepFailed(
            f"The model's answer failed the checks of step {self._step.name!r}. {reasons}",
            code="GUARDRAIL_FAILED",
            details={"checks": [failed._asdict() for failed in failed_checks]},
        )

    async def _run_check(self, name: str, answer: CheckedAnswer) -> str | None:
        verdict = self._checks[name](answer)
        reason = await verdict if isawaitable(verdict) else verdict
        if reason is not None and not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(
                f"The check {name!r} returned {reason!r}. Return a sentence that says what is wrong, or None."
            )
        return reason
