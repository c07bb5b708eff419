"""The waits of a run, and the signals that end them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from statewright.checkpoint import Interrupt, SavedCheckpoint
from statewright.data.jsonable import as_json
from statewright.errors import InvalidResume
from statewright.ids import digest
from statewright.runs import (
    Among,
    Approval,
    Change,
    Condition,
    Json,
    NewEvent,
    Run,
    RunStatus,
    Signal,
    StepRun,
    Update,
    UpdateAll,
    Wait,
    where,
)
from statewright.runtime import RUN_ENDED, TIMED_OUT, read_answers
from statewright.state import hint_json_schema

APPROVAL: Final = "approval"
"""The `type` of an interrupt that asks for an approval."""


def wait_id(run_id: str, interrupt_id: str) -> str:
    """Return the id of a wait. It depends on the run too, because runs on forks may have equal interrupt ids."""
    return digest("wait", run_id, interrupt_id)


def wait_of(run: Run, step: StepRun, interrupt: Interrupt, now: datetime) -> Wait:
    """Return the record of an interrupt that a step waits for."""
    return Wait(
        id=wait_id(run.id, interrupt.id),
        run_id=run.id,
        interrupt_id=interrupt.id,
        workspace_id=run.workspace_id,
        step_id=step.id,
        step_name=step.name,
        kind=interrupt.kind,
        event=interrupt.event,
        value=as_json(interrupt.value),
        schema=hint_json_schema(interrupt.schema) if interrupt.schema is not None else None,
        due_at=interrupt.due_at,
        created_at=now,
    )


def approval_of(wait: Wait) -> Approval | None:
    """Return the approval that a wait requests; None if it requests none."""
    question: Any = wait.value
    if not isinstance(question, Mapping) or cast("Mapping[str, Any]", question).get("type") != APPROVAL:
        return None
    fields = cast("Mapping[str, Any]", question)
    return Approval(
        id=wait.id,
        run_id=wait.run_id,
        workspace_id=wait.workspace_id,
        step_id=wait.step_id,
        step_name=wait.step_name,
        content_key=fields.get("contentKey"),
        content=fields.get("content"),
        prompt=fields.get("prompt") or "",
        expires_at=wait.due_at,
        created_at=wait.created_at,
    )


def describe_unanswerable(wait: Wait) -> str | None:
    """Return a description of what a wait waits for if it accepts no answers: a timer, or the end of a run.

    Return None if the wait accepts answers.
    """
    if wait.kind == "timer":
        return "a timer"
    if wait.event is not None and wait.event.startswith(RUN_ENDED):
        return f"the end of run {wait.event.removeprefix(RUN_ENDED)}"
    return None


@dataclass(slots=True)
class Arrivals:
    """The signals that have arrived for the open waits of a run, and the waits that have timed out."""

    answers: dict[str, Json] = field(default_factory=dict[str, Json])
    """Answers by interrupt id."""
    ended: list[Wait] = field(default_factory=list[Wait])
    """Waits that were answered or have timed out."""
    signals: dict[str, Signal] = field(default_factory=dict[str, Signal])
    """Signals by the id of the wait that they end. A wait that has timed out has none."""
    refused: list[tuple[Signal, str]] = field(default_factory=list[tuple[Signal, str]])
    """Signals whose payload was refused, each with the reason."""

    def refuse(self, wait: Wait, reason: str) -> None:
        """Refuse the signal that has arrived for a wait, which stays open."""
        self.ended.remove(wait)
        del self.answers[wait.interrupt_id]
        self.refused.append((self.signals.pop(wait.id), reason))


def find_invalid_answers(saved: SavedCheckpoint | None, answers: Mapping[str, Json]) -> dict[str, str]:
    """Return the error message of each answer that does not have the type its question requires, by interrupt id."""
    open_questions = saved.pending.open if saved is not None else ()
    refused: dict[str, str] = {}
    for interrupt_id, value in answers.items():
        try:
            read_answers({interrupt_id: value}, open_questions)
        except InvalidResume as error:
            refused[interrupt_id] = str(error)
    return refused


def match_signals(waits: Sequence[Wait], inbox: Iterable[Signal], now: datetime) -> Arrivals:
    """Match open waits with the signals of an inbox, which are ordered from the oldest to the newest.

    A signal is delivered to every wait for its type. A wait that is due and has no signal times out.
    """
    arrivals, signals = Arrivals(), list(inbox)
    for wait in waits:
        candidates = [signal for signal in signals if matches(signal, wait)]
        # An answer to this very wait is accepted only while there is no other signal for the wait. So the answer came
        # first, even if the clocks of the processes disagree.
        answers = (signal for signal in candidates if signal.interrupt_id is not None)
        signal = next(answers, candidates[0] if candidates else None)
        if signal is not None:
            arrivals.answers[wait.interrupt_id] = signal.payload
            arrivals.signals[wait.id] = signal
            arrivals.ended.append(wait)
        elif wait.due_at is not None and wait.due_at <= now:
            arrivals.answers[wait.interrupt_id] = TIMED_OUT
            arrivals.ended.append(wait)
    return arrivals


def matches(signal: Signal, wait: Wait) -> bool:
    """Return True if a signal ends a wait: the signal answers the wait, or has the type that the wait is for."""
    if signal.interrupt_id is not None:
        return signal.interrupt_id == wait.interrupt_id
    return wait.event is not None and signal.type == wait.event


def next_due(waits: Iterable[Wait], deadline: datetime | None) -> datetime | None:
    """Return the time at which a run becomes due without a signal: the first timeout of a wait, or its deadline."""
    times = (*(wait.due_at for wait in waits), deadline)
    return min((time for time in times if time is not None), default=None)


def refusal_events(arrivals: Arrivals) -> list[NewEvent]:
    """Return the events for signals whose payload was refused."""
    return [
        NewEvent("SIGNAL_IGNORED", {"signalType": signal.type, "signalId": signal.key, "reason": reason})
        for signal, reason in arrivals.refused
    ]


def inbox_changes(arrivals: Arrivals) -> list[Change]:
    """Return the changes that remove processed signals from the inbox.

    Refused signals also lose their key, so that a corrected signal can be sent with the same key.
    """
    refused = [Update(Signal, signal.id, {"taken": True, "key": None}) for signal, _ in arrivals.refused]
    signal_ids = {signal.id for signal in arrivals.signals.values()}
    return [*refused, *(Update(Signal, signal_id, {"taken": True}) for signal_id in signal_ids)]


def wake_change(run_id: str, now: datetime) -> Change:
    """Return the change that makes a run due if it is waiting."""
    return UpdateAll(Run, where(id=run_id, status=RunStatus.WAITING), {"due_at": now})


def wake_change_if_signalled(run_id: str, now: datetime) -> Change:
    """Return the change that makes a run due if there are signals in its inbox."""
    has_signal = Condition("id", "in", Among(Signal, "run_id", where(run_id=run_id, taken=False)))
    return UpdateAll(Run, [Condition("id", "=", run_id), has_signal], {"due_at": now})
