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


class Once(TypedDict, total=False):
    log: list[Any]


class Counting(TypedDict, total=False):
    log: Annotated[list[Any], append]
    times: Annotated[int, lambda old, new: old + new]


def counting(depth: int = 1) -> StateGraph:
    """Counts its calls over all runs of a thread; `depth` memories inside each other."""
    graph = StateGraph(Counting).add_node("add", lambda s: {"times": 1, "log": [s.get("times", 0) + 1]})
    graph.add_edge(START, "add")
    for _ in range(depth - 1):
        graph = StateGraph(Once).add_node("inner", graph.compile(), memory="thread").add_edge(START, "inner")
    return graph


def remembering(saver: Any, depth: int = 1) -> Any:
    """`log` of each run: how often the memory was called so far."""
    graph = StateGraph(Once).add_node("child", counting(depth).compile(), memory="thread").add_edge(START, "child")
    return graph.compile(saver)


def count_of(result: Any) -> int:
    return result["log"][-1]


@pytest.mark.parametrize("depth", [1, 2])
class TestMemory:
    def test_a_branch_begins_with_the_memory_of_its_fork(self, driver: Any, saver: Any, depth: int) -> None:
        app = remembering(saver, depth)
        for _ in range(3):
            driver.invoke(app, {}, thread_id="t")
        app.fork({"thread_id": "t"}, branch="b")
        assert count_of(driver.invoke(app, {}, thread_id="t", branch="b")) == 4
        assert count_of(driver.invoke(app, {}, thread_id="t", branch="b")) == 5
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 4

    def test_a_fork_of_the_past_has_the_memory_of_then(self, driver: Any, saver: Any, depth: int) -> None:
        app = remembering(saver, depth)
        ends: list[Any] = []
        for _ in range(4):
            driver.invoke(app, {}, thread_id="t")
            ends.append(app.get_state(thread_id="t").config)
        for number, end in enumerate(ends, 1):
            app.fork(end, branch=f"b{number}")
            assert count_of(driver.invoke(app, {}, thread_id="t", branch=f"b{number}")) == number + 1
        app.fork(ends[1])
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 3, "on its own branch too"
        app.fork(ends[3])
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 5, "and forward again"

    def test_a_rollback_takes_the_memory_along(self, driver: Any, saver: Any, depth: int) -> None:
        app = remembering(saver, depth)
        for _ in range(3):
            driver.invoke(app, {}, thread_id="t")
        app.roll_back(thread_id="t")
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 3
        app.roll_back(thread_id="t")
        app.roll_back(thread_id="t")
        assert count_of(driver.invoke(app, {}, thread_id="t")) <= 3

    def test_a_rollback_of_the_first_run_forgets_all(self, driver: Any, saver: Any, depth: int) -> None:
        app = remembering(saver, depth)
        driver.invoke(app, {}, thread_id="t")
        app.roll_back(thread_id="t")
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 1

    @pytest.mark.parametrize("how", ["replay", "update"])
    def test_a_replay_begins_with_the_memory_of_then(self, driver: Any, saver: Any, depth: int, how: str) -> None:
        app = remembering(saver, depth)
        for _ in range(3):
            driver.invoke(app, {}, thread_id="t")
        before = [one.config for one in app.get_state_history(thread_id="t") if one.next == ("child",)]
        config = before[1]  # of the second run
        if how == "update":
            config = app.update_state(config, {"log": []}, as_node=START)
        assert count_of(driver.invoke(app, None, config)) == 2
        assert count_of(driver.invoke(app, {}, thread_id="t")) == 3


def test_a_pruned_memory_is_reported_and_not_silently_empty(driver: Any, saver: Any) -> None:
    child = StateGraph(Counting)
    for name in "abc":
        child.add_node(name, lambda s: {"times": 1})
    child.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    app = StateGraph(State).add_node("child", child.compile(), memory="thread").add_edge(START, "child").compile(saver)
    for _ in range(3):
        driver.invoke(app, {}, thread_id="t")
    app.prune(PrunePolicy(keep_last=4), thread_id="t")
    ends = [one.config for one in app.get_state_history(thread_id="t") if not one.next]
    app.fork(ends[0], branch="new")
    with pytest.raises(CheckpointNotFound, match="'child' had then was pruned"):
        app.fork(ends[-1], branch="old")


# -- calls


def asking(runs: list[str]) -> StateGraph:
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
@pytest.mark.parametrize("how", ["fork", "branch", "invoke"])
def test_a_run_continues_from_a_checkpoint_inside_a_subgraph(driver: Any, saver: Any, depth: int, how: str) -> None:
    runs: list[str] = []
    app = nested(asking(runs), depth, saver)
    driver.invoke(app, {}, thread_id="t")
    driver.invoke(app, Command(resume="x"), thread_id="t")
    inner = innermost(app)
    at_one = next(one.config for one in app.get_state_history(inner.config) if one.next == ("one",))
    branch = "other" if how == "branch" else "main"
    where = {"thread_id": "t", "branch": branch}
    if how == "invoke":
        asked = driver.invoke(app, None, at_one)
    else:
        app.fork(at_one, branch="other" if how == "branch" else None)
        asked = driver.invoke(app, None, where)
    assert [one.value for one in asked["__interrupt__"]] == ["one"], "it is asked again"
    driver.invoke(app, Command(resume="y"), where)
    assert driver.invoke(app, Command(resume="z"), where)["log"] == ["pre", "a", "one: y", "b", "two: z"]
    assert runs == ["a", "b", "b"]
    if how == "branch":
        assert driver.invoke(app, Command(resume="z"), thread_id="t")["log"] == ["pre", "a", "one: x", "b", "two: z"]


def test_an_update_inside_a_subgraph_leaves_its_question_open(driver: Any, saver: Any) -> None:
    app = nested(asking([]), 0, saver)
    driver.invoke(app, {}, thread_id="t")
    app.update_state(innermost(app).config, {"log": ["edited"]})
    assert driver.invoke(app, Command(resume="x"), thread_id="t")["__interrupt__"][0].value == "two"
    assert driver.invoke(app, Command(resume="y"), thread_id="t")["log"] == [
        "pre", "a", "edited", "one: x", "b", "two: y",
    ]  # fmt: skip


@pytest.mark.parametrize("keep_calls", [False, True])
def test_a_replay_runs_its_calls_again_on_the_changed_state(driver: Any, saver: Any, keep_calls: bool) -> None:
    inner = StateGraph(State).add_node("saw", lambda s: {"log": [list(s["log"])]}).add_edge(START, "saw")
    for _ in range(2):
        inner = StateGraph(State).add_node("sub", inner.compile()).add_edge(START, "sub")
    graph = StateGraph(State).add_node("first", lambda s: {"log": ["first"]}).add_node("sub", inner.compile())
    app = graph.add_edge(START, "first").add_edge("first", "sub").compile(saver, keep_calls=keep_calls)
    driver.invoke(app, {}, thread_id="t")
    before = next(one for one in app.get_state_history(thread_id="t") if one.next == ("sub",))
    kept = len(list(saver.namespaces("t")))
    assert driver.invoke(app, None, before.config)["log"] == ["first", ["first"]]
    forked = app.update_state(before.config, {"log": ["changed"]}, "first")
    assert driver.invoke(app, None, forked)["log"] == ["first", "changed", ["first", "changed"]]
    app.fork(before.config)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", ["first"]]
    assert len(list(saver.namespaces("t"))) == kept, "what is kept stays"


def test_a_call_that_has_ended_says_what_to_fork_instead(driver: Any, saver: Any) -> None:
    app = nested(asking([]), 0, saver, keep_calls=True)
    driver.invoke(app, {}, thread_id="t")
    inner = innermost(app).config
    driver.invoke(app, Command(resume="x"), thread_id="t")
    driver.invoke(app, Command(resume="y"), thread_id="t")
    with pytest.raises(InvalidUpdateError, match=r"has ended.*Fork a checkpoint of thread 't' itself"):
        app.fork(inner)


# -- any checkpoint of any namespace


def random_nested(seed: int) -> StateGraph:
    """A chain of random nodes; some ask, some are subgraphs of the same kind, some remember."""
    chance = random.Random(seed)

    def level(depth: int, path: str) -> StateGraph:
        graph = StateGraph(State)
        names = [f"{path}{number}" for number in range(chance.randint(1, 3))]
        for name in names:
            kind = chance.choice(["plain", "asks", "sub", "sub", "memory"] if depth < 2 else ["plain", "asks"])
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
        if len(names) > 1 and chance.random() < 0.4:
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


def finish(driver: Any, app: Any, where: Any) -> Any:
    """Answer whatever is asked until the thread is at rest; the sorted log, as questions may be asked in any order."""
    for _ in range(60):
        state = app.get_state(where)
        if not state.next:
            return sorted(map(str, state.values.get("log", [])))
        answers = {one.id: f"answer to {one.value}" for one in state.interrupts}
        driver.invoke(app, Command(resume=answers) if answers else None, where)
    raise AssertionError("the thread never comes to rest")


FULL = bool(os.environ.get("STATEWRIGHT_FULL"))


@pytest.mark.parametrize("keep_calls", [False, True])
@pytest.mark.parametrize("seed", range(60 if FULL else 3))
def test_any_checkpoint_of_any_namespace_may_be_forked(driver: Any, seed: int, keep_calls: bool) -> None:
    """The run then ends as the original does, or the fork is refused with what to do instead."""
    saver = InMemorySaver()
    app = random_nested(seed).compile(saver, keep_calls=keep_calls)
    driver.invoke(app, {"log": []}, thread_id="t")
    finish(driver, app, {"thread_id": "t"})  # so that memories have something to go back from
    given: Any = {"log": []}
    for _ in range(6):
        driver.invoke(app, given, thread_id="t")
        saver.copy_thread("t", "whole")
        expected = finish(driver, app, {"thread_id": "whole"})
        saver.delete_thread("whole")
        _fork_everywhere(driver, app, saver, expected)
        state = app.get_state(thread_id="t")
        if not state.next:
            return
        given = Command(resume={one.id: f"answer to {one.value}" for one in state.interrupts})


def _fork_everywhere(driver: Any, app: Any, saver: Any, expected: Any) -> None:
    first = next(one for one in saver.history("t", branch="main") if one.source == "input")
    for namespace in saver.namespaces("t"):
        for saved in saver.history("t", namespace=namespace, branch="main"):
            if saved.created_at < first.created_at or saved.metadata.get("reset"):
                continue  # of the run before
            for branch in (None, "other"):
                saver.copy_thread("t", "copy")
                where = {"thread_id": "copy", "branch": branch or "main"}
                named = {"thread_id": "copy", "checkpoint_id": saved.id}
                refused = _refusal(app, {**named, "namespace": namespace} if namespace else named, branch)
                if refused is None:
                    found = finish(driver, app, where)
                    if saved.metadata.get("remembers") and saved.checkpoint.is_complete:
                        # The end of a former call: the memory knows less from there on, and all else is the same.
                        found, wanted = len(found), len(expected)
                    else:
                        wanted = expected
                    assert found == wanted, (namespace, saved.checkpoint.step, branch, app.get_state(thread_id="t"))
                else:
                    assert namespace
                    assert "has ended" in refused, (namespace, saved.id)
                saver.delete_thread("copy")


def _refusal(app: Any, config: Any, branch: str | None) -> str | None:
    """Why a fork is refused; None if it is made."""
    try:
        app.fork(config, branch=branch)
    except InvalidUpdateError as error:
        return str(error)
    return None
