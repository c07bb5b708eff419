"""Targets of schedules and triggers: a graph or a definition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from statewright.errors import InvalidRequest, NotFound
from statewright.runs import Insert, Ledger, StoredDefinition
from statewright.service.catalog.versions import Target, find_target


@pytest.fixture
def ledger_with_definitions(ledger: Ledger, ask: Callable[..., Any], now: datetime) -> Ledger:
    """Return a ledger with definitions of the project and of two workspaces."""
    for owner in ("", "default", "other"):
        definition = StoredDefinition(
            id=f"def_{owner}",
            workspace_id=owner,
            name=f"of {owner}",
            version="1",
            kind="steps",
            digest="d",
            created_at=now,
        )
        ask(lambda definition=definition: ledger.write([Insert(definition)]))
    return ledger


def find(ledger: Ledger, graph: Any = None, definition_id: Any = None) -> Target:
    return asyncio.run(find_target(ledger, "default", graph, definition_id))


def test_a_graph_is_found_by_its_name(ledger: Ledger) -> None:
    assert find(ledger, "report") == Target("report", None)


def test_definitions_of_the_workspace_and_the_project_are_found(ledger_with_definitions: Ledger) -> None:
    assert find(ledger_with_definitions, definition_id="def_default") == Target("of default", "def_default")
    assert find(ledger_with_definitions, definition_id="def_") == Target("of ", "def_")


@pytest.mark.parametrize("record_id", ["def_other", "def_none"])
def test_definitions_of_other_workspaces_are_not_found(ledger_with_definitions: Ledger, record_id: str) -> None:
    with pytest.raises(NotFound, match=record_id):
        find(ledger_with_definitions, definition_id=record_id)


@pytest.mark.parametrize(
    ("graph", "definition_id"), [(None, None), ("report", "def_1"), ("", None), (5, None), (None, 5)]
)
def test_invalid_targets_are_refused(ledger: Ledger, graph: Any, definition_id: Any) -> None:
    with pytest.raises(InvalidRequest):
        find(ledger, graph, definition_id)
