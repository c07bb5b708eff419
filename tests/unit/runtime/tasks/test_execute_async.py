"""One execution of a task that awaits something."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from statewright import END, START, Command, InMemorySaver, NodeError, Runtime, Send, StateGraph, append, interrupt
from statewright.errors import InvalidUpdateError, NodeCancelledError, UnknownTarget
from statewright.runtime.tasks.execute_async import is_cancelled

SCHEMA = {"log": append, "x": int}


def graph(**functions: Callable[..., Any]) -> StateGraph:
    """A graph that starts with each of the functions."""
    built = StateGraph(SCHEMA)
    for name, function in functions.items():
        built.add_node(name, function).add_edge(START, name)
    return built


def ran(built: StateGraph, given: Any = None) -> Any:
    return asyncio.run(built.compile().ainvoke(given or {"x": 1}))


async def quick(state: Any) -> dict[str, Any]:
    return {"log": ["quick"]}


def test_a_coroutine_node_is_awaited_with_the_state() -> None:
    async def node(state: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"x": state["x"] + 1}

    assert ran(graph(node=node))["x"] == 2


def test_an_object_with_an_async_call_is_a_coroutine_node() -> None:
    class Node:
        async def __call__(self, state: Any) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"x": state["x"] + 1}

    assert ran(graph(node=Node()))["x"] == 2


def test_a_node_gets_what_it_asks_for() -> None:
    async def node(state: Any, runtime: Runtime[Any], config: Any) -> dict[str, Any]:
        return {"log": [runtime.execution_info.node, runtime.execution_info.step, config["recursion_limit"]]}

    assert ran(graph(node=node))["log"] == ["node", 1, 1000]


def test_a_node_gets_the_argument_of_a_send() -> None:
    async def node(state: Any) -> dict[str, Any]:
        return {"log": [state]}

    built = StateGraph(SCHEMA).add_node("node", node)
    built.add_conditional_edges(START, lambda state: [Send("node", {"item": n}) for n in range(3)], ["node"])
    assert ran(built)["log"] == [{"item": 0}, {"item": 1}, {"item": 2}]


@pytest.mark.parametrize("beside", [False, True])
def test_what_a_node_raises_is_raised_with_where(beside: bool) -> None:
    async def fail(state: Any) -> None:
        await asyncio.sleep(0)
        raise LookupError("no luck")

    functions = {"fail": fail, **({"quick": quick} if beside else {})}
    with pytest.raises(LookupError, match="no luck") as caught:
        ran(graph(**functions))
    assert any("in node 'fail'" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("beside", [False, True])
def test_a_node_that_raises_cancelled_though_nobody_cancelled_it_has_failed(beside: bool) -> None:
    async def node(state: Any) -> None:
        waiting = asyncio.get_running_loop().create_future()
        waiting.cancel()
        await waiting

    functions = {"node": node, **({"quick": quick} if beside else {})}
    with pytest.raises(NodeCancelledError, match="'node'") as caught:
        ran(graph(**functions))
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


@pytest.mark.parametrize("beside", [False, True])
def test_a_run_that_is_cancelled_is_cancelled_and_has_not_failed(beside: bool) -> None:
    cleaned: list[str] = []

    async def forever(state: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert is_cancelled()
            cleaned.append("clean")

    async def main() -> None:
        functions = {"forever": forever, **({"quick": quick} if beside else {})}
        running = asyncio.ensure_future(graph(**functions).compile().ainvoke({"x": 1}))
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert cleaned == ["clean"]


def test_nobody_has_cancelled_a_task_that_runs() -> None:
    async def main() -> bool:
        return is_cancelled()

    assert asyncio.run(main()) is False


def test_a_question_pauses_a_coroutine_node_and_its_answer_goes_on() -> None:
    async def ask(state: Any) -> dict[str, Any]:
        return {"log": [interrupt("how many?")]}

    app = graph(ask=ask).compile(InMemorySaver())

    async def main() -> Any:
        waiting = await app.ainvoke({"x": 1}, thread_id="1")
        assert [one.value for one in waiting["__interrupt__"]] == ["how many?"]
        return await app.ainvoke(Command(resume=3), thread_id="1")

    assert asyncio.run(main())["log"] == [3]


# -- conditional edges that are coroutine functions


def test_a_conditional_edge_may_be_a_coroutine_function() -> None:
    async def choose(state: Any) -> str:
        await asyncio.sleep(0)
        return "more" if len(state["log"]) < 3 else END

    built = graph(quick=quick).add_node("more", lambda state: {"log": ["more"]}).add_edge("more", "quick")
    built.add_conditional_edges("quick", choose, ["more", END])
    assert ran(built)["log"] == ["quick", "more", "quick"]
    assert built.compile().invoke({"x": 1})["log"] == ["quick", "more", "quick"]


def test_several_conditional_edges_are_asked_in_order_whatever_they_are() -> None:
    async def late(state: Any) -> str:
        await asyncio.sleep(0)
        return "a"

    built = graph(quick=quick)
    for name in "ab":
        built.add_node(name, lambda state, name=name: {"log": [name]})
    built.add_conditional_edges("quick", late, ["a"]).add_conditional_edges("quick", lambda state: "b", ["b"])
    assert ran(built)["log"] == ["quick", "a", "b"]


def test_a_coroutine_edge_sees_what_its_node_has_just_written() -> None:
    seen: list[Any] = []

    async def choose(state: Any) -> str:
        seen.append(dict(state))
        return END

    ran(graph(quick=quick).add_conditional_edges("quick", choose, [END]))
    assert seen == [{"log": ["quick"], "x": 1}]


def test_a_goto_stands_instead_of_a_coroutine_edge() -> None:
    async def choose(state: Any) -> str:
        raise AssertionError("it was asked")

    async def jump(state: Any) -> Command[Any]:
        return Command(goto="other")

    built = graph(jump=jump).add_node("other", lambda state: {"log": ["other"]})
    built.add_conditional_edges("jump", choose, [END])
    assert ran(built)["log"] == ["other"]


def test_what_a_coroutine_edge_raises_and_where_it_must_not_go_is_said() -> None:
    async def fail(state: Any) -> str:
        raise LookupError("no luck")

    async def astray(state: Any) -> str:
        return "nowhere"

    with pytest.raises(LookupError, match="no luck"):
        ran(graph(quick=quick).add_conditional_edges("quick", fail, [END]))
    with pytest.raises(UnknownTarget, match="'nowhere'"):
        ran(graph(quick=quick).add_conditional_edges("quick", astray, [END]))


def test_an_answer_that_is_none_is_an_error_of_its_node() -> None:
    async def node(state: Any) -> Any:
        return 3

    with pytest.raises(InvalidUpdateError, match="'node'"):
        ran(graph(node=node))


def test_an_error_handler_may_be_a_coroutine_function() -> None:
    async def fail(state: Any) -> None:
        raise LookupError("no luck")

    async def handle(state: Any, error: NodeError) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": [f"{error.node}: {error.error}"]}

    built = StateGraph(SCHEMA).add_node("fail", fail, error_handler=handle).add_edge(START, "fail")
    assert ran(built)["log"] == ["fail: no luck"]


def test_a_plain_function_before_a_coroutine_edge_runs_beside_the_loop() -> None:
    threads: list[threading.Thread] = []

    async def choose(state: Any) -> str:
        return END

    built = graph(plain=lambda state: threads.append(threading.current_thread()))
    ran(built.add_conditional_edges("plain", choose, [END]))
    assert threads[0] is not threading.current_thread()
