"""Approvals: human decisions that runs request and wait for."""

from __future__ import annotations

from typing import Final, NamedTuple

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
from statewright.service.context.records import Page, get_in_workspace
from statewright.service.context.service_context import Operations
from statewright.service.engine.completion import Ending
from statewright.service.engine.waits import wake_change
from statewright.service.operations.inbox import answer_to
from statewright.service.operations.starting import size_of

_UNDECIDED: Final = [RunStatus.WAITING, RunStatus.RUNNING, RunStatus.PAUSED]
"""Statuses of runs whose approvals can be decided. A run with several waits may be running after another one ended."""
DECISIONS: Final = ("approved", "rejected", "edited")


class Decision(NamedTuple):
    """A decision on an approval."""

    kind: str
    """One of `DECISIONS`."""
    edited_content: Json = None
    """For the kind `edited`, the content that replaces the content of the approval."""
    decided_by: str | None = None
    key: ApiKey | None = None
    """The API key of the caller; None if callers need no key."""


class ApprovalOperations(Operations):
    """Reads and decides approvals."""

    async def approvals(
        self,
        workspace_id: str,
        *,
        pending: bool | None = None,
        run_id: str | None = None,
        page: int = 1,
        page_size: int = 20,
    ) -> Page[Approval]:
        """Return a page of the approvals of a workspace or of one run, the newest first."""
        conditions = where(workspace_id=workspace_id, **({"run_id": run_id} if run_id is not None else {}))
        if pending is not None:
            conditions.append(Condition("decision", "=" if pending else "!=", None))
        return await self.context.records.page(Approval, conditions, page=page, page_size=page_size)

    async def approval(self, workspace_id: str, approval_id: str) -> Approval:
        """Return an approval. Raises NotFound."""
        return await get_in_workspace(self.context.ledger, Approval, workspace_id, approval_id, "approval request")

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
        """Decide an approval, and resume its run. A decision is final.

        `key` is the API key of the caller; None if callers need no key. Raises Forbidden for a key that may not decide;
        InvalidRequest for an unknown decision, or for `edited` without content; InvalidTransition if the approval was
        decided already, or if the run no longer waits for it.
        """
        changes = await self.decision_changes(
            workspace_id, approval_id, Decision(decision, edited_content, decided_by, key)
        )
        try:
            await self.context.write(changes)
        except (DuplicateRecord, RecordConflict):
            raise _decided_error(approval_id, "closed", decision) from None
        self.context.announce_due()
        return await self.approval(workspace_id, approval_id)

    async def decision_changes(self, workspace_id: str, approval_id: str, decision: Decision) -> list[Change]:
        """Return the changes that decide an approval, so that they can be written together with other answers.

        The ledger refuses the changes if the approval was decided concurrently. Raises the errors of `decide`.
        """
        check_decider(decision.key)
        self._check_decision(decision)
        context, kind = self.context, decision.kind
        approval = await self.approval(workspace_id, approval_id)
        wait = await aresolve(context.ledger.get(Wait, approval_id))
        if approval.decision is not None or wait is None:
            raise _decided_error(approval_id, approval.decision or "closed", kind)
        run = await self.run(workspace_id, approval.run_id)
        now = context.now()
        key_id = decision.key.id if decision.key is not None else None
        decider = {"decidedBy": decision.decided_by, "decidedByKey": key_id}
        content = decision.edited_content if kind == "edited" else approval.content
        values = {
            "decision": kind,
            "decided_by": decision.decided_by,
            "decided_by_key": key_id,
            "decided_at": now,
            "edited_content": decision.edited_content,
        }
        payload = {"approvalId": approval.id, "decision": kind, **decider}
        event = NewEvent("APPROVAL_DECIDED", {"stepName": approval.step_name, **payload}, approval.step_id)
        return [
            Update(Approval, approval.id, values, where(decision=None)),
            Insert(answer_to(wait, {"decision": kind, "content": content, **decider}, now)),
            Advance(run.id, now, {}, [event], [Condition("status", "in", _UNDECIDED)]),
            wake_change(run.id, now),
            Ending.announcement(run, "approval.decided", payload, now),
        ]

    def _check_decision(self, decision: Decision) -> None:
        kind, content = decision.kind, decision.edited_content
        if kind not in DECISIONS:
            raise InvalidRequest(f"The decision cannot be {kind!r}. {suggestion(kind, DECISIONS, noun='Decisions')}")
        if kind == "edited" and content is None:
            raise InvalidRequest("The decision is 'edited', but there is no editedContent. Send the edited content.")
        max_size = self.context.settings.max_payload
        if content is not None and size_of(content) > max_size:
            raise InvalidRequest(f"editedContent has more than {max_size} bytes.")


def _decided_error(approval_id: str, status: str, decision: str) -> InvalidTransition:
    return InvalidTransition(f"Approval {approval_id}", status, decision, [], is_request=True)
