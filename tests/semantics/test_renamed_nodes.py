"""Nodes that were renamed while threads wait: everything saved follows the alias, or the thread is refused by name.

Whatever a checkpoint says by the name of a node: tasks that are due or held, arrivals at joins, saved results and
where they lead, senders of gathered arguments, calls of subgraphs and memories, the node that ran last, cached
results. The property at the end renames one node of a random graph at a random point of its run.
"""

from __future__ import annotations

import os
import random
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    InMemorySaver,
    Runtime,
    Send,
    StateGraph,
    interrupt,
)
from statewright.channels import append
from statewright.errors import GraphVersionMismatch, InvalidGraph, InvalidUpdateError


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    count: int


def say(name: str) -> Any:
    return lambda state: {"log": [name]}


def joined(first: str, end: str = "end", **options: Any) -> StateGraph:
    """`first` arrives at a join at once, `late` a superstep later."""
    graph = StateGraph(State).add_node(first, say("first"), **options)
    graph.add_node("slow", say("slow")).add_node("late", say("late"))
    graph.add_node(end, say("end"), **({"aliases": ["end"]} if end != "end" and options else {}))
    graph.add_edge(START, first).add_edge(START, "slow").add_edge("slow", "late")
    return graph.add_edge([first, "late"], end)


def test_an_arrival_at_a_join_follows_an_alias(driver: Any, saver: Any) -> None:
    driver.invoke(joined("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    app = joined("alpha", aliases=["older", "a"]).compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


def test_the_end_of_a_join_follows_an_alias_too(driver: Any, saver: Any) -> None:
    driver.invoke(joined("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    app = joined("alpha", "finish", aliases=["a"]).compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


@pytest.mark.parametrize(("names", "gone"), [(("alpha",), "'a'"), (("a", "finish"), "'end'")])
def test_a_half_reached_join_of_a_node_that_is_gone_is_refused(
    driver: Any, saver: Any, names: tuple[str, ...], gone: str
) -> None:
    driver.invoke(joined("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    with pytest.raises(GraphVersionMismatch, match=rf"reached by 'a'.*Node {gone} does not exist"):
        driver.invoke(joined(*names).compile(saver), None, thread_id="t")


def test_a_half_reached_join_edge_that_is_gone_is_refused(driver: Any, saver: Any) -> None:
    driver.invoke(joined("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    graph = joined("a")
    graph.joins.clear()
    with pytest.raises(GraphVersionMismatch, match=r"join edge \['a', 'late'\] -> 'end' was reached by 'a'"):
        driver.invoke(graph.add_edge("late", "end").compile(saver), None, thread_id="t")


def test_the_order_in_which_a_join_names_its_nodes_does_not_matter(driver: Any, saver: Any) -> None:
    driver.invoke(joined("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    graph = joined("a")
    graph.joins.clear()
    app = graph.add_edge(["late", "a"], "end").compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


@pytest.mark.parametrize("name", ["it's + 'b' -> \"c\"", "back\\slash\n", "'", "ä + b"])
def test_a_join_is_known_by_any_names(driver: Any, saver: Any, name: str) -> None:
    driver.invoke(joined(name).compile(saver), {}, thread_id="t", interrupt_before=["late"])
    app = joined("plain", aliases=[name]).compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


def failing_beside(target: str, leads: str, **options: Any) -> StateGraph:
    """`work` lands and leads to `target`, by an edge, a goto or a Send, while `asks` waits beside it."""
    graph = StateGraph(State)
    if leads == "edge":
        graph.add_node("work", say("work")).add_edge("work", target)
    else:
        goto: Any = target if leads == "goto" else [Send(target, {"log": []})]
        graph.add_node("work", lambda s: Command(update={"log": ["work"]}, goto=goto), destinations=[target])
    graph.add_node("asks", lambda s: {"log": [interrupt("?")]}).add_node(target, say("end"), **options)
    return graph.add_edge(START, "work").add_edge(START, "asks")


@pytest.mark.parametrize("leads", ["edge", "goto", "send"])
def test_targets_of_a_saved_result_follow_an_alias(driver: Any, saver: Any, leads: str) -> None:
    driver.invoke(failing_beside("publish", leads).compile(saver), {}, thread_id="t")
    app = failing_beside("release", leads, aliases=["publish"]).compile(saver)
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["work", "yes", "end"]


@pytest.mark.parametrize("leads", ["edge", "goto", "send"])
def test_a_saved_result_with_an_unknown_target_is_refused(driver: Any, saver: Any, leads: str) -> None:
    driver.invoke(failing_beside("publish", leads).compile(saver), {}, thread_id="t")
    with pytest.raises(GraphVersionMismatch, match="result of 'work' leads to 'publish'"):
        driver.invoke(failing_beside("release", leads).compile(saver), Command(resume="yes"), thread_id="t")


def gathering(sender: str, **options: Any) -> StateGraph:
    """Two nodes send arguments that are gathered; a third node asks meanwhile."""

    def sending(*values: int) -> Any:
        return lambda s: Command(goto=[Send("sum", value, gather=True) for value in values])

    graph = StateGraph(State)
    graph.add_node("ask", lambda s: Command(update={"log": [interrupt("?")]}, goto=END), destinations=["sum"])
    graph.add_node("step", say("step"))
    graph.add_node("z", sending(1, 2), destinations=["sum"])
    graph.add_node(sender, sending(3), destinations=["sum"], **options)
    graph.add_node("sum", lambda values: {"log": list(values)})
    graph.add_edge(START, "step").add_edge("step", "ask")
    return graph.add_edge(START, "z").add_edge(START, sender)


def test_gathered_arguments_know_their_sender_by_its_new_name(driver: Any, saver: Any) -> None:
    driver.invoke(gathering("a").compile(saver), {}, thread_id="t")
    app = gathering("b", aliases=["a"]).compile(saver)
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["step", "yes", 1, 2, 3]


def test_gathered_arguments_of_a_sender_that_is_gone_are_refused(driver: Any, saver: Any) -> None:
    driver.invoke(gathering("a").compile(saver), {}, thread_id="t")
    with pytest.raises(GraphVersionMismatch, match="'a' has sent"):
        driver.invoke(gathering("b").compile(saver), Command(resume="yes"), thread_id="t")


def recovering(name: str, **options: Any) -> StateGraph:
    """A node whose error handler waits for an answer."""

    def fail(state: State) -> None:
        raise LookupError("no")

    def handle(state: State, error: Any) -> dict[str, Any]:
        return {"log": [f"{error.node}: {interrupt('?')}"]}

    return StateGraph(State).add_node(name, fail, error_handler=handle, **options).add_edge(START, name)


def test_an_error_handler_belongs_to_the_renamed_node(driver: Any, saver: Any) -> None:
    driver.invoke(recovering("a").compile(saver), {}, thread_id="t")
    app = recovering("alpha", aliases=["a"]).compile(saver)
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["alpha: yes"]


def test_an_error_handler_of_a_node_that_is_gone_is_refused(driver: Any, saver: Any) -> None:
    driver.invoke(recovering("a").compile(saver), {}, thread_id="t")
    with pytest.raises(GraphVersionMismatch, match="'a:error_handler' is due"):
        driver.invoke(recovering("alpha").compile(saver), Command(resume="yes"), thread_id="t")


# -- calls of subgraphs


def paying(paid: list[str]) -> StateGraph:
    def pay(state: State, runtime: Runtime) -> dict[str, Any]:
        runtime.step("pay", paid.append, "paid")
        return {"log": ["paid", interrupt("one?")]}

    graph = StateGraph(State).add_node("pay", pay).add_node("two", lambda s: {"log": [interrupt("two?")]})
    return graph.add_edge(START, "pay").add_edge("pay", "two")


def calling(paid: list[str], name: str, form: str, depth: int, **options: Any) -> StateGraph:
    """A graph that is called by the node `name`: as that node, or in it; `depth` levels deep, all of that name."""
    graph = paying(paid)
    for _ in range(depth):
        child = graph.compile()
        action: Any = child if form == "node" else (lambda s, child=child: child.invoke(s, call_key="mine"))
        graph = StateGraph(State).add_node(name, action, **options).add_edge(START, name)
    return graph


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("form", ["node", "call"])
def test_a_call_of_a_renamed_node_continues_where_it_was(driver: Any, saver: Any, form: str, depth: int) -> None:
    paid: list[str] = []
    driver.invoke(calling(paid, "sub", form, depth).compile(saver), {}, thread_id="t")
    app = calling(paid, "child", form, depth, aliases=["sub"]).compile(saver)
    asked = driver.invoke(app, Command(resume="a"), thread_id="t")
    assert [one.value for one in asked["__interrupt__"]] == ["two?"]
    if form == "node":
        assert app.get_state(thread_id="t", subgraphs=True).tasks[0].state is not None
    assert driver.invoke(app, Command(resume="b"), thread_id="t")["log"] == ["paid", "a", "b"]
    assert paid == ["paid"]
    assert list(saver.namespaces("t")) == [""], "the call goes with its task, whatever its name was"


def unsaved(name: str, form: str, depth: int, **options: Any) -> StateGraph:
    """A graph that asks twice, called with memory="none" by the node `name`, `depth` levels deep."""
    graph = StateGraph(State).add_node("one", lambda s: {"log": [interrupt("one?")]})
    graph.add_node("two", lambda s: {"log": [interrupt("two?")]}).add_edge(START, "one").add_edge("one", "two")
    for _ in range(depth):
        child, node = graph.compile(), dict(options)
        if form == "node":
            node["memory"] = "none"
        action = {
            "node": child,
            "call": lambda s, child=child: child.invoke({}, memory="none"),
            "keyed": lambda s, child=child: child.invoke({}, memory="none", call_key="a|b"),
        }[form]
        graph = StateGraph(State).add_node(name, action, **node).add_edge(START, name)
    return graph


@pytest.mark.parametrize("moved", ["renamed", "copied", "both"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("form", ["node", "call", "keyed"])
def test_a_call_that_saves_nothing_keeps_its_answers_wherever_it_is_made(
    driver: Any, saver: Any, form: str, depth: int, moved: str
) -> None:
    def built() -> Any:
        if moved == "copied":
            return unsaved("sub", form, depth).compile(saver)
        return unsaved("child", form, depth, aliases=["sub"]).compile(saver)

    app, thread = unsaved("sub", form, depth).compile(saver), "t"
    (first,) = driver.invoke(app, {}, thread_id=thread)["__interrupt__"]
    for question, answer in (("two?", "a"), (None, "b")):
        if moved != "renamed":
            app.copy_thread(thread, f"{thread}'")
            thread += "'"
        app = built()
        (asked,) = app.get_state(thread_id=thread).interrupts
        result = driver.invoke(app, Command(resume={asked.id: answer}), thread_id=thread)
        assert [one.value for one in result.get("__interrupt__", ())] == ([question] if question else [])
        assert (asked.id == first.id) == (answer == "a")
    assert result["log"] == ["a", "b"]


def test_calls_that_save_nothing_ask_questions_of_their_own(driver: Any, saver: Any) -> None:
    child = unsaved("deep", "call", 1).compile()

    def node(state: State) -> dict[str, Any]:
        keyed = [child.invoke({}, memory="none", call_key=key)["log"] for key in ("a|x", "b|x", "x")]
        return {"log": [*keyed, child.invoke({}, memory="none")["log"], child.invoke({}, memory="none")["log"]]}

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile(saver)
    result, ids = driver.invoke(app, {}, thread_id="t"), list[str]()
    while "__interrupt__" in result:
        (asked,) = result["__interrupt__"]
        result = driver.invoke(app, Command(resume=len(ids)), thread_id="t")
        ids.append(asked.id)
    assert result["log"] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert len(set(ids)) == 10


def remembering(name: str, **options: Any) -> StateGraph:
    class Counts(TypedDict, total=False):
        times: Annotated[int, lambda old, new: old + new]
        count: int

    child = StateGraph(Counts).add_node("add", lambda s: {"times": 1, "count": s.get("times", 0) + 1})
    child.add_edge(START, "add")
    return StateGraph(State).add_node(name, child.compile(), memory="thread", **options).add_edge(START, name)


def test_a_memory_belongs_to_the_renamed_node(driver: Any, saver: Any) -> None:
    driver.invoke(remembering("sub").compile(saver), {}, thread_id="t")
    app = remembering("child", aliases=["sub"]).compile(saver)
    assert driver.invoke(app, {}, thread_id="t")["count"] == 2
    assert driver.invoke(app, {}, thread_id="t")["count"] == 3, "and it is free again when the call has ended"


# -- from outside


def test_an_update_without_as_node_comes_from_the_renamed_node(driver: Any, saver: Any) -> None:
    def linked(first: str, **options: Any) -> StateGraph:
        graph = StateGraph(State).add_node(first, say("first"), **options).add_node("b", say("b"))
        return graph.add_edge(START, first).add_edge(first, "b")

    driver.invoke(linked("a").compile(saver), {}, thread_id="t", interrupt_before=["b"])
    with pytest.raises(InvalidUpdateError, match=r"ran last is 'a'.*aliases="):
        linked("alpha").compile(saver).update_state({"thread_id": "t"}, {"count": 1})
    linked("alpha", aliases=["a"]).compile(saver).update_state({"thread_id": "t"}, {"count": 1})
    assert saver.load("t").checkpoint.values["count"] == 1


def test_a_fork_of_another_versions_checkpoint_is_migrated_once(driver: Any, saver: Any) -> None:
    class Renamed(TypedDict, total=False):
        log: Annotated[list[Any], append]
        total: int

    def graph(schema: Any, name: str, field: str) -> StateGraph:
        graph = StateGraph(schema, version="1" if field == "count" else "2")
        graph.add_node(name, lambda s: {field: 1}).add_node("b", say("b"))
        return graph.add_edge(START, name).add_edge(name, "b")

    driver.invoke(graph(State, "a", "count").compile(saver), {}, thread_id="t", interrupt_before=["b"])
    newer = graph(Renamed, "alpha", "total")
    newer.migration(from_version="1")(lambda values: {"total": values["count"], "log": []})
    app = newer.compile(saver)
    app.fork({"thread_id": "t"}, branch="other")
    assert driver.invoke(app, None, thread_id="t", branch="other") == {"log": ["b"], "total": 1}
    app.fork({"thread_id": "t"})
    assert driver.invoke(app, None, thread_id="t") == {"log": ["b"], "total": 1}


def test_a_cached_result_leads_to_the_renamed_node_or_is_not_used(driver: Any) -> None:
    runs: list[str] = []

    def work(state: State) -> Command[Any]:
        runs.append("work")
        return Command(goto=target[0])

    target = ["publish"]
    cache = InMemoryCache()

    def graph(name: str, **options: Any) -> Any:
        target[:] = [name]
        graph = StateGraph(State).add_node("work", work, cache_policy=CachePolicy(), destinations=[name])
        return graph.add_node(name, say(name), **options).add_edge(START, "work").compile(cache=cache)

    driver.invoke(graph("publish"), {"count": 1})
    assert driver.invoke(graph("release", aliases=["publish"]), {"count": 1})["log"] == ["release"]
    assert runs == ["work"]
    assert driver.invoke(graph("other"), {"count": 1})["log"] == ["other"]
    assert runs == ["work", "work"]


def test_former_names_that_could_mean_two_nodes_are_problems() -> None:
    graph = StateGraph(State).add_node("a", say("a"), aliases=["b", "x"]).add_node("b", say("b"), aliases=["x"])
    with pytest.raises(InvalidGraph, match=r"the name of another node[\s\S]*the same alias 'x'"):
        graph.add_edge(START, "a").add_edge(START, "b").compile()


# -- any node of any graph, at any point


class Trace(TypedDict, total=False):
    log: Annotated[list[Any], append]


def random_graph(seed: int, rename: str | None, *, with_alias: bool) -> StateGraph:
    """A random graph, the same for each seed; `rename` becomes another name in it."""
    chance = random.Random(seed)
    count = chance.randint(3, 6)

    def named(number: int) -> str:
        return f"{rename}-renamed" if f"n{number}" == rename else f"n{number}"

    graph = StateGraph(Trace)
    kinds = [chance.choice(["plain", "goto", "send", "gather", "asks", "sub", "plain"]) for _ in range(count)]
    for number, kind in enumerate(kinds):
        # gathered arguments come as a list, which is no input of a subgraph
        later = [one for one in range(number + 1, count) if kind != "gather" or kinds[one] != "sub"]
        join = chance.choice(["any", "any", "reachable", "idle"])
        chosen = chance.sample(later, min(len(later), 2)) if kind in ("goto", "send", "gather") else []
        action, declares = _random_node(number, kind, [named(one) for one in chosen])
        options: dict[str, Any] = {"destinations": declares} if declares is not None else {}
        if with_alias and f"n{number}" == rename:
            options["aliases"] = [f"n{number}"]
        graph.add_node(named(number), action, join=join, **options)
    for number in range(1, count):
        starts = sorted(chance.sample(range(number), min(number, chance.choice([1, 1, 2, 2]))))
        if len(starts) > 1 and chance.random() < 0.7:
            graph.add_edge([named(one) for one in starts], named(number))
        else:
            for one in starts:
                graph.add_edge(named(one), named(number))
    graph.add_edge(START, named(0))
    if chance.random() < 0.7:
        graph.add_edge(START, named(1))
    return graph


def _random_node(number: int, kind: str, targets: list[str]) -> tuple[Any, list[str] | None]:
    label = f"n{number}"
    if kind == "asks":
        return (lambda s: {"log": [(label, interrupt(label))]}), None
    if kind == "sub":
        return _child(label), None
    if not targets:
        return (lambda s: {"log": [label]}), None

    def leading(state: Any) -> Command[Any]:
        update = {"log": [label]}
        if kind == "goto":
            return Command(update=update, goto=targets)
        return Command(update=update, goto=[Send(one, {"log": [label]}, gather=kind == "gather") for one in targets])

    return leading, targets


def _child(label: str) -> Any:
    child = StateGraph(Trace).add_node("in", lambda s: {"log": [(label, interrupt(label + " in"))]})
    child.add_node("out", lambda s: {"log": [(label, "out")]})
    return child.add_edge(START, "in").add_edge("in", "out").compile()


def _advance(driver: Any, app: Any, given: Any) -> Any:
    return driver.invoke(app, given, thread_id="t", interrupt_before="*", recursion_limit=60)


def _finish(driver: Any, app: Any, asked: Any) -> Any:
    """Go on without breakpoints, and answer whatever is asked, until the thread is at rest."""
    for _ in range(60):
        state = app.get_state(thread_id="t")
        if not state.next:
            return asked if asked is not None else state.values
        answers = {one.id: f"answer to {one.value}" for one in state.interrupts}
        given = Command(resume=answers) if answers else None
        asked = driver.invoke(app, given, thread_id="t", recursion_limit=60)
    raise AssertionError("the thread never comes to rest")


def _stopped(driver: Any, seed: int, point: int, saver: Any) -> Any:
    """The graph of a seed, stopped at the breakpoint or question number `point`; None if it ends before."""
    app = random_graph(seed, None, with_alias=False).compile(saver, strict=False)
    given: Any = {"log": []}
    for _ in range(point + 1):
        _advance(driver, app, given)
        state = app.get_state(thread_id="t")
        if not state.next:
            return None
        answers = {one.id: f"answer to {one.value}" for one in state.interrupts}
        given = Command(resume=answers) if answers else None
    return app


FULL = bool(os.environ.get("STATEWRIGHT_FULL"))


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("seed", range(150 if FULL else 4))
def test_any_node_may_be_renamed_at_any_point(driver: Any, seed: int) -> None:
    """With the alias the run ends as it would have; without it, so or with GraphVersionMismatch."""
    for point in range(12):
        saver = InMemorySaver()
        app = _stopped(driver, seed, point, saver)
        if app is None:
            return
        saver.copy_thread("t", "kept")
        expected = _finish(driver, app, None)
        for name in app.graph.nodes:
            for with_alias in (True, False):
                saver.delete_thread("t")
                saver.copy_thread("kept", "t")
                renamed = random_graph(seed, name, with_alias=with_alias).compile(saver, strict=False)
                found = _finished_or_refused(driver, renamed)
                if isinstance(found, GraphVersionMismatch):
                    assert not with_alias, (point, name)
                    assert f"'{name}" in str(found)
                else:
                    assert found == expected, (point, name, with_alias)


def _finished_or_refused(driver: Any, app: Any) -> Any:
    try:
        return _finish(driver, app, None)
    except GraphVersionMismatch as error:
        return error
