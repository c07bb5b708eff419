"""The location of an error in the code of the user, not in libraries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statewright import START, StateGraph
from statewright.cli.console.failure import find_user_line

STEPS = """
import json
from typing import TypedDict

class State(TypedDict, total=False):
    n: int

def parse(state):
    return json.loads("{")

def lose(state):
    raise KeyError("lost")

def wrap(state):
    try:
        lose(state)
    except KeyError as error:
        raise RuntimeError("wrapped") from error

def gather(state):
    try:
        lose(state)
    except KeyError as error:
        members = [error]
    raise ExceptionGroup("several", members)

def answer_wrongly(state):
    return 7

def pick(state):
    return {"n": 1}
"""


@pytest.fixture
def steps(folder: Path) -> dict[str, Any]:
    """Execute a file of steps in the working folder, and return its names."""
    file = folder / "steps.py"
    file.write_text(STEPS, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "steps"}
    exec(compile(STEPS, str(file), "exec"), names)
    return names


def raised(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    return caught.value


@pytest.mark.parametrize(
    ("name", "location"),
    [
        ("parse", "at steps.py:9 in parse"),
        ("lose", "at steps.py:12 in lose"),
        ("wrap", "at steps.py:18 in wrap"),
        ("gather", "at steps.py:12 in lose"),
    ],
)
def test_the_location_is_the_innermost_line_of_the_user(steps: dict[str, Any], name: str, location: str) -> None:
    graph = StateGraph(steps["State"]).add_node("node", steps[name]).add_edge(START, "node").compile()
    assert find_user_line(without_this_file(raised(lambda: graph.invoke({"n": 1})))) == location


def test_the_location_of_the_cause_is_used_if_the_error_has_none(steps: dict[str, Any]) -> None:
    cause = without_this_file(raised(lambda: steps["lose"]({})))
    error = RuntimeError("never raised")
    error.__cause__ = cause
    assert find_user_line(error) == "at steps.py:12 in lose"
    error.__cause__, error.__context__, error.__suppress_context__ = None, cause, False
    assert find_user_line(error) == "at steps.py:12 in lose"
    error.__suppress_context__ = True
    assert find_user_line(error) is None


def test_an_error_in_libraries_only_has_no_location(steps: dict[str, Any]) -> None:
    assert find_user_line(without_this_file(raised(lambda: json.loads("{")))) is None
    graph = StateGraph(steps["State"]).add_node("node", steps["answer_wrongly"]).add_edge(START, "node").compile()
    assert find_user_line(without_this_file(raised(lambda: graph.invoke({"n": 1})))) is None


def test_installed_and_generated_code_is_not_user_code(folder: Path) -> None:
    installed = folder / "lib" / "site-packages" / "other.py"
    installed.parent.mkdir(parents=True)
    installed.write_text(STEPS, encoding="utf-8")
    for filename in (str(installed), "<string>", str(folder / "gone.py")):
        names: dict[str, Any] = {"__name__": "other"}
        exec(compile(STEPS, filename, "exec"), names)
        assert find_user_line(without_this_file(raised(lambda names=names: names["lose"]({})))) is None


def test_a_file_outside_the_working_folder_has_its_absolute_path(
    steps: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert find_user_line(raised(lambda: steps["lose"]({}))) == f"at {folder.resolve() / 'steps.py'}:12 in lose"


def test_circular_causes_are_searched_once() -> None:
    first, second = RuntimeError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    assert find_user_line(first) is None


FLOW = """
tools: [{id: finder, tool: look_up}]
states:
- {id: find, tool_id: finder, tool_args: {word: x}, next: {state_id: end}}
"""
TOOLS = """
def look_up(word: str) -> str:
    raise LookupError(word)
"""


def test_a_tool_of_a_workflow_has_a_location(statewright: Any, folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (folder / "words.py").write_text(TOOLS, encoding="utf-8")
    (folder / "statewright.toml").write_text('[tools]\nlook_up = "words:look_up"\n', encoding="utf-8")
    result = statewright("run", "flow.yaml")
    assert result.code == 1
    assert result.err.startswith("Error: ")
    assert result.err.endswith("\n  at words.py:3 in look_up\n")


def without_this_file(error: Exception) -> Exception:
    """Remove the frames of this file, which would count as code of the user."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return error.with_traceback(trace)
