"""Usage limits apply before each model call that would exceed them, whichever component makes the call."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.agents import Agent, Network, RoutingAgent, State, UsageLimits, tool
from statewright.agents.memory import Buffer, Summarizing
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage

PRICE = Usage(100, 10, 1.0)
TALK = State(messages=[f"message {number} " + "x" * 400 for number in range(6)])
LONG = State(messages=[str(number) * 60_000 for number in range(4)])


def respond(text: str, *calls: ToolCall, usage: Usage = PRICE) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant", tool_calls=calls), usage)


def call_tool(request: ModelRequest) -> ModelResponse:
    return respond("", ToolCall("call", "look"))


def select_agent(request: ModelRequest) -> ModelResponse:
    return respond("", ToolCall("call", "select_agent", {"name": "A"}))


@tool
def look() -> str:
    """Look."""
    return "seen"


MEMORIES = {
    "none": lambda summaries: None,
    "summarizing": lambda summaries: Summarizing(summaries, keep=1, after=2),
    "buffer": lambda summaries: Buffer(2, summarize=summaries),
}
ROUTERS: dict[str, Any] = {
    "function": lambda model: {"router": lambda call_count: "A"},
    "default": lambda model: {"default_model": model},
    "agent": lambda model: {"router": RoutingAgent("R", model=model, tools=[look], on_route=lambda: "A")},
}
LIMITS = [
    lambda calls: UsageLimits(requests=calls),
    lambda calls: UsageLimits(tokens=110 * calls),
    lambda calls: UsageLimits(cost=float(calls)),
]


@pytest.mark.parametrize("state", [TALK, LONG], ids=["short", "long"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("limit", LIMITS, ids=["requests", "tokens", "cost"])
@pytest.mark.sampled(4)
def test_no_call_exceeds_a_limit(state: State[Any], memory: str, router: str, limit: Any) -> None:
    for limit_of_calls in range(7):
        models = [ScriptedModel(lambda request: respond("S")), ScriptedModel(call_tool), ScriptedModel(select_agent)]
        summaries, worker, chooser = models
        agent = Agent("A", model=worker, tools=[look], max_iter=3, memory=MEMORIES[memory](summaries))
        network = Network("n", agents=[agent], usage_limits=limit(limit_of_calls), **ROUTERS[router](chooser))
        run = network.run("go", state=state.clone())
        assert (run.stop_reason, run.usage.cost) == ("usage_limit", limit_of_calls)
        assert sum(len(model.requests) for model in models) == limit_of_calls


def test_no_summary_is_made_if_the_limit_forbids_the_model_call() -> None:
    summaries = ScriptedModel(lambda request: respond("S"))
    agent = Agent("A", model=ScriptedModel(call_tool), memory=Summarizing(summaries, keep=1, after=2))
    run = agent.alone(usage_limits=UsageLimits(requests=0)).run("go", state=TALK.clone())
    assert (run.stop_reason, len(summaries.requests)) == ("usage_limit", 0)


def test_a_summary_within_the_limit_is_kept() -> None:
    """Two parts of a long conversation are summarised before the limit is reached; the next run uses the summary."""
    summaries = ScriptedModel(lambda request: respond(f"S{len(summaries.requests)}"))
    agent = Agent("A", model=ScriptedModel(call_tool), memory=Summarizing(summaries, keep=1, after=2))
    saver = InMemorySaver()
    for turn in range(2):
        network = agent.alone(usage_limits=UsageLimits(requests=2))
        run = network.run("go", checkpointer=saver, thread_id="t", **({"state": LONG.clone()} if turn == 0 else {}))
    assert run.usage.cost == 4
    summarised = [request.messages[0].text for request in summaries.requests]
    assert all(sum(str(number) * 60_000 in text for text in summarised) == 1 for number in range(3))


# -- prices


class PricedModel:
    """A model with a name and a price."""

    def __init__(self, name: str, cost: float) -> None:
        self.name, self._cost = name, cost

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return respond("x", usage=Usage(100, 10, self._cost))


def price_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "whose price is unknown" in record.getMessage()]


@pytest.mark.parametrize("costs", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("location", ["agents", "memory", "router"])
def test_each_model_without_a_price_causes_one_warning(
    costs: tuple[float, float], location: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = PricedModel("first", costs[0]), PricedModel("second", costs[1])
    first_agent = Agent("one", model=first)
    agents, router = [first_agent], lambda call_count: first_agent if call_count < 4 else None
    match location:
        case "agents":
            second_agent = Agent("two", model=second)
            agents, router = (
                [first_agent, second_agent],
                lambda call_count: [first_agent, second_agent][call_count % 2] if call_count < 6 else None,
            )
        case "memory":
            first_agent = Agent("one", model=first, memory=Summarizing(second, keep=1, after=1))
            agents = [first_agent]
        case _:
            chosen = lambda network: "one" if network.call_count < 4 else None  # noqa: E731
            router = RoutingAgent("R", model=second, on_route=chosen)
    network = Network("n", agents=agents, router=router, usage_limits=UsageLimits(cost=100))
    with caplog.at_level(logging.WARNING, "statewright"):
        network.run("go", state=TALK.clone())
    expected = {name for name, cost in zip(("first", "second"), costs, strict=True) if not cost}
    assert len(price_warnings(caplog)) == len(expected)
    assert all(any(f"model '{name}'" in line for line in price_warnings(caplog)) for name in expected)


def test_unknown_prices_cause_no_warning_without_a_cost_limit(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("one", model=PricedModel("first", 0.0))
    with caplog.at_level(logging.WARNING, "statewright"):
        agent.alone(usage_limits=UsageLimits(tokens=10_000)).run("go")
    assert not price_warnings(caplog)
