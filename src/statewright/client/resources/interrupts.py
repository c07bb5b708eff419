"""Open waits, approvals and events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from statewright.api.runs import Approval, PastAnswer, ReceivedEvent, Wait
from statewright.client.call import Call, api_path, get, post
from statewright.client.send import Page, get_page
from statewright.client.sync_async import F, IteratingMethod, Namespace, request
from statewright.data.mappings import without_none

_APPROVALS: Final = "approval-requests"


class Interrupts(Namespace[F]):
    """Open waits: the questions, timers and events for which runs wait."""

    @request
    def list(self, *, run_id: str | None = None, page: int = 1, page_size: int = 20) -> Call[Page[Wait]]:
        """Return a page of the open waits of all runs, or of one run. Answer questions with `runs.answer`."""
        return get_page(api_path("interrupts"), Wait.from_json, page=page, page_size=page_size, runId=run_id)

    @IteratingMethod
    def iterate(self, *, run_id: str | None = None) -> AsyncGenerator[Wait]:
        """Iterate over the open waits of all runs, or of one run."""
        return self._iter_all(api_path("interrupts"), Wait.from_json, runId=run_id)

    @request
    def answers(self, *, before: str | None = None, limit: int = 100) -> Call[Sequence[PastAnswer]]:
        """Return the newest answers to questions, without decided approvals.

        `before` is the `cursor` of the last answer of the page before.
        """
        return get(api_path("answers"), PastAnswer.read_all, without_none({"before": before, "limit": limit}))


class Approvals(Namespace[F]):
    """Approvals that runs request."""

    @request
    def list(
        self, *, pending: bool | None = None, run_id: str | None = None, page: int = 1, page_size: int = 20
    ) -> Call[Page[Approval]]:
        """Return a page of the approvals, the newest first.

        `pending` selects undecided approvals (True) or decided ones (False); by default both are returned.
        """
        return get_page(
            api_path(_APPROVALS), Approval.from_json, page=page, page_size=page_size, pending=pending, runId=run_id
        )

    @IteratingMethod
    def iterate(self, *, pending: bool | None = None, run_id: str | None = None) -> AsyncGenerator[Approval]:
        """Iterate over all matching approvals, the newest first."""
        return self._iter_all(api_path(_APPROVALS), Approval.from_json, pending=pending, runId=run_id)

    @request
    def get(self, approval_id: str) -> Call[Approval]:
        """Return an approval."""
        return get(api_path(_APPROVALS, approval_id), Approval.from_response)

    @request
    def approve(self, approval_id: str, *, by: str | None = None) -> Call[Approval]:
        """Approve the content of an approval, and resume the run. `by` is the name of the person who decides."""
        return _decide(approval_id, {"decision": "approved"}, by)

    @request
    def reject(self, approval_id: str, *, by: str | None = None) -> Call[Approval]:
        """Reject an approval. The run fails or is resumed, depending on its step."""
        return _decide(approval_id, {"decision": "rejected"}, by)

    @request
    def edit(self, approval_id: str, content: Any, *, by: str | None = None) -> Call[Approval]:
        """Approve with edited content, which replaces the original, and resume the run."""
        return _decide(approval_id, {"decision": "edited", "editedContent": content}, by)


def _decide(approval_id: str, decision: dict[str, Any], by: str | None) -> Call[Approval]:
    body = {**decision, **without_none({"decidedBy": by})}
    return post(api_path(_APPROVALS, approval_id, "decide"), Approval.from_response, body)


class Events(Namespace[F]):
    """Events, which start runs through triggers, and wake the runs that wait for them."""

    @request
    def send(
        self, name: str, payload: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Call[ReceivedEvent]:
        """Send an event, and return it with the ids of the runs that it has started or woken.

        A second event with the same `key` has no effect.
        """
        body = without_none({"name": name, "payload": payload or {}, "key": key})
        return post(api_path("events"), ReceivedEvent.from_response, body, repeatable=key is not None)
