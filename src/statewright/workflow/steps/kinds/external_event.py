"""External events: the run waits for a signal, whose payload becomes part of the state."""

from __future__ import annotations

from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.failure import StepFailed
from statewright.workflow.steps.model import ExternalEventStep
from statewright.workflow.steps.pausing import Question
from statewright.workflow.steps.result import StepResult
from statewright.workflow.steps.signals import unfit_payload


class ExternalEventPerformer:
    """Waits for a type of signal, for a limited time if there is a limit."""

    def __init__(self, step: ExternalEventStep) -> None:
        self._step = step
        delay = step.timeout_ms / 1000 if step.timeout_ms is not None else None
        value = {"type": "external_event", "signalType": step.signal_type}
        self._question = Question(value, signal=step.signal_type, delay=delay)

    def perform(self, execution: Execution) -> StepResult:
        payload = execution.wait_for(self._question, unfit_payload)
        if payload is None:
            step = self._step
            raise StepFailed(
                f"Step {step.name!r} waited {step.timeout_ms} ms for a signal {step.signal_type!r}, and none came.",
                code="SIGNAL_TIMEOUT",
                details={"signalType": step.signal_type, "timeoutMs": step.timeout_ms},
            )
        return StepResult(output=payload, state_updates=payload)
