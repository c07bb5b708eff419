"""Signals and answers for runs.

Both are stored in the inbox of the run, and a worker reads them when the run waits. A signal may arrive before the run
waits for it. The first signal for an open wait makes the run due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

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
from statewright.runs import ENDED, ApiKey, Change, Insert, Json, Run, RunStatus, Signal, Wait, where
from statewright.service.access.approval_permission import check_answers
from statewright.service.context.validation import MAX_NAME_LENGTH
from statewright.service.engine.waits import approval_of, describe_unanswerable, find_invalid_answers, wake_change
from statewright.service.operations.approvals import ApprovalOperations, Decision
from statewright.service.operations.inbox import (
    answer_to,
    answered_error,
    check_payload,
    check_signal_id,
    closed_error,
    guard_not_ended,
    guard_unanswered,
    new_signal,
    select_unanswered,
)
from statewright.service.operations.starting import size_of


class SignalOperations(ApprovalOperations):
    """Receives signals and answers for runs. An answer to an approval decides it."""

    async def signal(
        self,
        workspace_id: str,
        run_id: str,
        type: str,  # noqa: A002  # its name in the API and in records
        payload: Json,
        *,
        key: str | None = None,
        must_wait: bool = False,
        sender: ApiKey | None = None,
    ) -> Run:
        """Send a signal to a run. It is stored until the run waits for its type.

        A second signal with the same `key` has no effect. `sender` is the API key of the caller. Raises InvalidRequest
        for a payload that is not a map or has keys that begin with two underscores, and InvalidTransition for a run
        that has ended. With `must_wait`, raises SignalMismatch if the run waits only for other types, and
        InvalidTransition if the run does not wait or if the wait is answered already.
        """
        context = self.context
        self._check_signal(type, payload)
        check_signal_id(key)
        run = await self.run(workspace_id, run_id)
        if key is not None and await aresolve(context.ledger.count(Signal, where(run_id=run_id, key=key))):
            return run
        if run.status in ENDED:
            raise InvalidTransition(f"Run {run.id}", run.status, "signalled", [], is_request=True)
        wait = await self._find_unanswered(run, type) if must_wait else None
        now = context.now()
        signal = new_signal(run.id, type, payload, key, now, sender)
        try:
            await context.write(
                [guard_not_ended(run.id), *guard_unanswered(wait), Insert(signal), wake_change(run.id, now)]
            )
        except DuplicateRecord:  # the same signal arrived concurrently
            return run
        except RecordConflict:  # the run or the wait has ended, or the wait was answered: check again
            return await self.signal(workspace_id, run_id, type, payload, key=key, must_wait=must_wait, sender=sender)
        context.announce_due()
        return await self.run(workspace_id, run_id)

    async def answer(
        self, workspace_id: str, run_id: str, answers: Mapping[str, Json], *, key: ApiKey | None = None
    ) -> Run:
        """Answer open questions of a run, by the ids of its waits or interrupts, in one transaction.

        An answer to an approval decides it; see `decide`. An answer to a wait for an event is the payload of a signal.
        `key` is the API key of the caller; None if callers need no key. Raises Forbidden for an answer to an approval
        if the key may not decide approvals, NotFound for a question that is not open, InvalidRequest for a wait that
        takes no answers, and InvalidTransition for a run that is not waiting, or a question that is answered already.
        """
        context = self.context
        run = await self.run(workspace_id, run_id)
        if run.status is not RunStatus.WAITING:
            raise InvalidTransition(f"Run {run.id}", run.status, "answered", ["waiting"], is_request=True)
        waits = await aresolve(context.ledger.find(Wait, where(run_id=run.id)))
        by_id = {question_id: wait for wait in waits for question_id in (wait.id, wait.interrupt_id)}
        unknown = next((question_id for question_id in answers if question_id not in by_id), None)
        if unknown is not None:
            open_ids = [wait.id for wait in waits]
            raise NotFound(
                f"Run {run.id} has no open question {unknown!r}. "
                + suggestion(unknown, open_ids, noun="Open questions")
            )
        check_answers(key, (by_id[question_id] for question_id in answers))
        for question_id, value in answers.items():
            self._check_value(by_id[question_id], value)
        by_wait = {by_id[question_id].id: value for question_id, value in answers.items()}
        answers, decisions = await self._separate_decisions(by_wait, workspace_id, waits, key)
        pairs = [(by_id[wait_id], value) for wait_id, value in answers.items()]
        await self._check_types(run, {wait.interrupt_id: value for wait, value in pairs}, waits)
        if size_of(answers) > context.settings.max_payload:
            raise PayloadTooLarge(f"The answers have more than {context.settings.max_payload} bytes.")
        now = context.now()
        inserts: list[Change] = [Insert(answer_to(wait, value, now, key)) for wait, value in pairs]
        guards = [guard for wait, _ in pairs for guard in guard_unanswered(wait)]
        try:
            await context.write([*guards, *inserts, *decisions, wake_change(run.id, now)])
        except (DuplicateRecord, RecordPresent):
            raise answered_error(run.id) from None
        except RecordConflict:  # since the waits were read, one of them has timed out, or the thread was edited
            raise closed_error(run.id) from None
        context.announce_due()
        return await self.run(workspace_id, run_id)

    async def _separate_decisions(
        self, answers: Mapping[str, Json], workspace_id: str, waits: Sequence[Wait], key: ApiKey | None
    ) -> tuple[dict[str, Json], list[Change]]:
        """Separate decisions on approvals from other answers, which are all given by wait id.

        Return the other answers by wait id, and the changes that decide the approvals.
        """
        approvals = {wait.id for wait in waits if approval_of(wait) is not None}
        others: dict[str, Json] = {}
        changes: list[Change] = []
        for wait_id, answer in answers.items():
            if wait_id not in approvals:
                others[wait_id] = answer
                continue
            if not isinstance(answer, Mapping):
                raise InvalidRequest(
                    f"{wait_id} is an approval. Answer with an object that has decision, and content if it is 'edited'."
                )
            fields = cast("Mapping[str, Any]", answer)
            kind, decider = str(fields.get("decision")), _validate_decider(fields.get("decidedBy"))
            decision = Decision(kind, fields.get("content") if kind == "edited" else None, decider, key)
            changes += await self.decision_changes(workspace_id, wait_id, decision)
        return others, changes

    def _check_value(self, wait: Wait, value: Json) -> None:
        """Raise InvalidRequest for a wait that takes no answers, or if the answer is an invalid payload of an event."""
        reason = describe_unanswerable(wait)
        if reason is not None:
            raise InvalidRequest(
                f"Wait {wait.id} takes no answer: step {wait.step_name!r} of run {wait.run_id} waits for {reason}. "
                f"Only questions and events can be answered."
            )
        if wait.event is not None:
            check_payload(value, self.context.settings.max_payload)

    async def _check_types(self, run: Run, answers: Mapping[str, Json], waits: Sequence[Wait]) -> None:
        """Raise InvalidRequest for an answer that does not have the required type."""
        answered = [wait for wait in waits if wait.interrupt_id in answers]
        if any(wait.schema is not None for wait in answered):
            saved = await aresolve(self.context.saver_of(run.workspace_id).load(run.thread_id))
            open_ids = {question.id for question in saved.pending.open} if saved is not None else set[str]()
            if not open_ids.issuperset(answers):  # a question was closed since the waits were read
                raise closed_error(run.id)
            for reason in find_invalid_answers(saved, answers).values():
                raise InvalidRequest(reason)

    def _check_signal(self, kind: str, payload: Json) -> None:
        if not 1 <= len(kind) <= 255:
            raise InvalidRequest(f"The type of a signal must have 1 to 255 characters; it has {len(kind)}.")
        if kind.startswith("__"):
            raise InvalidRequest(f"Signal types that begin with two underscores are reserved: {kind!r}. Rename it.")
        check_payload(payload, self.context.settings.max_payload)

    async def _find_unanswered(self, run: Run, kind: str) -> Wait:
        """Return an unanswered wait of a run for a type of signal. Raises InvalidTransition or SignalMismatch."""
        if run.status is not RunStatus.WAITING:
            raise InvalidTransition(f"Run {run.id}", run.status, "resumed", ["waiting", "paused"], is_request=True)
        waits: Sequence[Wait] = await aresolve(self.context.ledger.find(Wait, where(run_id=run.id)))
        matching_waits = [wait for wait in waits if wait.event == kind]
        if matching_waits:
            inbox = await aresolve(self.context.ledger.find(Signal, where(run_id=run.id, taken=False)))
            unanswered = select_unanswered(matching_waits, inbox)
            if not unanswered:
                raise answered_error(run.id)
            return unanswered[0]
        types = sorted({wait.event for wait in waits if wait.event is not None})
        raise SignalMismatch(
            f"Run {run.id} does not wait for a signal {kind!r}. " + suggestion(kind, types, noun="It waits for"),
            details={"waitsFor": types},
        )


def _validate_decider(decided_by: Any) -> str | None:
    """Return the `decidedBy` of a decision. Raises InvalidRequest if it is invalid."""
    if decided_by is None or (isinstance(decided_by, str) and len(decided_by) <= MAX_NAME_LENGTH):
        return decided_by
    raise InvalidRequest(f"decidedBy must be a string of at most {MAX_NAME_LENGTH} characters, not {decided_by!r:.80}.")
