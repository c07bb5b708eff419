"""Threads of runs, and the costs of a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from statewright.api.definitions import Thread
from statewright.api.runs import CostSummary
from statewright.client.call import Call, get, parameters, path_of, post, read_data
from statewright.client.sync_async import F, Namespace, request

_DEFINITIONS: Final = "workflow-definitions"


class Threads(Namespace[F]):
    """Threads of runs."""

    @request
    def state(self, thread_id: str, *, checkpoint_id: str | None = None) -> Call[Thread]:
        """Return the state of a thread, now or at a checkpoint."""
        return get(path_of("threads", thread_id, "state"), Thread.read_answer, {"checkpointId": checkpoint_id})

    @request
    def history(self, thread_id: str, *, branch: str | None = None, limit: int = 100) -> Call[Sequence[Thread]]:
        """Return the checkpoints of a thread, the newest first. Each names its parent, so they form a tree."""
        return get(path_of("threads", thread_id, "history"), Thread.read_all, {"branch": branch, "limit": limit})

    @request
    def diff(self, thread_id: str, before: str, after: str) -> Call[Mapping[str, Any]]:
        """Return the differences between two checkpoints."""
        return get(path_of("threads", thread_id, "diff"), read_data, {"before": before, "after": after})

    @request
    def fork(self, thread_id: str, checkpoint_id: str, *, branch: str | None = None) -> Call[Thread]:
        """Create a branch at a checkpoint."""
        body = {"checkpointId": checkpoint_id} if branch is None else {"checkpointId": checkpoint_id, "branch": branch}
        return post(path_of("threads", thread_id, "fork"), Thread.read_answer, body)

    @request
    def update(
        self, thread_id: str, values: Any, *, as_node: str | None = None, checkpoint_id: str | None = None
    ) -> Call[Thread]:
        """Change the state of a thread, as if a node had returned the values."""
        body = {"values": values, "asNode": as_node, "checkpointId": checkpoint_id}
        changes = {name: value for name, value in body.items() if name == "values" or value is not None}
        return post(path_of("threads", thread_id, "state"), Thread.read_answer, changes)


class Costs(Namespace[F]):
    """Costs of model calls."""

    @request
    def summary(self, start: datetime | None = None, end: datetime | None = None) -> Call[CostSummary]:
        """Return the costs of the workspace from one instant until before another."""
        call = get(path_of("cost", "summary"), CostSummary.read_answer)
        return replace(call, params=parameters({"from": start, "to": end}))
