"""Approvals: requests of runs for a human decision."""

from __future__ import annotations

from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import DuplicateRecord, InvalidRequest, InvalidTransition, RecordConflict, suggestion
from statewright.runs import (
    Advance,
    ApiKey,
    Approval,
    Change,
    Condition,
    Insert,
    Json,
    NewEvent,
    RunStatus,
    Update,
    Wait,
    where,
)
from statewright.service.access.approval_permission import check_decider
from statewright.service.context.records import Page, get_own
from statewright.service.context.service_context import ServiceContext
from statewright.service.engine.completion import Ending
from statewright.service.operations.signals import answer_to, wake_changes
from statewright.service.operations.starting import size_of

_UNDECIDED: Final = [RunStatus.WAITING, RunStatus.RUNNING, RunStatus.PAUSED]
"""Statuses of runs whose approvals can be decided. A run with several waits may have been resumed by another one."""
DECISIONS: Final = ("approved", "rejected", "edited")


class Approvals:
    """Reads and decides approvals."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    async def page(
        self, workspace_id: str, *, pending: bool | None, run_id: str | None, page: int, page_size: int
    ) -> Page[Approval]:
        """Return a page of the approvals of a workspace or of a run, the newest first."""
        conditions = where(workspace_id=workspace_id, **({"run_id": run_id} if run_id is not None else {}))
        if pending is not None:
            conditions.append(Condition("decision", "=" if pending else "!=", None))
        return await self._context.records.page(Approval, conditions, page=page, page_size=page_size)

    async def get(self, workspace_id: str, approval_id: str) -> Approval:
        """Return an approval. Raises NotFound."""
        return await get_own(self._context.ledger, Approval, workspace_id, approval_id, "approval request")

    async def decide(
        self,
        workspace_id: str,
        approval_id: str,
        decision: str,
        *,
        edited_content: Json = None,
        decided_by: str | None = None,
        key: ApiKey | None = None,
    ) -> Approval:
        """Decide an approval, once and for all; its run is resumed. `key` is that of the caller, if callers need one.

        Raises Forbidden for a key that may not decide; InvalidRequest for an unknown decision, and for `edited`
        without content; InvalidTransition if it was decided, or the run no longer waits for it.
        """
        changes = await self.changes_of(
            workspace_id, approval_id, decision, edited_content=edited_content, decided_by=decided_by, key=key
        )
        try:
            await self._context.write(changes)
        except (DuplicateRecord, RecordConflict):
            raise InvalidTransition(f"Approval {approval_id}", "closed", decision, [], is_asked_for=True) from None
        self._context.ring()
        return await self.get(workspace_id, approval_id)

    async def changes_of(
        self,
        workspace_id: str,
        approval_id: str,
        decision: str,
        *,
        edited_content: Json = None,
        decided_by: str | None = None,
        key: ApiKey | None = None,
    ) -> list[Change]:
        """Return the changes that decide an approval, to be written with other answers. Raises like `decide`.

        The ledger refuses the changes if the approval was decided meanwhile.
        """
        check_decider(key)
        self._check(decision, edited_content)
        context = self._context
        approval = await self.get(workspace_id, approval_id)
        wait = await aresolve(context.ledger.get(Wait, approval_id))
        if approval.decision is not None or wait is None:
            raise InvalidTransition(
                f"Approval {approval_id}", approval.decision or "closed", decision, [], is_asked_for=True
            )
        run = await context.records.run(workspace_id, approval.run_id)
        now = context.now()
        content = edited_content if decision == "edited" else approval.content
        decided_by_key = key.id if key is not None else None
        decider = {"decidedBy": decided_by, "decidedByKey": decided_by_key}
        answer = {"decision": decision, "content": content, **decider}
        values = {
            "decision": decision,
            "decided_by": decided_by,
            "decided_by_key": decided_by_key,
            "decided_at": now,
            "edited_content": edited_content,
        }
        payload = {"approvalId": approval.id, "decision": decision, **decider}
        event = NewEvent("APPROVAL_DECIDED", {"stepName": approval.step_name, **payload}, approval.step_id)
        return [
            Update(Approval, approval.id, values, where(decision=None)),
            Insert(answer_to(wait, answer, now)),
            Advance(run.id, now, {}, [event], [Condition("status", "in", _UNDECIDED)]),
            *wake_changes(run.id, now),
            Ending.announcement(run, "approval.decided", payload, now),
        ]

    def _check(self, decision: str, edited_content: Json) -> None:
        if decision not in DECISIONS:
            raise InvalidRequest(f"The decision is {decision!r}. " + suggestion(decision, DECISIONS, noun="Decisions"))
        if decision == "edited" and edited_content is None:
            raise InvalidRequest("The decision is 'edited', and there is no editedContent. Send the edited content.")
        max_size = self._context.settings.max_payload
        if edited_content is not None and size_of(edited_content) > max_size:
            raise InvalidRequest(f"editedContent has more than {max_size} bytes.")
