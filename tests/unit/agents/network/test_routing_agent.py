"""Agents that choose the next agent."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.agents import Agent, Lifecycle, Network, NetworkRun, RoutingAgent, UsageLimits, default_router, tool
from statewright.errors import InvalidConfig, RoutingError
from statewright.messages import ToolCall
from statewright.models import ScriptedModel
from statewright.models.conversation.prepare import YOUR_TURN


def named(name: str) -> Agent:
    return Agent(name, description=f"does {name}", model=ScriptedModel([f"I am {name}"], repeat_last=True))


def select(name: str) -> ToolCall:
    return ToolCall("s", "select_agent", {"name": name})


DONE = ToolCall("d", "done", {"summary": "all is well"})


def crew(*script: Any, agents: Any = None) -> tuple[Network[Any], ScriptedModel]:
    model = ScriptedModel(list(script))
    return Network("crew", agents=agents or [named("Ann"), named("Bob")], default_model=model), model


def called(network: Network[Any]) -> list[str]:
    return [one.agent_name for one in network.run("go").results]


# -- RoutingAgent


def test_it_needs_a_function_that_reads_its_choice() -> None:
    with pytest.raises(InvalidConfig, match="'R' has no on_route"):
        RoutingAgent("R")
    assert RoutingAgent("R", lifecycle=Lifecycle(on_route=lambda: None)).router is not None


def test_its_own_on_route_comes_before_that_of_its_lifecycle() -> None:
    own = lambda: None  # noqa: E731  # told apart by identity
    assert RoutingAgent("R", on_route=own, lifecycle=Lifecycle(on_route=lambda: "Ann")).router is own


def test_it_decides_before_every_call() -> None:
    model = ScriptedModel(["Bob", "Ann", "nobody"])
    router = RoutingAgent("R", model=model, on_route=lambda result: {"nobody": None}.get(result.text, result.text))
    assert called(Network("crew", agents=[named("Ann"), named("Bob")], router=router)) == ["Bob", "Ann"]
    assert [one.text for one in model.requests[2].messages] == ["go", "I am Bob", "I am Ann", YOUR_TURN]


def test_it_leaves_no_result() -> None:
    router = RoutingAgent(
        "R",
        model=ScriptedModel(["x"], repeat_last=True),
        on_route=lambda network: None if network.call_count else "Ann",
    )
    ended = Network("crew", agents=[named("Ann")], router=router).run("go")
    assert [one.agent_name for one in ended.state.turns] == ["user", "Ann"]


@pytest.mark.parametrize(
    ("answer", "names"), [(["Ann", "Bob"], ["Ann", "Bob"]), ("Bob", ["Bob"]), ([], []), (None, [])]
)
def test_it_may_choose_one_agent_several_or_none(answer: Any, names: list[str]) -> None:
    router = RoutingAgent(
        "R",
        model=ScriptedModel(["x"], repeat_last=True),
        on_route=lambda network: None if network.call_count else answer,
    )
    assert called(Network("crew", agents=[named("Ann"), named("Bob")], router=router)) == names


@pytest.mark.parametrize("answer", ["Zoe", ["Ann", "Zoe"], 3, [None], {"name": "Ann"}])
def test_an_invalid_choice_is_an_error_and_no_agent_is_called(answer: Any) -> None:
    ann = named("Ann")
    router = RoutingAgent("R", model=ScriptedModel(["x"]), on_route=lambda: answer)
    with pytest.raises(RoutingError):
        Network("crew", agents=[ann], router=router).run("go")
    assert ann.model.requests == []


def test_what_on_route_raises_is_raised() -> None:
    def fail() -> None:
        raise LookupError("route")

    with pytest.raises(LookupError, match="route"):
        Network("crew", agents=[], router=RoutingAgent("R", model=ScriptedModel(["x"]), on_route=fail)).run("go")


def test_it_may_have_tools_and_on_route_may_be_a_coroutine() -> None:
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
    assert called(Network("crew", agents=[named("Ann"), named("Bob")], router=router)) == ["Bob"]
    assert model.requests[0].tool_choice == "any"


def test_writes_of_a_routing_agents_tools_are_saved() -> None:
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
    ended = Network("crew", agents=[named("Ann")], router=router, state={"notes": []}).run("go")
    assert ended.state.data.notes == ["x", "x"]


def test_a_function_may_leave_the_choice_to_a_routing_agent() -> None:
    model = ScriptedModel(["Bob"])
    chooser = RoutingAgent("R", model=model, on_route=lambda result: result.text)
    ann, bob = named("Ann"), named("Bob")
    network = Network("crew", agents=[ann, bob], router=lambda call_count: [ann, chooser, None][call_count])
    ended = network.run("go")
    assert [one.agent_name for one in ended.results] == ["Ann", "Bob"]
    assert (ended.call_count, ended.stop_reason) == (2, "completed")
    assert len(model.requests) == 1


def test_calls_of_a_routing_agents_model_count_against_the_limits() -> None:
    model = ScriptedModel(["Ann"], repeat_last=True)
    router = RoutingAgent("R", model=model, on_route=lambda: "Ann")
    network = Network("crew", agents=[named("Ann")], router=router, usage_limits=UsageLimits(requests=4))
    ended = network.run("go")
    assert ended.stop_reason == "usage_limit"
    assert len(model.requests) + ended.call_count <= 4


# -- the default router


def test_a_model_selects_until_it_says_done() -> None:
    network, model = crew(select("Bob"), select("Ann"), DONE)
    ended = network.run("go")
    assert [one.agent_name for one in ended.results] == ["Bob", "Ann"]
    assert (ended.stop_reason, ended.summary) == ("done", "all is well")
    assert model.requests[0].tool_choice == "any"
    assert [one.name for one in model.requests[0].tools] == ["select_agent", "done"]


def test_the_model_receives_the_list_of_agents() -> None:
    shy = Agent("Shy", lifecycle=Lifecycle(enabled=lambda: False))
    clever = Agent("Cleo", tools=[tool(name="dig")(lambda: None)])
    network, model = crew(DONE, agents=[named("Ann"), clever, shy])
    network.run("go")
    told = model.requests[0].system
    assert "- Ann: does Ann" in told
    assert "- Cleo: no description (tools: dig)" in told
    assert "Shy" not in told


def test_an_unknown_name_is_reported_to_the_model() -> None:
    network, model = crew(select("Anne"), select("Ann"), DONE)
    assert called(network) == ["Ann"]
    assert model.requests[1].messages[-1].text == (
        "Error: Agent 'Anne' does not exist. Did you mean 'Ann'? Agents: Ann, Bob."
    )


def test_an_answer_without_a_choice_is_requested_again() -> None:
    network, model = crew("I would take Ann.", select("Ann"), DONE)
    assert called(network) == ["Ann"]
    assert len(model.requests) == 3


def test_a_model_that_never_chooses_is_an_error() -> None:
    network, model = crew(select("Zoe"), select("Zoe"), select("Zoe"), select("Ann"))
    with pytest.raises(InvalidConfig, match="'crew' named no existing agent in 3 answers"):
        network.run("go")
    assert len(model.requests) == 3


def test_the_first_choice_of_an_answer_counts() -> None:
    network, _ = crew([select("Bob"), DONE], DONE)
    assert called(network) == ["Bob"]


def test_agents_that_are_not_enabled_cannot_be_selected() -> None:
    shy = Agent("Shy", model=ScriptedModel([]), lifecycle=Lifecycle(enabled=lambda: False))
    network, _ = crew(select("Shy"), select("Ann"), DONE, agents=[named("Ann"), shy])
    assert called(network) == ["Ann"]


def test_without_enabled_agents_no_model_is_called() -> None:
    shy = Agent("Shy", model=ScriptedModel([]), lifecycle=Lifecycle(enabled=lambda: False))
    network, model = crew(DONE, agents=[shy])
    with pytest.raises(InvalidConfig, match="No agent of network 'crew' is enabled"):
        network.run("go")
    assert model.requests == []


def test_done_needs_no_summary() -> None:
    network, _ = crew(ToolCall("d", "done"))
    ended = network.run("go")
    assert (ended.stop_reason, ended.summary) == ("done", "")


def test_each_network_has_a_default_router_of_its_own() -> None:
    assert default_router() is not default_router()
