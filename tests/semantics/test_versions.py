"""Graphs that change under threads: aliases, migrations, and reports of incompatibilities (spec/graph.md, 7.5)."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, Send, StateGraph, append, interrupt
from statewright.errors import GraphVersionMismatch, UnknownKeyWarning


class Old(TypedDict, total=False):
    names: Annotated[list[str], append]
    count: int


class New(TypedDict, total=False):
    names: Annotated[list[str], append]
    total: int


def old(**options: Any) -> StateGraph:
    """A graph that counts and then asks."""
    graph = StateGraph(Old, version="1", **options)
    graph.add_node("count", lambda state: {"count": 3, "names": ["count"]})
    graph.add_node("ask", lambda state: {"names": [interrupt("sure?")]})
    return graph.add_edge(START, "count").add_edge("count", "ask").add_edge("ask", END)


def new(**aliases: Any) -> StateGraph:
    """The same graph with other names."""
    graph = StateGraph(New, version="2")
    graph.add_node("reckon", lambda state: {"total": 4, "names": ["reckon"]})
    graph.add_node("inquire", lambda state: {"names": [interrupt("sure?")]}, **aliases)
    return graph.add_edge(START, "reckon").add_edge("reckon", "inquire").add_edge("inquire", END)


def migrated(graph: StateGraph) -> StateGraph:
    @graph.migration(from_version="1")
    def rename(values: dict[str, Any]) -> dict[str, Any]:
        return {"names": values.get("names", []), "total": values.get("count", 0)}

    return graph


def test_7_5_a_renamed_node_continues_under_its_new_name(driver: Any, saver: Any) -> None:
    driver.invoke(old().compile(saver), {}, thread_id="t")
    app = migrated(new(aliases=["ask"])).compile(saver)
    assert driver.invoke(app, Command(resume="yes"), thread_id="t") == {"names": ["count", "yes"], "total": 3}


def test_7_5_a_migrated_state_is_saved_in_its_new_form(driver: Any, saver: Any) -> None:
    driver.invoke(old().compile(saver), {}, thread_id="t")
    app = migrated(new(aliases=["ask"])).compile(saver)
    driver.invoke(app, Command(resume="yes"), thread_id="t")
    loaded = saver.load("t")
    assert loaded.checkpoint.values == {"names": ["count", "yes"], "total": 3}
    assert loaded.graph_version == "2"


def test_7_5_an_incompatible_thread_is_refused(driver: Any, saver: Any) -> None:
    driver.invoke(old().compile(saver), {}, thread_id="t")
    with pytest.raises(GraphVersionMismatch) as caught:
        driver.invoke(new().compile(saver), Command(resume="yes"), thread_id="t")
    assert len(caught.value.problems) == 2
    assert "'ask' is due" in str(caught.value)
    assert "'count', which is not a field" in str(caught.value)
    assert driver.invoke(old().compile(saver), Command(resume="no"), thread_id="t")["names"] == ["count", "no"]


def test_7_5_migrations_are_chained(driver: Any, saver: Any) -> None:
    driver.invoke(old().compile(saver), {}, thread_id="t")
    graph = new(aliases=["ask"])
    graph.version = "3"
    graph.migration(from_version="1", to_version="2")(lambda values: {**values, "total": values["count"] * 2})
    graph.migration(from_version="2")(lambda values: {key: value for key, value in values.items() if key != "count"})
    assert driver.invoke(graph.compile(saver), Command(resume="yes"), thread_id="t")["total"] == 6


def test_7_5_aliases_rename_finished_results_and_deferred_tasks(driver: Any, saver: Any) -> None:
    def graph_of(worker: str, gather: str, **options: Any) -> StateGraph:
        graph = StateGraph(Old)
        graph.add_node("plan", lambda state: Command(goto=[Send(worker, n) for n in (1, 2)]), destinations=[worker])
        graph.add_node(worker, lambda n: {"names": [f"{n}{interrupt('?') if n == 2 else ''}"]}, **options)
        graph.add_node(gather, lambda state: {"count": 9}, join="reachable", aliases=["end"] if options else ())
        return graph.add_edge(START, "plan").add_edge(worker, gather).add_edge(gather, END)

    driver.invoke(graph_of("work", "end").compile(saver), {}, thread_id="t")
    app = graph_of("do", "finish", aliases=["work"]).compile(saver)
    assert driver.invoke(app, Command(resume="!"), thread_id="t") == {"names": ["1", "2!"], "count": 9}


def test_7_5_two_migrations_from_one_version_are_refused() -> None:
    graph = migrated(migrated(new()))
    with pytest.raises(Exception, match="two migrations from version '1'"):
        graph.compile()


def test_update_state_migrates_the_thread(saver: Any) -> None:
    old().compile(saver).invoke({}, thread_id="t")
    app = migrated(new(aliases=["ask"])).compile(saver)
    app.update_state({"thread_id": "t"}, {"total": 10}, as_node="reckon")
    assert app.get_state(thread_id="t").values == {"names": ["count"], "total": 10}


class Notes(TypedDict, total=False):
    notes: Annotated[list[str], append]


class Remarks(TypedDict, total=False):
    remarks: Annotated[list[str], append]


def _writing(schema: Any, name: str) -> StateGraph[Any]:
    return StateGraph(schema, name="Book").add_node("write", lambda state: {name: ["new"]}).add_edge(START, "write")


def test_7_5_a_field_renamed_without_a_version_is_reported_once(driver: Any, saver: Any) -> None:
    driver.invoke(_writing(Notes, "notes").compile(saver), {}, thread_id="t")
    app = _writing(Remarks, "remarks").compile(saver)
    with pytest.warns(UnknownKeyWarning, match=r"'Book': The state holds 'notes', which is not a field.*migration"):
        assert driver.invoke(app, {}, thread_id="t") == {"remarks": ["new"]}
    assert driver.invoke(app, {}, thread_id="t") == {"remarks": ["new", "new"]}
    # The old field still has its values.
    assert driver.invoke(_writing(Notes, "notes").compile(saver, unknown_keys="drop"), {}, thread_id="t") == {
        "notes": ["new", "new"]
    }


def test_7_5_unknown_keys_decides_whether_unknown_fields_are_refused_or_ignored(driver: Any, saver: Any) -> None:
    driver.invoke(_writing(Notes, "notes").compile(saver), {}, thread_id="t")
    graph = _writing(Remarks, "remarks")
    with pytest.raises(GraphVersionMismatch, match="'notes', which is not a field"):
        driver.invoke(graph.compile(saver, unknown_keys="error"), {}, thread_id="t")
    assert driver.invoke(graph.compile(saver, unknown_keys="drop"), {}, thread_id="t") == {"remarks": ["new"]}
