"""Test cases of workflows, written as data."""

import json
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.workflow.states import load_workflow
from statewright.workflow.states.cases import read_cases, run_case

WORKFLOW = load_workflow(
    "assistants: [{id: a, system_prompt: p}]\n"
    "states: [{id: s, assistant_id: a, task: 'Do {{u}}', next: {state_id: e}},"
    " {id: e, assistant_id: a, next: {state_id: end}}]"
)
CASE: dict[str, Any] = {"id": "1", "ui": '{"u": 1}', "outs": {"s": '{"k": 2}', "e": "done"}}


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"visits": "e s", "ctx": {"u": 1, "k": 2}, "result": "done", "prompts": {"s": ["Do 1"]}},
        {"visits": ["s", "e"], "prompts": {"s": "Do"}, "err": False},
        {"visits": None, "ctx": None, "prompts": None, "result": None},
    ],
)
def test_a_passing_case_returns_no_differences(expected: dict[str, Any]) -> None:
    assert run_case(WORKFLOW, {**CASE, **expected}) == []


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"visits": "s s e"}, "the visits are s e"),
        ({"ctx": {"k": 2}}, "the context is"),
        ({"result": "other"}, "the result is"),
        ({"prompts": {"s": ["Do 2"]}}, "does not begin with 'Do 2'"),
        ({"prompts": {"s": ["Do 1", "Do 2"]}}, "prompted 1 times, not 2"),
        ({"err": True}, "a failure was expected"),
        ({"outs": {"s": "1"}}, "the run failed: ModelError"),
        ({"outs": {"s": "1"}, "err": "another reason"}, "the run failed"),
    ],
)
def test_a_failing_case_describes_the_difference(expected: dict[str, Any], message: str) -> None:
    (difference,) = run_case(WORKFLOW, {**CASE, **expected})
    assert message in difference


@pytest.mark.parametrize("expected", [True, "needs a model"])
def test_a_run_may_be_expected_to_fail(expected: Any) -> None:
    assert run_case(WORKFLOW, {**CASE, "outs": {"s": "1"}, "err": expected}) == []


def test_cases_are_read_from_a_list(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([CASE]), encoding="utf-8")
    assert read_cases(file) == [CASE]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"id": "x", "visit": "s"}]', "[" * 100_000])
def test_files_without_valid_cases_are_rejected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfig):
        read_cases(file)
    with pytest.raises(InvalidConfig):
        read_cases(tmp_path / "missing.json")
