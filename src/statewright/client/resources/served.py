"""What can be run, the threads that runs advance, and what it all has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from statewright.client.call import Call, as_told, get, parameters, place, post
from statewright.client.flow.effects import Flow
from statewright.client.flow.pages import LARGEST, Page, all_of, page_of
from statewright.client.records.definitions import Definition, DefinitionWithBody, Graph, GraphDescription, Thread
from statewright.client.records.runs import CostSummary
from statewright.client.sync_async import F, Namespace, items, request

_DEFINITIONS: Final = "workflow-definitions"


class Definitions(Namespace[F]):
    """Versions of workflows that are stored."""

    @request
    def add(self, definition: Mapping[str, Any]) -> Call[DefinitionWithBody]:
        """The stored version of a workflow in JSON; the same one if the very same is there already.

        Raises InvalidRequest, whose `details` have everything that is wrong, RequestConflict for a version that is
        taken by another content.
        """
        # What is stored twice is stored once, so the request may be repeated.
        return replace(post(place(_DEFINITIONS), DefinitionWithBody.read_answer, definition), repeatable=True)

    @request
    def get(self, definition_id: str) -> Call[DefinitionWithBody]:
        """A definition."""
        return get(place(_DEFINITIONS, definition_id), DefinitionWithBody.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Definition]]:
        """A page of the definitions, the newest first."""
        return page_of(place(_DEFINITIONS), Definition.from_json, page=page, page_size=page_size)

    @items(Definition)
    def iterate(self) -> Flow[None]:
        """All definitions, the newest first."""
        return all_of(page_of(place(_DEFINITIONS), Definition.from_json, page=1, page_size=LARGEST), self._settings)


class Graphs(Namespace[F]):
    """What the project of the service serves."""

    @request
    def list(self) -> Call[Sequence[Graph]]:
        """The graphs that are served."""
        return get(place("graphs"), Graph.read_all)

    @request
    def get(self, name: str) -> Call[GraphDescription]:
        """A graph with its drawing and its schemas."""
        return get(place("graphs", name), GraphDescription.read_answer)


class Threads(Namespace[F]):
    """The memory of runs."""

    @request
    def state(self, thread_id: str, *, checkpoint_id: str | None = None) -> Call[Thread]:
        """Where a thread stands, or stood at a checkpoint."""
        return get(place("threads", thread_id, "state"), Thread.read_answer, {"checkpointId": checkpoint_id})

    @request
    def history(self, thread_id: str, *, branch: str | None = None, limit: int = 100) -> Call[Sequence[Thread]]:
        """The checkpoints of a thread, the newest first. Each names its parent, so that they are a tree."""
        return get(place("threads", thread_id, "history"), Thread.read_all, {"branch": branch, "limit": limit})

    @request
    def diff(self, thread_id: str, before: str, after: str) -> Call[Mapping[str, Any]]:
        """What two checkpoints differ in."""
        return get(place("threads", thread_id, "diff"), as_told, {"before": before, "after": after})

    @request
    def fork(self, thread_id: str, checkpoint_id: str, *, branch: str | None = None) -> Call[Thread]:
        """The thread at a checkpoint, where a branch begins now."""
        body = {"checkpointId": checkpoint_id} if branch is None else {"checkpointId": checkpoint_id, "branch": branch}
        return post(place("threads", thread_id, "fork"), Thread.read_answer, body)

    @request
    def update(
        self, thread_id: str, values: Any, *, as_node: str | None = None, checkpoint_id: str | None = None
    ) -> Call[Thread]:
        """The thread after a change of its state, as if a node had answered it."""
        body = {"values": values, "asNode": as_node, "checkpointId": checkpoint_id}
        given = {name: value for name, value in body.items() if name == "values" or value is not None}
        return post(place("threads", thread_id, "state"), Thread.read_answer, given)


class Costs(Namespace[F]):
    """What calls of models have cost."""

    @request
    def summary(self, start: datetime | None = None, end: datetime | None = None) -> Call[CostSummary]:
        """What the workspace has spent, from an instant and before another."""
        call = get(place("cost", "summary"), CostSummary.read_answer)
        return replace(call, params=parameters({"from": start, "to": end}))
