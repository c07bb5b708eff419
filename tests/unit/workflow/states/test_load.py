"""Loading of workflow files."""

from pathlib import Path

import pytest

from statewright.errors import WorkflowError
from statewright.models import ScriptedModel
from statewright.project import read_project
from statewright.workflow.states import load_workflow
from statewright.workflow.states.load import apply_project_limits

TEXT = """assistants: [{id: a, system_prompt: p}]
states:
- {id: s, assistant_id: a, next: {state_id: end}}
"""


def test_a_workflow_is_loaded_from_a_file_and_takes_its_name(tmp_path: Path) -> None:
    path = tmp_path / "greeting.yaml"
    path.write_text(TEXT, encoding="utf-8")
    for file in (path, str(path)):
        workflow = load_workflow(file)
        assert workflow.name == "greeting"
        assert workflow.source == str(path)
    path.write_text(f"name: other\n{TEXT}", encoding="utf-8")
    assert load_workflow(path).name == "other"


def test_a_multiline_string_is_the_workflow_itself() -> None:
    workflow = load_workflow(TEXT)
    assert [state.id for state in workflow.definition.states] == ["s"]
    assert repr(workflow).endswith("1 states>")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match="cannot be read"):
        load_workflow(tmp_path / "missing.yaml")


def test_all_problems_are_reported_together_with_their_lines() -> None:
    text = TEXT.replace("state_id: end", "state_id: nowhere").replace("assistant_id: a", "assistant_id: b")
    with pytest.raises(WorkflowError) as caught:
        load_workflow(text)
    assert len(caught.value.problems) == 2
    assert {problem.line for problem in caught.value.problems} == {3}


def test_warnings_are_kept_as_problems_of_the_workflow() -> None:
    workflow = load_workflow(f"{TEXT}unheard_of: 1\n")
    assert any("unheard_of" in problem.message for problem in workflow.problems)
    assert workflow.compile(script={"s": "ok"}).invoke({})["result"] == "ok"


@pytest.mark.parametrize(("setting", "expected"), [("", 3), ("max_concurrency: 5\n", 5)])
def test_a_project_sets_limits_that_the_file_does_not(tmp_path: Path, setting: str, expected: int) -> None:
    project = read_project("[defaults]\nmax_concurrency = 3\n", tmp_path / "statewright.toml")
    assert (
        apply_project_limits(load_workflow(setting + SINGLE_STATE_TEXT).definition, project).max_concurrency == expected
    )
    assert apply_project_limits(load_workflow(SINGLE_STATE_TEXT).definition, None).max_concurrency == 10


@pytest.mark.parametrize(("setting", "expected"), [("", "default"), (", model: own", "own")])
def test_a_project_sets_the_model_of_assistants_without_one(tmp_path: Path, setting: str, expected: str) -> None:
    project = read_project('[defaults]\nmodel = "default"\n', tmp_path / "statewright.toml")
    model = ScriptedModel(["done"])
    text = SINGLE_STATE_TEXT.replace("system_prompt: p", f"system_prompt: p{setting}")
    load_workflow(text).compile(models=model, project=project).invoke({"input": "go"})
    assert [request.model for request in model.requests] == [expected]


SINGLE_STATE_TEXT = """enable_summarization_node: false
assistants: [{id: a, system_prompt: p}]
states: [{id: s, assistant_id: a, task: t, next: {state_id: end}}]
"""
