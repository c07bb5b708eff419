"""Stored definitions, served graphs, and threads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from statewright.api.definitions import (
    Checkpoint,
    Definition,
    DefinitionWithBody,
    Graph,
    GraphDescription,
    Reload,
    Thread,
    ThreadInList,
)
from statewright.api.traces import Diagram, Source
from statewright.client.call import Call, api_path, get, post, read_data
from statewright.client.send import Page, get_page
from statewright.client.sync_async import F, IteratingMethod, Namespace, request

_DEFINITIONS: Final = "workflow-definitions"


class Definitions(Namespace[F]):
    """Stored versions of workflows."""

    @request
    def add(self, definition: Mapping[str, Any]) -> Call[DefinitionWithBody]:
        """Store a version of a workflow in JSON. Storing the same content again has no effect.

        Raises InvalidRequest with all problems in its `details`, and RequestConflict if the version already exists with
        different content.
        """
        return post(api_path(_DEFINITIONS), DefinitionWithBody.from_response, definition, repeatable=True)

    @request
    def get(self, definition_id: str) -> Call[DefinitionWithBody]:
        """Return a definition."""
        return get(api_path(_DEFINITIONS, definition_id), DefinitionWithBody.from_response)

    @request
    def source(self, definition_id: str) -> Call[Source]:
        """Return the source of a definition, with the lines of its nodes. Raises NotFound if it is not known."""
        return get(api_path(_DEFINITIONS, definition_id, "source"), Source.from_response)

    @request
    def diagram(self, definition_id: str) -> Call[Diagram]:
        """Return the nodes and edges of a definition, with those of subgraphs in place of them."""
        return get(api_path(_DEFINITIONS, definition_id, "diagram"), Diagram.from_response)

    @request
    def list(self, *, name: str | None = None, page: int = 1, page_size: int = 20) -> Call[Page[Definition]]:
        """Return a page of the definitions of the workspace, the newest first.

        With `name`, return the versions of the workflow with this name, including those that the project serves.
        """
        return get_page(api_path(_DEFINITIONS), Definition.from_json, page=page, page_size=page_size, name=name)

    @IteratingMethod
    def iterate(self, *, name: str | None = None) -> AsyncGenerator[Definition]:
        """Iterate over the definitions that `list` returns, the newest first."""
        return self._iter_all(api_path(_DEFINITIONS), Definition.from_json, name=name)


class Graphs(Namespace[F]):
    """Graphs that the service serves."""

    @request
    def list(self) -> Call[Sequence[Graph]]:
        """Return all served graphs."""
        return get(api_path("graphs"), Graph.read_all)

    @request
    def get(self, name: str) -> Call[GraphDescription]:
        """Return a graph with its drawing and its schemas."""
        return get(api_path("graphs", name), GraphDescription.from_response)

    @request
    def reload(self) -> Call[Reload]:
        """Return the problems because of which a development server still serves an older version of its files."""
        return get(api_path("reload"), Reload.from_response)


class Threads(Namespace[F]):
    """Threads: their states, checkpoints and branches."""

    @request
    def list(self, *, prefix: str = "", limit: int = 100) -> Call[Sequence[ThreadInList]]:
        """Return the threads on which runs have begun and whose ids begin with `prefix`, those used last first."""
        return get(api_path("threads"), ThreadInList.read_all, {"prefix": prefix, "limit": limit})

    @request
    def state(self, thread_id: str, *, checkpoint_id: str | None = None) -> Call[Thread]:
        """Return the current state of a thread, or its state at a checkpoint."""
        return get(api_path("threads", thread_id, "state"), Thread.from_response, {"checkpointId": checkpoint_id})

    @request
    def history(self, thread_id: str, *, branch: str | None = None, limit: int = 100) -> Call[Sequence[Thread]]:
        """Return the checkpoints of a thread, the newest first. They form a tree, because each refers to its parent."""
        return get(api_path("threads", thread_id, "history"), Thread.read_all, {"branch": branch, "limit": limit})

    @request
    def checkpoints(
        self, thread_id: str, *, branch: str | None = None, before: str | None = None, limit: int = 1000
    ) -> Call[Sequence[Checkpoint]]:
        """Return the checkpoints of a thread without their values, the newest first, at most 5000.

        They form a tree, because each refers to its parent. `before` is the last checkpoint of the page before.
        """
        query = {"branch": branch, "before": before, "limit": limit}
        return get(api_path("threads", thread_id, "checkpoints"), Checkpoint.read_all, query)

    @request
    def diff(self, thread_id: str, before: str, after: str) -> Call[Mapping[str, Any]]:
        """Return the fields that differ between two checkpoints, each with its values `before` and `after`."""
        return get(api_path("threads", thread_id, "diff"), read_data, {"before": before, "after": after})

    @request
    def fork(self, thread_id: str, checkpoint_id: str, *, branch: str | None = None) -> Call[Thread]:
        """Create a branch of a thread that begins at a checkpoint.

        Without `branch`, the checkpoint becomes the head of its own branch again.
        """
        body = {"checkpointId": checkpoint_id} if branch is None else {"checkpointId": checkpoint_id, "branch": branch}
        return post(api_path("threads", thread_id, "fork"), Thread.from_response, body)

    @request
    def update(
        self,
        thread_id: str,
        values: Any,
        *,
        overwrite: Sequence[str] = (),
        as_node: str | None = None,
        checkpoint_id: str | None = None,
    ) -> Call[Thread]:
        """Change the state of a thread, as if a node had returned the values.

        The values of the fields in `overwrite` replace those in the state, instead of being passed to their reducers.
        """
        fields = list(overwrite) or None
        body = {"values": values, "overwrite": fields, "asNode": as_node, "checkpointId": checkpoint_id}
        changes = {name: value for name, value in body.items() if name == "values" or value is not None}
        return post(api_path("threads", thread_id, "state"), Thread.from_response, changes)
