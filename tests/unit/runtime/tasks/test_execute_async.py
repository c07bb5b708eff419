"""Executing a task asynchronously."""

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
    """Return a graph that starts with all functions."""
    builder = StateGraph(SCHEMA)
    for name, function in functions.items():
        builder.add_node(name, function).add_edge(START, name)
    return builder


def run(builder: StateGraph, value: Any = None) -> Any:
    return asyncio.run(builder.compile().ainvoke(value or {"x": 1}))


async def quick(state: Any) -> dict[str, Any]:
    return {"log": ["quick"]}


def test_a_coroutine_node_receives_the_state() -> None:
    async def node(state: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"x": state["x"] + 1}

    assert run(graph(node=node))["x"] == 2


def test_an_object_with_an_async_call_is_a_coroutine_node() -> None:
    class Node:
        async def __call__(self, state: Any) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"x": state["x"] + 1}

    assert run(graph(node=Node()))["x"] == 2


def test_parameters_are_injected_into_a_coroutine_node() -> None:
    async def node(state: Any, runtime: Runtime[Any], config: Any) -> dict[str, Any]:
        return {"log": [runtime.execution_info.node, runtime.execution_info.step, config["recursion_limit"]]}

    assert run(graph(node=node))["log"] == ["node", 1, 1000]


def test_a_coroutine_node_receives_the_argument_of_a_send() -> None:
    async def node(state: Any) -> dict[str, Any]:
        return {"log": [state]}

    builder = StateGraph(SCHEMA).add_node("node", node)
    builder.add_conditional_edges(START, lambda state: [Send("node", {"item": n}) for n in range(3)], ["node"])
    assert run(builder)["log"] == [{"item": 0}, {"item": 1}, {"item": 2}]


@pytest.mark.parametrize("concurrent", [False, True])
def test_an_error_of_a_node_is_raised_with_a_note_of_its_location(concurrent: bool) -> None:
    async def fail(state: Any) -> None:
        await asyncio.sleep(0)
        raise LookupError("no luck")

    functions = {"fail": fail, **({"quick": quick} if concurrent else {})}
    with pytest.raises(LookupError, match="no luck") as caught:
        run(graph(**functions))
    assert any("in node 'fail'" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("concurrent", [False, True])
def test_an_unrequested_cancellation_fails_the_node(concurrent: bool) -> None:
    async def node(state: Any) -> None:
        waiting = asyncio.get_running_loop().create_future()
        waiting.cancel()
        await waiting

    functions = {"node": node, **({"quick": quick} if concurrent else {})}
    with pytest.raises(NodeCancelledError, match="'node'") as caught:
        run(graph(**functions))
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


@pytest.mark.parametrize("concurrent", [False, True])
def test_cancelling_a_run_raises_cancelled_error_and_cleans_up(concurrent: bool) -> None:
    cleaned: list[str] = []

    async def forever(state: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert is_cancelled()
            cleaned.append("clean")

    async def main() -> None:
        functions = {"forever": forever, **({"quick": quick} if concurrent else {})}
        running = asyncio.ensure_future(graph(**functions).compile().ainvoke({"x": 1}))
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert cleaned == ["clean"]


def test_is_cancelled_is_false_in_a_running_task() -> None:
    async def main() -> bool:
        return is_cancelled()

    assert asyncio.run(main()) is False


def test_a_coroutine_node_pauses_at_a_question_and_continues_with_the_answer() -> None:
    async def ask(state: Any) -> dict[str, Any]:
        return {"log": [interrupt("how many?")]}

    app = graph(ask=ask).compile(InMemorySaver())

    async def main() -> Any:
        waiting = await app.ainvoke({"x": 1}, thread_id="1")
        assert [question.value for question in waiting["__interrupt__"]] == ["how many?"]
        return await app.ainvoke(Command(resume=3), thread_id="1")

    assert asyncio.run(main())["log"] == [3]


# -- conditional edges that are coroutine functions


def test_a_conditional_edge_can_be_a_coroutine_function() -> None:
    async def choose(state: Any) -> str:
        await asyncio.sleep(0)
        return "more" if len(state["log"]) < 3 else END

    builder = graph(quick=quick).add_node("more", lambda state: {"log": ["more"]}).add_edge("more", "quick")
    builder.add_conditional_edges("quick", choose, ["more", END])
    assert run(builder)["log"] == ["quick", "more", "quick"]
    assert builder.compile().invoke({"x": 1})["log"] == ["quick", "more", "quick"]


def test_plain_and_coroutine_conditional_edges_are_called_in_order() -> None:
    async def late(state: Any) -> str:
        await asyncio.sleep(0)
        return "a"

    builder = graph(quick=quick)
    for name in "ab":
        builder.add_node(name, lambda state, name=name: {"log": [name]})
    builder.add_conditional_edges("quick", late, ["a"]).add_conditional_edges("quick", lambda state: "b", ["b"])
    assert run(builder)["log"] == ["quick", "a", "b"]


def test_a_coroutine_edge_receives_the_writes_of_its_node() -> None:
    seen: list[Any] = []

    async def choose(state: Any) -> str:
        seen.append(dict(state))
        return END

    run(graph(quick=quick).add_conditional_edges("quick", choose, [END]))
    assert seen == [{"log": ["quick"], "x": 1}]


def test_a_goto_replaces_a_coroutine_edge() -> None:
    async def choose(state: Any) -> str:
        raise AssertionError("called")

    async def jump(state: Any) -> Command[Any]:
        return Command(goto="other")

    builder = graph(jump=jump).add_node("other", lambda state: {"log": ["other"]})
    builder.add_conditional_edges("jump", choose, [END])
    assert run(builder)["log"] == ["other"]


def test_an_error_or_unknown_target_of_a_coroutine_edge_is_raised() -> None:
    async def fail(state: Any) -> str:
        raise LookupError("no luck")

    async def unknown(state: Any) -> str:
        return "missing"

    with pytest.raises(LookupError, match="no luck"):
        run(graph(quick=quick).add_conditional_edges("quick", fail, [END]))
    with pytest.raises(UnknownTarget, match="'missing'"):
        run(graph(quick=quick).add_conditional_edges("quick", unknown, [END]))


def test_an_invalid_output_is_an_error_of_its_node() -> None:
    async def node(state: Any) -> Any:
        return 3

    with pytest.raises(InvalidUpdateError, match="'node'"):
        run(graph(node=node))


def test_an_error_handler_can_be_a_coroutine_function() -> None:
    async def fail(state: Any) -> None:
        raise LookupError("no luck")

    async def handle(state: Any, error: NodeError) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": [f"{error.node}: {error.error}"]}

    builder = StateGraph(SCHEMA).add_node("fail", fail, error_handler=handle).add_edge(START, "fail")
    assert run(builder)["log"] == ["fail: no luck"]


def test_a_plain_function_before_a_coroutine_edge_runs_in_another_thread() -> None:
    threads: list[threading.Thread] = []

    async def choose(state: Any) -> str:
        return END

    builder = graph(plain=lambda state: threads.append(threading.current_thread()))
    run(builder.add_conditional_edges("plain", choose, [END]))
    assert threads[0] is not threading.current_thread()
