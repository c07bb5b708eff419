"""Stored definitions and served graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from statewright.api.definitions import Definition, DefinitionWithBody, Graph, GraphDescription
from statewright.client.call import Call, get, path_of, post
from statewright.client.flow.effects import Flow
from statewright.client.flow.pages import Page, page_of
from statewright.client.sync_async import F, Namespace, items, request

_DEFINITIONS: Final = "workflow-definitions"


class Definitions(Namespace[F]):
    """Versions of workflows that are stored."""

    @request
    def add(self, definition: Mapping[str, Any]) -> Call[DefinitionWithBody]:
        """Store a version of a workflow in JSON. Storing the same content again changes nothing.

        Raises InvalidRequest, whose `details` have everything that is wrong, RequestConflict for a version that is
        taken by another content.
        """
        # What is stored twice is stored once, so the request may be repeated.
        return replace(post(path_of(_DEFINITIONS), DefinitionWithBody.read_answer, definition), repeatable=True)

    @request
    def get(self, definition_id: str) -> Call[DefinitionWithBody]:
        """Return a definition."""
        return get(path_of(_DEFINITIONS, definition_id), DefinitionWithBody.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Definition]]:
        """Return a page of the definitions, the newest first."""
        return page_of(path_of(_DEFINITIONS), Definition.from_json, page=page, page_size=page_size)

    @items(Definition)
    def iterate(self) -> Flow[None]:
        """Iterate over all definitions, the newest first."""
        return self._all(path_of(_DEFINITIONS), Definition.from_json)


class Graphs(Namespace[F]):
    """Graphs of the service's project."""

    @request
    def list(self) -> Call[Sequence[Graph]]:
        """Return the served graphs."""
        return get(path_of("graphs"), Graph.read_all)

    @request
    def get(self, name: str) -> Call[GraphDescription]:
        """Return a graph with its drawing and its schemas."""
        return get(path_of("graphs", name), GraphDescription.read_answer)
