"""The registry of agents: the answers of routers as names, and the agents with these names."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from statewright.agents import Agent, Network
from statewright.agents.network.definition import MAX_RUNS, AgentRegistry, RunAgents, reachable_agents
from statewright.errors import InvalidConfig, RoutingError

ANN, BOB, ZOE = Agent("Ann"), Agent("Bob"), Agent("Zoe")
AGENTS = [ZOE]


def route_to_global() -> Agent:
    return ZOE


def route_to_list_item() -> Agent:
    return AGENTS[0]


def make_inner_router() -> Any:
    def inner() -> Agent:
        return ZOE

    return inner


def closure_over(agent: Agent) -> Any:
    return lambda: agent


class Router:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def __call__(self) -> Agent:
        return self.agent

    def route(self) -> Agent:
        return self.agent


def registry(router: Any = None) -> AgentRegistry:
    return AgentRegistry("crew", [ANN, BOB], router)


def run_agents(router: Any = None) -> RunAgents:
    return RunAgents(registry(router), "run")


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (None, []),
        ([], []),
        ((), []),
        (ANN, ["Ann"]),
        ([ANN, BOB], ["Ann", "Bob"]),
        ((BOB, ANN, BOB), ["Bob", "Ann", "Bob"]),
        ("Bob", ["Bob"]),
        (["Bob", ANN], ["Bob", "Ann"]),
        (ZOE, ["Zoe"]),
    ],
)
def test_an_answer_of_a_router_is_resolved_to_names(answer: Any, names: list[str]) -> None:
    assert run_agents().resolve_names(answer) == names


@pytest.mark.parametrize("answer", [3, True, False, 0, {"agent": "Ann"}, [None], [[ANN]], {ANN}, Agent, object(), 1.5])
def test_an_answer_without_an_agent_is_refused(answer: Any) -> None:
    with pytest.raises(RoutingError, match=r"router of network 'crew' returned .*or None to stop"):
        run_agents().resolve_names(answer)


@pytest.mark.parametrize("name", ["Anne", "", "ann", "Ann "])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(RoutingError, match=r"'crew' has no agent .*Agents: Ann, Bob"):
        run_agents().resolve_names(name)


def test_an_agent_that_a_router_returned_is_found() -> None:
    agents = run_agents()
    agents.resolve_names(ZOE)
    assert agents.find("Zoe") is ZOE
    assert agents.find("Ann") is ANN


def test_a_later_undeclared_agent_replaces_one_of_the_same_name() -> None:
    agents, other = run_agents(), Agent("Zoe")
    agents.resolve_names(ZOE)
    agents.resolve_names(other)
    assert agents.find("Zoe") is other


def test_another_agent_with_a_declared_name_is_refused() -> None:
    agents = run_agents()
    with pytest.raises(RoutingError, match=r"agent 'Ann', but another one is declared.*Rename"):
        agents.resolve_names(Agent("Ann"))
    assert agents.find("Ann") is ANN


def test_two_undeclared_agents_with_one_name_in_one_answer_are_refused() -> None:
    """The queue contains names, so the second agent would be called twice and the first never."""
    with pytest.raises(RoutingError, match="'Zoe'"):
        run_agents().resolve_names([ZOE, Agent("Zoe")])


def test_an_undeclared_agent_can_be_returned_twice() -> None:
    assert run_agents().resolve_names([ZOE, ZOE]) == ["Zoe", "Zoe"]


def test_two_declared_agents_with_one_name_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="'crew' has two agents named 'Ann'"):
        AgentRegistry("crew", [ANN, Agent("Ann")], None)
    assert list(AgentRegistry("crew", [ANN, ANN], None).declared) == ["Ann"]


@pytest.mark.parametrize("member", ["Ann", None, Agent, lambda: None])
def test_only_agents_can_be_declared(member: Any) -> None:
    with pytest.raises(InvalidConfig, match="not an Agent"):
        AgentRegistry("crew", [member], None)


@pytest.mark.parametrize(
    "router",
    [
        route_to_global,
        route_to_list_item,
        make_inner_router,
        make_inner_router(),
        closure_over(ZOE),
        closure_over([ZOE]),
    ],
)
def test_agents_that_a_function_refers_to_are_found(router: Any) -> None:
    assert list(reachable_agents(router)) == [ZOE]
    assert run_agents(router).find("Zoe") is ZOE


@pytest.mark.parametrize("router", [print, len, "text", 3, lambda: "Zoe", lambda: None])
def test_a_router_without_agents_refers_to_none(router: Any) -> None:
    assert list(reachable_agents(router)) == []


def test_an_empty_closure_refers_to_no_agents() -> None:
    def make() -> Any:
        def route() -> Any:
            return later

        before = list(reachable_agents(route))
        later = ZOE
        return before, list(reachable_agents(route))

    assert make() == ([], [ZOE])


# -- undeclared agents that a router refers to


class RouterWithAgents:
    """A router with agents in its attributes."""

    def __init__(self) -> None:
        self.favourite = Agent("Fay")
        self.others = {"z": Agent("Zed")}

    def route(self) -> Agent:
        return self.favourite

    def __call__(self) -> Agent:
        return self.others["z"]


def return_agent(agent: Agent, among: Any = ()) -> Agent:
    return agent


@pytest.mark.parametrize(
    ("router", "names"),
    [
        (RouterWithAgents().route, ["Fay", "Zed"]),
        (RouterWithAgents(), ["Fay", "Zed"]),
        (partial(return_agent, Agent("Pam")), ["Pam"]),
        (partial(return_agent, agent=Agent("Kim"), among=[Agent("Lou")]), ["Kim", "Lou"]),
        (lambda agent=BOB: agent, ["Bob"]),
    ],
    ids=["method", "object", "partial", "keywords", "default"],
)
def test_agents_are_found_wherever_a_router_refers_to_them(router: Any, names: list[str]) -> None:
    """A run that is resumed in another process knows only their names."""
    assert [agent.name for agent in reachable_agents(router)] == names
    assert RunAgents(Network("n", router=router).registry, "run").find(names[0]).name == names[0]


# -- agents that a router creates belong to its run


def test_each_run_has_its_own_agents_of_a_name() -> None:
    agents, namesake = registry(), Agent("Zoe")
    RunAgents(agents, "one").resolve_names(ZOE)
    RunAgents(agents, "other").resolve_names(namesake)
    assert RunAgents(agents, "one").find("Zoe") is ZOE
    assert RunAgents(agents, "other").find("Zoe") is namesake


def test_agents_of_ended_and_old_runs_are_removed() -> None:
    agents = registry()
    RunAgents(agents, "one").resolve_names(ZOE)
    RunAgents(agents, "one").forget()
    with pytest.raises(RoutingError, match="no agent 'Zoe'"):
        RunAgents(agents, "one").find("Zoe")
    for number in range(MAX_RUNS + 1):
        RunAgents(agents, str(number)).resolve_names(ZOE)
    assert RunAgents(agents, str(MAX_RUNS)).find("Zoe") is ZOE
    with pytest.raises(RoutingError):
        RunAgents(agents, "0").find("Zoe")
