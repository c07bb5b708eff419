"""Forks, replays and rollbacks of threads with subgraphs: memories and calls are restored too, at any depth."""

from __future__ import annotations

import os
import random
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, InMemorySaver, StateGraph, interrupt
from statewright.channels import append
from statewright.checkpoint import PrunePolicy
from statewright.errors import CheckpointNotFound, InvalidUpdateError


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


class ReplacedLog(TypedDict, total=False):
    log: list[Any]


class CountedCalls(TypedDict, total=False):
    log: Annotated[list[Any], append]
    times: Annotated[int, lambda old, new: old + new]


def memory_graph(depth: int = 1) -> StateGraph:
    """Build a graph that counts its calls over all runs of a thread, inside `depth - 1` more memories."""
    graph = StateGraph(CountedCalls).add_node("add", lambda s: {"times": 1, "log": [s.get("times", 0) + 1]})
    graph.add_edge(START, "add")
    for _ in range(depth - 1):
        graph = StateGraph(ReplacedLog).add_node("inner", graph.compile(), memory="thread").add_edge(START, "inner")
    return graph


def app_with_memory(saver: Any, depth: int = 1) -> Any:
    """Compile a graph whose `log` is the number of calls of its memory."""
    graph = (
        StateGraph(ReplacedLog)
        .add_node("child", memory_graph(depth).compile(), memory="thread")
        .add_edge(START, "child")
    )
    return graph.compile(saver)


def count_of(result: Any) -> int:
    return result["log"][-1]


@pytest.mark.parametrize("depth", [1, 2])
class TestMemory:
    def test_a_branch_begins_with_the_memory_of_its_fork(self, driver: Any, saver: Any, depth: int) -> None:
        app = app_with_memory(saver, depth)
        for _ in range(3):
            driver.invoke(app, {}, thread_id="t")
        app.fork({"thread_id": "t"}, branch="b")
        assert count_of(driver.invoke(app, {}, thread_id="t", branch="b")) == 4
        assert count_of(driver.invoke(app, {}, thread_id="t", branch="b")) == 5
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 4

    def test_a_fork_of_an_old_checkpoint_restores_its_memory(self, driver: Any, saver: Any, depth: int) -> None:
        app = app_with_memory(saver, depth)
        ends: list[Any] = []
        for _ in range(4):
            driver.invoke(app, {}, thread_id="t")
            ends.append(app.get_state(thread_id="t").config)
        for number, end in enumerate(ends, 1):
            app.fork(end, branch=f"b{number}")
            assert count_of(driver.invoke(app, {}, thread_id="t", branch=f"b{number}")) == number + 1
        app.fork(ends[1])
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 3, "also on the same branch"
        app.fork(ends[3])
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 5, "also forward"

    def test_a_rollback_restores_the_memory(self, driver: Any, saver: Any, depth: int) -> None:
        app = app_with_memory(saver, depth)
        for _ in range(3):
            driver.invoke(app, {}, thread_id="t")
        app.roll_back(thread_id="t")
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 3
        app.roll_back(thread_id="t")
        app.roll_back(thread_id="t")
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 2

    def test_a_rollback_of_the_first_run_clears_the_memory(self, driver: Any, saver: Any, depth: int) -> None:
        app = app_with_memory(saver, depth)
        driver.invoke(app, {}, thread_id="t")
        app.roll_back(thread_id="t")
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 1

    @pytest.mark.parametrize("action", ["replay", "update"])
    def test_a_replay_begins_with_the_memory_of_its_checkpoint(
        self, driver: Any, saver: Any, depth: int, action: str
    ) -> None:
        app = app_with_memory(saver, depth)
        for _ in range(3):
            driver.invoke(app, {}, thread_id="t")
        before = [state.config for state in app.get_state_history(thread_id="t") if state.next == ("child",)]
        config = before[1]  # before the second run
        if action == "update":
            config = app.update_state(config, {"log": []}, as_node=START)
        assert count_of(driver.invoke(app, None, config)) == 2
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 3


def test_forking_with_a_pruned_memory_is_refused(driver: Any, saver: Any) -> None:
    child = StateGraph(CountedCalls)
    for name in "abc":
        child.add_node(name, lambda s: {"times": 1})
    child.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    app = StateGraph(State).add_node("child", child.compile(), memory="thread").add_edge(START, "child").compile(saver)
    for _ in range(3):
        driver.invoke(app, {}, thread_id="t")
    app.prune(PrunePolicy(keep_last=4), thread_id="t")
    ends = [state.config for state in app.get_state_history(thread_id="t") if not state.next]
    app.fork(ends[0], branch="new")
    with pytest.raises(CheckpointNotFound, match="'child' had then was pruned"):
        app.fork(ends[-1], branch="old")


# -- calls


def asking_graph(runs: list[str]) -> StateGraph:
    def say(name: str) -> Any:
        def node(state: Any) -> Any:
            runs.append(name)
            return {"log": [name]}

        return node

    graph = StateGraph(State)
    for name in "ab":
        graph.add_node(name, say(name))
    for name in ("one", "two"):
        graph.add_node(name, lambda s, name=name: {"log": [f"{name}: {interrupt(name)}"]})
    return graph.add_edge(START, "a").add_edge("a", "one").add_edge("one", "b").add_edge("b", "two")


def nested(graph: StateGraph, depth: int, saver: Any, **options: Any) -> Any:
    for level in range(depth):
        last = level == depth - 1
        graph = StateGraph(State).add_node("sub", graph.compile()).add_edge(START, "sub")
        if last:
            graph.add_node("first", lambda s: {"log": ["first"]})
    outer = StateGraph(State).add_node("pre", lambda s: {"log": ["pre"]}).add_edge(START, "pre")
    return outer.add_node("sub", graph.compile(strict=False)).add_edge("pre", "sub").compile(saver, **options)


def innermost(app: Any) -> Any:
    state = app.get_state(thread_id="t", subgraphs=True)
    while state.tasks and state.tasks[0].state is not None:
        state = state.tasks[0].state
    return state


@pytest.mark.filterwarnings("ignore::statewright.graph.builder.GraphWarning")
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("action", ["fork", "branch", "invoke"])
def test_a_run_continues_from_a_checkpoint_inside_a_subgraph(driver: Any, saver: Any, depth: int, action: str) -> None:
    runs: list[str] = []
    app = nested(asking_graph(runs), depth, saver)
    driver.invoke(app, {}, thread_id="t")
    driver.invoke(app, Command(resume="x"), thread_id="t")
    inner = innermost(app)
    at_one = next(state.config for state in app.get_state_history(inner.config) if state.next == ("one",))
    branch = "other" if action == "branch" else "main"
    config = {"thread_id": "t", "branch": branch}
    if action == "invoke":
        result = driver.invoke(app, None, at_one)
    else:
        app.fork(at_one, branch="other" if action == "branch" else None)
        result = driver.invoke(app, None, config)
    assert [question.value for question in result["__interrupt__"]] == ["one"], "the question is asked again"
    driver.invoke(app, Command(resume="y"), config)
    assert driver.invoke(app, Command(resume="z"), config)["log"] == ["pre", "a", "one: y", "b", "two: z"]
    assert runs == ["a", "b", "b"]
    if action == "branch":
        assert driver.invoke(app, Command(resume="z"), thread_id="t")["log"] == ["pre", "a", "one: x", "b", "two: z"]


def test_an_update_inside_a_subgraph_leaves_its_question_open(driver: Any, saver: Any) -> None:
    app = nested(asking_graph([]), 0, saver)
    driver.invoke(app, {}, thread_id="t")
    app.update_state(innermost(app).config, {"log": ["edited"]})
    assert driver.invoke(app, Command(resume="x"), thread_id="t")["__interrupt__"][0].value == "two"
    assert driver.invoke(app, Command(resume="y"), thread_id="t")["log"] == [
        "pre", "a", "edited", "one: x", "b", "two: y",
    ]  # fmt: skip


@pytest.mark.parametrize("keep_calls", [False, True])
def test_a_replay_repeats_its_calls_with_the_changed_state(driver: Any, saver: Any, keep_calls: bool) -> None:
    inner = StateGraph(State).add_node("saw", lambda s: {"log": [list(s["log"])]}).add_edge(START, "saw")
    for _ in range(2):
        inner = StateGraph(State).add_node("sub", inner.compile()).add_edge(START, "sub")
    graph = StateGraph(State).add_node("first", lambda s: {"log": ["first"]}).add_node("sub", inner.compile())
    app = graph.add_edge(START, "first").add_edge("first", "sub").compile(saver, keep_calls=keep_calls)
    driver.invoke(app, {}, thread_id="t")
    before = next(state for state in app.get_state_history(thread_id="t") if state.next == ("sub",))
    count = len(list(saver.namespaces("t")))
    assert driver.invoke(app, None, before.config)["log"] == ["first", ["first"]]
    forked = app.update_state(before.config, {"log": ["changed"]}, "first")
    assert driver.invoke(app, None, forked)["log"] == ["first", "changed", ["first", "changed"]]
    app.fork(before.config)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", ["first"]]
    assert len(list(saver.namespaces("t"))) == count, "the kept calls remain"


def test_forking_inside_a_completed_call_names_the_alternative(driver: Any, saver: Any) -> None:
    app = nested(asking_graph([]), 0, saver, keep_calls=True)
    driver.invoke(app, {}, thread_id="t")
    inner = innermost(app).config
    driver.invoke(app, Command(resume="x"), thread_id="t")
    driver.invoke(app, Command(resume="y"), thread_id="t")
    with pytest.raises(InvalidUpdateError, match=r"has ended.*Fork a checkpoint of thread 't' itself"):
        app.fork(inner)


# -- any checkpoint of any namespace


def random_nested(seed: int) -> StateGraph:
    """Build a chain of random nodes: plain ones, questions, nested chains and memories."""
    rng = random.Random(seed)

    def level(depth: int, path: str) -> StateGraph:
        graph = StateGraph(State)
        names = [f"{path}{number}" for number in range(rng.randint(1, 3))]
        for name in names:
            kind = rng.choice(["plain", "asks", "sub", "sub", "memory"] if depth < 2 else ["plain", "asks"])
            if kind == "plain":
                graph.add_node(name, lambda s, name=name: {"log": [name]})
            elif kind == "asks":
                graph.add_node(name, lambda s, name=name: {"log": [f"{name}: {interrupt(name)}"]})
            elif kind == "sub":
                graph.add_node(name, level(depth + 1, name + ".").compile())
            else:
                graph.add_node(name, _memory(name).compile(), memory="thread")
        for before, after in zip([START, *names], names, strict=False):
            graph.add_edge(before, after)
        if len(names) > 1 and rng.random() < 0.4:
            graph.add_edge(START, names[1])
        return graph

    return level(0, "n")


def _memory(name: str) -> StateGraph:
    class Inner(TypedDict, total=False):
        log: Annotated[list[Any], append]
        times: Annotated[int, lambda old, new: old + new]

    graph = StateGraph(Inner).add_node("count", lambda s: {"times": 1})
    graph.add_node("ask", lambda s: {"log": [f"{name} {s['times']}: {interrupt(name)}"]})
    return graph.add_edge(START, "count").add_edge("count", "ask")


def finish(driver: Any, app: Any, config: Any) -> Any:
    """Answer all questions until the thread completes; return its log, sorted because the order may vary."""
    for _ in range(60):
        state = app.get_state(config)
        if not state.next:
            return sorted(map(str, state.values.get("log", [])))
        answers = {question.id: f"answer to {question.value}" for question in state.interrupts}
        driver.invoke(app, Command(resume=answers) if answers else None, config)
    raise AssertionError("The thread never completes.")


FULL = bool(os.environ.get("STATEWRIGHT_FULL"))


@pytest.mark.parametrize("keep_calls", [False, True])
@pytest.mark.parametrize("seed", range(60 if FULL else 3))
@pytest.mark.sampled(3)
def test_any_checkpoint_of_any_namespace_may_be_forked(driver: Any, seed: int, keep_calls: bool) -> None:
    """The fork ends like the original, or it is refused with a remedy."""
    saver = InMemorySaver()
    app = random_nested(seed).compile(saver, keep_calls=keep_calls)
    driver.invoke(app, {"log": []}, thread_id="t")
    finish(driver, app, {"thread_id": "t"})  # so that memories have an earlier state
    value: Any = {"log": []}
    for _ in range(6):
        driver.invoke(app, value, thread_id="t")
        saver.copy_thread("t", "whole")
        expected = finish(driver, app, {"thread_id": "whole"})
        saver.delete_thread("whole")
        check_all_forks(driver, app, saver, expected)
        state = app.get_state(thread_id="t")
        if not state.next:
            return
        value = Command(resume={question.id: f"answer to {question.value}" for question in state.interrupts})


def check_all_forks(driver: Any, app: Any, saver: Any, expected: Any) -> None:
    first = next(each for each in saver.history("t", branch="main") if each.source == "input")
    for namespace in saver.namespaces("t"):
        for saved in saver.history("t", namespace=namespace, branch="main"):
            if saved.created_at < first.created_at or saved.metadata.get("reset"):
                continue  # a checkpoint of the previous run
            for branch in (None, "other"):
                saver.copy_thread("t", "copy")
                config = {"thread_id": "copy", "branch": branch or "main"}
                origin = {"thread_id": "copy", "checkpoint_id": saved.id}
                refusal = try_fork(app, {**origin, "namespace": namespace} if namespace else origin, branch)
                if refusal is None:
                    actual = finish(driver, app, config)
                    if saved.metadata.get("remembers") and saved.checkpoint.is_complete:
                        # The end of an earlier call: the memory counts fewer calls, and the rest is the same.
                        actual, target = len(actual), len(expected)
                    else:
                        target = expected
                    assert actual == target, (namespace, saved.checkpoint.step, branch, app.get_state(thread_id="t"))
                else:
                    assert namespace
                    assert "has ended" in refusal, (namespace, saved.id)
                saver.delete_thread("copy")


def try_fork(app: Any, config: Any, branch: str | None) -> str | None:
    """Fork a checkpoint; return the error if it is refused."""
    try:
        app.fork(config, branch=branch)
    except InvalidUpdateError as error:
        return str(error)
    return None
