"""Agents that choose the next agent."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.agents import Agent, Lifecycle, Network, NetworkRun, RoutingAgent, UsageLimits, default_router, tool
from statewright.errors import InvalidConfig, RoutingError
from statewright.messages import ToolCall
from statewright.models import ScriptedModel
from statewright.models.conversation.prepare import YOUR_TURN


def make_agent(name: str) -> Agent:
    return Agent(name, description=f"does {name}", model=ScriptedModel([f"I am {name}"], repeat_last=True))


def select(name: str) -> ToolCall:
    return ToolCall("s", "select_agent", {"name": name})


DONE = ToolCall("d", "done", {"summary": "all is well"})


def crew(*script: Any, agents: Any = None) -> tuple[Network[Any], ScriptedModel]:
    model = ScriptedModel(list(script))
    return Network("crew", agents=agents or [make_agent("Ann"), make_agent("Bob")], default_model=model), model


def called_agents(network: Network[Any]) -> list[str]:
    return [result.agent_name for result in network.run("go").results]


# -- RoutingAgent


def test_a_routing_agent_without_on_route_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="'R' has no on_route"):
        RoutingAgent("R")
    assert RoutingAgent("R", lifecycle=Lifecycle(on_route=lambda: None)).router is not None


def test_on_route_takes_precedence_over_that_of_the_lifecycle() -> None:
    own = lambda: None  # noqa: E731  # told apart by identity
    assert RoutingAgent("R", on_route=own, lifecycle=Lifecycle(on_route=lambda: "Ann")).router is own


def test_a_routing_agent_decides_before_each_call() -> None:
    model = ScriptedModel(["Bob", "Ann", "nobody"])
    router = RoutingAgent("R", model=model, on_route=lambda result: {"nobody": None}.get(result.text, result.text))
    assert called_agents(Network("crew", agents=[make_agent("Ann"), make_agent("Bob")], router=router)) == [
        "Bob",
        "Ann",
    ]
    assert [message.text for message in model.requests[2].messages] == ["go", "I am Bob", "I am Ann", YOUR_TURN]


def test_a_routing_agent_adds_no_result() -> None:
    router = RoutingAgent(
        "R",
        model=ScriptedModel(["x"], repeat_last=True),
        on_route=lambda network: None if network.call_count else "Ann",
    )
    ended = Network("crew", agents=[make_agent("Ann")], router=router).run("go")
    assert [turn.agent_name for turn in ended.state.turns] == ["user", "Ann"]


@pytest.mark.parametrize(
    ("answer", "names"), [(["Ann", "Bob"], ["Ann", "Bob"]), ("Bob", ["Bob"]), ([], []), (None, [])]
)
def test_a_routing_agent_can_choose_one_several_or_no_agents(answer: Any, names: list[str]) -> None:
    router = RoutingAgent(
        "R",
        model=ScriptedModel(["x"], repeat_last=True),
        on_route=lambda network: None if network.call_count else answer,
    )
    assert called_agents(Network("crew", agents=[make_agent("Ann"), make_agent("Bob")], router=router)) == names


@pytest.mark.parametrize("answer", ["Zoe", ["Ann", "Zoe"], 3, [None], {"name": "Ann"}])
def test_an_invalid_choice_is_an_error_and_no_agent_is_called(answer: Any) -> None:
    ann = make_agent("Ann")
    router = RoutingAgent("R", model=ScriptedModel(["x"]), on_route=lambda: answer)
    with pytest.raises(RoutingError):
        Network("crew", agents=[ann], router=router).run("go")
    assert ann.model.requests == []


def test_an_exception_of_on_route_is_raised() -> None:
    def fail() -> None:
        raise LookupError("route")

    with pytest.raises(LookupError, match="route"):
        Network("crew", agents=[], router=RoutingAgent("R", model=ScriptedModel(["x"]), on_route=fail)).run("go")


def test_a_routing_agent_can_have_tools_and_a_coroutine_as_on_route() -> None:
    @tool
    def choose(name: str, network: NetworkRun[Any]) -> str:
        """Choose."""
        network.state.data.chosen = name
        return name

    async def on_route(result: Any, network: Any) -> Any:
        call = result.called("choose")
        assert network.state.data.chosen == "Bob"
        return None if network.call_count else call.arguments["name"]

    model = ScriptedModel([ToolCall("1", "choose", {"name": "Bob"})], repeat_last=True)
    router = RoutingAgent("R", model=model, tools=[choose], tool_choice="any", on_route=on_route)
    assert called_agents(Network("crew", agents=[make_agent("Ann"), make_agent("Bob")], router=router)) == ["Bob"]
    assert model.requests[0].tool_choice == "any"


def test_writes_of_tools_of_a_routing_agent_are_saved() -> None:
    @tool
    def note(text: str, network: NetworkRun[Any]) -> None:
        """Note."""
        network.state.data.notes.append(text)

    router = RoutingAgent(
        "R",
        model=ScriptedModel([ToolCall("1", "note", {"text": "x"})], repeat_last=True),
        tools=[note],
        on_route=lambda network: None if network.call_count else "Ann",
    )
    ended = Network("crew", agents=[make_agent("Ann")], router=router, state={"notes": []}).run("go")
    assert ended.state.data.notes == ["x", "x"]


def test_a_router_function_can_return_a_routing_agent() -> None:
    model = ScriptedModel(["Bob"])
    chooser = RoutingAgent("R", model=model, on_route=lambda result: result.text)
    ann, bob = make_agent("Ann"), make_agent("Bob")
    network = Network("crew", agents=[ann, bob], router=lambda call_count: [ann, chooser, None][call_count])
    ended = network.run("go")
    assert [result.agent_name for result in ended.results] == ["Ann", "Bob"]
    assert (ended.call_count, ended.stop_reason) == (2, "completed")
    assert len(model.requests) == 1


def test_model_calls_of_a_routing_agent_count_against_the_limits() -> None:
    model = ScriptedModel(["Ann"], repeat_last=True)
    router = RoutingAgent("R", model=model, on_route=lambda: "Ann")
    network = Network("crew", agents=[make_agent("Ann")], router=router, usage_limits=UsageLimits(requests=4))
    ended = network.run("go")
    assert ended.stop_reason == "usage_limit"
    assert len(model.requests) + ended.call_count <= 4


# -- the default router


def test_the_model_selects_agents_until_it_calls_done() -> None:
    network, model = crew(select("Bob"), select("Ann"), DONE)
    ended = network.run("go")
    assert [result.agent_name for result in ended.results] == ["Bob", "Ann"]
    assert (ended.stop_reason, ended.summary) == ("done", "all is well")
    assert model.requests[0].tool_choice == "any"
    assert [tool.name for tool in model.requests[0].tools] == ["select_agent", "done"]


def test_the_model_receives_the_list_of_agents() -> None:
    disabled = Agent("Shy", lifecycle=Lifecycle(enabled=lambda: False))
    undescribed = Agent("Cleo", tools=[tool(name="dig")(lambda: None)])
    network, model = crew(DONE, agents=[make_agent("Ann"), undescribed, disabled])
    network.run("go")
    prompt = model.requests[0].system
    assert "- Ann: does Ann" in prompt
    assert "- Cleo: no description (tools: dig)" in prompt
    assert "Shy" not in prompt


def test_an_unknown_name_is_reported_to_the_model() -> None:
    network, model = crew(select("Anne"), select("Ann"), DONE)
    assert called_agents(network) == ["Ann"]
    assert model.requests[1].messages[-1].text == (
        "Error: Agent 'Anne' does not exist. Did you mean 'Ann'? Agents: Ann, Bob."
    )


def test_an_answer_without_a_choice_is_requested_again() -> None:
    network, model = crew("I would take Ann.", select("Ann"), DONE)
    assert called_agents(network) == ["Ann"]
    assert len(model.requests) == 3


def test_a_model_that_never_chooses_is_an_error() -> None:
    network, model = crew(select("Zoe"), select("Zoe"), select("Zoe"), select("Ann"))
    with pytest.raises(InvalidConfig, match="'crew' named no existing agent in 3 answers"):
        network.run("go")
    assert len(model.requests) == 3


def test_the_first_choice_of_an_answer_counts() -> None:
    network, _ = crew([select("Bob"), DONE], DONE)
    assert called_agents(network) == ["Bob"]


def test_disabled_agents_cannot_be_selected() -> None:
    shy = Agent("Shy", model=ScriptedModel([]), lifecycle=Lifecycle(enabled=lambda: False))
    network, _ = crew(select("Shy"), select("Ann"), DONE, agents=[make_agent("Ann"), shy])
    assert called_agents(network) == ["Ann"]


def test_without_enabled_agents_no_model_is_called() -> None:
    shy = Agent("Shy", model=ScriptedModel([]), lifecycle=Lifecycle(enabled=lambda: False))
    network, model = crew(DONE, agents=[shy])
    with pytest.raises(InvalidConfig, match="No agent of network 'crew' is enabled"):
        network.run("go")
    assert model.requests == []


def test_done_can_be_called_without_a_summary() -> None:
    network, _ = crew(ToolCall("d", "done"))
    ended = network.run("go")
    assert (ended.stop_reason, ended.summary) == ("done", "")


def test_each_call_creates_a_new_default_router() -> None:
    assert default_router() is not default_router()
