"""The JSON in the answer of a model, which may have a fence or sentences around it."""

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
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.model import LlmStep
from statewright.workflow.steps.result import StepFailed

_FENCED: Final = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.S)
_BEGINNING: Final = re.compile(r"[{\[]")
MOST_BEGINNINGS: Final = 1000
"""How many brackets of a long text are tried as the beginning of JSON."""


def json_in(text: str) -> Any:
    """What a text means as JSON: the text itself, what stands in a fence, or the first map or list in it.

    Raises ValueError if there is none.
    """
    for candidate in (text, *_FENCED.findall(text)):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    found = next(_embedded(text), None)
    if found is None:
        raise ValueError("there is no JSON in it")
    return found


def _embedded(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    for number, begin in enumerate(_BEGINNING.finditer(text)):
        if number == MOST_BEGINNINGS:
            return
        try:
            yield decoder.raw_decode(text, begin.start())[0]
        except (ValueError, RecursionError):
            continue


# -- What the answer of a model is held to: functions that say what is wrong with it.
#
# Three are here; `post_check` registers more, and may replace these.


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


# -- The checks of a step, applied to an answer; each that fails is told in the log of the run.

FEEDBACK_ROUNDS: Final = 2
"""How often a model is told what is wrong with its answer before the attempt fails."""


class Failed(NamedTuple):
    """A check that an answer did not pass."""

    check: str
    reason: str


class Guard:
    """The guardrails of one step."""

    def __init__(self, step: LlmStep, checks: Mapping[str, Check]) -> None:
        """All checks that the step names are among `checks`."""
        self._step = step
        self._on_failure = step.guardrails.on_failure
        self._checks = {name: checks[name] for name in step.guardrails.post_checks}

    async def failed(self, answer: CheckedAnswer, execution: Execution) -> list[Failed]:
        """The checks that an answer did not pass. Raises InvalidConfig for a check that answers no text."""
        failed = [Failed(name, reason) for name in self._checks if (reason := await self._reason(name, answer))]
        for one in failed:
            execution.report_event("GUARDRAIL_FAILED", check=one.check, reason=one.reason, onFailure=self._on_failure)
        return failed

    def feedback(self, failed: Sequence[Failed], told_before: int) -> str | None:
        """What the model is told before it is asked again; None if its answer is taken.

        Raises StepFailed if it is not, and for an answer that is still wrong after all that it was told.
        """
        if not failed or self._on_failure == "warn":
            return None
        if self._on_failure == "retry_with_feedback" and told_before < FEEDBACK_ROUNDS:
            return "Your answer was not accepted.\n" + "\n".join(one.reason for one in failed)
        told = " ".join(f"{one.check}: {one.reason}" for one in failed)
        raise StepFailed(
            f"The answer of the model did not pass the checks of step {self._step.name!r}. {told}",
            code="GUARDRAIL_FAILED",
            details={"checks": [one._asdict() for one in failed]},
        )

    async def _reason(self, name: str, answer: CheckedAnswer) -> str | None:
        said = self._checks[name](answer)
        reason = await said if isawaitable(said) else said
        if reason is not None and not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(
                f"The check {name!r} answered {reason!r}. Return a sentence that says what is wrong, or None."
            )
        return reason
