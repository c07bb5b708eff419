"""Graphs that call models, at noon of a day with a spending limit."""

from __future__ import annotations

import operator
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

from tests.semantics.on_services import WS

from statewright import END, START, Runtime, StateGraph, wait_for_event
from statewright.agents.loop.model_call import ask
from statewright.async_futures import aresolve
from statewright.messages import Message
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage
from statewright.runs import DailySpending
from statewright.testing import TestService

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOMORROW = datetime(2026, 3, 2, tzinfo=UTC)
REQUEST = ModelRequest([Message("Go.", role="user")])


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    amount: int
    """The payload of an event."""


class FailedRun(TypedDict, total=False):
    """The input of a run that handles the failure of another one."""

    runId: str
    graph: str
    input: Any
    error: Any
    log: list[str]


def fixed_usage_model(*, tokens: int = 10, cost: float = 0.25) -> ScriptedModel:
    """Return a model whose calls have a fixed usage."""
    answer = ModelResponse(Message("Yes.", role="assistant"), Usage(tokens - 4, 4, cost), "thinker")
    return ScriptedModel([answer], repeat_last=True)


def calling_node(model: ScriptedModel, name: str) -> Any:
    """Return a node that calls a model, and logs a name."""

    async def think(state: State, runtime: Runtime[Any]) -> State:
        await ask(model, REQUEST, runtime)
        return {"log": [name]}

    return think


def await_payment(state: State) -> State:
    return {"log": [wait_for_event("paid")["amount"]]}


def logging_node(name: str) -> Any:
    """Return a node that logs a name."""

    def work(state: State) -> State:
        return {"log": [name]}

    return work


def chain(name: str, state: Any = State, **nodes: Any) -> StateGraph:
    """Return a graph of nodes in a row."""
    graph, before = StateGraph(state, name=name), START
    for node, function in nodes.items():
        graph.add_node(node, function)
        graph.add_edge(before, node)
        before = node
    return graph.add_edge(before, END)


def graph_of_calls(model: ScriptedModel, calls: int, name: str = "think") -> StateGraph:
    """Return a graph that calls a model once in each of its nodes."""
    return chain(name, **{f"n{number}": calling_node(model, f"n{number}") for number in range(calls)})


def call(service: TestService, work: Any) -> Any:
    """Run a coroutine on the event loop of a service, and return its result."""
    return service._call(work)


def spending_of(service: TestService, day: datetime = NOON) -> DailySpending | None:
    """Return the spending of the default workspace on a day."""
    return call(
        service, aresolve(service._parts.service.context.ledger.get(DailySpending, DailySpending.of(WS, day).id))
    )
