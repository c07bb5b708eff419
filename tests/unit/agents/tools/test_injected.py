"""Parameters that the runtime fills."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import pytest

from statewright import InMemoryStore, Runtime
from statewright.agents import (
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    NetworkRun,
    State,
    ToolContext,
    ToolFunction,
)
from statewright.agents.tools.injected import injected
from statewright.store import Store

NETWORK: NetworkRun[Any] = NetworkRun("n", State({"user": "eve"}), {})
CONTEXT = ToolContext(tool_call_id="c1", state=NETWORK.state, network=NETWORK)


def parameter(name: str, hint: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint)


@pytest.mark.parametrize(
    ("name", "hint", "value", "changes"),
    [
        ("network", inspect.Parameter.empty, NETWORK, True),
        ("state", inspect.Parameter.empty, NETWORK.state, True),
        ("store", inspect.Parameter.empty, None, False),
        ("runtime", inspect.Parameter.empty, None, False),
        ("run", NetworkRun, NETWORK, True),
        ("run", NetworkRun[dict[str, Any]], NETWORK, True),
        ("run", NetworkRun[Any] | None, NETWORK, True),
        ("found", State[Any], NETWORK.state, True),
        ("found", State | None, NETWORK.state, True),
        ("rt", Runtime, None, False),
        ("rt", Runtime[Any], None, False),
        ("memory", Store, None, False),
        ("memory", InMemoryStore | None, None, None),
        ("call_id", Annotated[str, InjectedToolCallId], "c1", False),
        ("call_id", Annotated[str, InjectedToolCallId()], "c1", False),
        ("memory", Annotated[Any, InjectedStore], None, False),
    ],
)
def test_what_is_filled(name: str, hint: Any, value: Any, changes: bool | None) -> None:
    found = injected(parameter(name, hint))
    if changes is None:
        assert found is None
        return
    assert found is not None
    assert found.fill(CONTEXT) is value
    assert found.changes_state is changes


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("city", inspect.Parameter.empty),
        ("city", str),
        ("state", str),
        ("network", dict[str, int]),
        ("runtime", int | None),
        ("store", Annotated[str, "a shop"]),
        ("config", inspect.Parameter.empty),
    ],
)
def test_what_is_an_argument(name: str, hint: Any) -> None:
    assert injected(parameter(name, hint)) is None


@pytest.mark.parametrize(
    ("state", "value"),
    [({"user": "eve"}, "eve"), (State({"user": "eve"}), "eve"), ({}, None), (State({}), None), (None, None)],
    ids=repr,
)
def test_one_field_of_the_state(state: Any, value: Any) -> None:
    found = injected(parameter("user", Annotated[str, InjectedState("user")]))
    assert found is not None
    assert found.fill(ToolContext(state=state)) == value


def test_the_whole_context() -> None:
    found = injected(parameter("here", ToolContext))
    assert found is not None
    assert found.fill(CONTEXT) is CONTEXT


def test_a_model_does_not_see_them() -> None:
    def work(city: str, network, call_id: Annotated[str, InjectedToolCallId] = "") -> str:  # type: ignore[no-untyped-def]
        """Work."""
        return f"{city} {call_id} {network.name}"

    made = ToolFunction(work)
    assert list(made.parameters["properties"]) == ["city"]
    assert made.in_order
