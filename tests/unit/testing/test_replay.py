"""Recorded runs are replayed without running a node, and differences are reported."""

from __future__ import annotations

import asyncio
import operator
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    Budget,
    CachePolicy,
    Command,
    Ephemeral,
    InMemorySaver,
    Instrument,
    IsLastStep,
    Message,
    MessagesStateGraph,
    RemainingSteps,
    RetryPolicy,
    RunControl,
    Runtime,
    Send,
    StateGraph,
    Untracked,
    append,
    entrypoint,
    interrupt,
    sleep,
    task,
    wait_for_event,
)
from statewright.cache import InMemoryCache
from statewright.errors import (
    BudgetExceeded,
    ConflictingWrites,
    GraphDrained,
    GraphRecursionError,
    InvalidResume,
    NodeTimeoutError,
    RunCancelled,
)
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock, Replayed, ReplayMismatch, read_recording, record, replay


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: Any
    y: Any


class Nodes:
    """Creates nodes that must not run during a replay."""

    def __init__(self) -> None:
        self.replaying = False

    def __call__(self, answer: Any) -> Callable[..., Any]:
        """Create a node that returns the answer, or the result of the answer applied to the state."""

        def node(state: Any) -> Any:
            assert not self.replaying, "a node ran"
            return answer(state) if callable(answer) else answer

        return node


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.replay"


@pytest.fixture
def replay_file(nodes: Nodes, file: Path) -> Callable[..., list[Replayed]]:
    """Replays the recording without running a node."""

    def replay_recording(app: Any, **options: Any) -> list[Replayed]:
        nodes.replaying = True
        try:
            return replay(file, app, **options)
        finally:
            nodes.replaying = False

    return replay_recording


def chain(nodes: Nodes, *names: str, saver: Any = None, schema: Any = State, **options: Any) -> Any:
    """Build a sequence of nodes that log their names."""
    graph = StateGraph(schema)
    for name in names:
        graph.add_node(name, nodes({"log": [name]}))
    return graph.add_sequence(names).add_edge(START, names[0]).compile(saver, **options)


ReplayFile = Callable[..., list[Replayed]]

# -- unchanged graphs


@pytest.mark.parametrize("saver", [None, InMemorySaver])
def test_a_sequence_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile, saver: Any) -> None:
    app = chain(nodes, "a", "b", saver=saver and saver())
    with record(app, file) as recorded:
        result = recorded.invoke({"x": 1}, **({"thread_id": "1"} if saver else {}))

    [call] = replay_file(chain(nodes, "a", "b", saver=saver and saver()))

    assert call.value == result == {"x": 1, "log": ["a", "b"]}
    assert (call.status, call.steps, call.error) == ("completed", (("a",), ("b",)), None)


def test_async_calls_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    async def slow(state: Any) -> Any:
        assert not nodes.replaying
        await asyncio.sleep(0)
        return {"log": ["slow"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("a", slow).add_node("b", slow).add_node("c", nodes({"log": ["c"]}))
        return graph.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c").compile()

    async def run() -> Any:
        with record(app(), file) as recorded:
            return await recorded.ainvoke({"x": 1})

    result = asyncio.run(run())
    assert replay_file(app())[0].value == result

    async def replay_within_a_loop() -> Any:
        return replay_file(app())[0].value

    assert asyncio.run(replay_within_a_loop()) == result


def test_a_loop_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        graph = StateGraph(State).add_node("count", nodes(lambda state: {"x": state["x"] + 1}))
        graph.add_edge(START, "count")
        return graph.add_conditional_edges("count", lambda state: "count" if state["x"] < 5 else END).compile()

    with record(app(), file) as recorded:
        recorded.invoke({"x": 0})
    assert replay_file(app())[0].steps == (("count",),) * 5


def test_fan_out_and_gather_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def spread(state: Any) -> Any:
        return Command(goto=[Send("item", item) for item in state["x"]], update={"log": ["spread"]})

    def app() -> Any:
        graph = StateGraph(State).add_node("spread", nodes(spread), destinations=["item"])
        graph.add_node("item", nodes(lambda item: Send("sum", item, gather=True)), destinations=["sum"])
        graph.add_node("sum", nodes(lambda items: {"y": sum(items)}))
        return graph.add_edge(START, "spread").compile()

    with record(app(), file) as recorded:
        assert recorded.invoke({"x": [1, 2, 3]})["y"] == 6
    assert replay_file(app())[0].steps == (("spread",), ("item", "item", "item"), ("sum",))


def test_a_map_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        graph = StateGraph({"numbers": list, "doubled": list})
        graph.add_map("double", nodes(lambda number: number * 2), over="numbers", into="doubled")
        return graph.add_edge(START, "double").compile()

    with record(app(), file) as recorded:
        recorded.invoke({"numbers": [1, 2]})
    assert replay_file(app())[0].value["doubled"] == [2, 4]


def test_joins_and_deferred_nodes_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        graph = StateGraph(State)
        for name in ("a", "b", "b2", "c"):
            graph.add_node(name, nodes({"log": [name]}))
        graph.add_node("last", nodes({"log": ["last"]}), defer=True)
        graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge(["a", "b2"], "c")
        return graph.add_edge("a", "last").compile()

    with record(app(), file) as recorded:
        recorded.invoke({})
    assert replay_file(app())[0].steps == (("a", "b"), ("b2",), ("c",), ("last",))


def test_several_calls_on_one_thread_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(chain(nodes, "a", saver=InMemorySaver()), file) as recorded:
        recorded.invoke({"x": 1}, thread_id="1")
        recorded.invoke({"x": 2}, thread_id="1")
        recorded.invoke({"x": 3}, thread_id="2")
    calls = replay_file(chain(nodes, "a", saver=InMemorySaver()))
    assert [len(call.value["log"]) for call in calls] == [1, 2, 1]


def test_the_earlier_state_of_a_thread_is_part_of_the_recording(
    nodes: Nodes, file: Path, replay_file: ReplayFile
) -> None:
    app = chain(nodes, "a", saver=InMemorySaver())
    app.invoke({"x": 1}, thread_id="1")
    app.update_state({"configurable": {"thread_id": "1"}}, {"log": ["by hand"]}, as_node=END)
    with record(app, file) as recorded:
        recorded.invoke({"x": 2}, thread_id="1")
    assert replay_file(chain(nodes, "a"))[0].value == {"x": 2, "log": ["a", "by hand", "a"]}


def asking_app(nodes: Nodes, saver: Any = None, **options: Any) -> Any:
    def ask(state: Any, runtime: Runtime) -> Any:
        assert not nodes.replaying
        paid = runtime.step("charge", lambda amount: amount * 2, 21)
        return {"log": [paid, interrupt({"sure?": state["x"]}), interrupt("really?", key="k")]}

    graph = StateGraph(State).add_node("ask", ask).add_node("beside", nodes({"log": ["beside"]}))
    graph.add_node("after", nodes({"log": ["after"]})).add_edge("ask", "after")
    return graph.add_edge(START, "ask").add_edge(START, "beside").compile(saver or InMemorySaver(), **options)


def test_questions_and_answers_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(asking_app(nodes), file) as recorded:
        first = recorded.invoke({"x": 1}, thread_id="1")
        recorded.invoke(Command(resume={first["__interrupt__"][0].id: "yes"}), thread_id="1")
        recorded.invoke(Command(resume=None), thread_id="1")

    first_call, second_call, third_call = replay_file(asking_app(nodes))

    assert [call.status for call in (first_call, second_call, third_call)] == ["waiting", "waiting", "completed"]
    assert [first_call.interrupts[0].value, second_call.interrupts[0].value] == [{"sure?": 1}, "really?"]
    assert third_call.value["log"] == [42, "yes", None, "beside", "after"]


@pytest.mark.filterwarnings("ignore::statewright.errors.QuestionChanged")
def test_state_updates_between_calls_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(asking_app(nodes), file) as recorded:
        recorded.invoke({"x": 1}, thread_id="1")
        recorded.update_state({"configurable": {"thread_id": "1"}}, {"x": 7}, as_node="beside")
        recorded.invoke(Command(resume="yes"), thread_id="1")
        recorded.invoke(Command(resume="yes"), thread_id="1")
    assert replay_file(asking_app(nodes))[-1].value["x"] == 7


def test_timers_and_events_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def wait(state: Any) -> Any:
        assert not nodes.replaying
        sleep(60)
        return {"log": ["slept", wait_for_event("bell", timeout=60)]}

    def app(clock: Any = None) -> Any:
        graph = StateGraph(State).add_node("wait", wait).add_edge(START, "wait")
        return graph.compile(InMemorySaver(), clock=clock or FakeClock())

    clock = FakeClock()
    with record(app(clock), file) as recorded:
        recorded.invoke({}, thread_id="1")
        clock.advance(61)
        recorded.resume_due(thread_id="1")
        recorded.send_event("bell", {"rings": 3}, thread_id="1")

    calls = replay_file(app())

    assert [question.kind for call in calls for question in call.interrupts] == ["timer", "event"]
    assert calls[-1].value["log"] == ["slept", {"rings": 3}]


def test_failures_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    class CustomError(Exception):
        pass

    failures = {"left": 1}

    def fail(state: Any) -> Any:
        if failures["left"]:
            failures["left"] -= 1
            raise CustomError("no luck")
        return {"log": ["b"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes({"log": ["a"]})).add_node("b", nodes(fail))
        return graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver())

    with record(app(), file) as recorded:
        with pytest.raises(CustomError):
            recorded.invoke({}, thread_id="1")
        recorded.invoke(None, thread_id="1")

    first, second = replay_file(app())
    assert (first.status, str(first.error)) == ("failed", "no luck")
    assert (second.status, second.value["log"]) == ("completed", ["a", "b"])


def test_finished_siblings_of_a_failed_node_do_not_run_again(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    finished, failures = threading.Event(), {"left": 1}

    class FinishListener(Instrument):
        def on_task_finished(self, event: Any) -> None:
            if event.node == "quick":
                finished.set()

    def quick(state: Any) -> Any:
        return {"log": ["quick"]}

    def fail(state: Any) -> Any:
        finished.wait(600)
        if failures["left"]:
            failures["left"] -= 1
            raise ValueError("no luck")
        return {"log": ["fail"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("quick", nodes(quick)).add_node("fail", nodes(fail))
        graph.add_edge(START, "quick").add_edge(START, "fail")
        return graph.compile(InMemorySaver(), instruments=[FinishListener()])

    with record(app(), file) as recorded:
        with pytest.raises(ValueError, match="no luck"):
            recorded.invoke({}, thread_id="1")
        recorded.invoke(None, thread_id="1")
    assert [call.steps for call in replay_file(app())] == [(("quick", "fail"),), (("fail",),)]


def test_the_replay_does_not_wait_for_a_cancelled_sibling(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    async def slow(state: Any) -> Any:
        await asyncio.sleep(60)

    async def fail(state: Any) -> Any:
        raise ValueError("no luck")

    def app() -> Any:
        graph = StateGraph(State).add_node("slow", slow).add_node("fail", fail)
        return graph.add_edge(START, "slow").add_edge(START, "fail").compile()

    with record(app(), file) as recorded, pytest.raises(ValueError, match="no luck"):
        recorded.invoke({})
    assert replay_file(app())[0].status == "failed"


def test_retries_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    attempts = {"left": 3}

    def flaky(state: Any) -> Any:
        attempts["left"] -= 1
        if attempts["left"]:
            raise ConnectionError("again")
        return {"log": ["flaky"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes({"log": ["a"]}))
        graph.add_node("flaky", nodes(flaky), retry_policy=RetryPolicy(initial_interval=0))
        return graph.add_edge(START, "a").add_edge("a", "flaky").compile()

    with record(app(), file) as recorded:
        recorded.invoke({})
    assert replay_file(app())[0].value == {"log": ["a", "flaky"]}
    assert read_recording(file, app()).calls[0].steps[2].tasks[0].attempts == 3


def test_error_handlers_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def broken(state: Any) -> Any:
        raise ValueError("broken")

    def app() -> Any:
        graph = StateGraph(State)
        graph.add_node("broken", nodes(broken), error_handler=lambda state, error: {"log": [str(error.error)]})
        graph.add_node("after", nodes({"log": ["after"]}))
        return graph.add_edge(START, "broken").add_edge("broken", "after").compile()

    with record(app(), file) as recorded:
        recorded.invoke({})
    assert replay_file(app())[0].value == {"log": ["broken", "after"]}


def test_cached_results_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes({"log": ["a"]}), cache_policy=CachePolicy())
        return graph.add_edge(START, "a").compile(cache=InMemoryCache())

    with record(app(), file) as recorded:
        recorded.invoke({"x": 1})
        recorded.invoke({"x": 1})
    assert [call.value for call in replay_file(app())] == [{"x": 1, "log": ["a"]}] * 2


def test_timeouts_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    async def slow(state: Any) -> Any:
        await asyncio.sleep(60)

    def app() -> Any:
        return StateGraph(State).add_node("a", slow, timeout=0.01).add_edge(START, "a").compile()

    with record(app(), file) as recorded, pytest.raises(NodeTimeoutError):
        recorded.invoke({})
    assert isinstance(replay_file(app())[0].error, NodeTimeoutError)


def test_conflicting_writes_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes({"x": 1})).add_node("b", nodes({"x": 2}))
        return graph.add_edge(START, "a").add_edge(START, "b").compile()

    with record(app(), file) as recorded, pytest.raises(ConflictingWrites):
        recorded.invoke({})
    assert isinstance(replay_file(app())[0].error, ConflictingWrites)


def test_the_recursion_limit_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes({"log": [1]})).add_edge(START, "a").add_edge("a", "a")
        return graph.compile()

    with record(app(), file) as recorded, pytest.raises(GraphRecursionError):
        recorded.invoke({}, recursion_limit=3)
    assert isinstance(replay_file(app())[0].error, GraphRecursionError)


def test_breakpoints_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        return chain(nodes, "a", "b", "c", saver=InMemorySaver())

    with record(app(), file) as recorded:
        recorded.invoke({}, thread_id="1", interrupt_before="b")
        recorded.invoke(None, thread_id="1", interrupt_after=["b"])
        recorded.invoke(None, thread_id="1")
    assert [call.steps for call in replay_file(app())] == [(("a",),), (("b",),), (("c",),)]


@pytest.mark.parametrize(("method", "error"), [("request_cancel", RunCancelled), ("request_drain", GraphDrained)])
def test_requests_to_stop_are_replayed(
    nodes: Nodes, file: Path, replay_file: ReplayFile, method: str, error: Any
) -> None:
    control = RunControl()

    def stop(state: Any) -> Any:
        getattr(control, method)("enough")
        return {"log": ["a"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes(stop)).add_node("b", nodes({"log": ["b"]}))
        return graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver())

    with record(app(), file) as recorded:
        with pytest.raises(error):
            recorded.invoke({}, thread_id="1", control=control)
        recorded.invoke(None, thread_id="1")
    first, second = replay_file(app())
    assert (type(first.error), first.steps) == (error, (("a",),))
    assert second.value == {"log": ["a", "b"]}


def test_a_run_stopped_before_it_started_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    control = RunControl()
    control.request_drain("closing")
    with record(chain(nodes, "a"), file) as recorded, pytest.raises(GraphDrained):
        recorded.invoke({}, control=control)
    assert isinstance(replay_file(chain(nodes, "a"))[0].error, GraphDrained)


def test_a_cancelled_async_run_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    started = asyncio.Event()

    async def slow(state: Any) -> Any:
        assert not nodes.replaying
        started.set()
        if state["x"]:
            await asyncio.sleep(60)
        return {"log": ["slow"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("slow", slow).add_node("b", nodes({"log": ["b"]}))
        return graph.add_edge(START, "slow").add_edge(START, "b").compile(InMemorySaver())

    async def run() -> None:
        with record(app(), file) as recorded:
            running = asyncio.ensure_future(recorded.ainvoke({"x": 1}, thread_id="1"))
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await recorded.ainvoke(Command(update={"x": 0}), thread_id="1")

    asyncio.run(run())
    first, second = replay_file(app())
    assert (first.status, second.value["log"]) == ("cancelled", ["slow", "b"])


def spending_app(nodes: Nodes, clock: Any = None) -> Any:
    def spend(state: Any, runtime: Runtime) -> Any:
        assert not nodes.replaying
        runtime.spend(tokens=30)
        if isinstance(clock, FakeClock):
            clock.advance(30)
        return {"log": ["spent"]}

    inner = StateGraph(State).add_node("spend", spend).add_edge(START, "spend").compile(name="inner")
    graph = StateGraph(State).add_node("loop", inner).add_node("end", nodes({"log": ["end"]}))
    return (
        graph.add_edge(START, "loop").add_edge("loop", "loop").add_edge("end", END).compile(clock=clock, strict=False)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limit", [{"max_tokens": 100}, {"max_visits": 4}, {"max_seconds": 100}, {"max_steps": 5}])
@pytest.mark.parametrize("on_budget", ["end", None])
def test_exhausted_budgets_are_replayed(
    nodes: Nodes, file: Path, replay_file: ReplayFile, limit: Any, on_budget: Any
) -> None:
    with record(spending_app(nodes, FakeClock()), file) as recorded:
        try:
            recorded.invoke({}, budget=Budget(**limit, on_budget=on_budget))
        except BudgetExceeded:
            assert on_budget is None
    [call] = replay_file(spending_app(nodes))
    assert call.status == ("failed" if on_budget is None else "completed")
    assert isinstance(call.error, BudgetExceeded) == (on_budget is None)


def spender(tokens: int, *, name: str, before: Any = None) -> Any:
    """Build a graph whose only node spends tokens."""

    async def spend(state: Any, runtime: Runtime) -> Any:
        if before is not None:
            await before()
        runtime.spend(tokens=tokens)

    return StateGraph(State).add_node("spend", spend).add_edge(START, "spend").compile(name=name)


def test_spending_at_any_depth_is_counted_once(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        middle = StateGraph(State).add_node("deep", spender(10, name="deep")).add_edge(START, "deep")
        graph = (
            StateGraph(State).add_node("sub", middle.compile(name="middle")).add_node("end", nodes({"log": ["end"]}))
        )
        return graph.add_edge(START, "sub").add_edge("sub", "end").compile()

    with record(app(), file) as recorded:
        asyncio.run(recorded.ainvoke({}, budget=Budget(max_tokens=15)))
    assert replay_file(app())[0].value["log"] == ["end"]


def test_spending_of_concurrent_calls_by_one_node_is_counted_once(
    nodes: Nodes, file: Path, replay_file: ReplayFile
) -> None:
    def app() -> Any:
        barrier = asyncio.Barrier(2)
        graphs = [spender(10, name=name, before=barrier.wait) for name in ("one", "two")]

        async def call_both(state: Any) -> Any:
            await asyncio.gather(*(graph.ainvoke({}) for graph in graphs))

        graph = StateGraph(State).add_node("call", call_both).add_node("end", nodes({"log": ["end"]}))
        return graph.add_edge(START, "call").add_edge("call", "end").compile()

    with record(app(), file) as recorded:
        asyncio.run(recorded.ainvoke({}, budget=Budget(max_tokens=25)))

    step = read_recording(file, app()).calls[0].steps[1]
    inner_steps = [inner_step for call in step.tasks[0].calls for inner_step in call.steps]
    # Which of the calls has spent how much is unknown, so the superstep of the calling node has the sum.
    assert (step.tokens, {inner_step.tokens for inner_step in inner_steps}) == (20, {0})
    assert replay_file(app())[0].value["log"] == ["end"]


@pytest.mark.filterwarnings("ignore")
def test_a_budget_exhausted_within_a_subgraph_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    cancelled: list[bool] = []

    async def wait(state: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    def app() -> Any:
        graph = StateGraph(State).add_node("sub", chain(nodes, "last", "never")).add_node("wait", wait)
        graph.add_node("end", nodes({"log": ["end"]})).add_edge(START, "sub").add_edge(START, "wait")
        return graph.add_edge("end", END).compile(InMemorySaver(), strict=False, sibling_grace=0)

    with record(app(), file) as recorded:
        asyncio.run(recorded.ainvoke({}, thread_id="1", budget=Budget(max_steps=2, on_budget="end")))

    [call] = replay_file(app())
    assert (call.value["log"], cancelled) == (["end"], [True])


@pytest.mark.filterwarnings("ignore")
def test_only_the_first_superstep_over_a_budget_is_recorded_as_the_fallback(nodes: Nodes, file: Path) -> None:
    inner = chain(nodes, "a", "b")
    graph = StateGraph(State).add_node("spend", lambda state, runtime: runtime.spend(tokens=30))
    graph.add_node("more", nodes({"log": ["more"]})).add_node("end", inner).add_edge("spend", "more")
    app = graph.add_edge(START, "spend").add_edge("end", END).compile(strict=False)
    with record(app, file) as recorded:
        recorded.invoke({}, budget=Budget(max_tokens=20, on_budget="end"))

    fallback = read_recording(file, app).calls[0].steps[-1]
    assert fallback.out_of_budget
    assert not any(step.out_of_budget for step in fallback.tasks[0].calls[0].steps)


def test_a_value_that_a_node_changes_in_place_and_returns_is_replayed(
    nodes: Nodes, file: Path, replay_file: ReplayFile
) -> None:
    def change(state: Any) -> Any:
        state["x"][0]["n"] += 1
        state["y"]["n"] += 1
        return {"x": list(state["x"]), "y": state["y"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes(change)).add_node("b", nodes(change))
        return graph.add_sequence(["a", "b"]).add_edge(START, "a").compile()

    with record(app(), file) as recorded:
        result = recorded.invoke({"x": [{"n": 1}], "y": {"n": 1}})
    assert replay_file(app())[0].value == result == {"x": [{"n": 3}], "y": {"n": 3}, "log": []}


def test_concurrent_runs_of_a_thread_and_its_copy_are_replayed(
    nodes: Nodes, file: Path, replay_file: ReplayFile
) -> None:
    def app(barrier: Any = None) -> Any:
        async def call(state: Any) -> Any:
            if barrier is not None:
                await barrier.wait()
            return await inner.ainvoke({})

        inner = chain(nodes, "in")
        graph = StateGraph(State).add_node("a", nodes({"log": ["a"]})).add_node("call", call)
        return graph.add_sequence(["a", "call"]).add_edge(START, "a").compile(InMemorySaver())

    async def run() -> None:
        with record(app(asyncio.Barrier(2)), file) as recorded:
            await recorded.ainvoke({}, thread_id="1", interrupt_before="call")
            recorded.copy_thread("1", "2")
            await asyncio.gather(*(recorded.ainvoke(None, thread_id=thread_id) for thread_id in "12"))

    asyncio.run(run())
    calls = read_recording(file, app()).calls
    assert [len(call.steps[-1].tasks[0].calls) for call in calls[1:]] == [1, 1]


# -- subgraphs


def nested_app(nodes: Nodes, memory: str = "call", saver: Any = True, before: Any = None) -> Any:
    """Build three nested graphs, the innermost of which asks a question."""

    def ask(state: Any) -> Any:
        assert not nodes.replaying
        return {"log": [interrupt("sure?")]}

    inner = StateGraph(State).add_node("first", nodes({"log": ["first"]})).add_node("ask", ask)
    innermost = inner.add_edge(START, "first").add_edge("first", "ask").compile(name="innermost")
    middle = StateGraph(State).add_node("deep", innermost, memory=memory).add_edge(START, "deep").compile(name="middle")
    outer = StateGraph(State).add_node("sub", middle, memory=memory).add_node("end", nodes({"log": ["end"]}))
    return outer.add_edge(START, "sub").add_edge("sub", "end").compile(InMemorySaver() if saver else None)


@pytest.mark.parametrize("memory", ["call", "thread"])
def test_subgraphs_are_replayed_at_every_depth(nodes: Nodes, file: Path, replay_file: ReplayFile, memory: str) -> None:
    with record(nested_app(nodes, memory), file) as recorded:
        for answer in ("yes", "no"):
            recorded.invoke({"x": 1}, thread_id="1")
            recorded.invoke(Command(resume=answer), thread_id="1")

    calls = replay_file(nested_app(nodes, memory))

    assert [call.status for call in calls] == ["waiting", "completed"] * 2
    assert calls[1].value["log"] == ["first", "yes", "end"]
    assert calls[3].value["log"][3:] == ["first", "no", "end"]


def test_subgraphs_without_memory_or_saver_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        inner = chain(nodes, "a", "b")
        graph = StateGraph(State).add_node("sub", inner, memory="none").add_node("sub2", inner)
        return graph.add_edge(START, "sub").add_edge(START, "sub2").compile()

    with record(app(), file) as recorded:
        asyncio.run(recorded.ainvoke({}))
    assert replay_file(app())[0].value["log"] == ["a", "b", "a", "b"]


def test_a_command_for_the_parent_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        leave = Command(graph=Command.PARENT, goto="b", update={"log": ["left"]})
        inner = StateGraph(State).add_node("in", nodes(leave)).add_edge(START, "in").compile(name="inner")
        graph = StateGraph(State).add_node("sub", inner, destinations=["b"]).add_node("b", nodes({"log": ["b"]}))
        return graph.add_edge(START, "sub").compile()

    with record(app(), file) as recorded:
        recorded.invoke({})
    assert replay_file(app())[0].value["log"] == ["left", "b"]


def test_a_retried_subgraph_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    attempts = {"left": 2}

    def flaky(state: Any) -> Any:
        attempts["left"] -= 1
        if attempts["left"]:
            raise ConnectionError("again")
        return {"log": ["flaky"]}

    def app(saver: Any = None) -> Any:
        inner = StateGraph(State).add_node("first", nodes({"log": ["first"]})).add_node("flaky", nodes(flaky))
        sub = inner.add_edge(START, "first").add_edge("first", "flaky").compile(name="inner")
        graph = StateGraph(State).add_node("sub", sub, retry_policy=RetryPolicy(initial_interval=0))
        return graph.add_edge(START, "sub").compile(saver)

    for saver, options in ((None, {}), (InMemorySaver, {"thread_id": "1"})):
        attempts["left"] = 2
        with record(app(saver and saver()), file) as recorded:
            recorded.invoke({}, **options)
        assert replay_file(app(saver and saver()))[0].value["log"] == ["first", "flaky"]


def test_a_failed_subgraph_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def fail(state: Any) -> Any:
        raise ValueError("no luck")

    def app(**options: Any) -> Any:
        sub = StateGraph(State).add_node("fail", nodes(fail)).add_edge(START, "fail").compile(name="inner")
        return StateGraph(State).add_node("sub", sub, **options).add_edge(START, "sub").compile()

    with record(app(), file) as recorded, pytest.raises(ValueError, match="no luck"):
        recorded.invoke({})
    assert str(replay_file(app())[0].error) == "no luck"

    handled = app(error_handler=lambda state, error: {"log": [str(error.error)]})
    with record(handled, file) as recorded:
        recorded.invoke({})
    assert replay_file(handled)[0].value == {"log": ["no luck"]}


def calling_app(nodes: Nodes, *names: str) -> tuple[Any, Any]:
    """Build a graph whose node calls another graph, and return both."""
    inner = chain(nodes, *names).with_config()

    def call(state: Any) -> Any:
        assert not nodes.replaying
        return {"y": [inner.invoke({"x": x})["log"] for x in (1, 2)]}

    graph = StateGraph(State).add_node("call", call).add_edge(START, "call")
    return graph.compile(InMemorySaver()), inner


def test_graphs_called_by_nodes_are_replayed_if_passed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    app, inner = calling_app(nodes, "a")
    with record(app, file) as recorded:
        recorded.invoke({}, thread_id="1")

    assert replay_file(app)[0].unchecked == (inner.name,)
    assert replay_file(app, graphs=[inner])[0].unchecked == ()
    with pytest.raises(ReplayMismatch, match="subgraph 'call', superstep 1, task 'a': its targets differ"):
        replay_file(app, graphs=[calling_app(nodes, "a", "b")[1]])


def test_functional_workflows_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    @task
    def write(topic: str) -> str:
        assert not nodes.replaying
        return f"about {topic}"

    def app() -> Any:
        @entrypoint(InMemorySaver())
        def essays(topics: list[str], *, previous: int | None = None) -> object:
            assert not nodes.replaying
            texts = [future.result() for future in [write(topic) for topic in topics]]
            return entrypoint.final(value=[texts, interrupt("publish?")], save=(previous or 0) + 1)

        return essays

    with record(app(), file) as recorded:
        recorded.invoke(["a", "b"], thread_id="1")
        recorded.invoke(Command(resume="yes"), thread_id="1")
    assert replay_file(app())[1].value == [["about a", "about b"], "yes"]


# -- values


def test_messages_keep_their_ids(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def edit(state: Any) -> Any:
        first = state["messages"][0]
        return [Message("edited", id=first.id), ("assistant", "more")]

    def app() -> Any:
        graph = MessagesStateGraph().add_node("hello", nodes(("assistant", "hi"))).add_node("edit", nodes(edit))
        sub = MessagesStateGraph().add_node("in", nodes(["inner", "too"])).add_edge(START, "in").compile(name="inner")
        graph.add_node("sub", sub).add_edge("edit", "sub")
        return graph.add_edge(START, "hello").add_edge("hello", "edit").compile(InMemorySaver())

    for _ in range(2):
        with record(app(), file) as recorded:
            recorded.invoke({"messages": "hey"}, thread_id="1")
            recorded.invoke({"messages": ["again"]}, thread_id="1")
        texts = [message.content for message in replay_file(app())[1].value["messages"]]
        assert texts == ["edited", "hi", "more", "inner", "too", "again", "hi", "more", "inner", "too"]


@dataclass
class Address:
    city: str


@dataclass
class Order:
    address: Address
    tags: set[str]
    done: bool = False


def test_typed_state_values_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app() -> Any:
        graph = StateGraph(Order).add_node("a", nodes(lambda state: {"done": state.address.city == "Ghent"}))
        return graph.add_edge(START, "a").compile()

    with record(app(), file) as recorded:
        recorded.invoke(Order(Address("Ghent"), {"x", "y", "z"}))
    assert replay_file(app())[0].value == {"address": Address("Ghent"), "tags": {"x", "y", "z"}, "done": True}


def test_ephemeral_untracked_and_managed_values_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    class Flow(TypedDict, total=False):
        log: Annotated[list[str], append]
        signal: Annotated[str, Ephemeral]
        handle: Annotated[Any, Untracked]
        last: IsLastStep
        left: RemainingSteps

    def app() -> Any:
        graph = StateGraph(Flow).add_node("a", nodes(lambda _: {"signal": "go", "handle": object()}))
        graph.add_node("b", nodes({"log": ["b"]})).add_edge(START, "a")
        graph.add_conditional_edges("a", lambda state: "b" if state["signal"] == "go" and state["left"] > 1 else END)
        return graph.compile()

    with record(app(), file) as recorded:
        recorded.invoke({})
    assert replay_file(app())[0].value["log"] == ["b"]


# -- other kinds of calls


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_runs_on_sqlite_are_replayed(
    nodes: Nodes, file: Path, replay_file: ReplayFile, tmp_path: Path, durability: str
) -> None:
    with SqliteSaver(tmp_path / "threads.db") as saver:
        with record(asking_app(nodes, saver), file) as recorded:
            recorded.invoke({"x": 1}, thread_id="1", durability=durability)
            recorded.invoke(Command(resume="a"), thread_id="1", durability=durability)
            asyncio.run(recorded.ainvoke(Command(resume="b"), thread_id="1", durability=durability))
        calls = replay_file(asking_app(nodes))
    assert calls[2].value["log"] == [42, "a", "b", "beside", "after"]


def test_streams_and_batches_are_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(chain(nodes, "a", "b"), file) as recorded:
        assert len(list(recorded.stream({"x": 0}))) == 2
        recorded.batch([{"x": 1}, {"x": 2}], max_concurrency=1)
        for _ in recorded.iter({"x": 3}):
            pass
    assert [call.value["x"] for call in replay_file(chain(nodes, "a", "b"))] == [0, 1, 2, 3]


def test_an_abandoned_stream_is_replayed_up_to_its_last_step(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(chain(nodes, "a", "b", "c", saver=InMemorySaver()), file) as recorded:
        with recorded.iter({}, thread_id="1") as steps:
            next(steps)
        recorded.invoke(None, thread_id="1")
    first, second = replay_file(chain(nodes, "a", "b", "c"))
    assert (first.status, second.value) == ("abandoned", {"log": ["a", "b", "c"]})


def test_a_rejected_call_is_not_recorded(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(chain(nodes, "a", saver=InMemorySaver()), file) as recorded:
        recorded.invoke({}, thread_id="1")
        with pytest.raises(InvalidResume):
            recorded.invoke(Command(resume=1), thread_id="1")
    assert len(replay_file(chain(nodes, "a"))) == 1


def test_a_fork_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    app = chain(nodes, "a", "b", saver=InMemorySaver())
    with record(app, file) as recorded:
        recorded.invoke({}, thread_id="1")
        early = next(state for state in recorded.get_state_history(thread_id="1") if state.next == ("b",))
        recorded.invoke(None, early.config)
        recorded.invoke({"x": 1}, thread_id="1")
    assert [call.value["log"] for call in replay_file(app)] == [["a", "b"], ["a", "b"], ["a", "b", "a", "b"]]


def test_new_input_that_finishes_open_tasks_is_replayed(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    app = chain(nodes, "a", "b", saver=InMemorySaver())
    with record(app, file) as recorded:
        recorded.invoke({}, thread_id="1", interrupt_before="b")
        recorded.invoke({"x": 1}, thread_id="1", on_unfinished="finish")
    assert replay_file(app)[1].value["log"] == ["a", "b", "a", "b"]


def test_a_deleted_thread_starts_from_scratch(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    saver = InMemorySaver()
    with record(chain(nodes, "a", saver=saver), file) as recorded:
        recorded.invoke({}, thread_id="1")
        saver.delete_thread("1")
        recorded.invoke({}, thread_id="1")
    assert [call.value for call in replay_file(chain(nodes, "a"))] == [{"log": ["a"]}] * 2


# -- reported differences


def message_of(error: pytest.ExceptionInfo[ReplayMismatch]) -> str:
    return str(error.value).partition("run.replay, ")[2]


def test_a_changed_edge_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(*edges: tuple[str, str]) -> Any:
        graph = StateGraph(State)
        for name in ("a", "b", "c"):
            graph.add_node(name, nodes({"log": [name]}))
        for edge in ((START, "a"), *edges):
            graph.add_edge(*edge)
        return graph.compile(strict=False)

    with record(app(("a", "b"), ("b", "c")), file) as recorded:
        recorded.invoke({})
    with pytest.warns(), pytest.raises(ReplayMismatch) as caught:
        replay_file(app(("a", "c")))

    assert (
        message_of(caught) == "call 1, superstep 1, task 'a': its targets differ.\n  recorded: ['b']\n  replayed: ['c']"
    )
    assert (caught.value.superstep, caught.value.task, caught.value.call) == (1, "a", 1)
    assert (caught.value.recorded, caught.value.came) == (["b"], ["c"])


def test_a_changed_entry_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(chain(nodes, "a", "b"), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(chain(nodes, "b", "a"))
    assert message_of(caught) == (
        "call 1, superstep 0: different tasks are due next.\n  recorded: [['a']]\n  replayed: [['b']]"
    )


def test_an_added_node_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    with record(chain(nodes, "a"), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch, match=r"superstep 1, task 'a': its targets differ"):
        replay_file(chain(nodes, "a", "b"))


def test_a_changed_conditional_edge_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(limit: Any) -> Any:
        graph = StateGraph(State).add_node("count", nodes(lambda state: {"x": state["x"] + 1}))
        graph.add_edge(START, "count")
        return graph.add_conditional_edges("count", lambda s: "count" if s["x"] < limit else END).compile()

    with record(app(5), file) as recorded:
        recorded.invoke({"x": 0})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app(4))
    assert message_of(caught).startswith("call 1, superstep 4, task 'count': its targets differ.")
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app("four"))
    assert "superstep 1, task 'count': its conditional edge raises" in message_of(caught)
    assert "TypeError" in message_of(caught)


def test_conditional_edges_can_be_coroutines_and_use_the_runtime(
    nodes: Nodes, file: Path, replay_file: ReplayFile
) -> None:
    def app() -> Any:
        async def choose(state: Any, runtime: Runtime) -> str:
            return runtime.context

        graph = StateGraph(State).add_node("a", nodes({"x": 1})).add_node("b", nodes({"x": 2})).add_edge(START, "a")
        return graph.add_conditional_edges("a", choose).compile()

    with record(app(), file) as recorded:
        recorded.invoke({}, context="b")
    assert replay_file(app(), context="b")[0].value["x"] == 2
    with pytest.raises(ReplayMismatch, match="its conditional edge raises"):
        replay_file(app())


def test_a_changed_reducer_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(reducer: Any) -> Any:
        return chain(nodes, "a", "b", schema={"log": reducer, "x": None})

    with record(app(operator.add), file) as recorded:
        recorded.invoke({"log": []})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app(lambda old, new: new + old))
    assert message_of(caught) == (
        "call 1, superstep 2: the state differs, in 'log'.\n"
        "  recorded: {'log': ['a', 'b']}\n  replayed: {'log': ['b', 'a']}"
    )


def test_a_changed_order_of_nodes_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(*names: str) -> Any:
        graph = StateGraph(State)
        for name in names:
            graph.add_node(name, nodes({"log": [name]})).add_edge(START, name)
        return graph.compile()

    with record(app("a", "b"), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app("b", "a"))
    assert "different tasks are due next.\n  recorded: [['a'], ['b']]\n  replayed: [['b'], ['a']]" in message_of(caught)


def test_a_changed_join_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(*starts: str) -> Any:
        graph = StateGraph(State)
        for name in ("a", "b", "b2", "c"):
            graph.add_node(name, nodes({"log": [name]}))
        graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2")
        return graph.add_edge(list(starts), "c").compile()

    with record(app("a", "b2"), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch, match=r"superstep 1: different tasks are due next"):
        replay_file(app("a", "b"))


def test_a_change_in_a_subgraph_is_reported_with_its_location(
    nodes: Nodes, file: Path, replay_file: ReplayFile
) -> None:
    def app(reducer: Any) -> Any:
        inner = chain(nodes, "a", "b", schema={"log": reducer, "x": None})
        return StateGraph({"log": append, "x": None}).add_node("sub", inner).add_edge(START, "sub").compile()

    with record(app(operator.add), file) as recorded:
        recorded.invoke({"log": []})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app(lambda old, new: new + old))
    assert message_of(caught).startswith("call 1, subgraph 'sub', superstep 2: the state differs, in 'log'.")


def test_a_reduced_output_schema_of_a_subgraph_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(output: Any) -> Any:
        graph = StateGraph(State, output_schema=output).add_node("a", nodes({"log": ["a"], "x": 1}))
        inner = graph.add_edge(START, "a").compile(name="inner")
        return StateGraph(State).add_node("sub", inner).add_edge(START, "sub").compile()

    with record(app(State), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app(TypedDict("Less", {"log": Annotated[list, append]}, total=False)))
    assert message_of(caught).startswith("call 1, superstep 1, task 'sub': its writes differ.")


def test_a_target_that_is_no_longer_allowed_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(destination: str) -> Any:
        graph = StateGraph(State).add_node("a", nodes(Command(goto="b")), destinations=[destination])
        for name in ("b", "c"):
            graph.add_node(name, nodes(None)).add_edge(START, name) if name != destination else graph.add_node(
                name, nodes(None)
            )
        return graph.add_edge(START, "a").compile()

    with record(app("b"), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch):
        replay_file(app("c"))


def test_a_removed_field_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(schema: Any) -> Any:
        return StateGraph(schema).add_node("a", nodes({"x": 1})).add_edge(START, "a").compile()

    with record(app(State), file) as recorded:
        recorded.invoke({"log": ["given"]})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app(TypedDict("Less", {"log": Annotated[list, append], "xs": int}, total=False)))
    assert "superstep 1, task 'a': it wrote to an unknown field" in message_of(caught)
    assert "Did you mean 'xs'?" in message_of(caught)


def test_an_input_that_is_no_longer_valid_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(kind: Any) -> Any:
        return StateGraph({"x": kind}).add_node("a", nodes(None)).add_edge(START, "a").compile()

    with record(app(str), file) as recorded:
        recorded.invoke({"x": "text"})
    with pytest.raises(ReplayMismatch, match="the call raises an error"):
        replay_file(app(int))


def test_one_of_several_tasks_of_a_node_is_reported_by_its_number(
    nodes: Nodes, file: Path, replay_file: ReplayFile
) -> None:
    def app(last: str) -> Any:
        graph = StateGraph(State).add_node(
            "spread", nodes(Command(goto=[Send("item", n) for n in (1, 2)])), destinations=["item"]
        )
        graph.add_node("item", nodes(lambda n: {"log": [n]})).add_node("b", nodes(None)).add_node("c", nodes(None))
        graph.add_conditional_edges("item", lambda state: "b" if state["log"][-1] == 1 else last)
        return graph.add_edge(START, "spread").compile()

    with record(app("b"), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch, match=r"superstep 2, task 'item' \(number 2\): its targets differ"):
        replay_file(app("c"))


def test_a_different_end_of_a_superstep_is_reported(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(*schema: Any) -> Any:
        graph = (
            StateGraph({"x": schema[0], "log": append}).add_node("a", nodes({"x": 1})).add_node("b", nodes({"x": 2}))
        )
        return graph.add_edge(START, "a").add_edge(START, "b").compile()

    with record(app(None), file) as recorded, pytest.raises(ConflictingWrites):
        recorded.invoke({})
    with pytest.raises(ReplayMismatch, match="superstep 1: the superstep is completed") as caught:
        replay_file(app(lambda old, new: new))
    assert "ConflictingWrites" in str(caught.value.recorded)
    with record(app(lambda old, new: new), file) as recorded:
        recorded.invoke({})
    with pytest.raises(ReplayMismatch, match="superstep 1: the superstep is not completed") as caught:
        replay_file(app(None))
    assert "was written by 'a' and 'b'" in str(caught.value.came)


def test_long_differences_are_shown_as_a_diff(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(reducer: Any) -> Any:
        node = nodes({"log": [{"number": n, "text": "long enough to be broken"} for n in range(50)]})
        return StateGraph({"log": reducer}).add_node("a", node).add_edge(START, "a").compile()

    with record(app(operator.add), file) as recorded:
        recorded.invoke({"log": []})
    with pytest.raises(ReplayMismatch) as caught:
        replay_file(app(lambda old, new: old + [item for item in new if item["number"] % 2]))
    lines = message_of(caught).splitlines()
    assert lines[1:3] == ["  --- recorded", "  +++ replayed"]
    assert "more lines" in lines[-1]


# -- changes that make no difference


def test_a_renamed_node_with_an_alias_is_no_difference(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(name: str, **options: Any) -> Any:
        graph = StateGraph(State).add_node("a", nodes(Command(goto=name)), destinations=[name])
        graph.add_node("x", nodes(None)).add_node("end", nodes({"log": ["end"]}))
        graph.add_node(name, nodes({"log": ["b"]}), error_handler=lambda state: None, **options)
        graph.add_edge(START, "a").add_edge(START, "x").add_edge([name, "x"], "end")
        return graph.compile(InMemorySaver())

    with record(app("b"), file) as recorded:
        recorded.invoke({}, thread_id="1", interrupt_before="b")
        recorded.invoke(None, thread_id="1")
    with pytest.raises(ReplayMismatch):
        replay_file(app("better"))
    assert [call.status for call in replay_file(app("better", aliases=["b"]))] == ["paused", "completed"]


def test_a_different_order_of_edges_is_no_difference(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    def app(*ends: str) -> Any:
        graph = StateGraph(State)
        for name in ("a", "b", "c"):
            graph.add_node(name, nodes({"log": [name]}))
        for end in ends:
            graph.add_edge("a", end)
        return graph.add_edge(START, "a").compile()

    with record(app("b", "c"), file) as recorded:
        recorded.invoke({})
    assert replay_file(app("c", "b"))[0].value == {"log": ["a", "b", "c"]}


def test_changed_functions_of_nodes_are_no_difference(nodes: Nodes, file: Path) -> None:
    def app(answer: Any) -> Any:
        return StateGraph(State).add_node("a", lambda _: {"x": answer()}).add_edge(START, "a").compile()

    with record(app(random.random), file) as recorded:
        value = recorded.invoke({})
    assert replay(file, app(lambda: 1 / 0))[0].value == value


def test_a_replay_does_not_change_the_graph_or_its_threads(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    saver = InMemorySaver()
    with record(chain(nodes, "a", saver=saver), file) as recorded:
        recorded.invoke({}, thread_id="1")
    head = saver.load("1")
    replay_file(chain(nodes, "a", saver=saver))
    assert (saver.load("1"), len(saver.threads())) == (head, 1)


def test_a_replay_does_not_wait_for_retries(nodes: Nodes, file: Path, replay_file: ReplayFile) -> None:
    policy = RetryPolicy(initial_interval=timedelta(hours=1), jitter=False)
    attempts = {"left": 2}

    def flaky(state: Any) -> Any:
        attempts["left"] -= 1
        if attempts["left"]:
            raise ConnectionError("again")
        return {"log": ["flaky"]}

    def app() -> Any:
        graph = StateGraph(State).add_node("a", nodes(flaky), retry_policy=policy).add_edge(START, "a")
        return graph.compile(clock=FakeClock(jumps=True))

    with record(app(), file) as recorded:
        recorded.invoke({})
    assert replay_file(app())[0].status == "completed"
