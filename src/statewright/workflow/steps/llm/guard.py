"""The checks of a step, applied to an answer; each that fails is told in the log of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import isawaitable
from typing import Final, NamedTuple

from statewright.errors import InvalidConfig
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.failure import StepFailed
from statewright.workflow.steps.llm.checks import Check, CheckedAnswer
from statewright.workflow.steps.model import LlmStep

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
