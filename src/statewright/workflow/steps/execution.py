"""One execution of one step: what it sees, what it may wait for, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.checkpoint import Interrupt
from statewright.graph import Runtime
from statewright.workflow.steps.context import StepContext
from statewright.workflow.steps.model import Step
from statewright.workflow.steps.pausing import Question, Refusal, answer_to, asked_before, named_run, open_key


class Execution:
    """What a performer works with. The maps in it are shared: they are read, and never changed."""

    __slots__ = ("_configurable", "_key", "input", "origin", "runtime", "state", "step", "visits")

    def __init__(self, step: Step, values: Mapping[str, Any], runtime: Runtime[Any], config: Mapping[str, Any]) -> None:
        self.step = step
        self.runtime = runtime
        self.input: Mapping[str, Any] = values.get("input") or {}
        self.state: Mapping[str, Any] = values.get("state") or {}
        self.visits: Mapping[str, int] = values.get("visits") or {}
        self.origin: str = values.get("origin") or ""
        self._configurable = cast("Mapping[str, Any]", config.get("configurable") or {})
        self._key: str | None = None

    @property
    def number(self) -> int:
        """Which visit of the run to the step this is, from 1."""
        return self.visits.get(self.step.name, 0) + 1

    @property
    def idempotency_key(self) -> str:
        """`<run>:<step>`; with the number of the visit if the run has been here before."""
        key = f"{named_run() or self.origin}:{self.step.name}"
        return key if self.number == 1 else f"{key}:{self.number}"

    def context(
        self,
        config: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        runtime: Runtime[Any] | None = None,
    ) -> StepContext:
        """What a handler is given; `runtime` is that of a task which the step has called, if it is one's handler."""
        info = self.runtime.execution_info
        return StepContext(
            step_name=self.step.name,
            workflow_input=self.input,
            workflow_state=self.state,
            config=config,
            run_id=info.run_id,
            workspace_id=self._configurable.get("workspace_id"),
            idempotency_key=idempotency_key or self.idempotency_key,
            attempt=info.attempt,
            runtime=runtime or self.runtime,
        )

    # -- waiting

    @property
    def question_key(self) -> str:
        """What tells the questions of this attempt from those of others, so that each attempt asks anew.

        A failed run that somebody tries again counts its attempts anew; `retry` in the config says how often it was.
        """
        if self._key is None:
            again = self._configurable.get("retry", 0)
            # Attempts that were not saved are not counted any more, but what one of them asked is still open.
            attempts = range(self.runtime.execution_info.attempt, self.step.retry.max_attempts + 1)
            self._key = open_key([f"{again}/{attempt}" for attempt in attempts], self.runtime)
        return self._key

    def asked_before(self) -> Interrupt | None:
        """What this attempt waits for already, if it was executed before."""
        return asked_before(self.question_key, self.runtime)

    def wait_for(self, question: Question, refusal: Refusal) -> Any:
        """What has come for a question; None if its time went by. Leaves the node if nothing has come yet."""
        return answer_to(question, self.question_key, self.runtime, refusal)

    # -- telling

    def report(self, **told: Any) -> None:
        """Tell the log of the run of the step: its `output`, the steps that were `skipped`, an `event`."""
        if told and self.runtime.is_recorded:
            self.runtime.record("step_reported", told)

    def report_event(self, kind: str, **payload: Any) -> None:
        """Add an event of the step to the log of the run."""
        self.report(event={"type": kind, "payload": payload})
