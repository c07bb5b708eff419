"""What a project serves, collected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.catalog import build_catalog, select_project
from statewright.cli.workflow.models import Models
from statewright.cli.workflow.states import is_steps_file
from statewright.errors import WorkflowError
from statewright.project import load_project

STATES = """
name: relay
assistants:
- {id: one, system_prompt: You answer.}
states:
- id: only
  assistant_id: one
  task: Say it.
  next: {state_id: end}
"""
HANDLERS = """
from statewright.workflow.steps import task_handler

@task_handler("unit-greet")
def greet(ctx):
    return {"status": "completed"}

def wave(ctx):
    return {"status": "completed"}
"""


def steps(*handlers: str, **more: object) -> str:
    listed = [{"name": f"s{place}", "type": "task", "handler": one} for place, one in enumerate(handlers)]
    return json.dumps({"name": "inner", "version": "1", "steps": listed, **more})


def written(folder: Path, text: str) -> None:
    (folder / "statewright.toml").write_text(text, encoding="utf-8")


def served(folder: Path, models: Models | None = None) -> dict[str, str]:
    catalog = build_catalog(load_project(folder), *([models] if models else []))
    return {one.name: one.kind for one in catalog.served}


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(WorkflowError) as caught:
        served(folder)
    return [str(one) for one in caught.value.problems]


def test_graphs_files_and_workflows_are_served(folder: Path, flow: Path) -> None:
    (folder / "relay.yaml").write_text(STATES, encoding="utf-8")
    (folder / "hands.py").write_text(HANDLERS, encoding="utf-8")
    (folder / "mail.json").write_text(steps("unit-greet", "hands:wave"), encoding="utf-8")
    written(
        folder,
        '[graphs]\na = "flow:graph"\nb = "flow.py:asking"\nmail = "mail.json"\nlate = "relay.yaml"\n'
        '[workflows.relay]\nfile = "relay.yaml"\ndescription = "On"\n[handlers]\nmodules = ["hands"]\n',
    )
    assert served(folder) == {"a": "graph", "b": "graph", "mail": "steps", "late": "states", "relay": "states"}
    assert build_catalog(load_project(folder)).named("relay").description == "On"


def test_what_a_table_says_is_kept(folder: Path, flow: Path) -> None:
    written(
        folder,
        '[graphs.a]\npath = "flow:graph"\nversion = "7"\ndescription = "Doubles"\non_failure = "b"\n'
        '[graphs.b]\npath = "flow:asking"\n',
    )
    found = build_catalog(load_project(folder)).named("a")
    assert (found.version, found.description, found.on_failure) == ("7", "Doubles", "b")


def test_everything_wrong_is_told_at_once(folder: Path, flow: Path) -> None:
    (folder / "bad.json").write_text(steps("nobody"), encoding="utf-8")
    (folder / "bad.yaml").write_text("states: 1\n", encoding="utf-8")
    written(
        folder,
        '[graphs]\na = "flow:grahp"\nb = "none:graph"\nc = "flow:wrong"\nd = "bad.json"\ne = "bad.yaml"\n'
        'f = {path = "flow:graph", on_failure = "aa"}\n[handlers]\nmodules = ["none"]\n',
    )
    said = "\n".join(problems_of(folder))
    for part in (
        "In 'graphs.a' (line 2, column 1): flow has no graph 'grahp'. Did you mean 'graph'?",
        "In 'graphs.b' (line 3, column 1): There is no file and no module 'none'.",
        "In 'graphs.c' (line 4, column 1): ",
        "There is no handler 'nobody'.",
        f"In 'graphs.e' (line 6, column 1): {folder}/bad.yaml: ",
        "In 'graphs.f.on_failure' (line 7, column 1): There is no graph 'aa'.",
        "In 'handlers.modules': There is no file and no module 'none'.",
    ):
        assert part in said


TOOLS = """
from statewright.agents import tool

@tool(approve=True)
def pay(amount: int) -> str:
    \"\"\"Pays.\"\"\"
    return "paid"
"""
ASKING = {
    "name": "ask",
    "version": "1",
    "steps": [
        {"type": "llm", "name": "ask", "model": "gpt-5", "messages": [{"role": "user", "content": "Go."}]},
    ],
}


def asking(folder: Path, *tools: str) -> None:
    step = {**ASKING["steps"][0], "tools": [{"name": one} for one in tools]}  # type: ignore[dict-item]
    (folder / "ask.json").write_text(json.dumps({**ASKING, "steps": [step]}), encoding="utf-8")
    written(folder, '[graphs.ask]\nfile = "ask.json"\n[tools]\nroot = "."\npay = "till:pay"\nlost = "till:lost"\n')


def test_models_of_steps_may_use_the_tools_of_the_project(folder: Path) -> None:
    (folder / "till.py").write_text(TOOLS, encoding="utf-8")
    asking(folder, "pay")
    assert served(folder) == {"ask": "steps"}


def test_tools_that_are_lost_or_not_the_projects_own_are_told(folder: Path) -> None:
    (folder / "till.py").write_text(TOOLS, encoding="utf-8")
    asking(folder, "lost", "read_file", "pya")
    lost, built_in, odd = problems_of(folder)
    assert "till:lost" in lost
    assert "There is no tool 'read_file'" in built_in
    assert "Did you mean 'pay'?" in odd


def test_a_file_of_steps_keeps_its_own_description(folder: Path) -> None:
    (folder / "hands.py").write_text(HANDLERS, encoding="utf-8")
    (folder / "mail.json").write_text(steps("unit-greet"), encoding="utf-8")
    written(folder, '[graphs.mail]\nfile = "mail.json"\ndescription = "Mine"\n[handlers]\nmodules = ["hands"]\n')
    assert "mail.json has its description itself" in problems_of(folder)[0]


def test_a_file_that_cannot_be_read_is_a_problem(folder: Path) -> None:
    written(folder, '[graphs]\na = "none.json"\nb = "none.yaml"\n')
    assert [one.split(":")[0] for one in problems_of(folder)] == [
        "In 'graphs.a' (line 2, column 1)",
        "In 'graphs.b' (line 3, column 1)",
    ]


def test_modules_are_found_in_the_folder_of_the_project(
    folder: Path, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(folder, '[graphs]\na = "flow:graph"\n')
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert served(folder / "below") == {"a": "graph"}


def test_a_module_is_imported_once(folder: Path) -> None:
    text = "import pathlib\nwith open('count', 'a') as file: file.write('x')\n"
    graph = "from statewright import StateGraph\ngraph = StateGraph(dict)\ngraph.add_node('a', lambda state: {})\n"
    (folder / "once.py").write_text(text + graph + "graph.add_edge('__start__', 'a')\n", encoding="utf-8")
    written(folder, '[graphs]\na = "once.py:graph"\nb = "once.py:graph"\n')
    assert served(folder) == {"a": "graph", "b": "graph"}
    assert (folder / "count").read_text(encoding="utf-8") == "x"


# -- lone files


def test_a_lone_file_of_python_is_served_under_its_name(flow: Path) -> None:
    flow.write_text(flow.read_text(encoding="utf-8").partition("wrong =")[0], encoding="utf-8")
    project = select_project("flow.py")
    assert {one.name for one in build_catalog(project).served} == {"flow", "asking", "kept"}
    assert project.handler_modules == ("flow",)


def test_one_graph_of_a_file_may_be_named(flow: Path) -> None:
    assert [one.name for one in build_catalog(select_project("flow.py:asking")).served] == ["flow"]


def test_a_lone_file_leaves_the_other_graphs_of_its_project_out(folder: Path, flow: Path) -> None:
    (folder / "relay.yaml").write_text(STATES, encoding="utf-8")
    written(folder, '[graphs]\na = "flow:graph"\n[defaults]\nmax_items = 3\n')
    project = select_project("relay.yaml")
    assert [one.name for one in build_catalog(project).served] == ["relay"]
    assert project.defaults.max_items == 3


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (None, "There is no statewright.toml in this folder or above it."),
        ("none.py", "There is no file 'none.py'."),
        ("notes.txt", "'notes.txt' does not end in .py, .yaml or .json."),
    ],
)
def test_what_can_not_be_served_is_told(folder: Path, target: str | None, said: str) -> None:
    (folder / "notes.txt").touch()
    (folder / ".git").mkdir()
    with pytest.raises(UsageError, match=r"There is no statewright\.toml|Give a file") as caught:
        select_project(target)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        ("a.json", '{"steps": []}', True),
        ("a.json", '{"states": []}', False),
        ("a.json", "{", True),
        ("a.yaml", "steps: []", False),
    ],
)
def test_steps_are_told_from_states(tmp_path: Path, name: str, text: str, is_one: bool) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert is_steps_file(tmp_path / name, default=True) is is_one


def test_a_model_that_cannot_be_connected_is_wrong_use(folder: Path, flow: Path) -> None:
    written(folder, '[graphs]\na = "flow:graph"\n')
    with pytest.raises(UsageError, match="no provider"):
        served(folder, Models(default="nobody"))
