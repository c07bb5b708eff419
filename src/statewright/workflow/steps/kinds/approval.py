"""Approvals: somebody agrees to what stands in a field of the state, refuses it, or changes it.

What was decided is kept in the state, so that a condition can go by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.errors import suggestion
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.failure import StepFailed
from statewright.workflow.steps.model import ApprovalStep
from statewright.workflow.steps.pausing import Question
from statewright.workflow.steps.result import StepResult
from statewright.workflow.steps.template import render

DECISIONS: Final = ("approved", "rejected", "edited")


def decision_key(step: str) -> str:
    """The field of the state that keeps what was decided in a step."""
    return f"{step}_decision"


class ApprovalPerformer:
    """Asks for a decision, for a limited time if there is a limit."""

    def __init__(self, step: ApprovalStep) -> None:
        self._step = step

    def perform(self, execution: Execution) -> StepResult:
        answer = execution.wait_for(self._question(execution), unfit_decision)
        if answer is None:
            raise StepFailed(
                f"Nobody decided on {self._step.content_key!r} in step {self._step.name!r} within "
                f"{self._step.timeout_ms} ms.",
                code="APPROVAL_EXPIRED",
                details={"contentKey": self._step.content_key, "timeoutMs": self._step.timeout_ms},
            )
        return self._decided(answer)

    def _question(self, execution: Execution) -> Question:
        """What is asked. Raises StepFailed if there is nothing to decide on."""
        step, state = self._step, execution.state
        if step.content_key not in state:
            hint = suggestion(step.content_key, state, noun="Fields")
            raise StepFailed(
                f"Step {step.name!r} wants approval of {step.content_key!r}, which is not in the state. {hint}",
                code="APPROVAL_CONTENT_MISSING",
                details={"contentKey": step.content_key},
            )
        asked = {
            "type": "approval",
            "contentKey": step.content_key,
            "content": state[step.content_key],
            "prompt": render(step.prompt, execution.input, state),
        }
        return Question(asked, delay=step.timeout_ms / 1000 if step.timeout_ms is not None else None)

    def _decided(self, answer: Mapping[str, Any]) -> StepResult:
        """The result of a decision. Raises StepFailed for one that ends the run."""
        step, decision, decided_by = self._step, answer["decision"], answer.get("decidedBy")
        if decision == "rejected" and step.on_reject == "fail":
            raise StepFailed(
                f"{step.content_key!r} was rejected in step {step.name!r}{f' by {decided_by}' if decided_by else ''}.",
                code="APPROVAL_REJECTED",
                details={"contentKey": step.content_key, "decidedBy": decided_by},
                is_final=True,
            )
        told = {"decision": decision, "approved": decision != "rejected", "decidedBy": decided_by}
        edited = {step.content_key: answer["content"]} if decision == "edited" else {}
        return StepResult(output=told, state_updates={decision_key(step.name): told, **edited})


def unfit_decision(answer: Any) -> str | None:
    """Why something is no decision; None if it is one."""
    told: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    if told.get("decision") not in DECISIONS:
        return f"The decision is {told.get('decision')!r}. Choices: {', '.join(DECISIONS)}."
    if told["decision"] == "edited" and "content" not in told:
        return "The decision is 'edited', and there is no content. Give the edited content."
    return None
