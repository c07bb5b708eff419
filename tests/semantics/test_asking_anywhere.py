"""Timeouts of Sends, access to the runtime deep inside a node, fields of results and streams, clearing caches."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    InMemorySaver,
    InMemoryStore,
    Instrument,
    Send,
    StateGraph,
    TimeoutPolicy,
    append,
    get_config,
    get_runtime,
    get_store,
    get_stream_writer,
    interrupt,
)
from statewright.errors import InvalidConfig, InvalidUpdateError, NodeTimeoutError


class Log(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


def graph_with_sends(*sends: Send, inline: bool = False, wait: Any = None, **options: Any) -> Any:
    """Build a graph whose first node sends to its second, which waits as many seconds as its argument."""

    async def slow(arg: float) -> dict[str, Any]:
        await asyncio.sleep(arg)
        return {"log": [arg]}

    def plain(arg: float) -> dict[str, Any]:
        return {"log": [arg]}

    graph = StateGraph(Log)
    graph.add_node("plan", lambda state: Command(goto=list(sends)), destinations=["work"])
    graph.add_node("work", plain if inline else (wait or slow), inline=inline, **options)
    graph.add_edge(START, "plan").add_edge("work", END)
    return graph


def test_a_single_send_with_a_timeout_fails_in_time(driver: Any) -> None:
    app = graph_with_sends(Send("work", 30, timeout=0.02)).compile()
    with pytest.raises(NodeTimeoutError, match="'work'"):
        driver.invoke(app, {})


def test_the_timeout_of_a_send_does_not_apply_to_other_sends(driver: Any) -> None:
    app = graph_with_sends(Send("work", 0.06), Send("work", 0, timeout=600)).compile()
    assert driver.invoke(app, {})["log"] == [0.06, 0]
    app = graph_with_sends(Send("work", 0.06), Send("work", 30, timeout=0.02)).compile()
    with pytest.raises(NodeTimeoutError, match=r"0\.02"):
        driver.invoke(app, {})


def test_the_timeout_of_a_send_replaces_that_of_the_node(driver: Any) -> None:
    app = graph_with_sends(Send("work", 0.1, timeout=600), timeout=0.01).compile()
    assert driver.invoke(app, {})["log"] == [0.1]


def test_a_send_to_a_plain_function_may_have_a_timeout(driver: Any, within: Any) -> None:
    released = threading.Event()

    def wait(arg: float) -> None:
        released.wait(arg)

    app = graph_with_sends(Send("work", 600, timeout=TimeoutPolicy(idle_timeout=0.02)), wait=wait).compile()
    with pytest.raises(NodeTimeoutError):
        within(lambda: driver.invoke(app, {}))
    released.set()


def test_a_saved_send_keeps_its_timeout(driver: Any) -> None:
    app = graph_with_sends(Send("work", 30, timeout=0.02)).compile(InMemorySaver(), interrupt_before=["work"])
    driver.invoke(app, {}, thread_id="t")
    with pytest.raises(NodeTimeoutError):
        driver.invoke(app, None, thread_id="t")


def test_sends_that_cannot_have_a_timeout_are_refused(driver: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="inline"):
        driver.invoke(graph_with_sends(Send("work", 1, timeout=1), inline=True).compile(), {})
    with pytest.raises(InvalidUpdateError, match="gather"):
        Send("work", 1, gather=True, timeout=1)


def test_a_conditional_edge_may_send_with_a_timeout(driver: Any) -> None:
    async def slow(arg: float) -> None:
        await asyncio.sleep(arg)

    graph = StateGraph(Log).add_node("a", lambda state: None).add_node("work", slow)
    graph.add_edge(START, "a").add_edge("work", END)
    graph.add_conditional_edges("a", lambda state: Send("work", 30, timeout=0.02), ["work"])
    with pytest.raises(NodeTimeoutError):
        driver.invoke(graph.compile(), {})


@dataclass
class Deps:
    user: str


def test_functions_called_by_a_node_can_access_the_runtime(driver: Any) -> None:
    store = InMemoryStore()

    def nested() -> dict[str, Any]:
        get_stream_writer()("hello")
        user = get_runtime(Deps).context.user
        assert get_store() is store
        return {"log": [user, get_config()["configurable"]["thread_id"], get_runtime().execution_info.node]}

    graph = StateGraph(Log, Deps).add_node("a", lambda state: nested())
    app = graph.add_edge(START, "a").compile(InMemorySaver(), store=store)
    parts = driver.stream(app, {}, thread_id="7", context=Deps("ann"), stream_mode=["custom", "updates"])
    assert parts == [("custom", "hello"), ("updates", {"a": {"log": ["ann", "7", "a"]}})]


@pytest.mark.parametrize("accessor", [get_config, get_runtime, get_store, get_stream_writer])
def test_the_runtime_cannot_be_accessed_outside_a_node(accessor: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=accessor.__name__):
        accessor()


def chain() -> StateGraph:
    graph = StateGraph(Log).add_node("a", lambda state: {"log": ["a"]}).add_node("b", lambda state: {"x": 1})
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", END)


def test_output_keys_select_the_fields_of_a_result(driver: Any) -> None:
    app = chain().compile()
    assert driver.invoke(app, {}, output_keys=["x"]) == {"x": 1}
    assert driver.invoke(app, {}, output_keys="log") == ["a"]
    assert driver.stream(app, {}, stream_mode="values", output_keys="x") == [None, None, 1]
    assert driver.stream(app, {}, output_keys=["x"]) == [{"b": {"x": 1}}]
    assert driver.stream(app, {}, output_keys="x") == [{"b": 1}]
    with pytest.raises(InvalidConfig, match="Did you mean 'log'"):
        driver.invoke(app, {}, output_keys=["logs"])


def test_print_mode_prints_parts_in_addition_to_the_stream(driver: Any, capsys: pytest.CaptureFixture[str]) -> None:
    app = chain().compile()
    driver.invoke(app, {}, print_mode="updates")
    assert capsys.readouterr().out == "[updates] {'a': {'log': ['a']}}\n[updates] {'b': {'x': 1}}\n"
    assert len(driver.stream(app, {}, print_mode=["values", "updates"])) == 2
    assert capsys.readouterr().out.count("[values]") == 3


def test_a_call_inside_a_node_prints_its_own_parts_and_checks_its_output_keys(
    driver: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = chain().compile()

    def caller(output_keys: str) -> Any:
        def call(state: Any) -> Any:
            return {"y": inner.invoke({}, print_mode="updates", output_keys=output_keys)}

        return StateGraph({}).add_node("outer", call).add_edge(START, "outer").compile()

    assert driver.invoke(caller("x"), {}) == {"y": 1}
    assert capsys.readouterr().out == "[updates] {'a': {'log': ['a']}}\n[updates] {'b': {'x': 1}}\n"
    with pytest.raises(InvalidConfig, match="Did you mean 'log'"):
        driver.invoke(caller("logs"), {})


@dataclass
class Data:
    x: int = 0


def test_version_2_returns_instances_of_the_output_schema(driver: Any) -> None:
    app = StateGraph(Data).add_node("a", lambda state: {"x": 2}).add_edge(START, "a").compile()
    assert driver.invoke(app, {"x": 1}) == {"x": 2}
    assert driver.invoke(app, {"x": 1}, version="v2").value == Data(2)
    parts = driver.stream(app, {"x": 1}, stream_mode="values", version="v2")
    assert [part["data"] for part in parts] == [Data(1), Data(2)]


def test_cached_results_can_be_cleared_by_node(driver: Any) -> None:
    calls: list[str] = []

    def node(name: str) -> Any:
        return lambda state: calls.append(name)

    graph = StateGraph(Log).add_node("a", node("a"), cache_policy=CachePolicy())
    graph.add_node("b", node("b"), cache_policy=CachePolicy())
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(cache=InMemoryCache())
    driver.invoke(app, {"x": 1})
    driver.invoke(app, {"x": 1})
    assert calls == ["a", "b"]
    app.clear_cache(["b"])
    driver.invoke(app, {"x": 1})
    assert calls == ["a", "b", "b"]
    asyncio.run(app.aclear_cache())
    driver.invoke(app, {"x": 1})
    assert calls == ["a", "b", "b", "a", "b"]
    with pytest.raises(InvalidConfig, match="not a node"):
        app.clear_cache("c")
    with pytest.raises(InvalidConfig, match="cache="):
        chain().compile().clear_cache()


def test_instruments_are_notified_of_questions_and_answers(driver: Any) -> None:
    events: list[Any] = []

    class EventRecorder(Instrument):
        def on_interrupt(self, event: Any) -> None:
            events.append(("asked", [question.value for question in event.data]))

        def on_resume(self, event: Any) -> None:
            events.append(("answered", list(event.data.values())))

    graph = StateGraph(Log).add_node("a", lambda state: {"log": [interrupt("sure?")]}).add_edge(START, "a")
    app = graph.compile(InMemorySaver(), instruments=[EventRecorder()])
    driver.invoke(app, {}, thread_id="t")
    driver.invoke(app, Command(resume="yes"), thread_id="t")
    assert events == [("asked", ["sure?"]), ("answered", ["yes"])]


def test_settings_can_be_bound_to_a_graph(driver: Any) -> None:
    app = chain().compile(InMemorySaver())
    bound = app.with_config({"configurable": {"thread_id": "1"}}, recursion_limit=5)
    driver.invoke(bound, {})
    assert bound.get_state().values == app.get_state(thread_id="1").values == {"log": ["a"], "x": 1}
    driver.invoke(bound, {}, {"configurable": {"thread_id": "2"}})
    driver.invoke(bound, {}, thread_id="2")
    assert app.get_state(thread_id="2").values["log"] == ["a", "a"]
    assert bound.with_config(thread_id="3").get_state().values == {}
    assert driver.invoke(app.with_config(), {}, thread_id="4") == {"log": ["a"], "x": 1}
    with pytest.raises(InvalidConfig, match="thread_idd"):
        app.with_config(thread_idd="1")


def test_a_call_overrides_a_bound_recursion_limit(driver: Any) -> None:
    app = chain().compile().with_config(recursion_limit=1)
    with pytest.raises(RecursionError):
        driver.invoke(app, {})
    assert driver.invoke(app, {}, {"recursion_limit": 2})["x"] == 1


def test_a_failing_instrument_is_logged_and_does_not_affect_the_run(
    driver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Instrument):
        def on_task_finished(self, event: Any) -> None:
            raise ValueError("broken")

        def on_task_started(self, event: Any) -> None:
            raise ValueError("broken")

    graph = StateGraph(Log)
    for name in ("a", "b", "c"):
        graph.add_node(name, lambda state, name=name: {"log": [name]})
        graph.add_edge(START, name)
    assert driver.invoke(graph.compile(instruments=[Broken()]), {}) == {"log": ["a", "b", "c"]}
    assert [record.message.partition(",")[0] for record in caplog.records].count(
        "An instrument failed: Broken.on_task_finished"
    ) == 3
