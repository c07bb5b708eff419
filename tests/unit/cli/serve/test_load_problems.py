"""The positions of the problems because of which a project cannot be loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statewright.cli.serve.catalog import build_catalog, select_project
from statewright.cli.serve.load_problems import describe_failure
from statewright.server.context.reload_status import LoadFailure, LoadProblem

STATES = """
name: relay
assistants:
- {id: one, system_prompt: You answer.}
states:
- id: only
  assistant_id: two
  task: Say it.
  next: {state_id: nowhere}
"""
GRAPH = """
from statewright import START, StateGraph

graph = StateGraph(dict)
graph.add_node("a", lambda state: {})
graph.add_edge(START, "a")
graph.add_edge("a", "bb")
graph.add_edge("a", "cc")
"""


def failure_of(folder: Path, target: str | None = None) -> LoadFailure:
    """Return the failure to load a file or, by default, the project in the folder."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # every error is described
        build_catalog(select_project(target))
    return describe_failure(caught.value, folder)


def places_of(failure: LoadFailure) -> list[tuple[str | None, int | None]]:
    return [(problem.file, problem.line) for problem in failure.problems]


def test_problems_of_a_workflow_in_yaml_have_their_lines_and_the_text_of_the_file(folder: Path) -> None:
    (folder / "relay.yaml").write_text(STATES, encoding="utf-8")
    failure = failure_of(folder, "relay.yaml")
    assert places_of(failure) == [("relay.yaml", 7), ("relay.yaml", 9)]
    assert failure.texts == {"relay.yaml": STATES}
    assert "two" in failure.problems[0].message


def test_problems_of_a_workflow_in_json_have_their_lines(folder: Path) -> None:
    text = json.dumps({"name": "mail", "version": "1", "steps": [{"type": "task", "name": "a"}]}, indent=1)
    (folder / "mail.json").write_text(text, encoding="utf-8")
    failure = failure_of(folder, "mail.json")
    assert places_of(failure) == [("mail.json", text.split("\n").index("  {") + 1)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("graph = \n", 1, "Invalid syntax."),
        ("import json\n\ndef load():\n    return json.loads('{')\n\ngraph = load()\n", 4, "JSONDecodeError: "),
        ("x = 1\nfrom nothing_like_this import graph\n", 2, "ModuleNotFoundError: "),
    ],
    ids=["syntax", "innermost line of the user", "import"],
)
def test_an_error_of_python_code_is_at_the_line_of_the_user(folder: Path, text: str, line: int, message: str) -> None:
    (folder / "flow.py").write_text(text, encoding="utf-8")
    failure = failure_of(folder, "flow.py")
    assert places_of(failure) == [("flow.py", line)]
    assert failure.problems[0].message.startswith(message)
    assert failure.texts == {"flow.py": text}


def test_a_problem_of_a_graph_is_at_the_line_that_has_the_names_in_it(folder: Path) -> None:
    (folder / "flow.py").write_text(GRAPH, encoding="utf-8")
    assert places_of(failure_of(folder, "flow.py")) == [("flow.py", 7), ("flow.py", 8)]


def test_a_project_has_the_problems_of_all_its_files_and_of_its_entries(folder: Path) -> None:
    (folder / "relay.yaml").write_text(STATES, encoding="utf-8")
    (folder / "flow.py").write_text("graph = 1 / 0\n", encoding="utf-8")
    (folder / "statewright.toml").write_text(
        '[graphs]\nrelay = "relay.yaml"\nflow = "flow:graph"\n[graphs.gone]\nfile = "gone.yaml"\n', encoding="utf-8"
    )
    failure = failure_of(folder)
    assert set(places_of(failure)) == {("relay.yaml", 7), ("relay.yaml", 9), ("flow.py", 1), ("statewright.toml", 4)}
    assert set(failure.texts) == {"relay.yaml", "flow.py", "statewright.toml"}


def test_a_broken_project_file_has_the_line_of_its_problem(folder: Path) -> None:
    (folder / "statewright.toml").write_text("[graphs]\n\nflow = 1\n", encoding="utf-8")
    assert places_of(failure_of(folder)) == [("statewright.toml", 3)]


def test_a_failure_is_passed_on_in_one_line() -> None:
    problem = LoadProblem(file="a.yaml", line=3, column=None, code="SW-x", message="two\nlines", suggestion="ü")
    failure = LoadFailure(problems=[problem], texts={"a.yaml": "a:\n- b\n"})
    line = failure.to_line()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert LoadFailure.from_line(line) == failure
