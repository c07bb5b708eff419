"""Traces of runs: their spans, how these are nested, and which one is current in a node."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode
from tests.work import wait_until

from statewright import (
    START,
    CachePolicy,
    Command,
    InMemorySaver,
    Instrument,
    RetryPolicy,
    RunControl,
    Runtime,
    StateGraph,
    append,
    entrypoint,
    interrupt,
    task,
)
from statewright.agents import Agent
from statewright.cache import InMemoryCache
from statewright.events import Event
from statewright.messages import ToolCall
from statewright.models import ScriptedModel
from statewright.observe.tracing import Tracing
from statewright.testing import FakeClock

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Bench:
    """A provider that records spans, with their names and paths."""

    def __init__(self, clock: Any = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(self.provider, clock=clock)
        self.tracer = self.provider.get_tracer("test")

    def app(self, graph: StateGraph, saver: Any = None, **options: Any) -> Any:
        return graph.compile(saver, instruments=[self.tracing], **options)

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.ended if span.name == name]

    def path(self, span: ReadableSpan) -> list[str]:
        """Return the names from the outermost span to this one."""
        by_id = {item.context.span_id: item for item in self.ended if item.context}
        names = [span.name]
        while span.parent is not None and span.parent.span_id in by_id:
            span = by_id[span.parent.span_id]
            names.insert(0, span.name)
        return names

    @property
    def paths(self) -> list[str]:
        return sorted(" > ".join(self.path(span)) for span in self.ended)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def chain(**nodes: Any) -> StateGraph:
    graph, before = StateGraph({"log": append}), START
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph


def parallel(**nodes: Any) -> StateGraph:
    graph = StateGraph({"log": append})
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(START, name)
    return graph


def run(app: Any, drives_async: bool, value: Any = None, **options: Any) -> Any:
    if not drives_async:
        return app.invoke({} if value is None else value, **options)
    return asyncio.run(app.ainvoke({} if value is None else value, **options))


both = pytest.mark.parametrize("drives_async", [False, True])
savers = pytest.mark.parametrize("saver", [None, InMemorySaver])


@both
@savers
def test_a_run_has_nested_spans_for_supersteps_and_nodes(bench: Bench, drives_async: bool, saver: Any) -> None:
    app = bench.app(chain(a=lambda s: None, b=lambda s: None), saver and saver(), name="g")
    run(app, drives_async, run_id="r-1", **({"thread_id": "t"} if saver else {}))
    assert bench.paths == [
        "run g",
        "run g > superstep 1",
        "run g > superstep 1 > node a",
        "run g > superstep 2",
        "run g > superstep 2 > node b",
    ]
    assert len({span.context.trace_id for span in bench.ended if span.context}) == 1
    (node,) = bench.named("node b")
    assert node.attributes is not None
    assert {key: node.attributes[f"statewright.{key}"] for key in ("run_id", "graph", "node", "step", "attempt")} == {
        "run_id": "r-1",
        "graph": "g",
        "node": "b",
        "step": 2,
        "attempt": 1,
    }
    assert node.attributes["statewright.task_id"]
    assert node.attributes.get("statewright.thread_id") == ("t" if saver else None)
    (run_span,) = bench.named("run g")
    assert run_span.attributes is not None
    assert run_span.attributes["statewright.status"] == "completed"


def create_span_node(bench: Bench, name: str) -> Any:
    def node(state: Any) -> None:
        with bench.tracer.start_as_current_span(name):
            pass

    return node


def create_async_span_node(bench: Bench, name: str) -> Any:
    async def node(state: Any) -> None:
        await asyncio.sleep(0)
        with bench.tracer.start_as_current_span(name):
            await asyncio.sleep(0)

    return node


@both
@savers
@pytest.mark.parametrize("create_node", [create_span_node, create_async_span_node])
@pytest.mark.parametrize("shape", [chain, parallel])
@pytest.mark.parametrize("options", [{}, {"timeout": 60.0}, {"retry_policy": RetryPolicy(max_attempts=2)}])
def test_spans_created_by_a_node_are_nested_in_its_span(
    bench: Bench, create_node: Any, shape: Any, drives_async: bool, saver: Any, options: Any
) -> None:
    graph = StateGraph({"log": append})
    for name in "ab":
        graph.add_node(name, create_node(bench, f"own {name}"), **options)
        graph.add_edge(START if name == "a" or shape is parallel else "a", name)
    app = bench.app(graph, saver and saver(), name="g")
    outside = trace.get_current_span()
    run(app, drives_async, **({"thread_id": "t", "durability": "sync"} if saver else {}))
    for name in "ab":
        (span,) = bench.named(f"own {name}")
        assert bench.path(span)[-2:] == [f"node {name}", f"own {name}"]
    assert trace.get_current_span() is outside


@both
def test_a_call_is_part_of_the_trace_of_its_caller(bench: Bench, drives_async: bool) -> None:
    with bench.tracer.start_as_current_span("caller") as caller:
        run(bench.app(chain(a=lambda s: None), name="g"), drives_async)
        assert trace.get_current_span() is caller
    assert "caller > run g > superstep 1 > node a" in bench.paths


@both
def test_metadata_can_name_a_remote_parent(bench: Bench, drives_async: bool) -> None:
    config = {"metadata": {"traceparent": TRACEPARENT}}
    inner = chain(n=lambda s: None).compile(name="inner")
    run(bench.app(chain(a=inner), name="g"), drives_async, config=config)
    (run_span,) = bench.named("run g")
    assert run_span.parent is not None
    assert f"{run_span.parent.trace_id:032x}-{run_span.parent.span_id:016x}" == TRACEPARENT[3:-3]
    assert bench.path(bench.named("node n")[0])[-3:] == ["run inner", "superstep 1", "node n"]


@both
def test_a_subgraph_is_a_run_nested_in_its_node(bench: Bench, drives_async: bool) -> None:
    inner = chain(n=create_span_node(bench, "own")).compile(name="inner")
    run(bench.app(parallel(a=inner, b=inner), name="g"), drives_async)
    for name in "ab":
        path = f"run g > superstep 1 > node {name} > run inner > superstep 1 > node n > own"
        assert bench.paths.count(path) == 1


def test_a_subgraph_called_by_a_node_is_nested_too(bench: Bench) -> None:
    inner = chain(n=lambda s: None).compile(name="inner")
    bench.app(chain(a=lambda state: inner.invoke(state)), name="g").invoke({})
    assert "run g > superstep 1 > node a > run inner > superstep 1 > node n" in bench.paths


@both
def test_each_attempt_has_a_span(drives_async: bool) -> None:
    clock = FakeClock(jumps=True)
    bench = Bench(clock)
    attempts: list[int] = []

    def flaky(state: Any) -> None:
        with bench.tracer.start_as_current_span(f"own {len(attempts)}"):
            attempts.append(1)
            if len(attempts) < 3:
                raise ValueError("token=abc")

    policy = RetryPolicy(max_attempts=3, initial_interval=10.0, backoff_factor=2.0, jitter=False, retry_on=ValueError)
    graph = StateGraph({"log": append}).add_node("n", flaky, retry_policy=policy).add_edge(START, "n")
    run(bench.app(graph, name="g", clock=clock), drives_async)
    result = bench.named("node n")
    assert [span.attributes["statewright.attempt"] for span in result if span.attributes] == [1, 2, 3]
    assert [span.status.status_code for span in result] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert result[0].status.description == "ValueError: token=[redacted]"
    starts = [span.start_time or 0 for span in result]
    assert [(start - starts[0]) / 1e9 for start in starts] == [0, 10, 30]
    assert [bench.path(bench.named(f"own {n}")[0])[-2] for n in range(3)] == ["node n"] * 3
    assert len({span.parent.span_id for span in bench.ended if span.name.startswith("own") and span.parent}) == 3


def failing(state: Any) -> None:
    raise ValueError("no")


@both
@savers
def test_a_failure_is_recorded_by_node_and_run_and_leaves_no_current_span(
    bench: Bench, drives_async: bool, saver: Any
) -> None:
    app = bench.app(chain(a=failing), saver and saver(), name="g")
    outside = trace.get_current_span()
    with suppress(ValueError):
        run(app, drives_async, **({"thread_id": "t"} if saver else {}))
    assert trace.get_current_span() is outside
    (node,), (run_span,) = bench.named("node a"), bench.named("run g")
    for span in (node, run_span):
        assert span.status.description == "ValueError: no"
        assert span.attributes is not None
        assert span.attributes["error.type"] == "ValueError"
    assert (len(node.events), len(run_span.events)) == (1, 0)


def test_an_error_outside_of_nodes_is_recorded_by_the_run(bench: Bench) -> None:
    graph = StateGraph({"x": int})
    for name in "ab":
        graph.add_node(name, lambda state: {"x": 1}).add_edge(START, name)
    app = bench.app(graph, name="g")
    with suppress(Exception):
        app.invoke({})
    (run_span,) = bench.named("run g")
    assert run_span.attributes is not None
    assert run_span.attributes["error.type"] == "SW-conflicting-writes"
    assert len(run_span.events) == 1
    assert [span.status.status_code for span in bench.ended if span.name.startswith("node")] == [StatusCode.UNSET] * 2


def ask(state: Any) -> None:
    interrupt("go on?")


@both
def test_a_failed_commit_ends_the_trace_and_leaves_no_current_span(bench: Bench, drives_async: bool) -> None:
    class Failing(InMemorySaver):
        def commit(self, commit: Any, **parts: Any) -> Any:
            if commit.source == "loop":
                raise OSError("no disk")
            return super().commit(commit, **parts)

    outside = trace.get_current_span()

    async def call() -> Any:
        with pytest.raises(OSError, match="no disk"):
            await app.ainvoke({}, thread_id="t", durability="sync")
        return trace.get_current_span()

    app = bench.app(chain(a=lambda s: None), Failing(), name="g")
    if drives_async:
        assert asyncio.run(call()) is outside
    else:
        with pytest.raises(OSError, match="no disk"):
            app.invoke({}, thread_id="t", durability="sync")
    assert trace.get_current_span() is outside
    assert bench.paths == ["run g", "run g > superstep 1", "run g > superstep 1 > node a"]
    assert bench.named("run g")[0].status.description == "OSError: no disk"


def test_an_abandoned_stream_ends_its_trace(bench: Bench) -> None:
    app = bench.app(chain(a=lambda s: None, b=lambda s: None), InMemorySaver(), name="g")
    parts = app.stream({}, thread_id="t", durability="sync")
    outside = trace.get_current_span()
    for _ in range(2):
        next(parts)
        assert trace.get_current_span() is outside
    parts.close()
    wait_until(lambda: bench.named("run g"))  # a finaliser on another thread may close the stream
    (run_span,) = bench.named("run g")
    assert run_span.attributes is not None
    assert (run_span.attributes["statewright.status"], run_span.status.status_code) == ("cancelled", StatusCode.UNSET)


@both
def test_a_span_ends_with_its_task_and_not_with_the_commit(drives_async: bool) -> None:
    clock = FakeClock()
    bench = Bench(clock)
    quick_has_ended = threading.Event()

    def slow(state: Any) -> None:
        assert quick_has_ended.wait(600)
        clock.advance(60)

    class Watching(Instrument):
        def on_task_ended(self, event: Event) -> None:
            if event.node == "quick":
                quick_has_ended.set()

    graph = parallel(quick=lambda s: None, slow=slow)
    app = graph.compile(InMemorySaver(), instruments=[bench.tracing, Watching()], clock=clock)
    run(app, drives_async, thread_id="t", durability="sync")
    ((quick,), (slow_span,)) = bench.named("node quick"), bench.named("node slow")
    assert [(span.end_time or 0) - (span.start_time or 0) for span in (quick, slow_span)] == [0, 60_000_000_000]


def charge(amount: int) -> int:
    return amount


async def charge_later(amount: int) -> int:
    await asyncio.sleep(0)
    return amount


@both
def test_journalled_steps_have_spans_that_contain_the_spans_of_their_functions(
    bench: Bench, drives_async: bool
) -> None:
    def work(amount: int) -> int:
        with bench.tracer.start_as_current_span(f"own {amount}"):
            return amount

    def plain(state: Any, runtime: Runtime[Any]) -> None:
        runtime.step("charge", work, 1)
        with suppress(ValueError):
            runtime.step("fail", failing, 1)

    async def later(state: Any, runtime: Runtime[Any]) -> None:
        async def work_later(amount: int) -> int:
            await asyncio.sleep(0)
            return work(amount)

        await asyncio.gather(*(runtime.step("charge", work_later, n) for n in (2, 3)))

    run(bench.app(parallel(plain=plain, later=later), name="g"), drives_async)
    path = "run g > superstep 1 > node"
    assert f"{path} plain > step charge > own 1" in bench.paths
    assert {f"{path} later > step charge > own {n}" for n in (2, 3)} <= set(bench.paths)
    (failed,) = bench.named("step fail")
    assert bench.path(failed)[-2:] == ["node plain", "step fail"]
    assert failed.status.description == "ValueError: no"


def test_called_tasks_have_spans_unless_their_result_is_known(bench: Bench) -> None:
    @task
    def part(number: int) -> int:
        with bench.tracer.start_as_current_span(f"own {number}"):
            return number

    answers: list[int] = []

    @entrypoint(checkpointer=InMemorySaver())
    def whole_run(number: int, runtime: Runtime[Any]) -> int:
        total = sum(item.result() for item in [part(1), part(2)])
        answers.append(interrupt("go on?"))
        return total

    app = whole_run.with_services(instruments=[bench.tracing])
    app.invoke(1, thread_id="t")
    app.invoke(Command(resume=5), thread_id="t")
    assert answers == [5]
    assert len(bench.named("step part")) == 2
    assert [bench.path(bench.named(f"own {n}")[0])[-3:] for n in (1, 2)] == [
        ["node whole_run", "step part", f"own {n}"] for n in (1, 2)
    ]


def test_a_wait_is_not_an_error_and_resuming_is_a_new_trace(bench: Bench) -> None:
    app = bench.app(chain(a=ask), InMemorySaver(), name="g")
    app.invoke({}, thread_id="t", run_id="r")
    (node,), (run_span,) = bench.named("node a"), bench.named("run g")
    assert node.attributes is not None
    assert run_span.attributes is not None
    assert (node.attributes["statewright.outcome"], run_span.attributes["statewright.status"]) == ("waiting", "waiting")
    assert {span.status.status_code for span in bench.ended} == {StatusCode.UNSET}
    app.invoke(Command(resume="yes"), thread_id="t", run_id="r")
    first, second = bench.named("run g")
    assert first.context
    assert second.context
    assert first.context.trace_id != second.context.trace_id
    assert first.attributes
    assert second.attributes
    assert first.attributes["statewright.run_id"] == second.attributes["statewright.run_id"] == "r"


def weather(city: str) -> str:
    """Return the weather.

    Args:
        city: The city.
    """
    if city == "Nowhere":
        raise ValueError("no such city, token=abc")
    return "rain"


def test_calls_of_models_and_tools_have_spans(bench: Bench) -> None:
    calls = [ToolCall("c1", "weather", {"city": "Bergen"}), ToolCall("c2", "weather", {"city": "Nowhere"}), "Rain."]
    guide = Agent("Guide", tools=[weather], model=ScriptedModel(calls), max_iter=5)
    guide.alone().compile(instruments=[bench.tracing]).invoke({"input": "?"})
    chats = [span for span in bench.ended if span.name.startswith("chat ")]
    tools = bench.named("execute_tool weather")
    assert (len(chats), len(tools)) == (3, 2)
    assert all(bench.path(span)[-2].startswith("node ") for span in [*chats, *tools])
    assert chats[0].attributes is not None
    assert chats[0].attributes["gen_ai.operation.name"] == "chat"
    assert chats[0].attributes["gen_ai.agent.name"] == "Guide"
    assert [span.status.status_code for span in tools] == [StatusCode.UNSET, StatusCode.ERROR]
    assert "token=[redacted]" in (tools[1].status.description or "")
    assert tools[0].attributes is not None
    assert tools[0].attributes["gen_ai.tool.call.id"] == "c1"


def test_the_duration_of_a_call_sets_its_start(bench: Bench) -> None:
    def call(state: Any, runtime: Runtime[Any]) -> None:
        runtime.record("model_called", {"model": "openai:m", "seconds": 1.5})

    bench.app(chain(a=call), name="g").invoke({})
    (span,) = bench.named("chat m")
    assert (span.end_time or 0) - (span.start_time or 0) == 1_500_000_000
    assert bench.path(span)[-2:] == ["node a", "chat m"]


def test_a_cached_result_is_marked(bench: Bench) -> None:
    graph = StateGraph({"log": append}).add_node("a", lambda s: None, cache_policy=CachePolicy()).add_edge(START, "a")
    app = bench.app(graph, cache=InMemoryCache())
    app.invoke({})
    app.invoke({})
    first, second = bench.named("node a")
    assert first.attributes is not None
    assert second.attributes is not None
    assert ("statewright.cached" in first.attributes, second.attributes["statewright.cached"]) == (False, True)


@both
def test_a_cancelled_run_is_not_an_error_and_leaves_no_current_span(bench: Bench, drives_async: bool) -> None:
    control = RunControl()

    def node(state: Any) -> None:
        control.request_cancel("enough")

    app = bench.app(chain(a=node, b=node), name="g")
    outside = trace.get_current_span()
    with suppress(Exception):
        run(app, drives_async, control=control)
    assert trace.get_current_span() is outside
    (run_span,) = bench.named("run g")
    assert run_span.attributes is not None
    assert run_span.attributes["statewright.status"] == "cancelled"
    assert run_span.status.status_code is StatusCode.UNSET


def test_concurrent_runs_have_separate_traces(bench: Bench) -> None:
    async def node(state: Any) -> None:
        await asyncio.sleep(0)
        with bench.tracer.start_as_current_span(f"own {state['log'][0]}"):
            await asyncio.sleep(0)

    app = bench.app(chain(a=node, b=node), name="g")

    async def invoke_all() -> None:
        await asyncio.gather(*(app.ainvoke({"log": [number]}) for number in range(20)))

    asyncio.run(invoke_all())
    for number in range(20):
        traces = {span.context.trace_id for span in bench.named(f"own {number}") if span.context}
        assert len(traces) == 1
    assert len({span.context.trace_id for span in bench.ended if span.context}) == 20


def test_abandoned_runs_do_not_leak_memory(bench: Bench) -> None:
    app = bench.app(parallel(a=lambda s: None, b=lambda s: None), name="g")
    for _ in range(10):
        parts = app.stream({}, stream_mode="tasks")
        next(parts)
        parts.close()
    for table in (bench.tracing._runs, bench.tracing._supersteps, bench.tracing._attempts):
        assert len(table) <= 20

    def invoke_once() -> None:
        # Nodes of abandoned runs may end at any time, but not within this span.
        with bench.tracer.start_as_current_span("new"):
            app.invoke({})

    thread = threading.Thread(target=invoke_once)
    thread.start()
    thread.join()
    assert bench.paths.count("new > run g > superstep 1 > node a") == 1


def test_unsampled_traces_have_no_spans() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    chain(a=lambda s: None).compile(instruments=[Tracing(provider)]).invoke({})
    assert exporter.get_finished_spans() == ()
