"""`statewright run`: the final state, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import programs


@pytest.mark.parametrize("target", ["flow.py", "flow.py:graph", "flow.py:kept"])
def test_a_completed_run_prints_only_its_state_and_exits_with_0(statewright: Any, flow: Path, target: str) -> None:
    result = statewright("run", target, "--input", "n=21")
    assert (result.code, json.loads(result.out), result.err) == (0, {"n": 42}, "")


def test_output_for_programs_is_the_same_with_and_without_json(statewright: Any, flow: Path) -> None:
    assert statewright("run", flow, "-i", "n=1", "--json") == statewright("run", flow, "-i", "n=1")


@pytest.mark.parametrize(
    "values", [["n=3"], ['{"n": 3}'], ["@in.json"], ["n=1", "n=3"], ["@in.json", "seen=[]"]], ids=" ".join
)
def test_input_in_several_forms(statewright: Any, flow: Path, values: list[str]) -> None:
    (flow.parent / "in.json").write_text('{"n": 3}', encoding="utf-8")
    result = statewright("run", flow, *(word for value in values for word in ("--input", value)))
    assert (result.code, json.loads(result.out)["n"]) == (0, 6)


def test_a_waiting_run_prints_its_state_and_questions_and_exits_with_3(statewright: Any, flow: Path) -> None:
    result = statewright("run", "flow.py:asking", "-i", "n=1")
    assert (result.code, json.loads(result.out)) == (3, {"n": 1})
    assert result.err.startswith("The run is waiting for:\n")
    assert "'how many?'" in result.err


def test_a_failed_run_names_the_node_and_exits_with_1(statewright: Any, flow: Path) -> None:
    result = statewright("run", "flow.py:failing", "-i", "n=1")
    assert (result.code, result.out) == (1, "")
    assert result.err == "Error: ValueError: no luck (in node 'fail', step 1, attempt 1)\n  at flow.py:14 in fail\n"


def test_a_traceback_is_shown_on_request(statewright: Any, flow: Path) -> None:
    result = statewright("run", "flow.py:failing", "-i", "n=1", "--traceback")
    assert (result.code, result.out) == (1, "")
    assert "Traceback (most recent call last)" in result.err
    assert result.err.endswith("(in node 'fail', step 1, attempt 1)\n  at flow.py:14 in fail\n")


def test_the_recursion_limit_is_named_when_reached(statewright: Any, flow: Path) -> None:
    result = statewright("run", "flow.py:endless", "-i", "n=1", "--recursion-limit", "3")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("Error: GraphRecursionError: ")
    assert "after 3 supersteps" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("flow.py", "-i", "5"), "The input is 5 of type int"),
        (("flow.py", "-i", "n=many"), "Field 'n'"),
        (
            ("flow.py", "-i", "seeen=1"),
            "The input has the unknown key 'seeen'. Did you mean 'seen'? Fields: n, seen.",
        ),
        (("flow.py", "-i", "null"), "input"),
        (("flow.py", "-i", "{n"), "--input '{n' is not valid JSON"),
        (("flow.py", "-i", "n=1", "--recursion-limit", "0"), "recursion_limit is 0"),
        (("flow.py", "-i", "n=1", "--max-concurrency", "-1"), "max_concurrency is -1"),
        (("flow.py:grap",), "Did you mean 'graph'"),
        (("flow.py:wrong",), "'bb'"),
        (("missing.py",), "File 'missing.py' does not exist"),
    ],
)
def test_usage_errors_are_one_sentence_and_exit_with_2(
    statewright: Any, flow: Path, args: tuple[str, ...], message: str
) -> None:
    result = statewright("run", *args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_cancelled_run_exits_with_130(statewright: Any, folder: Path) -> None:
    text = (
        "from statewright import START, StateGraph\n"
        "def stop(state):\n    raise KeyboardInterrupt\n"
        "graph = StateGraph({}).add_node(stop).add_edge(START, 'stop')\n"
    )
    (folder / "stopping.py").write_text(text, encoding="utf-8")
    result = statewright("run", "stopping.py")
    assert (result.code, result.out, result.err) == (130, "", "Cancelled.\n")


@pytest.mark.parametrize(
    "answer",
    [
        "Exception('no')",
        pytest.param("{(1, 2): 3}"),
        pytest.param("{'deep': {frozenset(): 1}}"),
        pytest.param("'\\ud800'"),
    ],
)
def test_any_state_can_be_printed(statewright: Any, folder: Path, answer: str) -> None:
    text = (
        "from typing import Any, TypedDict\n"
        "from statewright import START, StateGraph\n"
        "class State(TypedDict, total=False):\n    found: Any\n"
        f"def find(state):\n    return {{'found': {answer}}}\n"
        "graph = StateGraph(State).add_node(find).add_edge(START, 'find')\n"
    )
    (folder / "finding.py").write_text(text, encoding="utf-8")
    result = statewright("run", "finding.py")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out).keys() == {"found"}


def test_a_value_that_cannot_be_saved_is_named(statewright: Any, folder: Path) -> None:
    text = (
        "from statewright import START, StateGraph\n"
        "graph = StateGraph({'found': None}).add_node('find', lambda state: {'found': object})\n"
        "graph.add_edge(START, 'find')\n"
    )
    (folder / "finding.py").write_text(text, encoding="utf-8")
    result = statewright("run", "finding.py")
    assert (result.code, result.out) == (1, "")
    assert "found cannot be stored" in result.err
    assert "--database memory:" in result.err
    result = statewright("run", "finding.py", "--database", "memory:")
    assert (result.code, json.loads(result.out)) == (0, {"found": "<class 'object'>"})


def test_a_thread_keeps_its_state(statewright: Any, flow: Path) -> None:
    statewright("run", "flow.py", "--thread", "t", "-i", "n=3")
    result = statewright("run", "flow.py", "--thread", "t", "-i", "seen=[]")
    assert (result.code, json.loads(result.out)) == (0, {"n": 12, "seen": []})


def test_a_run_has_a_new_thread_by_default(statewright: Any, flow: Path) -> None:
    for _ in range(3):
        statewright("run", "flow.py", "-i", "n=3")
    threads = json.loads(statewright("threads", "ls", "--json").out)
    assert len({entry["thread"] for entry in threads}) == 3
    assert all(len(entry["thread"]) == 12 for entry in threads)


def test_a_waiting_thread_does_not_take_new_input(statewright: Any, flow: Path) -> None:
    statewright("run", "flow.py:asking", "--thread", "t", "-i", "n=1")
    result = statewright("run", "flow.py:asking", "--thread", "t", "-i", "n=1")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert "Answer with `statewright resume`, or use another --thread. [SW-unanswered-interrupts]" in result.err
    assert "Command(" not in result.err


def test_a_run_in_memory_saves_nothing(statewright: Any, flow: Path) -> None:
    result = statewright("run", "flow.py", "-i", "n=3", "--database", "memory:")
    assert (result.code, json.loads(result.out)) == (0, {"n": 6})
    waiting = statewright("run", "flow.py:asking", "-i", "n=3", "--database", "memory:")
    assert (waiting.code, len(waiting.err.splitlines())) == (3, 3)
    assert waiting.err.endswith("It was not saved, so it cannot be continued.\n")
    assert not (flow.parent / ".statewright").exists()


def test_a_usage_error_creates_no_database(statewright: Any, flow: Path) -> None:
    for args in (("flow.py:wrong",), ("none.py",), ("flow.py", "-i", "{n")):
        assert statewright("run", *args).code == 2
    assert not (flow.parent / ".statewright").exists()


def test_unknown_fields_are_accepted_if_the_graph_allows_them(statewright: Any, folder: Path) -> None:
    text = (
        "from statewright import START, StateGraph, entrypoint\n"
        "@entrypoint()\ndef echo(given):\n    return given\n"
        "dropping = StateGraph({'n': int}).add_node('a', lambda state: {}).add_edge(START, 'a')\n"
        "dropping = dropping.compile(unknown_keys='drop')\n"
    )
    (folder / "any.py").write_text(text, encoding="utf-8")
    assert json.loads(statewright("run", "any.py:echo", "-i", "whatever=1").out) == {"whatever": 1}
    assert statewright("run", "any.py:dropping", "-i", "whatever=1").code == 0


def test_a_warning_is_one_line_without_a_location(statewright: Any, folder: Path) -> None:
    text = (
        "from typing import TypedDict\nfrom statewright import START, StateGraph\n"
        "class State(TypedDict):\n    n: int\n"
        "graph = StateGraph(State).add_node('a', lambda state: {'m': 1}).add_edge(START, 'a')\n"
    )
    (folder / "warning.py").write_text(text, encoding="utf-8")
    result = programs.statewright("run", "warning.py")
    assert result.returncode == 0
    assert result.stderr == ("warning: The update from node 'a' has the unknown key 'm'. Fields: n. It was dropped.\n")
