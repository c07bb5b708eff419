"""`statewright check`: would the graph compile?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HEAD = "from statewright import START, END, StateGraph\ngraph = StateGraph({'n': int}, name='checked')\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("graph.add_node('a', print).add_edge(START, 'a')", "ok: checked, 1 nodes, 1 ways between them\n"),
        ("graph.add_sequence([('a', print), ('b', print)]).add_edge(START, 'a')", "ok: checked, 2 nodes, 2 ways"),
        (
            "graph.add_node('a', print).add_node('b', print).add_edge(START, 'a')\n"
            "graph.add_conditional_edges('a', lambda s: 'b', ['a', 'b', END])",
            "ok: checked, 2 nodes, 3 ways",
        ),
    ],
)
def test_nodes_and_the_ways_between_them_are_counted(statewright: Any, folder: Path, lines: str, said: str) -> None:
    (folder / "graphs.py").write_text(HEAD + lines + "\n", encoding="utf-8")
    ended = statewright("check", "graphs.py")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(said)


def test_every_problem_is_listed_at_once(statewright: Any, flow: Path) -> None:
    ended = statewright("check", "flow.py:wrong")
    assert (ended.code, ended.out) == (2, "")
    assert "has 2 problems" in ended.err
    assert "'bb'" in ended.err
    assert "'cc'" in ended.err


def test_nothing_is_run(statewright: Any, folder: Path) -> None:
    text = HEAD + "graph.add_node('a', lambda s: print('it ran')).add_edge(START, 'a')\n"
    (folder / "graphs.py").write_text(text, encoding="utf-8")
    assert "it ran" not in statewright("check", "graphs.py").out


def test_a_graph_that_is_compiled_already_is_right(statewright: Any, flow: Path) -> None:
    assert statewright("check", "flow.py:asking").code == 0
