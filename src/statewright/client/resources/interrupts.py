"""What runs wait for, approvals, and events that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from statewright.client.call import Call, get, place, post
from statewright.client.flow.effects import Flow
from statewright.client.flow.pages import LARGEST, Page, all_of, page_of
from statewright.client.records.interrupts import Approval, ReceivedEvent, Wait
from statewright.client.sync_async import F, Namespace, items, request

_APPROVALS: Final = "approval-requests"


class Interrupts(Namespace[F]):
    """Questions, timers and events that runs wait for."""

    @request
    def list(self, *, run_id: str | None = None, page: int = 1, page_size: int = 20) -> Call[Page[Wait]]:
        """A page of what runs wait for, or one of them. Questions are answered with `runs.answer`."""
        return page_of(place("interrupts"), Wait.from_json, page=page, page_size=page_size, runId=run_id)

    @items(Wait)
    def iterate(self, *, run_id: str | None = None) -> Flow[None]:
        """Everything that runs wait for, or one of them."""
        first = page_of(place("interrupts"), Wait.from_json, page=1, page_size=LARGEST, runId=run_id)
        return all_of(first, self._settings)


class Approvals(Namespace[F]):
    """Requests to agree to something."""

    @request
    def list(
        self, *, pending: bool | None = None, run_id: str | None = None, page: int = 1, page_size: int = 20
    ) -> Call[Page[Approval]]:
        """A page of the approvals, the newest first: those without a decision, those with one, or both."""
        return page_of(
            place(_APPROVALS), Approval.from_json, page=page, page_size=page_size, pending=pending, runId=run_id
        )

    @items(Approval)
    def iterate(self, *, pending: bool | None = None, run_id: str | None = None) -> Flow[None]:
        """All approvals, or those of a run, the newest first."""
        first = page_of(place(_APPROVALS), Approval.from_json, page=1, page_size=LARGEST, pending=pending, runId=run_id)
        return all_of(first, self._settings)

    @request
    def get(self, approval_id: str) -> Call[Approval]:
        """An approval."""
        return get(place(_APPROVALS, approval_id), Approval.read_answer)

    @request
    def approve(self, approval_id: str, *, by: str | None = None) -> Call[Approval]:
        """The approval, given. Its run goes on."""
        return _decided(approval_id, {"decision": "approved"}, by)

    @request
    def reject(self, approval_id: str, *, by: str | None = None) -> Call[Approval]:
        """The approval, refused. Its run fails or goes on, as its step says."""
        return _decided(approval_id, {"decision": "rejected"}, by)

    @request
    def edit(self, approval_id: str, content: Any, *, by: str | None = None) -> Call[Approval]:
        """The approval, given for another content."""
        return _decided(approval_id, {"decision": "edited", "editedContent": content}, by)


def _decided(approval_id: str, decision: dict[str, Any], by: str | None) -> Call[Approval]:
    if by is not None:
        decision["decidedBy"] = by
    return post(place(_APPROVALS, approval_id, "decide"), Approval.read_answer, decision)


class Events(Namespace[F]):
    """Events for whoever waits for them, or starts by them."""

    @request
    def send(
        self, name: str, payload: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Call[ReceivedEvent]:
        """The event, and which runs it has started and woken. With a `key` it counts once however often it is sent."""
        body: dict[str, Any] = {"name": name, "payload": payload or {}}
        if key is not None:
            body["key"] = key
        return replace(post(place("events"), ReceivedEvent.read_answer, body), repeatable=key is not None)
