"""Part I section 3.4: budgets of a call, and the end of a run that exceeds one."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Budget, InMemorySaver, Runtime, StateGraph, append
from statewright.errors import BudgetExceeded, InvalidConfig, InvalidGraph
from statewright.testing import FakeClock

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


def looping_app(
    clock: FakeClock | None = None, *, tokens: int = 0, cost: float = 0.0, saver: Any = None, **options: Any
) -> Any:
    """Compile a graph of two nodes in an endless loop, and a node that wraps up."""

    def think(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        if clock is not None:
            clock.advance(10)
        runtime.spend(tokens=tokens, cost=cost)
        return {"log": ["think"]}

    graph = StateGraph(State).add_node("think", think).add_node("act", lambda s: {"log": ["act"]})
    graph.add_node("wrap_up", lambda s: {"log": [f"wrapped up after {len(s['log'])}"]})
    graph.add_edge(START, "think").add_edge("think", "act").add_edge("act", "think").add_edge("wrap_up", END)
    strict = "budget" in options and options["budget"].on_budget is not None
    return (
        graph.compile(saver, clock=clock, strict=strict, **options)
        if strict
        else compile_leniently(graph, saver, clock, options)
    )


def compile_leniently(graph: Any, saver: Any, clock: Any, options: Any) -> Any:
    with pytest.warns(UserWarning, match="wrap_up"):
        return graph.compile(saver, clock=clock, strict=False, **options)


@pytest.mark.parametrize(
    ("budget", "message", "steps"),
    [
        (Budget(max_steps=5), "supersteps 5 of 5", 5),
        (Budget(max_visits=2), "visits of 'think' 2 of 2", 4),
        (Budget(max_visits={"act": 3}), "visits of 'act' 3 of 3", 7),
        (Budget(max_seconds=25), "seconds 30", 5),
        (Budget(max_tokens=250), "tokens 300 of 250", 5),
        (Budget(max_cost=1.5), "cost 1.5 of 1.5", 5),
    ],
)
def test_3_4_a_run_fails_when_its_budget_is_exhausted(driver: Any, budget: Budget, message: str, steps: int) -> None:
    app = looping_app(FakeClock(), tokens=100, cost=0.5, saver=InMemorySaver())

    with pytest.raises(BudgetExceeded, match=message):
        driver.invoke(app, {"x": 1}, THREAD, budget=budget)
    assert len(app.get_state(THREAD).values["log"]) == steps


def test_3_4_a_budget_may_route_to_a_node_instead_of_failing(driver: Any) -> None:
    app = looping_app(budget=Budget(max_steps=4, on_budget="wrap_up"))

    assert driver.invoke(app, {"x": 1})["log"] == ["think", "act", "think", "act", "wrapped up after 4"]


def test_3_4_the_on_budget_node_is_saved_with_the_discarded_tasks(driver: Any) -> None:
    app = looping_app(budget=Budget(max_steps=3, on_budget="wrap_up"), saver=InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    history = list(app.get_state_history(THREAD))
    assert [state.next for state in history][:3] == [(), ("wrap_up",), ("act",)]
    assert history[1].metadata["discarded"] == ["act"]


def test_3_4_a_call_may_have_its_own_budget(driver: Any) -> None:
    app = looping_app(budget=Budget(max_steps=3, on_budget="wrap_up"))

    assert (
        driver.invoke(app, {"x": 1}, budget=Budget(max_steps=1, on_budget="wrap_up"))["log"][-1] == "wrapped up after 1"
    )
    with pytest.raises(InvalidConfig, match="wrap_up"):
        driver.invoke(app, {"x": 1}, budget=Budget(max_steps=1, on_budget="wrapup"))


def test_3_4_a_budget_includes_the_spending_of_subgraphs(driver: Any) -> None:
    def spend(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.spend(tokens=60)
        return {"log": ["inner"]}

    child = (
        StateGraph(State).add_node("a", spend).add_node("b", spend).add_edge(START, "a").add_edge("a", "b").compile()
    )
    graph = (
        StateGraph(State).add_node("child", child).add_node("again", child).add_node("out", lambda s: {"log": ["out"]})
    )
    graph.add_edge(START, "child").add_edge("child", "again")
    app = graph.compile(budget=Budget(max_tokens=150, on_budget="out"))

    assert driver.invoke(app, {"x": 1})["log"] == ["inner", "inner", "out"]
    with pytest.raises(BudgetExceeded, match="tokens 180 of 150"):
        driver.invoke(app, {"x": 1}, budget=Budget(max_tokens=150))


def test_3_4_each_call_begins_with_a_full_budget(driver: Any) -> None:
    app = looping_app(tokens=10, budget=Budget(max_tokens=20, on_budget="wrap_up"), saver=InMemorySaver())

    first = driver.invoke(app, {"x": 1}, THREAD)["log"]
    assert driver.invoke(app, {"x": 1}, THREAD)["log"] == [
        *first,
        *first[:-1],
        f"wrapped up after {2 * len(first) - 1}",
    ]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Budget(), "limits nothing"),
        (lambda: Budget(max_steps=0), "max_steps is 0"),
        (lambda: Budget(max_visits={"a": 0}), "max_visits of 'a' is 0"),
        (lambda: Budget(max_visits=-1), "max_visits is -1"),
        (lambda: Budget(max_seconds=-1), "max_seconds is -1"),
        (lambda: Budget(max_tokens=0, max_cost=0), r"max_tokens is 0[\s\S]*max_cost is 0"),
    ],
)
def test_an_invalid_budget_is_refused(make: Any, expected: str) -> None:
    with pytest.raises(InvalidGraph, match=expected):
        make()


def test_a_budget_with_an_unknown_node_is_a_problem_of_the_graph() -> None:
    with pytest.raises(InvalidGraph, match="The budget names 'wrapup'"):
        looping_app(budget=Budget(max_steps=3, on_budget="wrapup"))
