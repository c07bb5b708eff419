"""One execution of a step: the context of its handler, its waits for answers, and its records in the log of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from statewright.checkpoint import Interrupt
from statewright.clock import Duration
from statewright.data.jsonable import copy_json
from statewright.errors import InternalError
from statewright.graph import Runtime
from statewright.ids import interrupt_id
from statewright.runtime.tasks.interrupt import wait_for
from statewright.runtime.tasks.scope import current_scope
from statewright.workflow.steps.model import Step


class StepContext:
    """The context of one attempt at a step, which its handler receives.

    All arguments have defaults, so that a test can create a context for a handler.
    """

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
        """The workspace that owns the run; None outside the service."""
        self.idempotency_key = idempotency_key
        """A key that is the same for all attempts at the step, but differs if the run visits the step again."""
        self.attempt = attempt
        """The number of the attempt, from 1."""
        self._input = workflow_input or {}
        self._state = workflow_state or {}
        self._config = config or {}
        self.runtime = cast("Runtime[Any]", runtime)
        """The runtime of the node: journaled steps, heartbeats, the store. None in a context created by a test."""

    @cached_property
    def workflow_input(self) -> dict[str, Any]:
        """A copy of the input of the run. Changes to it have no effect."""
        return copy_json(dict(self._input))

    @cached_property
    def workflow_state(self) -> dict[str, Any]:
        """A copy of the state before the step. Return `state_updates` to change the state."""
        return copy_json(dict(self._state))

    @cached_property
    def config(self) -> dict[str, Any]:
        """A copy of the `config` of the step, or of the arguments if a model calls the handler as a tool."""
        return copy_json(dict(self._config))


# -- waiting
#
# An interrupt can be answered only once. So after an invalid answer, the step opens another interrupt. The keys of the
# interrupts are `<key>.0`, `<key>.1` and so on.

AnswerCheck = Callable[[Any], str | None]
"""Returns the reason why an answer is not valid; None for a valid answer."""


@dataclass(frozen=True, slots=True)
class WaitRequest:
    """A request to wait for an answer, a signal or a timer. An answer or a signal may have a deadline."""

    value: Any
    """The value of the interrupt, which is sent to the person or program that answers."""
    _: KW_ONLY
    signal: str | None = None
    """The type of the signal; None for an answer or a timer."""
    is_timer: bool = False
    delay: Duration | None = None
    """The time from the start of the wait until the timer or deadline."""
    until: datetime | None = None
    """The timer or deadline as a point in time."""

    def to_interrupt(self) -> dict[str, Any]:
        """Return the options of the interrupt that represents the wait."""
        if self.is_timer:
            return {"value": self.value, "kind": "timer"}
        if self.signal is not None:
            return {"value": self.value, "kind": "event", "event": self.signal, "schema": dict[str, Any]}
        return {"value": self.value, "schema": dict[str, Any]}


def find_open_interrupt(key: str, runtime: Runtime[Any]) -> Interrupt | None:
    """Return the interrupt that the last execution of the step opened under a key; None if there is none.

    The interrupt may have an answer that the step has not received yet.
    """
    scope = current_scope()
    if scope is None or scope.task is None:
        raise InternalError("A step looked up its interrupts outside a node. Please report this.")
    number = 0
    # For an interrupt with an invalid answer, the run still has the answer, but `asked` returns None.
    while interrupt_id(scope.task.id, f"{key}.{number}") in scope.run.answers:
        if (interrupt := runtime.asked(f"{key}.{number}")) is not None:
            return interrupt
        number += 1
    return runtime.asked(f"{key}.{number}")


def get_caller_run_id() -> str | None:
    """Return the run id that the caller chose, or None. It is the same when the run is resumed."""
    scope = current_scope()
    return scope.run.settings.run_id if scope is not None else None


# -- the execution


class StepExecution:
    """The input, state and runtime of one execution of a step. The maps are shared, and must not be modified."""

    __slots__ = ("_configurable", "_request_key", "input", "origin", "runtime", "state", "step", "visits")

    def __init__(self, step: Step, values: Mapping[str, Any], runtime: Runtime[Any], config: Mapping[str, Any]) -> None:
        self.step = step
        self.runtime = runtime
        self.input: Mapping[str, Any] = values.get("input") or {}
        self.state: Mapping[str, Any] = values.get("state") or {}
        self.visits: Mapping[str, int] = values.get("visits") or {}
        self.origin: str = values.get("origin") or ""
        self._configurable = cast("Mapping[str, Any]", config.get("configurable") or {})
        self._request_key: str | None = None

    @property
    def visit_number(self) -> int:
        """The number of this visit to the step within the run, from 1."""
        return self.visits.get(self.step.name, 0) + 1

    @property
    def idempotency_key(self) -> str:
        """`<run>:<step>`, followed by the number of the visit from the second visit on."""
        key = f"{get_caller_run_id() or self.origin}:{self.step.name}"
        return key if self.visit_number == 1 else f"{key}:{self.visit_number}"

    def make_context(
        self,
        config: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        runtime: Runtime[Any] | None = None,
    ) -> StepContext:
        """Return the context for a handler. If a called task runs the handler, pass the `runtime` of that task."""
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
    def request_key(self) -> str:
        """The key of this attempt's interrupts: `<retry>/<attempt>`. Each attempt has its own key, and so asks again.

        When a failed run is retried, its attempts are counted from 1 again; `retry` in the config counts the retries.
        """
        if self._request_key is None:
            retry, attempt = self._configurable.get("retry", 0), self.runtime.execution_info.attempt
            self._request_key, scope = f"{retry}/{attempt}", current_scope()
            if scope is not None and scope.run.known_interrupts:  # only a resumed run needs the search
                # After a crash, the number of the attempt may be too low, but the interrupt of the last attempt exists.
                keys = [f"{retry}/{number}" for number in range(attempt, self.step.retry.max_attempts + 1)]
                open_keys = (key for key in keys if find_open_interrupt(key, self.runtime) is not None)
                self._request_key = next(open_keys, self._request_key)
        return self._request_key

    def find_open_interrupt(self) -> Interrupt | None:
        """Return the interrupt that this attempt opened in an earlier execution; None if there is none."""
        return find_open_interrupt(self.request_key, self.runtime)

    def wait_for(self, request: WaitRequest, check_answer: AnswerCheck) -> Any:
        """Suspend the node until a request is answered. Return the answer; None after the timer or deadline.

        An invalid answer is recorded in the log of the run, and the wait continues with its original deadline.
        """
        delay, until, number = request.delay, request.until, 0
        while True:
            key = f"{self.request_key}.{number}"
            interrupt = self.runtime.asked(key)
            answer = wait_for("a step", key, delay, request.to_interrupt, until, repeats=True)
            if answer is None or request.is_timer:
                return answer
            reason = check_answer(answer)
            if reason is None:
                return answer
            # In later executions the interrupt is None, so an invalid answer is recorded only once.
            if interrupt is not None:
                delay, until = None, interrupt.due_at
                self.record_event("SIGNAL_IGNORED", reason=reason)
            number += 1

    # -- the log of the run

    def record(self, **fields: Any) -> None:
        """Record fields in the log of the run: the `output` of the step, the `skipped` steps, or an `event`."""
        if fields and self.runtime.is_recorded:
            self.runtime.record("step_reported", fields)

    def record_event(self, event_type: str, **payload: Any) -> None:
        """Record an event of the step in the log of the run."""
        self.record(event={"type": event_type, "payload": payload})
