"""The public methods of a compiled graph: arguments, results and errors."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    Budget,
    Command,
    CompiledGraph,
    InMemorySaver,
    Runtime,
    StateGraph,
    append,
    interrupt,
    sleep,
    wait_for_event,
)
from statewright.errors import (
    BudgetExceeded,
    CheckpointNotFound,
    EmptyInputError,
    GraphRecursionError,
    InvalidConfig,
    InvalidResume,
    InvalidUpdateError,
    StatewrightError,
)
from statewright.runtime.options import CallOptions, GraphOutput
from statewright.testing import FakeClock

SCHEMA = {"log": append, "x": int}


class OnlyX(TypedDict, total=False):
    x: int


def log_word(word: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [word]}


def chain(*words: str, **options: Any) -> StateGraph:
    graph = StateGraph(SCHEMA, **options)
    for word in words:
        graph.add_node(word, log_word(word))
    return graph.add_sequence([START, *words])


def single_node(function: Callable[..., Any], **options: Any) -> StateGraph:
    return StateGraph(SCHEMA, **options).add_node("a", function).add_edge(START, "a")


def questioning_app() -> CompiledGraph:
    return single_node(lambda state: {"x": interrupt("how many?")}).compile(InMemorySaver())


def saved_chain(*words: str) -> CompiledGraph:
    return chain(*words).compile(InMemorySaver())


@pytest.fixture(params=["invoke", "ainvoke"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that runs a graph by a plain call, or on an event loop."""

    def run(app: CompiledGraph, *args: Any, **options: Any) -> Any:
        result = getattr(app, request.param)(*args, **options)
        return result if request.param == "invoke" else asyncio.run(result)

    return run


# -- the result of a call


def test_a_call_returns_the_final_state(call: Any) -> None:
    assert call(chain("a", "b").compile(), {"x": 1}) == {"x": 1, "log": ["a", "b"]}


def test_a_call_returns_the_fields_of_the_output_schema(call: Any) -> None:
    assert call(chain("a", output_schema=OnlyX).compile(), {"x": 1}) == {"x": 1}


def test_a_waiting_run_returns_its_questions_with_the_state(call: Any) -> None:
    result = call(questioning_app(), {"x": 1}, thread_id="1")
    assert (result["x"], [question.value for question in result["__interrupt__"]]) == (1, ["how many?"])


def test_a_waiting_run_returns_a_bare_state_under_root(call: Any) -> None:
    graph = StateGraph(int).add_node("a", lambda state: interrupt("how many?")).add_edge(START, "a")
    result = call(graph.compile(InMemorySaver()), 3, thread_id="1")
    assert (result["__root__"], [question.value for question in result["__interrupt__"]]) == (3, ["how many?"])


def test_version_2_separates_the_state_from_the_questions(call: Any) -> None:
    result = call(questioning_app(), {"x": 1}, thread_id="1", version="v2")
    assert isinstance(result, GraphOutput)
    assert (result.value["x"], [question.value for question in result.interrupts]) == (1, ["how many?"])
    done = call(chain("a").compile(), {"x": 1}, version="v2")
    assert (done.value, done.interrupts) == ({"x": 1, "log": ["a"]}, ())


def test_a_call_with_another_stream_mode_returns_all_parts(call: Any) -> None:
    assert call(chain("a", "b").compile(), {"x": 1}, stream_mode="updates") == [
        {"a": {"log": ["a"]}},
        {"b": {"log": ["b"]}},
    ]


def test_a_call_raises_the_error_of_a_node_with_a_note_of_its_location(call: Any) -> None:
    error = LookupError("no luck")

    def fail(state: Any) -> None:
        raise error

    with pytest.raises(LookupError) as caught:
        call(single_node(fail).compile(), {"x": 1})
    assert caught.value is error
    assert caught.value.__notes__ == ["in node 'a', step 1, attempt 1"]


def test_changing_a_result_does_not_change_the_saved_state(call: Any) -> None:
    app = saved_chain("a")
    call(app, {"x": 1}, thread_id="1")["x"] = "changed"
    assert app.get_state(thread_id="1").values["x"] == 1


def test_a_graph_can_run_in_several_threads_at_once() -> None:
    app, results = chain("a", "b").compile(), list[Any]()
    threads = [threading.Thread(target=lambda n=n: results.append(app.invoke({"x": n}))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result["x"] for result in results) == list(range(8))
    assert all(result["log"] == ["a", "b"] for result in results)


# -- the arguments of a call


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"recursion_limt": 3}, InvalidConfig, "Unknown keyword 'recursion_limt'. Did you mean 'recursion_limit'"),
        ({"config": {"recursionlimit": 3}}, InvalidConfig, "unknown key 'recursionlimit'"),
        ({"config": 5}, InvalidConfig, "config is 5"),
        ({"recursion_limit": 0}, InvalidConfig, "recursion_limit is 0"),
        ({"recursion_limit": True}, InvalidConfig, "recursion_limit is True"),
        ({"max_concurrency": -1}, InvalidConfig, "max_concurrency is -1"),
        ({"thread_id": ""}, InvalidConfig, "thread_id is ''"),
        ({"durability": "never"}, InvalidConfig, "durability is 'never'"),
        ({"on_busy": "wait"}, InvalidConfig, "on_busy is 'wait'"),
        ({"on_unfinished": "forget"}, InvalidConfig, "on_unfinished is 'forget'"),
        ({"interrupt_before": "b"}, InvalidConfig, "interrupt_before names 'b'"),
        ({"interrupt_after": ["b"]}, InvalidConfig, "interrupt_after names 'b'"),
        ({"budget": Budget(max_steps=1, on_budget="b")}, InvalidConfig, "budget names 'b'"),
        ({"thread_id": "1", "checkpoint_id": "2"}, InvalidConfig, "needs a checkpointer"),
        ({"namespace": "a:1", "thread_id": "1"}, InvalidConfig, "names the subgraph 'a:1'"),
        ({"stream_mode": "value"}, InvalidConfig, "Did you mean 'values'"),
        ({"stream_mode": "updates", "version": "v3"}, InvalidConfig, "version is 'v3'"),
    ],
)
def test_a_call_refuses_invalid_options(
    call: Any, options: dict[str, Any], error: type[StatewrightError], message: str
) -> None:
    with pytest.raises(error) as caught:
        call(chain("a").compile(), {"x": 1}, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [5, "text", ["x"], object()], ids=["number", "text", "list", "object"])
def test_a_call_refuses_input_of_the_wrong_type(call: Any, value: Any) -> None:
    with pytest.raises(InvalidUpdateError):
        call(chain("a").compile(), value)


def test_a_call_without_input_is_refused(call: Any) -> None:
    with pytest.raises(EmptyInputError):
        call(chain("a").compile(), None)


def test_a_graph_with_a_checkpointer_needs_a_thread_id(call: Any) -> None:
    with pytest.raises(InvalidConfig, match="needs a thread_id"):
        call(saved_chain("a"), {"x": 1})


def test_a_node_sees_the_thread_id_without_a_checkpointer(call: Any) -> None:
    app = single_node(lambda state, runtime: {"log": [runtime.execution_info.thread_id]}).compile()
    assert call(app, {"x": 1}, thread_id="t")["log"] == ["t"]


@pytest.mark.parametrize(
    "config",
    [
        {"configurable": {"thread_id": "t"}},
        {"thread_id": "t"},
        {"configurable": {"thread_id": "other"}, "thread_id": "t"},
    ],
)
def test_the_thread_id_can_be_at_the_top_of_the_config_or_configurable(config: dict[str, Any]) -> None:
    app = saved_chain("a")
    app.invoke({"x": 1}, config)
    assert app.get_state(thread_id="t").values == {"x": 1, "log": ["a"]}


def test_a_keyword_wins_over_the_same_key_in_the_config(call: Any) -> None:
    with pytest.raises(GraphRecursionError, match="after 1 supersteps"):
        call(chain("a", "b").compile(), {"x": 1}, {"recursion_limit": 100}, recursion_limit=1)


def test_a_mapping_as_context_is_converted_to_the_context_schema(call: Any) -> None:
    @dataclass
    class Context:
        user: str
        age: int = 0

    def node(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"log": [runtime.context.user, runtime.context.age]}

    app = single_node(node, context_schema=Context).compile()
    assert call(app, {"x": 1}, context={"user": "Ada"})["log"] == ["Ada", 0]
    assert call(app, {"x": 1}, context=Context("Bob", 3))["log"] == ["Bob", 3]
    with pytest.raises(StatewrightError):
        call(app, {"x": 1}, context={"age": "old"})


def test_the_budget_of_a_call_wins_over_that_of_the_graph(call: Any) -> None:
    app = chain("a", "b", "c").compile(budget=Budget(max_steps=1))
    with pytest.raises(BudgetExceeded, match="of 1"):
        call(app, {"x": 1})
    assert call(app, {"x": 1}, budget=Budget(max_steps=10))["log"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("compile_options", "call_options", "due"),
    [
        ({"interrupt_before": "b"}, {}, ("b",)),
        ({}, {"interrupt_before": ["b"]}, ("b",)),
        ({}, {"interrupt_after": "b"}, ("c",)),
        ({"interrupt_before": "c"}, {"interrupt_before": "b"}, ("b",)),
        ({}, {"interrupt_before": "*"}, ("a",)),
    ],
)
def test_a_run_stops_at_breakpoints(
    call: Any, compile_options: dict[str, Any], call_options: dict[str, Any], due: tuple[str, ...]
) -> None:
    app = chain("a", "b", "c").compile(InMemorySaver(), **compile_options)
    call(app, {"x": 1}, thread_id="1", **call_options)
    assert app.get_state(thread_id="1").next == due
    while app.get_state(thread_id="1").next:
        call(app, None, thread_id="1")
    assert app.get_state(thread_id="1").values["log"] == ["a", "b", "c"]


# -- resuming by time and event


def test_resume_due_resumes_a_thread_at_its_due_time() -> None:
    clock = FakeClock()
    graph = single_node(lambda state: sleep(60) or {"log": ["awake"]})
    app = graph.compile(InMemorySaver(), clock=clock)
    app.invoke({"x": 1}, thread_id="1")
    assert app.resume_due(thread_id="1") is None
    assert asyncio.run(app.aresume_due(thread_id="1")) is None
    assert app.get_state(thread_id="1").next == ("a",)
    assert app.resume_due(thread_id="1", now=clock.now() + timedelta(seconds=60))["log"] == ["awake"]
    app.invoke({"x": 1}, thread_id="2")
    clock.advance(60)
    assert asyncio.run(app.aresume_due(thread_id="2"))["log"] == ["awake"]


@pytest.mark.parametrize("caller", ["sync", "async"])
def test_send_event_resumes_the_task_that_waits_for_the_event(caller: str) -> None:
    app = single_node(lambda state: {"log": [wait_for_event("paid")]}).compile(InMemorySaver())
    app.invoke({"x": 1}, thread_id="1")

    def send(name: str, payload: Any) -> Any:
        if caller == "sync":
            return app.send_event(name, payload, thread_id="1")
        return asyncio.run(app.asend_event(name, payload, thread_id="1"))

    with pytest.raises(InvalidResume, match="Did you mean 'paid'"):
        send("payed", 5)
    assert send("paid", 5)["log"] == [5]
    with pytest.raises(InvalidResume, match="No task of this thread waits for the event 'paid'"):
        send("paid", 5)


# -- threads


@pytest.mark.parametrize(
    "operation",
    [
        lambda app: app.get_state(thread_id="1"),
        lambda app: list(app.get_state_history(thread_id="1")),
        lambda app: app.update_state({"thread_id": "1"}, {"x": 1}, "a"),
        lambda app: app.fork({"thread_id": "1"}),
        lambda app: app.get_events(thread_id="1"),
        lambda app: asyncio.run(app.aget_state(thread_id="1")),
    ],
)
def test_thread_operations_need_a_checkpointer(operation: Callable[[CompiledGraph], Any]) -> None:
    with pytest.raises(InvalidConfig, match="compile\\(checkpointer="):
        operation(chain("a").compile())


def test_the_state_of_a_new_thread_is_empty() -> None:
    state = saved_chain("a").get_state(thread_id="1")
    assert (state.next, state.tasks, state.interrupts, state.created_at, state.parent_config) == (
        (),
        (),
        (),
        None,
        None,
    )
    assert state.values == {}
    assert list(saved_chain("a").get_state_history(thread_id="1")) == []


def test_get_state_returns_the_values_tasks_questions_and_metadata() -> None:
    app = questioning_app()
    app.invoke({"x": 1}, thread_id="1", run_id="r")
    state = app.get_state(thread_id="1")
    assert (state.values["x"], state.next) == (1, ("a",))
    assert [question.value for question in state.interrupts] == ["how many?"]
    assert [(task.name, len(task.interrupts)) for task in state.tasks] == [("a", 1)]
    assert (state.metadata["source"], state.metadata["step"], state.metadata["run_id"]) == ("input", 0, "r")
    assert asyncio.run(app.aget_state(thread_id="1")) == state


def test_getting_a_missing_checkpoint_is_refused() -> None:
    app = saved_chain("a")
    app.invoke({"x": 1}, thread_id="1")
    with pytest.raises(CheckpointNotFound, match="'missing'"):
        app.get_state(thread_id="1", checkpoint_id="missing")


def history(app: CompiledGraph, **options: Any) -> list[tuple[Any, ...]]:
    return [(state.metadata["source"], state.next) for state in app.get_state_history(thread_id="1", **options)]


def test_the_history_of_a_thread_is_newest_first() -> None:
    app = saved_chain("a", "b")
    app.invoke({"x": 1}, thread_id="1")
    assert history(app) == [("loop", ()), ("loop", ("b",)), ("input", ("a",))]

    async def read() -> list[Any]:
        return [state async for state in app.aget_state_history(thread_id="1")]

    assert asyncio.run(read()) == list(app.get_state_history(thread_id="1"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"limit": 1}, [("loop", ())]),
        ({"limit": 0}, []),
        ({"filter": {"source": "input"}}, [("input", ("a",))]),
        ({"filter": {"source": "loop"}, "limit": 1}, [("loop", ())]),
        ({"filter": {"source": "loop", "step": 1}}, [("loop", ("b",))]),
        ({"filter": {"nothing": 1}}, []),
    ],
)
def test_the_history_can_be_limited_and_filtered(options: dict[str, Any], expected: list[Any]) -> None:
    app = saved_chain("a", "b")
    app.invoke({"x": 1}, thread_id="1")
    assert history(app, **options) == expected


def test_the_history_before_a_config_contains_the_older_checkpoints() -> None:
    app = saved_chain("a", "b")
    app.invoke({"x": 1}, thread_id="1")
    newest, *older = app.get_state_history(thread_id="1")
    assert list(app.get_state_history(thread_id="1", before=newest.config)) == older


def test_every_config_in_the_history_loads_its_checkpoint() -> None:
    app = saved_chain("a", "b")
    app.invoke({"x": 1}, thread_id="1")
    for state in app.get_state_history(thread_id="1"):
        assert app.get_state(state.config) == state
        if state.parent_config is not None:
            assert app.get_state(state.parent_config).metadata["step"] == state.metadata["step"] - 1


def test_an_update_as_a_node_continues_after_the_node() -> None:
    app = saved_chain("a", "b", "c")
    app.invoke({"x": 1}, thread_id="1", interrupt_before="b")
    config = app.update_state({"thread_id": "1"}, {"log": ["by hand"]}, as_node="b")
    state = app.get_state(config)
    assert (state.values["log"], state.next, state.metadata["source"]) == (["a", "by hand"], ("c",), "update")
    assert app.invoke(None, thread_id="1")["log"] == ["a", "by hand", "c"]


def test_an_update_without_a_node_is_of_the_last_node_that_ran() -> None:
    app = saved_chain("a", "b", "c")
    app.invoke({"x": 1}, thread_id="1", interrupt_after="b")
    asyncio.run(app.aupdate_state({"thread_id": "1"}, {"x": 5}))
    assert app.get_state(thread_id="1").next == ("c",)
    assert app.get_state(thread_id="1").values["x"] == 5


@pytest.mark.parametrize(
    ("updates", "log", "due"),
    [
        ([({"log": ["one"]}, "a"), ({"log": ["two"]}, "b")], ["one", "two"], ("b", "c")),
        ([({"log": ["end"]}, END)], ["end"], ()),
    ],
)
def test_a_bulk_update_is_one_superstep(updates: Any, log: list[str], due: tuple[str, ...]) -> None:
    app = saved_chain("a", "b", "c")
    app.invoke({"x": 1}, thread_id="1", interrupt_before="a")
    app.bulk_update_state({"thread_id": "1"}, updates)
    state = app.get_state(thread_id="1")
    assert (state.values["log"], state.next, state.metadata["step"]) == (log, due, 1)


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([({"x": 1}, "z")], "as_node is 'z'"),
        ([({"x": 1}, None), ({"x": 2}, None)], "needs as_node"),
        ([(5, "a")], "'a'"),
    ],
)
def test_an_invalid_bulk_update_is_refused_and_changes_nothing(updates: Any, message: str) -> None:
    app = saved_chain("a", "b")
    app.invoke({"x": 1}, thread_id="1")
    before = app.get_state(thread_id="1")
    with pytest.raises(InvalidUpdateError, match=message):
        app.bulk_update_state({"thread_id": "1"}, updates)
    assert app.get_state(thread_id="1") == before


def test_a_fork_starts_a_branch_at_a_checkpoint() -> None:
    app = saved_chain("a", "b")
    app.invoke({"x": 1}, thread_id="1")
    _, middle, _ = app.get_state_history(thread_id="1")
    config = app.fork(middle.config, branch="other")
    assert (app.get_state(config).next, app.get_state(config).metadata["branch"]) == (("b",), "other")
    assert app.invoke(None, config)["log"] == ["a", "b"]
    assert app.get_state(thread_id="1").next == ()
    with pytest.raises(InvalidUpdateError, match="already has a branch 'other'"):
        app.fork(middle.config, branch="other")


def test_events_of_a_thread_are_ordered_by_run() -> None:
    app = saved_chain("a")
    app.invoke({"x": 1}, thread_id="1", run_id="one")
    app.invoke({"x": 1}, thread_id="1", run_id="two")
    events = app.get_events(thread_id="1")
    assert [event.run_id for event in events] == sorted(event.run_id for event in events)
    of_run = app.get_events(thread_id="1", run_id="one")
    assert {event.run_id for event in of_run} == {"one"}
    assert [event.seq for event in of_run] == list(range(1, len(of_run) + 1))
    assert app.get_events(thread_id="1", run_id="one", after=1) == of_run[1:]
    assert app.get_events(thread_id="1", run_id="one", after=1, limit=1) == of_run[1:2]


# -- inspecting


def nested() -> CompiledGraph:
    deep = chain("x", name="deep").compile()
    middle = chain("m", name="middle").add_node("deep", deep).add_edge("m", "deep").compile()
    return chain("a").add_node("middle", middle).add_edge("a", "middle").compile()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["middle"]),
        ({"recurse": True}, ["middle", "middle|deep"]),
        ({"namespace": "middle"}, ["middle"]),
        ({"namespace": "middle|deep"}, ["middle|deep"]),
        ({"namespace": "middle:123|deep:456"}, ["middle|deep"]),
        ({"namespace": "missing"}, []),
    ],
)
def test_get_subgraphs_returns_subgraphs_by_path(options: dict[str, Any], expected: list[str]) -> None:
    graphs = dict(nested().get_subgraphs(**options))
    assert list(graphs) == expected
    assert all(graph.name == path.rpartition("|")[2] for path, graph in graphs.items())


def test_a_compiled_graph_has_a_name_a_repr_and_a_picture() -> None:
    app = chain("a", "b", name="mine").compile()
    assert (app.name, repr(app)) == ("mine", "CompiledGraph('mine', 2 nodes)")
    shown = app._repr_mimebundle_(include=None, exclude=None)
    assert shown["text/plain"] == repr(app)
    assert shown["image/svg+xml"].startswith("<svg")
    assert app.get_graph().name == "mine"


def test_a_compiled_graph_has_json_schemas_of_input_output_state_and_context() -> None:
    class Question(TypedDict):
        question: str

    class State(Question, total=False):
        x: int

    @dataclass
    class Context:
        user: str

    graph = StateGraph(State, Context, input_schema=Question, output_schema=OnlyX, name="mine")
    app = graph.add_node("a", lambda state: {"x": 1}).add_edge(START, "a").compile()
    assert app.get_input_jsonschema()["title"] == "mineInput"
    assert set(app.get_input_jsonschema()["properties"]) == {"question"}
    assert set(app.get_output_jsonschema()["properties"]) == {"x"}
    assert set(app.get_state_jsonschema()["properties"]) == {"question", "x"}
    context = app.get_context_jsonschema()
    assert context is not None
    assert set(context["properties"]) == {"user"}
    assert chain("a").compile().get_context_jsonschema() is None


# -- calls inside a node


def test_a_call_inside_a_node_belongs_to_the_run_of_the_node() -> None:
    seen: list[Any] = []

    def record_info(state: Any, runtime: Runtime[Any]) -> None:
        info = runtime.execution_info
        seen.append((info.thread_id, info.run_id, runtime.context, bool(info.namespace)))

    inner = single_node(record_info).compile()
    app = single_node(lambda state: inner.invoke({"x": 1}) and None).compile(InMemorySaver())
    app.invoke({"x": 1}, thread_id="t", run_id="r", context="dependencies")
    assert seen == [("t", "r", "dependencies", True)]


def test_a_question_of_a_graph_called_in_a_node_is_a_question_of_the_thread() -> None:
    inner = single_node(lambda state: {"x": interrupt("how many?")}).compile()
    app = single_node(lambda state: {"log": [inner.invoke({"x": 1})["x"]]}).compile(InMemorySaver())
    assert [question.value for question in app.invoke({"x": 1}, thread_id="1")["__interrupt__"]] == ["how many?"]
    assert app.invoke(Command(resume=7), thread_id="1")["log"] == [7]


def test_a_call_inside_a_node_with_another_thread_id_is_a_separate_run() -> None:
    saver = InMemorySaver()
    inner = chain("inner").compile(saver)
    app = single_node(lambda state: inner.invoke({"x": 1}, thread_id="other") and None).compile(InMemorySaver())
    app.invoke({"x": 1}, thread_id="1")
    assert inner.get_state(thread_id="other").values["log"] == ["inner"]


def test_call_options_include_the_documented_ones() -> None:
    from statewright.runtime.config import ON_BUSY

    option_names = set(CallOptions.__annotations__)
    assert {"thread_id", "checkpoint_id", "recursion_limit", "max_concurrency", "durability", "on_busy"} <= option_names
    for choice in ON_BUSY:
        assert saved_chain("a").invoke({"x": 1}, thread_id="1", on_busy=choice)["log"] == ["a"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_the_final_state_is_saved_with_every_durability(call: Any, durability: str) -> None:
    app = saved_chain("a", "b")
    result = call(app, {"x": 1}, thread_id="1", durability=durability)
    state = app.get_state(thread_id="1")
    assert (state.values, state.next) == (result, ())
    assert (("loop", ("b",)) in history(app)) == (durability != "exit")


def test_a_run_does_not_change_its_input() -> None:
    value = {"x": 1, "log": ["given"]}
    before = copy.deepcopy(value)
    chain("a", "b").compile().invoke(value)
    assert value == before


class DatedSaver(InMemorySaver):
    """A saver with a clock, such as that of a database server."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()


def test_the_clock_is_that_of_the_saver_unless_another_is_given() -> None:
    graph = single_node(lambda state: sleep(60) or {"log": ["awake"]})
    saver, clock = DatedSaver(), FakeClock()
    saver.clock.advance(3600)
    for number, (app, expected) in enumerate(
        (
            (graph.compile(saver), saver.clock),
            (graph.compile().with_services(checkpointer=saver), saver.clock),
            (graph.compile(DatedSaver()).with_services(checkpointer=saver), saver.clock),
            (graph.compile(saver, clock=clock), clock),
            (graph.compile(clock=clock).with_services(checkpointer=saver), clock),
            (graph.compile().with_services(clock=clock).with_services(checkpointer=saver), clock),
        )
    ):
        app.invoke({"x": 1}, thread_id=str(number))
        (question,) = app.get_state(thread_id=str(number)).interrupts
        assert question.due_at == expected.now() + timedelta(seconds=60)
