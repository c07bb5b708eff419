"""The output of a run: its outcome, what it is waiting for, and the commands that continue it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from statewright import START, InMemorySaver, StateGraph
from statewright.cli.console.options import RunOptions
from statewright.cli.workflow.run_output import RunResult, report_run
from statewright.storage.sqlite import SqliteSaver


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statewright.cli.workflow.run_output.is_interactive", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_hints_are_printed_for_users(statewright: Any, flow: Path) -> None:
    completed = statewright("run", "flow.py", "--thread", "t", "-i", "n=1")
    assert (completed.code, completed.err) == (0, "Inspect it with: statewright threads show t\n")
    failed = statewright("run", "flow.py:failing", "--thread", "u", "--database", "x.db")
    assert failed.err.splitlines()[1:] == [
        "  at flow.py:14 in fail",
        "Once that is fixed, continue with:",
        "  statewright resume u flow.py:failing --database x.db",
        "Inspect it with:",
        "  statewright threads show u --database x.db",
    ]
    assert statewright("run", "flow.py", "--database", "memory:", "-i", "n=1").err == ""


def test_no_hints_are_printed_for_programs(statewright: Any, flow: Path) -> None:
    assert not sys.stderr.isatty()
    assert statewright("run", "flow.py", "--thread", "t", "-i", "n=1").err == ""
    failed = statewright("run", "flow.py:failing", "--thread", "u").err.splitlines()
    assert failed == ["Error: ValueError: no luck (in node 'fail', step 1, attempt 1)", "  at flow.py:14 in fail"]


STOPPING = """
from statewright import START, StateGraph

graph = StateGraph({"n": int}).add_node("double", lambda state: {"n": state["n"] * 2}).add_edge(START, "double")
stopping = graph.compile(interrupt_before=["double"])
"""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_graph_at_a_breakpoint_is_reported_as_waiting(statewright: Any, folder: Path, options: tuple[str]) -> None:
    (folder / "stopping.py").write_text(STOPPING, encoding="utf-8")
    waiting = statewright("run", "stopping.py:stopping", "--thread", "t", "-i", "n=1", *options)
    assert (waiting.code, json.loads(waiting.out)) == (3, {"n": 1})
    assert waiting.err.splitlines() == [
        "The run is waiting before double.",
        "Continue with:",
        "  statewright resume t stopping.py:stopping",
        "Inspect it with:",
        "  statewright threads show t",
    ]
    completed = statewright("resume", "t", "stopping.py:stopping", *options)
    assert (completed.code, json.loads(completed.out), completed.err) == (0, {"n": 2}, "")


def finish(value: Any) -> Any:
    """Return an app that has completed a thread `t` with this result."""
    graph = StateGraph({"result": Any}).add_node("finish", lambda state: {"result": value})
    app = graph.add_edge(START, "finish").compile(InMemorySaver())
    app.invoke({}, thread_id="t")
    return app


def report_workflow(app: Any, run: Callable[[], RunResult], *, as_json: bool = False) -> None:
    options = RunOptions(json=as_json)
    report_run(run, app, {"thread_id": "t"}, None, options, network=None, is_workflow=True)


def test_any_result_of_a_workflow_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report_workflow(finish({"at": timedelta(seconds=1)}), lambda: ({}, ()))
    assert json.loads(capsys.readouterr().out).keys() == {"at"}


@pytest.mark.parametrize("as_json", [False, True])
def test_the_error_of_a_workflow_is_reported_even_if_its_state_cannot_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    saver = SqliteSaver("runs.db")
    app = finish("done").with_services(checkpointer=saver)

    def fail() -> RunResult:
        saver.close()
        raise ValueError("no luck")

    with pytest.raises(SystemExit) as exit_:
        report_workflow(app, fail, as_json=as_json)
    output = capsys.readouterr()
    assert (exit_.value.code, "Error: ValueError: no luck" in output.err) == (1, True)
    if as_json:
        record = json.loads(output.out)
        assert (record["status"], record["error"], record["result"]) == ("failed", "ValueError: no luck", None)
