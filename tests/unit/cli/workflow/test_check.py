"""`statewright check`: problems of graphs, and threads that do not fit a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HEAD = "from statewright import START, END, StateGraph\ngraph = StateGraph({'n': int}, name='checked')\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("graph.add_node('a', print).add_edge(START, 'a')", "ok: graphs.py:graph, 1 node, 1 edge\n"),
        (
            "graph.add_sequence([('a', print), ('b', print)]).add_edge(START, 'a')",
            "ok: graphs.py:graph, 2 nodes, 2 edges",
        ),
        (
            "graph.add_node('a', print).add_node('b', print).add_edge(START, 'a')\n"
            "graph.add_conditional_edges('a', lambda s: 'b', ['a', 'b', END])",
            "ok: graphs.py:graph, 2 nodes, 3 edges",
        ),
    ],
)
def test_nodes_and_edges_are_counted(statewright: Any, folder: Path, lines: str, message: str) -> None:
    (folder / "graphs.py").write_text(HEAD + lines + "\n", encoding="utf-8")
    result = statewright("check", "graphs.py")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(message)


def test_all_problems_are_listed(statewright: Any, flow: Path) -> None:
    result = statewright("check", "flow.py:wrong")
    assert (result.code, result.out) == (2, "")
    assert "has 2 problems" in result.err
    assert "'bb'" in result.err
    assert "'cc'" in result.err


def test_all_graphs_of_a_file_are_checked(statewright: Any, flow: Path) -> None:
    result = statewright("check", "flow.py")
    assert result.code == 2
    assert "has 2 problems" in result.err
    assert [line.partition(",")[0] for line in result.out.splitlines()] == [
        f"ok: flow.py:{name}" for name in ("graph", "failing", "asking", "kept", "endless", "outer")
    ]


SIDE_EFFECT = "with open('imports.txt', 'a') as log: log.write(f'{__name__} ')\n"


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        (["graphs.py"], 0),
        (["graphs.py:graph"], 0),
        (["graphs.py:graph", "graphs.py:other"], 0),
        (["./graphs.py", "graphs.py"], 0),
        (["graphs.py:nobody"], 2),
    ],
)
def test_a_file_is_imported_once(statewright: Any, folder: Path, targets: list[str], code: int) -> None:
    text = HEAD + "graph.add_node('a', print).add_edge(START, 'a')\nother = graph.compile()\n"
    (folder / "graphs.py").write_text(SIDE_EFFECT + text, encoding="utf-8")
    assert statewright("check", *targets).code == code
    assert (folder / "imports.txt").read_text(encoding="utf-8") == "graphs "


def test_a_file_that_another_file_imports_is_imported_once(statewright: Any, folder: Path) -> None:
    text = HEAD + "graph.add_node('a', print).add_edge(START, 'a')\n"
    (folder / "graphs.py").write_text(SIDE_EFFECT + text, encoding="utf-8")
    (folder / "more.py").write_text("from graphs import graph\n", encoding="utf-8")
    assert statewright("check", "more.py", "graphs.py").code == 0
    assert (folder / "imports.txt").read_text(encoding="utf-8") == "graphs "


def test_a_file_that_cannot_be_imported_is_reported_once(statewright: Any, folder: Path) -> None:
    (folder / "graphs.py").write_text(SIDE_EFFECT + "1 / 0\n", encoding="utf-8")
    result = statewright("check", "graphs.py")
    assert (result.code, result.out) == (2, "")
    assert result.err == "Error: graphs.py cannot be imported: ZeroDivisionError: division by zero (line 2)\n"
    assert (folder / "imports.txt").read_text(encoding="utf-8") == "graphs "


def test_a_check_runs_no_node(statewright: Any, folder: Path) -> None:
    text = HEAD + "graph.add_node('a', lambda s: print('it ran')).add_edge(START, 'a')\n"
    (folder / "graphs.py").write_text(text, encoding="utf-8")
    assert "it ran" not in statewright("check", "graphs.py").out


def test_a_compiled_graph_is_valid(statewright: Any, flow: Path) -> None:
    assert statewright("check", "flow.py:asking").code == 0


CHANGING = """
from typing import TypedDict

from statewright import START, StateGraph, interrupt


class State(TypedDict, total=False):
    n: int


def graph_of(name, **options):
    graph = StateGraph(State, name=name, **options)
    graph.add_node(name, lambda state: {"n": interrupt("how many?")})
    return graph.add_edge(START, name)


old = graph_of("ask")
new = graph_of("inquire")
alias = graph_of("inquire")
alias.nodes["inquire"] = __import__("dataclasses").replace(alias.nodes["inquire"], aliases=("ask",))
"""


def test_open_threads_are_checked_against_the_graph(statewright: Any, folder: Path) -> None:
    (folder / "changing.py").write_text(CHANGING, encoding="utf-8")
    assert statewright("run", "changing.py:old", "--database", "x.db", "--thread", "t-1").code == 3
    for graph in ("old", "alias"):
        result = statewright("check", f"changing.py:{graph}", "--against", "x.db")
        assert (result.code, result.out.splitlines()[-1]) == (0, "Unfinished branches: 1 can continue, 0 cannot")
    result = statewright("check", "changing.py:new", "--against", "x.db")
    assert result.code == 1
    assert "t-1 (main): Thread 't-1' was saved by version none" in result.out
    assert "Node 'ask' is due, but does not exist" in result.out


def test_finished_threads_fit_every_graph(statewright: Any, folder: Path) -> None:
    (folder / "changing.py").write_text(CHANGING, encoding="utf-8")
    statewright("run", "changing.py:old", "--database", "x.db", "--thread", "t-1")
    assert statewright("resume", "t-1", "changing.py:old", "--database", "x.db", "--answer", "3").code == 0
    assert statewright("check", "changing.py:new", "--against", "x.db").code == 0


def test_a_missing_database_is_a_usage_error(statewright: Any, flow: Path) -> None:
    assert statewright("check", "flow.py:asking", "--against", "nowhere.db").code == 2
