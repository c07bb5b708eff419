"""The inbox of a run, which stores signals and answers until a worker processes them.

An answer is accepted once. The transaction that stores an answer is refused if the wait was closed, or if the inbox
already contains an answer or a signal for that wait; see `guard_unanswered`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, cast

from statewright.errors import InvalidRequest, InvalidTransition, PayloadTooLarge
from statewright.ids import new_checkpoint_id
from statewright.runs import ENDED, Absent, ApiKey, Change, Condition, Json, Run, Signal, Update, Wait, where
from statewright.service.engine.waits import matches
from statewright.service.operations.starting import size_of

_ANSWER: Final = "answer:"
"""The prefix of the keys of answers. The keys of signals must not have it."""


def new_signal(
    run_id: str, kind: str, payload: Json, key: str | None, now: datetime, sender: ApiKey | None = None
) -> Signal:
    """Return a signal for the inbox of a run. `sender` is the API key of the caller."""
    return Signal(
        id=f"sig_{new_checkpoint_id()}",
        run_id=run_id,
        type=kind,
        payload=payload,
        key=key,
        sent_by_key=sender.id if sender is not None else None,
        created_at=now,
    )


def answer_to(wait: Wait, value: Json, now: datetime, sender: ApiKey | None = None) -> Signal:
    """Return an answer to a wait, as a signal for the inbox. `sender` is the API key of the caller.

    All answers to a question have the same key, so that a second answer cannot be stored.
    """
    answer = new_signal(wait.run_id, "", value, f"{_ANSWER}{wait.interrupt_id}", now, sender)
    answer.interrupt_id = wait.interrupt_id
    return answer


# -- checks of requests


def check_payload(payload: Json, max_size: int) -> None:
    """Raise InvalidRequest if a payload is not a map or has reserved keys; PayloadTooLarge if it exceeds `max_size`."""
    if not isinstance(payload, Mapping):
        raise InvalidRequest(f"The payload must be an object, not {payload!r:.80}.")
    reserved = next((key for key in cast("Mapping[str, object]", payload) if key.startswith("__")), None)
    if reserved is not None:
        raise InvalidRequest(
            f"The payload has the key {reserved!r}. Keys that begin with two underscores are reserved."
        )
    size = size_of(payload)
    if size > max_size:
        raise PayloadTooLarge(f"The payload has {size} bytes; at most {max_size} are allowed.")


def check_signal_id(signal_id: str | None) -> None:
    """Raise InvalidRequest for an id that is reserved for answers, because such a signal would block the answer."""
    if signal_id is not None and signal_id.startswith(_ANSWER):
        raise InvalidRequest(
            f"The id of the signal begins with {_ANSWER!r}, which is reserved for answers. Choose another."
        )


def closed_error(run_id: str) -> InvalidTransition:
    """Return the error for an answer to a question that is no longer open."""
    return InvalidTransition(f"A question of run {run_id}", "closed", "answered", [], is_request=True)


def answered_error(run_id: str) -> InvalidTransition:
    """Return the error for a second answer to a question."""
    return InvalidTransition(f"A question of run {run_id}", "answered", "answered again", [], is_request=True)


# -- guards of writes


def guard_unanswered(wait: Wait | None) -> list[Change]:
    """Return the guards of a write that stores an answer to a wait. They ensure that the wait is open and unanswered.

    There are no guards for None, which means that a signal is accepted even if the run does not wait for it. A worker
    closes a wait and removes its answer from the inbox in the same transaction, so that there is no gap in which both
    guards hold for an answered wait. A timeout, too, closes the wait, and is refused if a signal has arrived first.
    """
    if wait is None:
        return []
    unprocessed = where(run_id=wait.run_id, taken=False)
    guards: list[Change] = [
        Update(Wait, wait.id, {"run_id": wait.run_id}),  # changes nothing, but is refused if the wait is gone
        Absent(Signal, [*unprocessed, *where(interrupt_id=wait.interrupt_id)]),
    ]
    return [*guards, Absent(Signal, [*unprocessed, *where(type=wait.event)])] if wait.event is not None else guards


def guard_not_ended(run_id: str) -> Absent:
    """Return the guard of a write to the inbox of a run: the run has not ended, so a worker will read the inbox."""
    return Absent(Run, [Condition("id", "=", run_id), Condition("status", "in", sorted(ENDED))])


def select_unanswered(waits: Iterable[Wait], inbox: Iterable[Signal]) -> list[Wait]:
    """Return the waits for which there is no signal among the unprocessed signals of an inbox."""
    signals = list(inbox)
    return [
        wait for wait in waits if not any(matches(signal, wait) and signal.run_id == wait.run_id for signal in signals)
    ]
