"""Signals and answers for runs.

Both are stored in the inbox of their run, where a worker reads them when the run waits. A signal may arrive before the
run waits for it. The first one for an open wait makes the run due.

An answer is accepted once: the transaction that stores it is refused if the wait has been closed, or if the inbox has
an answer or a signal for it already; see `guard_unanswered`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from statewright.async_futures import aresolve
from statewright.errors import (
    DuplicateRecord,
    InvalidRequest,
    InvalidTransition,
    NotFound,
    PayloadTooLarge,
    RecordConflict,
    RecordPresent,
    SignalMismatch,
    suggestion,
)
from statewright.ids import draw_checkpoint_id
from statewright.runs import (
    ENDED,
    Absent,
    ApiKey,
    Change,
    Condition,
    Insert,
    Json,
    Run,
    RunStatus,
    Signal,
    Update,
    UpdateAll,
    Wait,
    where,
)
from statewright.service.access.approval_permission import check_answers
from statewright.service.context.service_context import ServiceContext
from statewright.service.context.validation import LONGEST_NAME
from statewright.service.engine.waits import approval_of, find_invalid, matches, only_end_of
from statewright.service.operations.starting import size_of

_ANSWER: Final = "answer:"
"""The prefix of the keys of answers."""
Decide = Callable[..., Awaitable[list[Change]]]
"""Returns the changes that decide an approval; see `Approvals.changes_of`."""


class Signals:
    """Receives signals and answers for runs."""

    def __init__(self, context: ServiceContext, decide: Decide) -> None:
        self._context = context
        self._decide = decide

    async def send(
        self,
        workspace_id: str,
        run_id: str,
        kind: str,
        payload: Json,
        *,
        key: str | None = None,
        must_wait: bool = False,
    ) -> Run:
        """Send a signal to a run. It is stored until the run waits for its type.

        A signal whose `key` was sent before changes nothing. Raises InvalidRequest for a payload that is not a map or
        has keys that begin with two underscores, and InvalidTransition for a run that has ended. With `must_wait`,
        raises SignalMismatch if the run waits for other types only, and InvalidTransition if it does not wait, or has
        the signal already.
        """
        context = self._context
        self._check_signal(kind, payload)
        check_signal_id(key)
        run = await context.records.run(workspace_id, run_id)
        if key is not None and await aresolve(context.ledger.count(Signal, where(run_id=run_id, key=key))):
            return run
        if run.status in ENDED:
            raise InvalidTransition(f"Run {run.id}", run.status, "signalled", [], is_asked_for=True)
        wait = await self._wait_for(run, kind) if must_wait else None
        now = context.now()
        signal = Signal(
            id=f"sig_{draw_checkpoint_id()}", run_id=run.id, type=kind, payload=payload, key=key, created_at=now
        )
        try:
            await context.write(
                [*_guard_not_ended(run.id), *guard_unanswered(wait), Insert(signal), *wake_changes(run.id, now)]
            )
        except DuplicateRecord:  # the same signal arrived concurrently
            return run
        except RecordConflict:  # the run or the wait has ended, or the wait has its answer: check again
            return await self.send(workspace_id, run_id, kind, payload, key=key, must_wait=must_wait)
        context.ring()
        return await context.records.run(workspace_id, run_id)

    async def answer(
        self, workspace_id: str, run_id: str, answers: Mapping[str, Json], *, key: ApiKey | None = None
    ) -> Run:
        """Answer questions of a run, by the ids of its waits or interrupts; all of them or none.

        Approvals among them are decided: see `Approvals.decide`. Waits for events take the payload of a signal.
        `key` is that of the caller, if callers need one. Raises Forbidden if it may not decide an approval among them,
        NotFound for a question that is not open, InvalidRequest for a wait that only the time or another run ends,
        InvalidTransition for a run that does not wait, or a question that is already answered.
        """
        context = self._context
        run = await context.records.run(workspace_id, run_id)
        if run.status is not RunStatus.WAITING:
            raise InvalidTransition(f"Run {run.id}", run.status, "answered", ["waiting"], is_asked_for=True)
        waits = await aresolve(context.ledger.find(Wait, where(run_id=run.id)))
        by_id = {question_id: wait for wait in waits for question_id in (wait.id, wait.interrupt_id)}
        unknown = next((question_id for question_id in answers if question_id not in by_id), None)
        if unknown is not None:
            open_ids = [wait.id for wait in waits]
            raise NotFound(
                f"Run {run.id} has no open question {unknown!r}. " + suggestion(unknown, open_ids, noun="Open")
            )
        check_answers(key, (by_id[question_id] for question_id in answers))
        for question_id, value in answers.items():
            self._check_value(by_id[question_id], value)
        by_wait = {by_id[question_id].id: value for question_id, value in answers.items()}
        answers, decisions = await self._decisions(by_wait, workspace_id, waits, key)
        pairs = [(by_id[wait_id], value) for wait_id, value in answers.items()]
        await self._check_types(run, {wait.interrupt_id: value for wait, value in pairs}, waits)
        if size_of(answers) > context.settings.max_payload:
            raise PayloadTooLarge(f"The answers have more than {context.settings.max_payload} bytes.")
        now = context.now()
        inserts: list[Change] = [Insert(answer_to(wait, value, now)) for wait, value in pairs]
        guards = [guard for wait, _ in pairs for guard in guard_unanswered(wait)]
        try:
            await context.write([*guards, *inserts, *decisions, *wake_changes(run.id, now)])
        except (DuplicateRecord, RecordPresent):
            raise _already_answered(run) from None
        except RecordConflict:  # it timed out, or the thread was changed, after the waits were read
            raise InvalidTransition(
                f"A question of run {run.id}", "closed", "answered", [], is_asked_for=True
            ) from None
        context.ring()
        return await context.records.run(workspace_id, run_id)

    async def _decisions(
        self, answers: Mapping[str, Json], workspace_id: str, waits: Sequence[Wait], key: ApiKey | None
    ) -> tuple[dict[str, Json], list[Change]]:
        """Return the answers without those of approvals, by wait, and the changes that decide the approvals."""
        approvals = {wait.id for wait in waits if approval_of(wait) is not None}
        changes: list[Change] = []
        for wait_id in (wait_id for wait_id in answers if wait_id in approvals):
            answer: Any = answers[wait_id]
            if not isinstance(answer, Mapping):
                raise InvalidRequest(
                    f"{wait_id} is an approval. Answer with an object: decision, and content if edited."
                )
            decision = cast("Mapping[str, Any]", answer)
            changes += await self._decide(
                workspace_id,
                wait_id,
                str(decision.get("decision")),
                edited_content=decision.get("content") if decision.get("decision") == "edited" else None,
                decided_by=_decider(decision.get("decidedBy")),
                key=key,
            )
        return {wait_id: value for wait_id, value in answers.items() if wait_id not in approvals}, changes

    def _check_value(self, wait: Wait, value: Json) -> None:
        """Raise InvalidRequest for a wait that takes no answer, or an invalid payload for an event."""
        only_end = only_end_of(wait)
        if only_end is not None:
            raise InvalidRequest(
                f"Step {wait.step_name!r} of run {wait.run_id} waits for {only_end}, and {wait.id} takes no answer. "
                f"Answer questions and events."
            )
        if wait.event is not None:
            check_payload(value, self._context.settings.max_payload)

    async def _check_types(self, run: Run, answers: Mapping[str, Json], waits: Sequence[Wait]) -> None:
        """Raise InvalidRequest for an answer that does not have the required type."""
        answered = [wait for wait in waits if wait.interrupt_id in answers]
        if any(wait.schema is not None for wait in answered):
            saved = await aresolve(self._context.saver_of(run.workspace_id).load(run.thread_id))
            open_ids = {question.id for question in saved.pending.open} if saved is not None else set[str]()
            if not open_ids.issuperset(answers):  # it was closed after the waits were read
                raise InvalidTransition(f"A question of run {run.id}", "closed", "answered", [], is_asked_for=True)
            for reason in find_invalid(saved, answers).values():
                raise InvalidRequest(reason)

    def _check_signal(self, kind: str, payload: Json) -> None:
        if not 1 <= len(kind) <= 255:
            raise InvalidRequest(f"The type of a signal has {len(kind)} characters. Give 1 to 255.")
        if kind.startswith("__"):
            raise InvalidRequest(f"The type {kind!r} begins with two underscores, which is reserved.")
        check_payload(payload, self._context.settings.max_payload)

    async def _wait_for(self, run: Run, kind: str) -> Wait:
        """Return an unanswered wait for a type of signal. Raises InvalidTransition or SignalMismatch."""
        if run.status is not RunStatus.WAITING:
            raise InvalidTransition(f"Run {run.id}", run.status, "resumed", ["waiting", "paused"], is_asked_for=True)
        waits: Sequence[Wait] = await aresolve(self._context.ledger.find(Wait, where(run_id=run.id)))
        of_kind = [wait for wait in waits if wait.event == kind]
        if of_kind:
            inbox = await aresolve(self._context.ledger.find(Signal, where(run_id=run.id, taken=False)))
            still_open = unanswered(of_kind, inbox)
            if not still_open:
                raise _already_answered(run)
            return still_open[0]
        types = sorted({wait.event for wait in waits if wait.event is not None})
        raise SignalMismatch(
            f"Run {run.id} does not wait for a signal {kind!r}. " + suggestion(kind, types, noun="It waits for"),
            details={"waitsFor": types},
        )


def check_payload(payload: Json, max_size: int) -> None:
    """Raise InvalidRequest for a payload that cannot become part of a state, and PayloadTooLarge."""
    if not isinstance(payload, Mapping):
        raise InvalidRequest(f"The payload is {payload!r:.80}. Give an object.")
    hidden = next((key for key in cast("Mapping[str, Any]", payload) if key.startswith("__")), None)
    if hidden is not None:
        raise InvalidRequest(f"The payload has a key {hidden!r}. Keys that begin with two underscores are reserved.")
    size = size_of(payload)
    if size > max_size:
        raise PayloadTooLarge(f"The payload has {size} bytes; at most {max_size} are allowed.")


def check_signal_id(signal_id: str | None) -> None:
    """Raise InvalidRequest for an id that is reserved for answers: the signal would block the answer."""
    if signal_id is not None and signal_id.startswith(_ANSWER):
        raise InvalidRequest(
            f"The id of the signal begins with {_ANSWER!r}, which is reserved for answers. Choose another."
        )


def _decider(decided_by: Any) -> str | None:
    """Return the `decidedBy` of a decision. Raises InvalidRequest for an invalid one."""
    if decided_by is None or (isinstance(decided_by, str) and len(decided_by) <= LONGEST_NAME):
        return decided_by
    raise InvalidRequest(f"decidedBy is {decided_by!r:.80}. Give a string of at most {LONGEST_NAME} characters.")


def answer_to(wait: Wait, value: Json, now: datetime) -> Signal:
    """Return an answer as a signal for the inbox; its key makes a second answer to the same question fail."""
    return Signal(
        id=f"sig_{draw_checkpoint_id()}",
        run_id=wait.run_id,
        type="",
        interrupt_id=wait.interrupt_id,
        payload=value,
        key=f"{_ANSWER}{wait.interrupt_id}",
        created_at=now,
    )


def guard_unanswered(wait: Wait | None) -> list[Change]:
    """Return the guards of a write that stores an answer to a wait: it is open and has no answer. None needs no guards.

    The first write of a worker that handles a timeout deletes the wait. It is refused if a signal has changed the
    version of the run before. An answer stays in the inbox until the write that deletes its wait.
    """
    if wait is None:
        return []
    untaken = where(run_id=wait.run_id, taken=False)
    guards: list[Change] = [
        Update(Wait, wait.id, {"run_id": wait.run_id}),  # changes nothing, and is refused if the wait is gone
        Absent(Signal, [*untaken, *where(interrupt_id=wait.interrupt_id)]),
    ]
    return [*guards, Absent(Signal, [*untaken, *where(type=wait.event)])] if wait.event is not None else guards


def unanswered(waits: Iterable[Wait], inbox: Iterable[Signal]) -> list[Wait]:
    """Return the waits without an answer among the untaken signals of an inbox."""
    signals = list(inbox)
    return [
        wait for wait in waits if not any(matches(signal, wait) and signal.run_id == wait.run_id for signal in signals)
    ]


def _already_answered(run: Run) -> InvalidTransition:
    return InvalidTransition(f"A question of run {run.id}", "answered", "answered again", [], is_asked_for=True)


def _guard_not_ended(run_id: str) -> list[Change]:
    """Return the guard of a write to the inbox of a run: it has not ended, because no worker would read its inbox."""
    return [Absent(Run, [Condition("id", "=", run_id), Condition("status", "in", sorted(ENDED))])]


def wake_changes(run_id: str, now: datetime) -> list[Change]:
    """Return the change that makes a run due if it waits."""
    waiting = [Condition("id", "=", run_id), Condition("status", "=", RunStatus.WAITING)]
    return [UpdateAll(Run, waiting, {"due_at": now})]
