"""Waiting inside a step, with a question that says at once what is asked, for whom it is, and until when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from statewright.checkpoint import Interrupt
from statewright.clock import Duration
from statewright.errors import InternalError
from statewright.graph import Runtime
from statewright.ids import interrupt_id
from statewright.runtime.tasks.interrupt import wait_for
from statewright.runtime.tasks.scope import current_scope

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
