"""What a router answers, and who stands behind a name."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from statewright.agents import Agent, Network
from statewright.agents.network.router import MOST_RUNS, AgentRegistry, RunAgents, reachable_agents
from statewright.errors import InvalidConfig, RoutingError

ANN, BOB, ZOE = Agent("Ann"), Agent("Bob"), Agent("Zoe")
PEOPLE = [ZOE]


def names_a_global() -> Agent:
    return ZOE


def names_a_list() -> Agent:
    return PEOPLE[0]


def names_within() -> Any:
    def inner() -> Agent:
        return ZOE

    return inner


def in_a_closure(agent: Agent) -> Any:
    return lambda: agent


class Router:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def __call__(self) -> Agent:
        return self.agent

    def route(self) -> Agent:
        return self.agent


def roster(router: Any = None) -> AgentRegistry:
    return AgentRegistry("crew", [ANN, BOB], router)


def crew(router: Any = None) -> RunAgents:
    return roster(router).for_run("run")


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
def test_an_answer_becomes_names(answer: Any, names: list[str]) -> None:
    assert crew().resolve_names(answer) == names


@pytest.mark.parametrize("answer", [3, True, False, 0, {"agent": "Ann"}, [None], [[ANN]], {ANN}, Agent, object(), 1.5])
def test_what_is_no_agent_is_refused(answer: Any) -> None:
    with pytest.raises(RoutingError, match=r"router of network 'crew' returned .*or None to stop"):
        crew().resolve_names(answer)


@pytest.mark.parametrize("name", ["Anne", "", "ann", "Ann "])
def test_a_name_that_nobody_has(name: str) -> None:
    with pytest.raises(RoutingError, match=r"'crew' has no agent .*Agents: Ann, Bob"):
        crew().resolve_names(name)


def test_one_that_was_named_once_is_known() -> None:
    known = crew()
    known.resolve_names(ZOE)
    assert known.find("Zoe") is ZOE
    assert known.find("Ann") is ANN


def test_a_later_one_of_a_private_name_takes_its_place() -> None:
    known, other = crew(), Agent("Zoe")
    known.resolve_names(ZOE)
    known.resolve_names(other)
    assert known.find("Zoe") is other


def test_another_agent_of_a_declared_name_is_refused() -> None:
    known = crew()
    with pytest.raises(RoutingError, match=r"another agent 'Ann'.*Rename"):
        known.resolve_names(Agent("Ann"))
    assert known.find("Ann") is ANN


def test_two_new_agents_of_one_name_in_one_answer_are_refused() -> None:
    """The queue has names: the second would be called twice, and the first never."""
    with pytest.raises(RoutingError, match="'Zoe'"):
        crew().resolve_names([ZOE, Agent("Zoe")])


def test_the_same_private_agent_twice_is_called_twice() -> None:
    assert crew().resolve_names([ZOE, ZOE]) == ["Zoe", "Zoe"]


def test_two_declared_agents_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="'crew' has two agents named 'Ann'"):
        AgentRegistry("crew", [ANN, Agent("Ann")], None)
    assert list(AgentRegistry("crew", [ANN, ANN], None).declared) == ["Ann"]


@pytest.mark.parametrize("member", ["Ann", None, Agent, lambda: None])
def test_what_is_declared_has_to_be_an_agent(member: Any) -> None:
    with pytest.raises(InvalidConfig, match="not an Agent"):
        AgentRegistry("crew", [member], None)


@pytest.mark.parametrize(
    "router", [names_a_global, names_a_list, names_within, names_within(), in_a_closure(ZOE), in_a_closure([ZOE])]
)
def test_agents_that_a_function_names_are_found_again(router: Any) -> None:
    assert list(reachable_agents(router)) == [ZOE]
    assert crew(router).find("Zoe") is ZOE


@pytest.mark.parametrize("router", [print, len, "text", 3, lambda: "Zoe", lambda: None])
def test_where_there_are_none_there_are_none(router: Any) -> None:
    assert list(reachable_agents(router)) == []


def test_a_closure_that_is_not_filled_yet() -> None:
    def make() -> Any:
        def route() -> Any:
            return later

        found = list(reachable_agents(route))
        later = ZOE
        return found, list(reachable_agents(route))

    assert make() == ([], [ZOE])


# -- those whom a router names without their being declared


class Choosing:
    """Holds an agent, and chooses it."""

    def __init__(self) -> None:
        self.favourite = Agent("Fay")
        self.others = {"z": Agent("Zed")}

    def route(self) -> Agent:
        return self.favourite

    def __call__(self) -> Agent:
        return self.others["z"]


def chosen_by(agent: Agent, among: Any = ()) -> Agent:
    return agent


@pytest.mark.parametrize(
    ("router", "names"),
    [
        (Choosing().route, ["Fay", "Zed"]),
        (Choosing(), ["Fay", "Zed"]),
        (partial(chosen_by, Agent("Pam")), ["Pam"]),
        (partial(chosen_by, agent=Agent("Kim"), among=[Agent("Lou")]), ["Kim", "Lou"]),
        (lambda one=BOB: one, ["Bob"]),
    ],
    ids=["method", "object", "partial", "keywords", "default"],
)
def test_agents_are_found_wherever_a_router_gets_at_them(router: Any, names: list[str]) -> None:
    """A run that goes on in another process has nothing but their names."""
    assert [agent.name for agent in reachable_agents(router)] == names
    assert Network("n", router=router).registry.for_run("run").find(names[0]).name == names[0]


# -- agents that a router makes belong to its run


def test_each_run_has_its_own_agents_of_a_name() -> None:
    whole, others = roster(), Agent("Zoe")
    whole.for_run("one").resolve_names(ZOE)
    whole.for_run("other").resolve_names(others)
    assert whole.for_run("one").find("Zoe") is ZOE
    assert whole.for_run("other").find("Zoe") is others


def test_a_run_that_has_ended_is_forgotten_and_there_is_an_end_to_others() -> None:
    whole = roster()
    whole.for_run("one").resolve_names(ZOE)
    whole.for_run("one").forget()
    with pytest.raises(RoutingError, match="no agent 'Zoe'"):
        whole.for_run("one").find("Zoe")
    for number in range(MOST_RUNS + 1):
        whole.for_run(str(number)).resolve_names(ZOE)
    assert whole.for_run(str(MOST_RUNS)).find("Zoe") is ZOE
    with pytest.raises(RoutingError):
        whole.for_run("0").find("Zoe")
