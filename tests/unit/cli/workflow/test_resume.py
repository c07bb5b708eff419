"""`statewright resume`: answers, events, timers, and runs that have failed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.inputs import read_value
from statewright.cli.workflow.run import NO_ANSWER, read_answers

ID, OTHER = "0123456789abcdef" * 2, "f" * 32

WAITING = """
import operator
import os
from typing import TypedDict
from statewright import START, Send, StateGraph, interrupt, sleep, wait_for_event
from statewright.storage.sqlite import SqliteSaver

class State(TypedDict, total=False):
    n: object

def ask(state):
    return {"n": interrupt("how many?")}

def ask_each(task):
    return {"n": [interrupt(task)]}

def nap(state):
    sleep(0.01)
    return {"n": "awake"}

def oversleep(state):
    sleep(3600)

def pay(state):
    return {"n": wait_for_event("paid", timeout=3600)}

def break_down(state):
    if not os.path.exists("mended"):
        raise ValueError("broken")
    return {"n": "mended"}

def built(fn):
    return StateGraph(State, name=fn.__name__).add_node(fn).add_edge(START, fn.__name__)

asking, napping, oversleeping, paying, breaking = map(built, (ask, nap, oversleep, pay, break_down))
two = StateGraph({"n": operator.add}).add_node(ask_each)
two.add_conditional_edges(START, lambda state: [Send("ask_each", name) for name in "ab"], ["ask_each"])
own = built(ask).compile(SqliteSaver("own.db"))
"""


@pytest.fixture
def waits(folder: Path) -> Path:
    (folder / "w.py").write_text(WAITING, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("values", "answers"),
    [
        ([], NO_ANSWER),
        (["5"], 5),
        (["yes"], "yes"),
        (['{"a": 1}'], {"a": 1}),
        (["a=b"], "a=b"),
        (["null"], None),
        ([""], ""),
        ([f"{ID}=yes"], {ID: "yes"}),
        ([f"{ID}=1", f"{OTHER}=x=y"], {ID: 1, OTHER: "x=y"}),
        ([ID], ID),
    ],
)
def test_answers_are_json_or_text_and_may_name_their_question(values: list[str], answers: Any) -> None:
    assert read_answers(values) == answers


@pytest.mark.parametrize("values", [["1", "2"], [f"{ID}=1", "2"]])
def test_several_answers_must_name_their_questions(values: list[str]) -> None:
    with pytest.raises(UsageError, match="ID=VALUE"):
        read_answers(values)


def test_a_value_that_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match="too large to be parsed"):
        read_value("[" * 100_000)


def test_an_answer_resumes_the_thread(statewright: Any, waits: Path) -> None:
    assert statewright("run", "w.py:asking", "--thread", "t").code == 3
    repeated = statewright("resume", "t", "w.py:asking")
    assert (repeated.code, "how many?" in repeated.err) == (3, True)
    assert "statewright resume t w.py:asking --answer VALUE\n" in repeated.err
    result = statewright("resume", "t", "w.py:asking", "--answer", "7")
    assert (result.code, json.loads(result.out), result.err) == (0, {"n": 7}, "")
    completed = statewright("resume", "t", "w.py:asking")
    assert (completed.code, json.loads(completed.out)) == (0, {"n": 7})
    late = statewright("resume", "t", "w.py:asking", "--answer", "8")
    assert (late.code, "SW-invalid-resume" in late.err) == (2, True)


def test_two_questions_are_answered_by_their_ids(statewright: Any, waits: Path) -> None:
    waiting = statewright("run", "w.py:two", "--thread", "t")
    ids = [line.split()[0] for line in waiting.err.splitlines()[1:3]]
    assert f"--answer {ids[0]}=VALUE --answer {ids[1]}=VALUE" in waiting.err
    ambiguous = statewright("resume", "t", "w.py:two", "--answer", "x")
    assert (ambiguous.code, ids[0] in ambiguous.err) == (2, True)
    half = statewright("resume", "t", "w.py:two", "--answer", f"{ids[1]}=2")
    assert (half.code, ids[1] in half.err.partition("Continue with")[0]) == (3, False)
    result = statewright("resume", "t", "w.py:two", "--answer", f"{ids[0]}=1")
    assert (result.code, json.loads(result.out)) == (0, {"n": [1, 2]})


def test_due_timers_resume_the_thread(statewright: Any, waits: Path) -> None:
    waiting = statewright("run", "w.py:napping", "--thread", "t")
    assert (waiting.code, "statewright resume t w.py:napping --due" in waiting.err) == (3, True)
    time.sleep(0.02)  # the nap takes 0.01 seconds, and a command may be faster
    result = statewright("resume", "t", "w.py:napping", "--due")
    assert (result.code, json.loads(result.out)) == (0, {"n": "awake"})
    assert statewright("resume", "t", "w.py:napping", "--due").code == 0
    statewright("run", "w.py:oversleeping", "--thread", "u")
    early = statewright("resume", "u", "w.py:oversleeping", "--due")
    assert (early.code, "due at" in early.err) == (3, True)


def test_an_event_delivers_its_payload(statewright: Any, waits: Path) -> None:
    waiting = statewright("run", "w.py:paying", "--thread", "t")
    assert (waiting.code, "--event paid=JSON" in waiting.err, "--due" in waiting.err) == (3, True, True)
    wrong = statewright("resume", "t", "w.py:paying", "--event", "payd")
    assert (wrong.code, "Did you mean 'paid'" in wrong.err) == (2, True)
    result = statewright("resume", "t", "w.py:paying", "--event", 'paid={"sum": 5}')
    assert (result.code, json.loads(result.out)) == (0, {"n": {"sum": 5}})
    statewright("run", "w.py:paying", "--thread", "u")
    assert json.loads(statewright("resume", "u", "w.py:paying", "--event", "paid").out) == {"n": None}


def test_a_failed_run_is_resumed_at_the_failed_node(statewright: Any, waits: Path) -> None:
    assert statewright("run", "w.py:breaking", "--thread", "t").code == 1
    assert statewright("resume", "t", "w.py:breaking").code == 1
    (waits / "mended").touch()
    result = statewright("resume", "t", "w.py:breaking")
    assert (result.code, json.loads(result.out)) == (0, {"n": "mended"})


def test_a_graph_with_its_own_database_uses_it(statewright: Any, waits: Path) -> None:
    waiting = statewright("run", "w.py:own", "--thread", "t")
    assert (waiting.code, (waits / ".statewright").exists()) == (3, False)
    assert waiting.err.endswith("Continue with:\n  statewright resume t w.py:own --answer VALUE\n")
    result = statewright("resume", "t", "w.py:own", "--answer", "1")
    assert (result.code, json.loads(result.out)) == (0, {"n": 1})


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("t", "w.py:asking", "--answer", "1", "--due"), "Use only one of --answer"),
        (("t", "w.py:asking", "--event", "a", "--due"), "Use only one of --answer"),
        (("x", "w.py:asking"), "Thread 'x' does not exist"),
        (("t", "w.py:asking", "--branch", "x"), "x"),
        (("t", "none.py"), "File 'none.py' does not exist"),
        (("t", "w.py:asking", "--database", "none.db"), "Database 'none.db' does not exist"),
        (("t", "w.py:asking", "--database", "memory:"), "nothing is saved"),
        (("t", "w.py:asking", "--answer", f"{ID}=1"), ID),
    ],
)
def test_usage_errors_are_one_sentence_and_exit_with_2(
    statewright: Any, waits: Path, args: tuple[str, ...], message: str
) -> None:
    statewright("run", "w.py:asking", "--thread", "t")
    result = statewright("resume", *args)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert message in result.err
