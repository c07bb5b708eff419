"""Parameters that the runtime fills."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Optional

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
from statewright.agents.tools.injected import InjectedSource, injected_sources
from statewright.channels import MISSING
from statewright.errors import InvalidConfig
from statewright.store import Store

NETWORK: NetworkRun[Any] = NetworkRun("n", State({"user": "eve"}), {})
STORE = InMemoryStore()
CONTEXT = ToolContext(tool_call_id="c1", state=NETWORK.state, network=NETWORK)


class FakeRuntime:
    """A runtime with a store and nothing else."""

    store = STORE


RUNTIME: Any = FakeRuntime()
WITH_RUNTIME = ToolContext(tool_call_id="c1", state=NETWORK.state, network=NETWORK, runtime=RUNTIME)


def parameter(name: str, hint: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint)


def injected_source(parameter: inspect.Parameter) -> InjectedSource | None:
    return injected_sources("t", [parameter]).get(parameter.name)


@pytest.mark.parametrize(
    ("name", "hint", "value", "changes_state"),
    [
        ("network", inspect.Parameter.empty, NETWORK, True),
        ("state", inspect.Parameter.empty, NETWORK.state, True),
        ("store", inspect.Parameter.empty, STORE, False),
        ("runtime", inspect.Parameter.empty, RUNTIME, False),
        ("run", NetworkRun, NETWORK, True),
        ("run", NetworkRun[dict[str, Any]], NETWORK, True),
        ("run", NetworkRun[Any] | None, NETWORK, True),
        ("found", State[Any], NETWORK.state, True),
        ("found", State | None, NETWORK.state, True),
        ("rt", Runtime, RUNTIME, False),
        ("rt", Runtime[Any], RUNTIME, False),
        ("memory", Store, STORE, False),
        ("memory", InMemoryStore | None, None, None),
        ("call_id", Annotated[str, InjectedToolCallId], "c1", False),
        ("call_id", Annotated[str, InjectedToolCallId()], "c1", False),
        ("memory", Annotated[Any, InjectedStore], STORE, False),
    ],
)
def test_injected_parameters_get_their_values(name: str, hint: Any, value: Any, changes_state: bool | None) -> None:
    source = injected_source(parameter(name, hint))
    if changes_state is None:
        assert source is None
        return
    assert source is not None
    assert source.resolve_value("t", name, WITH_RUNTIME) is value
    assert source.changes_state is changes_state


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
def test_other_parameters_are_arguments(name: str, hint: Any) -> None:
    assert injected_source(parameter(name, hint)) is None


@pytest.mark.parametrize("state", [{"user": "eve"}, State({"user": "eve"})], ids=repr)
def test_a_field_of_the_state_is_injected(state: Any) -> None:
    source = injected_source(parameter("user", Annotated[str, InjectedState("user")]))
    assert source is not None
    assert source.resolve_value("t", "user", ToolContext(state=state)) == "eve"


@pytest.mark.parametrize("state", [{}, State({}), None], ids=repr)
def test_a_missing_field_becomes_the_default_or_none_or_an_error(state: Any) -> None:
    context = ToolContext(state=state)
    required = injected_source(parameter("user", Annotated[str, InjectedState("user")]))
    assert required is not None
    with pytest.raises(InvalidConfig, match=r"'t' cannot be called: .* argument 'user' needs the field 'user'"):
        required.resolve_value("t", "user", context)
    optional = injected_source(parameter("user", Annotated[str | None, InjectedState("user")]))
    assert optional is not None
    assert optional.resolve_value("t", "user", context) is None
    with_default = injected_source(parameter("user", Annotated[str, InjectedState("user")]).replace(default="ann"))
    assert with_default is not None
    assert with_default.resolve_value("t", "user", context) is MISSING


@pytest.mark.parametrize(
    ("name", "hint", "remedy"),
    [
        ("store", inspect.Parameter.empty, "Compile the graph with store="),
        ("memory", Annotated[Any, InjectedStore()], "Compile the graph with store="),
        ("call_id", Annotated[str, InjectedToolCallId()], "from an agent or a ToolNode"),
        ("network", inspect.Parameter.empty, "from an agent of a Network"),
        ("runtime", Runtime, "from a node of a graph"),
    ],
)
def test_a_missing_source_is_an_error_with_a_remedy(name: str, hint: Any, remedy: str) -> None:
    source = injected_source(parameter(name, hint))
    assert source is not None
    with pytest.raises(InvalidConfig, match=remedy):
        source.resolve_value("t", name, ToolContext())


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[str | None, InjectedToolCallId],
        Annotated[str, InjectedToolCallId()] | None,
        Optional[Annotated[str, "an id", InjectedToolCallId]],  # noqa: UP045
    ],
    ids=repr,
)
def test_markers_are_found_inside_unions(hint: Any) -> None:
    source = injected_source(parameter("call_id", hint))
    assert source is not None
    assert source.resolve_value("t", "call_id", CONTEXT) == "c1"
    assert source.resolve_value("t", "call_id", ToolContext()) is None


@dataclass
class Shopping:
    basket: list[str]


def test_the_state_is_an_instance_of_the_annotated_class() -> None:
    source = injected_source(parameter("state", Annotated[Shopping, InjectedState]))
    assert source is not None
    assert source.resolve_value("t", "state", ToolContext(state={"basket": ["tea"], "more": 1})) == Shopping(["tea"])
    with pytest.raises(InvalidConfig, match="'state' does not fit the annotation: basket"):
        source.resolve_value("t", "state", ToolContext(state={"basket": 7}))


def test_the_context_is_injected() -> None:
    source = injected_source(parameter("here", ToolContext))
    assert source is not None
    assert source.resolve_value("t", "here", CONTEXT) is CONTEXT


def test_injected_parameters_are_not_in_the_schema() -> None:
    def work(city: str, network, call_id: Annotated[str, InjectedToolCallId] = "") -> str:  # type: ignore[no-untyped-def]
        """Work."""
        return f"{city} {call_id} {network.name}"

    work_tool = ToolFunction(work)
    assert list(work_tool.parameters["properties"]) == ["city"]
    assert work_tool.in_order
