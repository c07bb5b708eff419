"""`statewright run`: the state at rest, and how the run ended as an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import programs


@pytest.mark.parametrize("target", ["flow.py", "flow.py:graph", "flow.py:kept"])
def test_a_completed_run_prints_its_state_alone_and_ends_with_0(statewright: Any, flow: Path, target: str) -> None:
    ended = statewright("run", target, "--input", "n=21")
    assert (ended.code, json.loads(ended.out), ended.err) == (0, {"n": 42}, "")


def test_what_is_read_by_a_program_is_the_same_with_json_and_without(statewright: Any, flow: Path) -> None:
    assert statewright("run", flow, "-i", "n=1", "--json") == statewright("run", flow, "-i", "n=1")


@pytest.mark.parametrize(
    "given", [["n=3"], ['{"n": 3}'], ["@in.json"], ["n=1", "n=3"], ["@in.json", "seen=[]"]], ids=" ".join
)
def test_input_is_given_in_several_ways(statewright: Any, flow: Path, given: list[str]) -> None:
    (flow.parent / "in.json").write_text('{"n": 3}', encoding="utf-8")
    ended = statewright("run", flow, *(word for one in given for word in ("--input", one)))
    assert (ended.code, json.loads(ended.out)["n"]) == (0, 6)


def test_a_waiting_run_prints_its_state_and_its_questions_and_ends_with_3(statewright: Any, flow: Path) -> None:
    ended = statewright("run", "flow.py:asking", "-i", "n=1")
    assert (ended.code, json.loads(ended.out)) == (3, {"n": 1})
    assert ended.err.startswith("The run waits for answers:\n")
    assert "'how many?'" in ended.err


def test_a_failed_run_names_node_and_error_and_ends_with_1(statewright: Any, flow: Path) -> None:
    ended = statewright("run", "flow.py:failing", "-i", "n=1")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "Error: ValueError: no luck (in node 'fail', step 1, attempt 1)\n  at flow.py:14 in fail\n"


def test_a_traceback_is_shown_to_those_who_ask_for_it(statewright: Any, flow: Path) -> None:
    ended = statewright("run", "flow.py:failing", "-i", "n=1", "--traceback")
    assert (ended.code, ended.out) == (1, "")
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.endswith("(in node 'fail', step 1, attempt 1)\n  at flow.py:14 in fail\n")


def test_too_many_supersteps_are_a_failure_that_names_the_limit(statewright: Any, flow: Path) -> None:
    ended = statewright("run", "flow.py:endless", "-i", "n=1", "--recursion-limit", "3")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: GraphRecursionError: ")
    assert "after 3 supersteps" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("args", "said"),
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
        (("missing.py",), "There is no file"),
    ],
)
def test_wrong_use_is_one_sentence_and_ends_with_2(
    statewright: Any, flow: Path, args: tuple[str, ...], said: str
) -> None:
    ended = statewright("run", *args)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: ")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_a_cancelled_run_says_so_and_ends_with_130(statewright: Any, folder: Path) -> None:
    text = (
        "from statewright import START, StateGraph\n"
        "def stop(state):\n    raise KeyboardInterrupt\n"
        "graph = StateGraph({}).add_node(stop).add_edge(START, 'stop')\n"
    )
    (folder / "stopping.py").write_text(text, encoding="utf-8")
    ended = statewright("run", "stopping.py")
    assert (ended.code, ended.out, ended.err) == (130, "", "Cancelled.\n")


@pytest.mark.parametrize(
    "answer",
    [
        "Exception('no')",
        pytest.param("{(1, 2): 3}"),
        pytest.param("{'deep': {frozenset(): 1}}"),
        pytest.param("'\\ud800'"),
    ],
)
def test_whatever_a_state_holds_there_is_no_traceback(statewright: Any, folder: Path, answer: str) -> None:
    text = (
        "from typing import Any, TypedDict\n"
        "from statewright import START, StateGraph\n"
        "class State(TypedDict, total=False):\n    found: Any\n"
        f"def find(state):\n    return {{'found': {answer}}}\n"
        "graph = StateGraph(State).add_node(find).add_edge(START, 'find')\n"
    )
    (folder / "finding.py").write_text(text, encoding="utf-8")
    ended = statewright("run", "finding.py")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out).keys() == {"found"}


def test_what_cannot_be_saved_is_named_and_can_be_run_without_saving(statewright: Any, folder: Path) -> None:
    text = (
        "from statewright import START, StateGraph\n"
        "graph = StateGraph({'found': None}).add_node('find', lambda state: {'found': object})\n"
        "graph.add_edge(START, 'find')\n"
    )
    (folder / "finding.py").write_text(text, encoding="utf-8")
    ended = statewright("run", "finding.py")
    assert (ended.code, ended.out) == (1, "")
    assert "found cannot be stored" in ended.err
    assert "--database memory:" in ended.err
    ended = statewright("run", "finding.py", "--database", "memory:")
    assert (ended.code, json.loads(ended.out)) == (0, {"found": "<class 'object'>"})


def test_a_thread_goes_on_with_its_state(statewright: Any, flow: Path) -> None:
    statewright("run", "flow.py", "--thread", "t", "-i", "n=3")
    ended = statewright("run", "flow.py", "--thread", "t", "-i", "seen=[]")
    assert (ended.code, json.loads(ended.out)) == (0, {"n": 12, "seen": []})


def test_a_run_without_a_thread_is_one_of_its_own(statewright: Any, flow: Path) -> None:
    for _ in range(3):
        statewright("run", "flow.py", "-i", "n=3")
    found = json.loads(statewright("threads", "ls", "--json").out)
    assert len({one["thread"] for one in found}) == 3
    assert all(len(one["thread"]) == 12 for one in found)


def test_what_waits_for_answers_is_not_started_anew(statewright: Any, flow: Path) -> None:
    statewright("run", "flow.py:asking", "--thread", "t", "-i", "n=1")
    ended = statewright("run", "flow.py:asking", "--thread", "t", "-i", "n=1")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert "Answer with `statewright resume`, or give another --thread. [SW-unanswered-interrupts]" in ended.err
    assert "Command(" not in ended.err


def test_nothing_is_left_behind_in_memory(statewright: Any, flow: Path) -> None:
    ended = statewright("run", "flow.py", "-i", "n=3", "--database", "memory:")
    assert (ended.code, json.loads(ended.out)) == (0, {"n": 6})
    asked = statewright("run", "flow.py:asking", "-i", "n=3", "--database", "memory:")
    assert (asked.code, len(asked.err.splitlines())) == (3, 2)
    assert not (flow.parent / ".statewright").exists()


def test_a_wrong_graph_or_input_leaves_no_database(statewright: Any, flow: Path) -> None:
    for args in (("flow.py:wrong",), ("none.py",), ("flow.py", "-i", "{n")):
        assert statewright("run", *args).code == 2
    assert not (flow.parent / ".statewright").exists()


def test_inputs_of_any_form_go_where_any_are_taken(statewright: Any, folder: Path) -> None:
    text = (
        "from statewright import START, StateGraph, entrypoint\n"
        "@entrypoint()\ndef echo(given):\n    return given\n"
        "dropping = StateGraph({'n': int}).add_node('a', lambda state: {}).add_edge(START, 'a')\n"
        "dropping = dropping.compile(unknown_keys='drop')\n"
    )
    (folder / "any.py").write_text(text, encoding="utf-8")
    assert json.loads(statewright("run", "any.py:echo", "-i", "whatever=1").out) == {"whatever": 1}
    assert statewright("run", "any.py:dropping", "-i", "whatever=1").code == 0


def test_a_warning_is_one_line_without_places_in_the_library(statewright: Any, folder: Path) -> None:
    text = (
        "from typing import TypedDict\nfrom statewright import START, StateGraph\n"
        "class State(TypedDict):\n    n: int\n"
        "graph = StateGraph(State).add_node('a', lambda state: {'m': 1}).add_edge(START, 'a')\n"
    )
    (folder / "warning.py").write_text(text, encoding="utf-8")
    done = programs.statewright("run", "warning.py")
    assert done.returncode == 0
    assert done.stderr == ("warning: The update from node 'a' has the unknown key 'm'. Fields: n. It was dropped.\n")
