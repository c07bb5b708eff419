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


def log_name(name: str) -> Any:
    return lambda state: {"log": [name]}


def graph_with_join(first: str, end: str = "end", **options: Any) -> StateGraph:
    """Build a join that `first` reaches at once, and `late` a superstep later."""
    graph = StateGraph(State).add_node(first, log_name("first"), **options)
    graph.add_node("slow", log_name("slow")).add_node("late", log_name("late"))
    graph.add_node(end, log_name("end"), **({"aliases": ["end"]} if end != "end" and options else {}))
    graph.add_edge(START, first).add_edge(START, "slow").add_edge("slow", "late")
    return graph.add_edge([first, "late"], end)


def test_an_arrival_at_a_join_follows_an_alias(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_join("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    app = graph_with_join("alpha", aliases=["older", "a"]).compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


def test_the_end_of_a_join_follows_an_alias(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_join("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    app = graph_with_join("alpha", "finish", aliases=["a"]).compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


@pytest.mark.parametrize(("names", "missing"), [(("alpha",), "'a'"), (("a", "finish"), "'end'")])
def test_a_half_reached_join_of_a_removed_node_is_refused(
    driver: Any, saver: Any, names: tuple[str, ...], missing: str
) -> None:
    driver.invoke(graph_with_join("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    with pytest.raises(GraphVersionMismatch, match=rf"reached by 'a'.*Node {missing} does not exist"):
        driver.invoke(graph_with_join(*names).compile(saver), None, thread_id="t")


def test_a_removed_join_edge_that_is_half_reached_is_refused(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_join("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    graph = graph_with_join("a")
    graph.joins.clear()
    with pytest.raises(GraphVersionMismatch, match=r"join edge \['a', 'late'\] -> 'end' was reached by 'a'"):
        driver.invoke(graph.add_edge("late", "end").compile(saver), None, thread_id="t")


def test_the_order_of_names_in_a_join_does_not_matter(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_join("a").compile(saver), {}, thread_id="t", interrupt_before=["late"])
    graph = graph_with_join("a")
    graph.joins.clear()
    app = graph.add_edge(["late", "a"], "end").compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


@pytest.mark.parametrize("name", ["it's + 'b' -> \"c\"", "back\\slash\n", "'", "ä + b"])
def test_a_join_may_have_nodes_with_any_names(driver: Any, saver: Any, name: str) -> None:
    driver.invoke(graph_with_join(name).compile(saver), {}, thread_id="t", interrupt_before=["late"])
    app = graph_with_join("plain", aliases=[name]).compile(saver)
    assert driver.invoke(app, None, thread_id="t")["log"] == ["first", "slow", "late", "end"]


def graph_with_saved_result(target: str, route: str, **options: Any) -> StateGraph:
    """Build a graph where `work` leads to `target` by an edge, a goto or a Send, while `asks` waits."""
    graph = StateGraph(State)
    if route == "edge":
        graph.add_node("work", log_name("work")).add_edge("work", target)
    else:
        goto: Any = target if route == "goto" else [Send(target, {"log": []})]
        graph.add_node("work", lambda s: Command(update={"log": ["work"]}, goto=goto), destinations=[target])
    graph.add_node("asks", lambda s: {"log": [interrupt("?")]}).add_node(target, log_name("end"), **options)
    return graph.add_edge(START, "work").add_edge(START, "asks")


@pytest.mark.parametrize("route", ["edge", "goto", "send"])
def test_targets_of_a_saved_result_follow_an_alias(driver: Any, saver: Any, route: str) -> None:
    driver.invoke(graph_with_saved_result("publish", route).compile(saver), {}, thread_id="t")
    app = graph_with_saved_result("release", route, aliases=["publish"]).compile(saver)
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["work", "yes", "end"]


@pytest.mark.parametrize("route", ["edge", "goto", "send"])
def test_a_saved_result_with_an_unknown_target_is_refused(driver: Any, saver: Any, route: str) -> None:
    driver.invoke(graph_with_saved_result("publish", route).compile(saver), {}, thread_id="t")
    with pytest.raises(GraphVersionMismatch, match="result of 'work' leads to 'publish'"):
        driver.invoke(graph_with_saved_result("release", route).compile(saver), Command(resume="yes"), thread_id="t")


def graph_with_gathered_sends(sender: str, **options: Any) -> StateGraph:
    """Build a graph where two nodes send gathered arguments, and a third node asks."""

    def send_all(*values: int) -> Any:
        return lambda s: Command(goto=[Send("sum", value, gather=True) for value in values])

    graph = StateGraph(State)
    graph.add_node("ask", lambda s: Command(update={"log": [interrupt("?")]}, goto=END), destinations=["sum"])
    graph.add_node("step", log_name("step"))
    graph.add_node("z", send_all(1, 2), destinations=["sum"])
    graph.add_node(sender, send_all(3), destinations=["sum"], **options)
    graph.add_node("sum", lambda values: {"log": list(values)})
    graph.add_edge(START, "step").add_edge("step", "ask")
    return graph.add_edge(START, "z").add_edge(START, sender)


def test_gathered_arguments_follow_the_alias_of_their_sender(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_gathered_sends("a").compile(saver), {}, thread_id="t")
    app = graph_with_gathered_sends("b", aliases=["a"]).compile(saver)
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["step", "yes", 1, 2, 3]


def test_gathered_arguments_of_a_removed_sender_are_refused(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_gathered_sends("a").compile(saver), {}, thread_id="t")
    with pytest.raises(GraphVersionMismatch, match="'a' sent a value"):
        driver.invoke(graph_with_gathered_sends("b").compile(saver), Command(resume="yes"), thread_id="t")


def graph_with_handler(name: str, **options: Any) -> StateGraph:
    """Build a graph of a node whose error handler asks a question."""

    def fail(state: State) -> None:
        raise LookupError("no")

    def handle(state: State, error: Any) -> dict[str, Any]:
        return {"log": [f"{error.node}: {interrupt('?')}"]}

    return StateGraph(State).add_node(name, fail, error_handler=handle, **options).add_edge(START, name)


def test_an_error_handler_belongs_to_the_renamed_node(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_handler("a").compile(saver), {}, thread_id="t")
    app = graph_with_handler("alpha", aliases=["a"]).compile(saver)
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["alpha: yes"]


def test_a_due_error_handler_of_a_removed_node_is_refused(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_handler("a").compile(saver), {}, thread_id="t")
    with pytest.raises(GraphVersionMismatch, match="'a:error_handler' is due"):
        driver.invoke(graph_with_handler("alpha").compile(saver), Command(resume="yes"), thread_id="t")


# -- calls of subgraphs


def paying_graph(paid: list[str]) -> StateGraph:
    def pay(state: State, runtime: Runtime) -> dict[str, Any]:
        runtime.step("pay", paid.append, "paid")
        return {"log": ["paid", interrupt("one?")]}

    graph = StateGraph(State).add_node("pay", pay).add_node("two", lambda s: {"log": [interrupt("two?")]})
    return graph.add_edge(START, "pay").add_edge("pay", "two")


def graph_with_call(paid: list[str], name: str, form: str, depth: int, **options: Any) -> StateGraph:
    """Nest a graph `depth` levels deep, as the node `name` or called by it."""
    graph = paying_graph(paid)
    for _ in range(depth):
        child = graph.compile()
        action: Any = child if form == "node" else (lambda s, child=child: child.invoke(s, call_key="mine"))
        graph = StateGraph(State).add_node(name, action, **options).add_edge(START, name)
    return graph


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("form", ["node", "call"])
def test_a_call_of_a_renamed_node_continues(driver: Any, saver: Any, form: str, depth: int) -> None:
    paid: list[str] = []
    driver.invoke(graph_with_call(paid, "sub", form, depth).compile(saver), {}, thread_id="t")
    app = graph_with_call(paid, "child", form, depth, aliases=["sub"]).compile(saver)
    result = driver.invoke(app, Command(resume="a"), thread_id="t")
    assert [question.value for question in result["__interrupt__"]] == ["two?"]
    if form == "node":
        assert app.get_state(thread_id="t", subgraphs=True).tasks[0].state is not None
    assert driver.invoke(app, Command(resume="b"), thread_id="t")["log"] == ["paid", "a", "b"]
    assert paid == ["paid"]
    assert list(saver.namespaces("t")) == [""], "the call is deleted with its task"


def graph_with_unsaved_call(name: str, form: str, depth: int, **options: Any) -> StateGraph:
    """Build a graph that asks twice, nested with memory="none" in nodes `name`, `depth` levels deep."""
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


@pytest.mark.parametrize("change", ["renamed", "copied", "both"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("form", ["node", "call", "keyed"])
def test_an_unsaved_call_keeps_its_answers_after_a_rename_or_copy(
    driver: Any, saver: Any, form: str, depth: int, change: str
) -> None:
    def compile_changed() -> Any:
        if change == "copied":
            return graph_with_unsaved_call("sub", form, depth).compile(saver)
        return graph_with_unsaved_call("child", form, depth, aliases=["sub"]).compile(saver)

    app, thread = graph_with_unsaved_call("sub", form, depth).compile(saver), "t"
    (first,) = driver.invoke(app, {}, thread_id=thread)["__interrupt__"]
    for question, answer in (("two?", "a"), (None, "b")):
        if change != "renamed":
            app.copy_thread(thread, f"{thread}'")
            thread += "'"
        app = compile_changed()
        (question_asked,) = app.get_state(thread_id=thread).interrupts
        result = driver.invoke(app, Command(resume={question_asked.id: answer}), thread_id=thread)
        assert [each.value for each in result.get("__interrupt__", ())] == ([question] if question else [])
        assert (question_asked.id == first.id) == (answer == "a")
    assert result["log"] == ["a", "b"]


def test_unsaved_calls_have_separate_questions(driver: Any, saver: Any) -> None:
    child = graph_with_unsaved_call("deep", "call", 1).compile()

    def node(state: State) -> dict[str, Any]:
        keyed = [child.invoke({}, memory="none", call_key=key)["log"] for key in ("a|x", "b|x", "x")]
        return {"log": [*keyed, child.invoke({}, memory="none")["log"], child.invoke({}, memory="none")["log"]]}

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile(saver)
    result, ids = driver.invoke(app, {}, thread_id="t"), list[str]()
    while "__interrupt__" in result:
        (question_asked,) = result["__interrupt__"]
        result = driver.invoke(app, Command(resume=len(ids)), thread_id="t")
        ids.append(question_asked.id)
    assert result["log"] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert len(set(ids)) == 10


def graph_with_memory(name: str, **options: Any) -> StateGraph:
    class Counts(TypedDict, total=False):
        times: Annotated[int, lambda old, new: old + new]
        count: int

    child = StateGraph(Counts).add_node("add", lambda s: {"times": 1, "count": s.get("times", 0) + 1})
    child.add_edge(START, "add")
    return StateGraph(State).add_node(name, child.compile(), memory="thread", **options).add_edge(START, name)


def test_a_memory_follows_its_renamed_node(driver: Any, saver: Any) -> None:
    driver.invoke(graph_with_memory("sub").compile(saver), {}, thread_id="t")
    app = graph_with_memory("child", aliases=["sub"]).compile(saver)
    assert driver.invoke(app, {}, thread_id="t")["count"] == 2
    assert driver.invoke(app, {}, thread_id="t")["count"] == 3, "the memory is released when the call has ended"


# -- updates, forks, caches, aliases


def test_an_update_without_as_node_comes_from_the_renamed_node(driver: Any, saver: Any) -> None:
    def linked(first: str, **options: Any) -> StateGraph:
        graph = StateGraph(State).add_node(first, log_name("first"), **options).add_node("b", log_name("b"))
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
        graph.add_node(name, lambda s: {field: 1}).add_node("b", log_name("b"))
        return graph.add_edge(START, name).add_edge(name, "b")

    driver.invoke(graph(State, "a", "count").compile(saver), {}, thread_id="t", interrupt_before=["b"])
    new_graph = graph(Renamed, "alpha", "total")
    new_graph.migration(from_version="1")(lambda values: {"total": values["count"], "log": []})
    app = new_graph.compile(saver)
    app.fork({"thread_id": "t"}, branch="other")
    assert driver.invoke(app, None, thread_id="t", branch="other") == {"log": ["b"], "total": 1}
    app.fork({"thread_id": "t"})
    assert driver.invoke(app, None, thread_id="t") == {"log": ["b"], "total": 1}


def test_a_cached_result_follows_an_alias_or_is_not_used(driver: Any) -> None:
    runs: list[str] = []

    def work(state: State) -> Command[Any]:
        runs.append("work")
        return Command(goto=target[0])

    target = ["publish"]
    cache = InMemoryCache()

    def graph(name: str, **options: Any) -> Any:
        target[:] = [name]
        graph = StateGraph(State).add_node("work", work, cache_policy=CachePolicy(), destinations=[name])
        return graph.add_node(name, log_name(name), **options).add_edge(START, "work").compile(cache=cache)

    driver.invoke(graph("publish"), {"count": 1})
    assert driver.invoke(graph("release", aliases=["publish"]), {"count": 1})["log"] == ["release"]
    assert runs == ["work"]
    assert driver.invoke(graph("other"), {"count": 1})["log"] == ["other"]
    assert runs == ["work", "work"]


def test_ambiguous_aliases_are_problems_of_the_graph() -> None:
    graph = (
        StateGraph(State).add_node("a", log_name("a"), aliases=["b", "x"]).add_node("b", log_name("b"), aliases=["x"])
    )
    with pytest.raises(InvalidGraph, match=r"the name of another node[\s\S]*the same alias 'x'"):
        graph.add_edge(START, "a").add_edge(START, "b").compile()


# -- random graphs


class Trace(TypedDict, total=False):
    log: Annotated[list[Any], append]


def random_graph(seed: int, rename: str | None, *, with_alias: bool) -> StateGraph:
    """Build the random graph of a seed; the node `rename` gets another name."""
    rng = random.Random(seed)
    count = rng.randint(3, 6)

    def named(number: int) -> str:
        return f"{rename}-renamed" if f"n{number}" == rename else f"n{number}"

    graph = StateGraph(Trace)
    kinds = [rng.choice(["plain", "goto", "send", "gather", "asks", "sub", "plain"]) for _ in range(count)]
    for number, kind in enumerate(kinds):
        # gathered arguments are a list, which is not a valid input of a subgraph
        later = [other for other in range(number + 1, count) if kind != "gather" or kinds[other] != "sub"]
        join = rng.choice(["any", "any", "reachable", "idle"])
        chosen = rng.sample(later, min(len(later), 2)) if kind in ("goto", "send", "gather") else []
        action, destinations = _random_node(number, kind, [named(other) for other in chosen])
        options: dict[str, Any] = {"destinations": destinations} if destinations is not None else {}
        if with_alias and f"n{number}" == rename:
            options["aliases"] = [f"n{number}"]
        graph.add_node(named(number), action, join=join, **options)
    for number in range(1, count):
        starts = sorted(rng.sample(range(number), min(number, rng.choice([1, 1, 2, 2]))))
        if len(starts) > 1 and rng.random() < 0.7:
            graph.add_edge([named(start) for start in starts], named(number))
        else:
            for start in starts:
                graph.add_edge(named(start), named(number))
    graph.add_edge(START, named(0))
    if rng.random() < 0.7:
        graph.add_edge(START, named(1))
    return graph


def _random_node(number: int, kind: str, targets: list[str]) -> tuple[Any, list[str] | None]:
    label = f"n{number}"
    if kind == "asks":
        return (lambda s: {"log": [(label, interrupt(label))]}), None
    if kind == "sub":
        return asking_subgraph(label), None
    if not targets:
        return (lambda s: {"log": [label]}), None

    def go_on(state: Any) -> Command[Any]:
        update = {"log": [label]}
        if kind == "goto":
            return Command(update=update, goto=targets)
        return Command(
            update=update, goto=[Send(target, {"log": [label]}, gather=kind == "gather") for target in targets]
        )

    return go_on, targets


def asking_subgraph(label: str) -> Any:
    child = StateGraph(Trace).add_node("in", lambda s: {"log": [(label, interrupt(label + " in"))]})
    child.add_node("out", lambda s: {"log": [(label, "out")]})
    return child.add_edge(START, "in").add_edge("in", "out").compile()


def advance(driver: Any, app: Any, value: Any) -> Any:
    return driver.invoke(app, value, thread_id="t", interrupt_before="*", recursion_limit=60)


def finish(driver: Any, app: Any, result: Any) -> Any:
    """Continue without breakpoints, and answer all questions, until the thread completes."""
    for _ in range(60):
        state = app.get_state(thread_id="t")
        if not state.next:
            return result if result is not None else state.values
        answers = {question.id: f"answer to {question.value}" for question in state.interrupts}
        value = Command(resume=answers) if answers else None
        result = driver.invoke(app, value, thread_id="t", recursion_limit=60)
    raise AssertionError("The thread never completes.")


def stop_at(driver: Any, seed: int, point: int, saver: Any) -> Any:
    """Run the graph of a seed to the breakpoint or question number `point`; return None if it ends before."""
    app = random_graph(seed, None, with_alias=False).compile(saver, strict=False)
    value: Any = {"log": []}
    for _ in range(point + 1):
        advance(driver, app, value)
        state = app.get_state(thread_id="t")
        if not state.next:
            return None
        answers = {question.id: f"answer to {question.value}" for question in state.interrupts}
        value = Command(resume=answers) if answers else None
    return app


FULL = bool(os.environ.get("STATEWRIGHT_FULL"))


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("seed", range(150 if FULL else 4))
def test_any_node_may_be_renamed_at_any_point(driver: Any, seed: int) -> None:
    """With an alias the run ends as before; without one, it may also end with GraphVersionMismatch."""
    for point in range(12):
        saver = InMemorySaver()
        app = stop_at(driver, seed, point, saver)
        if app is None:
            return
        saver.copy_thread("t", "kept")
        expected = finish(driver, app, None)
        for name in app.graph.nodes:
            for with_alias in (True, False):
                saver.delete_thread("t")
                saver.copy_thread("kept", "t")
                renamed = random_graph(seed, name, with_alias=with_alias).compile(saver, strict=False)
                result = finish_or_refuse(driver, renamed)
                if isinstance(result, GraphVersionMismatch):
                    assert not with_alias, (point, name)
                    assert f"'{name}" in str(result)
                else:
                    assert result == expected, (point, name, with_alias)


def finish_or_refuse(driver: Any, app: Any) -> Any:
    try:
        return finish(driver, app, None)
    except GraphVersionMismatch as error:
        return error
