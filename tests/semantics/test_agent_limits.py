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


def says(text: str, *calls: ToolCall, usage: Usage = PRICE) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant", tool_calls=calls), usage)


def works(request: ModelRequest) -> ModelResponse:
    return says("", ToolCall("call", "look"))


def chooses(request: ModelRequest) -> ModelResponse:
    return says("", ToolCall("call", "select_agent", {"name": "A"}))


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
def test_no_call_exceeds_a_limit(state: State[Any], memory: str, router: str, limit: Any) -> None:
    for most in range(7):
        models = [ScriptedModel(lambda request: says("S")), ScriptedModel(works), ScriptedModel(chooses)]
        summaries, worker, chooser = models
        agent = Agent("A", model=worker, tools=[look], max_iter=3, memory=MEMORIES[memory](summaries))
        network = Network("n", agents=[agent], usage_limits=limit(most), **ROUTERS[router](chooser))
        run = network.run("go", state=state.clone())
        assert (run.stop_reason, run.usage.cost) == ("usage_limit", most)
        assert sum(len(model.requests) for model in models) == most


def test_a_memory_is_not_asked_where_the_model_will_not_be() -> None:
    summaries = ScriptedModel(lambda request: says("S"))
    agent = Agent("A", model=ScriptedModel(works), memory=Summarizing(summaries, keep=1, after=2))
    run = agent.alone(usage_limits=UsageLimits(requests=0)).run("go", state=TALK.clone())
    assert (run.stop_reason, len(summaries.requests)) == ("usage_limit", 0)


def test_a_summary_for_which_there_was_room_is_kept() -> None:
    """Of a long conversation two pieces are summarised before the limit strikes: the next run goes on from there."""
    summaries = ScriptedModel(lambda request: says(f"S{len(summaries.requests)}"))
    agent = Agent("A", model=ScriptedModel(works), memory=Summarizing(summaries, keep=1, after=2))
    saver = InMemorySaver()
    for _ in range(2):
        network = agent.alone(usage_limits=UsageLimits(requests=2))
        run = network.run("go", checkpointer=saver, thread_id="t", **({"state": LONG.clone()} if not _ else {}))
    assert run.usage.cost == 4
    told = [request.messages[0].text for request in summaries.requests]
    assert all(sum(str(number) * 60_000 in text for text in told) == 1 for number in range(3))


# -- prices


class Named:
    """A model with a name and a price."""

    def __init__(self, name: str, cost: float) -> None:
        self.name, self._cost = name, cost

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return says("x", usage=Usage(100, 10, self._cost))


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "whose price is unknown" in record.getMessage()]


@pytest.mark.parametrize("costs", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("place", ["agents", "memory", "router"])
def test_each_model_without_a_price_is_warned_about_once(
    costs: tuple[float, float], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Named("first", costs[0]), Named("second", costs[1])
    one = Agent("one", model=first)
    agents, router = [one], lambda call_count: one if call_count < 4 else None
    match place:
        case "agents":
            other = Agent("two", model=second)
            agents, router = [one, other], lambda call_count: [one, other][call_count % 2] if call_count < 6 else None
        case "memory":
            one = Agent("one", model=first, memory=Summarizing(second, keep=1, after=1))
            agents = [one]
        case _:
            chosen = lambda network: "one" if network.call_count < 4 else None  # noqa: E731
            router = RoutingAgent("R", model=second, on_route=chosen)
    network = Network("n", agents=agents, router=router, usage_limits=UsageLimits(cost=100))
    with caplog.at_level(logging.WARNING, "statewright"):
        network.run("go", state=TALK.clone())
    expected = {name for name, cost in zip(("first", "second"), costs, strict=True) if not cost}
    assert len(warned(caplog)) == len(expected)
    assert all(any(f"model '{name}'" in line for line in warned(caplog)) for name in expected)


def test_without_a_limit_on_cost_nothing_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("one", model=Named("first", 0.0))
    with caplog.at_level(logging.WARNING, "statewright"):
        agent.alone(usage_limits=UsageLimits(tokens=10_000)).run("go")
    assert not warned(caplog)
