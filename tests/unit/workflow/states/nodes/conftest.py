"""Calls of custom nodes, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from statewright.messages import Message
from statewright.testing import FakeClock
from statewright.workflow.states.engine.lineage import Lineage
from statewright.workflow.states.engine.visit import Visit
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.language.model import CustomNode, State
from statewright.workflow.states.language.transition import Next
from statewright.workflow.states.nodes import NodeKinds, NodeResources


class FakeRuntime:
    """Replaces the runtime, and counts the tokens."""

    def __init__(self) -> None:
        self.tokens = 0
        self.recorded: list[Mapping[str, Any]] = []
        self.shows_messages = False
        self.is_recorded = True
        self.clock = FakeClock()

    def spend(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        self.tokens += tokens

    def record(self, kind: str, data: Mapping[str, Any]) -> None:
        self.recorded.append({"kind": kind, **data})


def make_call(
    context: Mapping[str, Any] | None = None,
    *,
    prompt: str = "",
    history: Sequence[Message] = (),
    run_input: Any = None,
    visits: Sequence[Visit] = (),
    state: str = "own",
    **scope: Any,
) -> Call:
    lineage = Lineage(run_input)
    lineage.extend(visits)
    context = dict(context or {})
    return Call(
        state=State(id=state, next=Next(state_id="end"), custom_node_id="node"),
        prompt=prompt,
        context=context,
        scope={**context, **scope},
        history=tuple(history),
        item=None,
        has_item=False,
        number=0,
        lineage=lineage,
        runtime=FakeRuntime(),  # pyright: ignore
    )


def run_node(
    kind: str,
    config: Mapping[str, Any] | None = None,
    call: Call | None = None,
    resources: NodeResources | None = None,
    **more: Any,
) -> Any:
    """Call a node of a kind, and return its result."""
    definition = CustomNode("node", kind, config=dict(config or {}), **more)
    handler = NodeKinds().make_handler(definition, resources or NodeResources(state_id="own"))
    return asyncio.run(handler.perform(call or make_call()))


@pytest.fixture
def run() -> Callable[..., Any]:
    return run_node


@pytest.fixture
def call_with() -> Callable[..., Call]:
    return make_call


@pytest.fixture
def transform() -> Callable[..., Any]:
    """Return a function that returns the output of a transform node for a context."""

    def transformed_output(
        context: Mapping[str, Any], *mappings: Mapping[str, Any], call: Call | None = None, **config: Any
    ):
        node_call = call or make_call(context)
        return run_node("transform_node", {"mappings": list(mappings), **config}, node_call).output

    return transformed_output


@pytest.fixture
def faults_of() -> Callable[..., list[tuple[tuple[str | int, ...], bool]]]:
    """Return a function that returns the paths of the errors (true) and warnings (false) of a definition."""

    def faults(kind: str, config: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], bool]]:
        result = NodeKinds().check_config(CustomNode("node", kind, config=config))
        assert all(fault.message and fault.suggestion for fault in result)
        return [(fault.path, fault.is_error) for fault in result]

    return faults


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.md", "a.md", "code/x.py", "code/deep/y.py", ".env", ".git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}", encoding="utf-8")
    return tmp_path
