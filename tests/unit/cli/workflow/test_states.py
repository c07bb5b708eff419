"""Workflow files on the command line: run, resume, test, check and draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

FLOW = """\
name: review
enable_summarization_node: false
assistants: [{id: a, system_prompt: You review files.}]
states:
- {id: plan, assistant_id: a, task: "List the files of {{project}}", next: {state_id: look, iter_key: files}}
- {id: look, assistant_id: a, task: "Look at {{task}}", next: {state_id: judge}}
- id: judge
  assistant_id: a
  task: Judge
  interrupt_before: true
  next: {condition: {expression: "score >= 5", then: praise, otherwise: plan}}
- {id: praise, assistant_id: a, task: Praise, next: {state_id: end}}
"""
SCRIPT = {
    "plan": '{"files": ["a.py", "b.py"]}',
    "look": {"a.py": "fine", "b.py": '{"bad": "$item"}'},
    "judge": ['{"score": 3}', '{"score": 7}'],
    "praise": "Well done.",
}
CASES = [
    {
        "id": "one",
        "rule": "a good file is praised",
        "ui": '{"project": "x"}',
        "outs": {"plan": '{"files": ["a.py"]}', "look": "ok", "judge": '{"score": 9}', "praise": "good"},
        "visits": "plan look",
        "prompts": {"plan": ["List the files of x"]},
    },
    {"id": "two", "ui": "x", "outs": {"plan": "[]", "judge": "1"}, "visits": "plan praise", "ctx": {"a": 1}},
]


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATEWRIGHT_DATABASE", raising=False)
    Path("flow.yaml").write_text(FLOW, encoding="utf-8")
    Path("script.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
    Path("cases.json").write_text(json.dumps(CASES), encoding="utf-8")
    return tmp_path


RUN = ("run", "flow.yaml", "--input", '{"project": "demo"}', "--script", "script.json", "--thread", "t", "--json")
RESUME = ("resume", "t", "flow.yaml", "--script", "script.json", "--json")


def test_a_run_waits_at_a_breakpoint_and_is_resumed_with_a_text(statewright: Any, flow: Path) -> None:
    waiting = statewright(*RUN)
    assert waiting.code == 3
    record = json.loads(waiting.out)
    assert (record["status"], record["thread_id"], record["error"]) == ("waiting", "t", None)
    assert [visit["state"] for visit in record["visits"]] == ["plan", "look", "look"]
    assert [visit["item"] for visit in record["visits"]] == [None, "a.py", "b.py"]

    repeated = statewright(*RESUME, "--answer", "look closer")
    assert repeated.code == 3
    assert {"role": "user", "content": "look closer"} in json.loads(repeated.out)["messages"]

    completed = statewright(*RESUME, "--answer", '{"mood": "good"}')
    assert completed.code == 0
    record = json.loads(completed.out)
    assert (record["status"], record["result"]) == ("completed", "Well done.")
    assert record["context"] == {
        "project": "demo",
        "files": ["a.py", "b.py"],
        "bad": "b.py",
        "score": 7,
        "mood": "good",
    }


def test_a_waiting_run_prints_its_result_and_the_next_command(statewright: Any, flow: Path) -> None:
    ended = statewright("run", "flow.yaml", "--script", "script.json", "--thread", "t")
    assert (ended.code, ended.out) == (3, '{"bad": "b.py"}\n')
    assert "statewright resume t flow.yaml --answer TEXT --script script.json" in ended.err
    assert statewright(*RUN[:-3], "--thread", "u", "--json").err == ended.err.replace(" t ", " u ").replace(
        " t\n", " u\n"
    )


def test_a_run_that_waits_before_its_first_state_has_no_result(statewright: Any, flow: Path) -> None:
    Path("flow.yaml").write_text(FLOW.replace("{id: plan,", "{id: plan, interrupt_before: true,"), encoding="utf-8")
    waiting = statewright("run", "flow.yaml", "--script", "script.json", "--database", "memory:")
    assert (waiting.code, waiting.out) == (3, "")
    assert waiting.err.splitlines() == [
        "The run is waiting before plan.",
        "It was not saved, so it cannot be continued.",
    ]


def test_hints_about_a_workflow_are_printed_for_users(
    statewright: Any, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statewright.cli.workflow.run_output.is_interactive", lambda: True)
    waiting = statewright("run", "flow.yaml", "--script", "script.json", "--thread", "t", "--database", "other.db")
    assert "Inspect it with:\n  statewright threads show t --database other.db\n" in waiting.err
    assert "statewright resume t flow.yaml --script script.json --database other.db" in waiting.err
    failed = statewright("run", "flow.yaml", "--thread", "u")
    assert (failed.code, "Once that is fixed, continue with:" in failed.err) == (1, True)
    assert "Inspect it" not in statewright("run", "flow.yaml", "--script", "script.json", "--database", "memory:").err


def test_a_state_without_a_model_is_named(statewright: Any, flow: Path) -> None:
    ended = statewright("run", "flow.yaml", "--json")
    assert ended.code == 1
    record = json.loads(ended.out)
    assert record["status"] == "failed"
    assert "State 'plan' needs a model" in record["error"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('{"plann": "x"}', "Did you mean 'plan'?"),
        ('{"plan": 7}', "Use a string"),
        ("[]", "is not a JSON object"),
        ("{", "is not valid JSON"),
    ],
)
def test_an_invalid_script_is_a_usage_error(statewright: Any, flow: Path, script: str, message: str) -> None:
    Path("script.json").write_text(script, encoding="utf-8")
    ended = statewright("run", "flow.yaml", "--script", "script.json", "--database", "memory:")
    assert ended.code == 2
    assert message in ended.err


def test_a_result_with_too_many_items_is_a_failure(statewright: Any, flow: Path) -> None:
    ended = statewright(*RUN, "--max-items", "1")
    assert ended.code == 1
    assert "returned 2 items to iterate over; at most 1" in json.loads(ended.out)["error"]


def test_an_input_can_be_a_file(statewright: Any, flow: Path) -> None:
    Path("input.txt").write_text('{"project": "from a file"}', encoding="utf-8")
    ended = statewright(*RUN[:2], "--input", "@input.txt", *RUN[4:], "--file", "a.txt")
    assert json.loads(ended.out)["context"]["project"] == "from a file"
    assert json.loads(ended.out)["context"]["file_names"] == ["a.txt"]


def test_cases_are_run_without_a_model_and_reported(statewright: Any, flow: Path) -> None:
    ended = statewright("test", "flow.yaml", "cases.json", "--junit", "report.xml")
    assert ended.code == 1
    assert "ok    one  a good file is praised" in ended.out
    assert "FAIL  two" in ended.out
    assert "the visits are plan, not plan praise" in ended.out
    assert "1 of 2 cases passed" in ended.out
    suite = ElementTree.parse("report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_several_files_are_checked_and_all_problems_reported(statewright: Any, flow: Path) -> None:
    Path("bad.yaml").write_text("states:\n- {id: a, assistant_id: x, next: {state_id: b}}\n", encoding="utf-8")
    ended = statewright("check", "flow.yaml", "bad.yaml")
    assert ended.code == 2
    assert ended.out.startswith("ok: review, 4 nodes")
    assert "bad.yaml has 2 problems" in ended.err
    assert "line 2" in ended.err
    assert "Traceback" not in ended.err


def test_the_drawing_shows_the_states_of_the_author(statewright: Any, flow: Path) -> None:
    drawn = statewright("draw", "flow.yaml", "--format", "mermaid").out
    assert "each of files" in drawn
    assert "score" in drawn
    assert "final_summary" not in drawn


def test_the_schema_of_the_language_is_printed(statewright: Any, flow: Path) -> None:
    schema = json.loads(statewright("schema", "states").out)
    assert schema["$schema"].startswith("https://json-schema.org/")


def test_test_cases_need_a_workflow(statewright: Any, folder: Path) -> None:
    (folder / "graph.py").write_text("", encoding="utf-8")
    (folder / "cases.json").write_text("[]", encoding="utf-8")
    ended = statewright("test", "graph.py", "cases.json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: 'graph.py' is not a workflow in YAML.")


@pytest.mark.parametrize("command", ["check", "run", "draw"])
def test_a_workflow_of_steps_is_refused(statewright: Any, folder: Path, command: str) -> None:
    (folder / "steps.json").write_text('{"name": "x", "version": "1", "steps": []}', encoding="utf-8")
    ended = statewright(command, "steps.json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: 'steps.json' is a step workflow, which only runs on a server.")
    assert "statewright definitions check" in ended.err
