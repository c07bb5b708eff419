"""Part I section 3.5: the same checkpoint and the same results give the same next checkpoint, at any timing."""

import asyncio
import json
import os
import random
import subprocess
import sys
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    Command,
    InMemorySaver,
    Instrument,
    MessagesState,
    Runtime,
    Send,
    StateGraph,
    append,
    interrupt,
)


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


class RecordingSaver(InMemorySaver):
    """Records the committed checkpoints, without the parts that may vary."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[Any] = []
        self.numbers: dict[str, int] = {}

    def commit(self, commit: Any) -> Any:
        after = commit.checkpoint
        self.numbers.setdefault(after.id, len(self.numbers))
        self.committed.append(
            (
                after.step,
                dict(after.values),
                [self.comparable(task) for task in after.frontier],
                [(self.comparable(held.task), held.gather) for held in after.deferred],
                {key: sorted(names) for key, names in after.joins.items()},
                dict(commit.deltas or {}),
                commit.source,
                dict(commit.metadata),
            )
        )
        return super().commit(commit)

    def comparable(self, task: Any) -> Any:
        return task.node, repr(task.arg), self.numbers.get(task.origin), task.position


def busy_graph(shuffle: random.Random) -> StateGraph:
    """Build a graph with all constructs, and coroutines that finish in a random order."""

    def work(name: str) -> Any:
        async def node(arg: Any) -> Any:
            for _ in range(shuffle.randrange(5)):
                await asyncio.sleep(0)
            return {"log": [f"{name}:{arg if isinstance(arg, int) else arg.get('x')}"]}

        return node

    graph = StateGraph(State)
    graph.add_node("late", work("late"), defer=True).add_node("join", work("join"))
    graph.add_node("a", work("a")).add_node("b", work("b")).add_node("c", work("c")).add_node("w", work("w"))
    graph.add_node(
        "s", lambda s: [Send("w", n) for n in (3, 1, 2)] + [Send("g", 9, gather=True)], destinations=["w", "g"]
    )
    graph.add_node("g", lambda args: {"log": [("g", *args)], "x": 2})
    for name in "sabc":
        graph.add_edge(START, name)
    graph.add_edge(["a", "b"], "join").add_edge("c", "late")
    graph.add_conditional_edges("join", lambda s: "c" if s["x"] == 1 else END, ["c", END])
    return graph


def run(driver: Any, seed: int) -> tuple[Any, list[Any]]:
    saver = RecordingSaver()
    app = busy_graph(random.Random(seed)).compile(saver)
    return driver.invoke(app, {"x": 1}, thread_id="1"), saver.committed


def test_commits_do_not_depend_on_timing(driver: Any) -> None:
    first = run(driver, 0)

    assert len(first[1]) > 4
    assert all(run(driver, seed) == first for seed in range(1, 10))


def test_both_drivers_make_the_same_commits() -> None:
    from types import SimpleNamespace

    sync_driver = SimpleNamespace(invoke=lambda app, graph_input, **options: app.invoke(graph_input, **options))
    async_driver = SimpleNamespace(
        invoke=lambda app, graph_input, **options: asyncio.run(app.ainvoke(graph_input, **options))
    )

    assert run(sync_driver, 1) == run(async_driver, 2)


def task_ids(state: Any) -> list[str]:
    return [task.id for task in state.tasks]


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("graph_input", [{"x": 0}, Command(update={"x": 0}, goto="n")])
def test_task_ids_of_a_run_are_unique(driver: Any, is_saved: bool, graph_input: Any) -> None:
    ids: list[str] = []

    def node(state: Any, runtime: Runtime) -> Any:
        ids.append(runtime.execution_info.task_id)
        return {"x": state["x"] + 1}

    child = StateGraph(State).add_sequence([("n", node), ("m", node)]).add_edge(START, "n").compile()
    graph = StateGraph(State).add_node("n", node).add_node("child", child).add_edge(START, "n").add_edge("n", "child")
    graph.add_conditional_edges("child", lambda s: "n" if s["x"] < 12 else END, ["n", END])
    app = graph.compile(InMemorySaver() if is_saved else None)
    driver.invoke(app, graph_input, **({"thread_id": "1"} if is_saved else {}))
    if is_saved:
        driver.invoke(app, {"x": 0}, thread_id="1")

    assert len(ids) == (24 if is_saved else 12)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("is_saved", [False, True])
def test_message_ids_of_a_run_are_unique(driver: Any, is_saved: bool) -> None:
    graph = StateGraph(MessagesState)
    graph.add_sequence([(f"n{n}", lambda s, n=n: {"messages": [f"a{n}", f"b{n}"]}) for n in range(6)])
    app = graph.add_edge(START, "n0").compile(InMemorySaver() if is_saved else None)

    messages = driver.invoke(app, {"messages": ["in"]}, **({"thread_id": "1"} if is_saved else {}))["messages"]

    assert len(messages) == 13
    assert len({message.id for message in messages}) == 13


def test_the_same_run_id_without_a_saver_gives_the_same_task_ids(driver: Any) -> None:
    def ids() -> list[Any]:
        seen: list[Any] = []

        def node(state: Any, runtime: Runtime) -> None:
            seen.append(runtime.execution_info.task_id)

        app = StateGraph(State).add_sequence([("a", node), ("b", node)]).add_edge(START, "a").compile()
        driver.invoke(app, {"x": 1}, run_id="r")
        return seen

    assert ids() == ids()
    assert len(set(ids())) == 2


def test_a_resumed_run_keeps_the_ids_of_its_tasks(driver: Any) -> None:
    """Planning is a pure function of the checkpoint: reading the state changes nothing."""
    graph = StateGraph(State).add_node("a", lambda s: {"log": [interrupt("?")]}).add_node("b", lambda s: None)
    app = graph.add_edge(START, "a").add_edge(START, "b").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, thread_id="1")

    seen = {tuple(task_ids(app.get_state(thread_id="1"))) for _ in range(3)}
    driver.invoke(app, None, thread_id="1")
    seen.add(tuple(task_ids(app.get_state(thread_id="1"))))

    assert len(seen) == 1


def test_events_of_a_chain_have_the_same_order_in_both_drivers(driver: Any) -> None:
    kinds: list[str] = []

    class Recorder(Instrument):
        def on_run_started(self, event: Any) -> None:
            kinds.append("run")

        def on_superstep(self, event: Any) -> None:
            kinds.append(f"step {event.step}")

        def on_task_started(self, event: Any) -> None:
            kinds.append(f"start {event.node}")

        def on_task_finished(self, event: Any) -> None:
            kinds.append(f"end {event.node}")

        def on_commit(self, event: Any) -> None:
            kinds.append(f"commit {event.step}")

        def on_run_finished(self, event: Any) -> None:
            kinds.append(f"rest {event.data.status}")

    graph = StateGraph(State).add_sequence([("a", lambda s: None), ("b", lambda s: None)]).add_edge(START, "a")
    driver.invoke(graph.compile(InMemorySaver(), instruments=[Recorder()]), {"x": 1}, thread_id="1")

    assert kinds == [
        *("run", "commit 0", "step 1", "start a", "end a", "commit 1"),
        *("step 2", "start b", "end b", "commit 2", "rest completed"),
    ]


PROGRAM = """
import json
from statewright import START, Send, StateGraph, append
graph = StateGraph({"log": append})
names = ["zeta", "alpha", "mu", "beta"]
for name in names:
    graph.add_node(name, lambda s, name=name: {"log": [name]}, destinations=names).add_edge(START, name)
graph.add_edge(["zeta", "mu"], "beta")
app = graph.compile()
print(json.dumps([app.invoke({"log": []}), sorted(app.graph.successors["mu"]), app.graph.reach["mu"]]))
"""


def test_results_do_not_depend_on_the_hash_seed() -> None:
    def printed(seed: str) -> Any:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    assert printed("1") == printed("2")
    assert printed("3")[0] == {"log": ["zeta", "alpha", "mu", "beta", "beta"]}
