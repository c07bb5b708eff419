"""What a handler is told about the step that it is called for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from statewright.checkpoint import Interrupt
from statewright.clock import Duration
from statewright.errors import InternalError
from statewright.graph import Runtime
from statewright.ids import interrupt_id
from statewright.runtime.interrupts import wait_for
from statewright.runtime.scope import current_scope
from statewright.workflow.steps.jsonable import copied
from statewright.workflow.steps.model import Step


class StepContext:
    """One attempt at one step. Tests of handlers may make one themselves; every part has a default."""

    def __init__(
        self,
        *,
        step_name: str = "",
        workflow_input: Mapping[str, Any] | None = None,
        workflow_state: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        run_id: str = "",
        workspace_id: str | None = None,
        idempotency_key: str = "",
        attempt: int = 1,
        runtime: Runtime[Any] | None = None,
    ) -> None:
        self.step_name = step_name
        self.run_id = run_id
        self.workspace_id = workspace_id
        """The workspace whose run it is; None outside the service."""
        self.idempotency_key = idempotency_key
        """The same for every attempt at the step, another one when the run comes to the step again."""
        self.attempt = attempt
        """From 1."""
        self._input = workflow_input or {}
        self._state = workflow_state or {}
        self._config = config or {}
        self._runtime = runtime

    @cached_property
    def workflow_input(self) -> dict[str, Any]:
        """What the run was started with: a copy, so whatever is done to it stays here."""
        return copied(dict(self._input))

    @cached_property
    def workflow_state(self) -> dict[str, Any]:
        """The state before the step: a copy. What is to reach the state is answered as `state_updates`."""
        return copied(dict(self._state))

    @cached_property
    def config(self) -> dict[str, Any]:
        """What the definition says under `config`; the arguments, where a model calls the handler as a tool."""
        return copied(dict(self._config))

    @property
    def runtime(self) -> Runtime[Any]:
        """What every node may ask for: journalled steps, heartbeats, the store. None in a context made by hand."""
        return cast("Runtime[Any]", self._runtime)


# -- Waiting inside a step, with a question that says at once what is asked, for whom it is, and until when.

Refusal = Callable[[Any], str | None]
"""Says why an answer is none, or None for one that is."""


class Question:
    """What a step waits for: an answer, a signal, an instant, or the first of the last two."""

    def __init__(
        self,
        value: Any,
        *,
        signal: str | None = None,
        is_timer: bool = False,
        delay: Duration | None = None,
        until: datetime | None = None,
    ) -> None:
        self.value = value
        self.signal = signal
        self.is_timer = is_timer
        """Whether nothing but the instant is waited for."""
        self.delay = delay
        self.until = until

    def described(self) -> dict[str, Any]:
        """The parts of its interrupt."""
        if self.is_timer:
            return {"value": self.value, "kind": "timer"}
        if self.signal is not None:
            return {"value": self.value, "kind": "event", "event": self.signal, "schema": dict[str, Any]}
        return {"value": self.value, "schema": dict[str, Any]}


def answer_to(question: Question, key: str, runtime: Runtime[Any], refusal: Refusal) -> Any:
    """What has come for a question; None if its time went by. Leaves the node if nothing has come yet.

    An answer that is refused is told in the log, and the question is asked again with the time that it had.
    """
    delay, until, number = question.delay, question.until, 0
    while True:
        known = runtime.asked(f"{key}.{number}")
        answer = wait_for("a step", f"{key}.{number}", delay, question.described, until, repeats=True)
        if answer is None or question.is_timer:
            return answer
        reason = refusal(answer)
        if reason is None:
            return answer
        if known is not None:
            delay, until = None, known.due_at
            runtime.record("step_reported", {"event": {"type": "SIGNAL_IGNORED", "payload": {"reason": reason}}})
        number += 1


def open_key(keys: Sequence[str], runtime: Runtime[Any]) -> str:
    """That of the keys under which the step waits already; the first one if it does not wait yet."""
    scope = current_scope()
    if scope is None or not scope.run.known_interrupts:  # nobody waits: nearly always
        return keys[0]
    return next((key for key in keys if asked_before(key, runtime) is not None), keys[0])


def asked_before(key: str, runtime: Runtime[Any]) -> Interrupt | None:
    """What the step waits for under a key since it was executed before; None if it has not come so far yet."""
    scope = current_scope()
    if scope is None or scope.task is None:
        raise InternalError("A step looked for its questions outside a node. Please report this.")
    number = 0
    while interrupt_id(scope.task.id, f"{key}.{number}") in scope.run.answers:
        if (known := runtime.asked(f"{key}.{number}")) is not None:
            return known
        number += 1
    return runtime.asked(f"{key}.{number}")


def named_run() -> str | None:
    """The id that the caller gave to the run, which stays the same whoever goes on with it; None if it gave none."""
    scope = current_scope()
    return scope.run.settings.run_id if scope is not None else None


# -- One execution of one step: what it sees, what it may wait for, and what it tells of itself.


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
