"""The catalog of a project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.catalog import build_catalog, select_project
from statewright.cli.workflow.load import is_steps_file
from statewright.cli.workflow.models import Models
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
    listed = [{"name": f"s{index}", "type": "task", "handler": name} for index, name in enumerate(handlers)]
    return json.dumps({"name": "inner", "version": "1", "steps": listed, **more})


def write_project(folder: Path, text: str) -> None:
    (folder / "statewright.toml").write_text(text, encoding="utf-8")


def test_a_graph_has_the_queue_of_its_table(folder: Path) -> None:
    (folder / "relay.yaml").write_text(STATES, encoding="utf-8")
    (folder / "inner.json").write_text(steps("unit-greet"), encoding="utf-8")
    (folder / "hands.py").write_text(HANDLERS, encoding="utf-8")
    (folder / "plain.py").write_text(
        "from statewright import START, StateGraph\n"
        "graph = StateGraph(dict).add_node('a', lambda state: {}).add_edge(START, 'a').compile()\n",
        encoding="utf-8",
    )
    write_project(
        folder,
        '[handlers]\nmodules = ["hands"]\n[graphs]\nother = "plain:graph"\n'
        '[graphs.plain]\npath = "plain:graph"\nqueue = "a"\n[graphs.relay]\nfile = "relay.yaml"\nqueue = "b"\n'
        '[graphs.inner]\nfile = "inner.json"\nqueue = "c"\n',
    )
    catalog = build_catalog(load_project(folder))
    queues = {graph.name: graph.queue for graph in catalog.served}
    assert queues == {"plain": "a", "relay": "b", "inner": "c", "other": "default"}


def served(folder: Path, models: Models | None = None) -> dict[str, str]:
    catalog = build_catalog(load_project(folder), *([models] if models else []))
    return {graph.name: graph.kind for graph in catalog.served}


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(WorkflowError) as caught:
        served(folder)
    return [str(problem) for problem in caught.value.problems]


def test_graphs_files_and_workflows_are_served(folder: Path, flow: Path) -> None:
    (folder / "relay.yaml").write_text(STATES, encoding="utf-8")
    (folder / "hands.py").write_text(HANDLERS, encoding="utf-8")
    (folder / "mail.json").write_text(steps("unit-greet", "hands:wave"), encoding="utf-8")
    write_project(
        folder,
        '[graphs]\na = "flow:graph"\nb = "flow.py:asking"\nmail = "mail.json"\nlate = "relay.yaml"\n'
        '[workflows.relay]\nfile = "relay.yaml"\ndescription = "On"\n[handlers]\nmodules = ["hands"]\n',
    )
    assert served(folder) == {"a": "graph", "b": "graph", "mail": "steps", "late": "states", "relay": "states"}
    assert build_catalog(load_project(folder)).require("relay").description == "On"


def test_the_settings_of_a_table_are_applied(folder: Path, flow: Path) -> None:
    write_project(
        folder,
        '[graphs.a]\npath = "flow:graph"\nversion = "7"\ndescription = "Doubles"\non_failure = "b"\n'
        '[graphs.b]\npath = "flow:asking"\n',
    )
    graph = build_catalog(load_project(folder)).require("a")
    assert (graph.version, graph.description, graph.on_failure) == ("7", "Doubles", "b")


def test_all_problems_are_reported_together(folder: Path, flow: Path) -> None:
    (folder / "bad.json").write_text(steps("nobody"), encoding="utf-8")
    (folder / "bad.yaml").write_text("states: 1\n", encoding="utf-8")
    write_project(
        folder,
        '[graphs]\na = "flow:grahp"\nb = "none:graph"\nc = "flow:wrong"\nd = "bad.json"\ne = "bad.yaml"\n'
        'f = {path = "flow:graph", on_failure = "aa"}\n[handlers]\nmodules = ["none"]\n',
    )
    message = "\n".join(problems_of(folder))
    for part in (
        "In 'graphs.a' (line 2, column 1): flow has no graph 'grahp'. Did you mean 'graph'?",
        "In 'graphs.b' (line 3, column 1): 'none' is neither a file nor a module.",
        "In 'graphs.c' (line 4, column 1): ",
        "Handler 'nobody' does not exist.",
        f"In 'graphs.e' (line 6, column 1): {folder}/bad.yaml: ",
        "In 'graphs.f.on_failure' (line 7, column 1): Graph 'aa' does not exist.",
        "In 'handlers.modules': 'none' is neither a file nor a module.",
    ):
        assert part in message


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
    step = {**ASKING["steps"][0], "tools": [{"name": name} for name in tools]}  # type: ignore[dict-item]
    (folder / "ask.json").write_text(json.dumps({**ASKING, "steps": [step]}), encoding="utf-8")
    write_project(
        folder, '[graphs.ask]\nfile = "ask.json"\n[tools]\nroot = "."\npay = "till:pay"\nlost = "till:lost"\n'
    )


def test_llm_steps_can_use_the_tools_of_the_project(folder: Path) -> None:
    (folder / "till.py").write_text(TOOLS, encoding="utf-8")
    asking(folder, "pay")
    assert served(folder) == {"ask": "steps"}


def test_missing_built_in_and_misspelled_tools_are_reported(folder: Path) -> None:
    (folder / "till.py").write_text(TOOLS, encoding="utf-8")
    asking(folder, "lost", "read_file", "pya")
    missing, built_in, misspelled = problems_of(folder)
    assert "till:lost" in missing
    assert "Tool 'read_file' does not exist" in built_in
    assert "Did you mean 'pay'?" in misspelled


def test_a_description_for_a_file_of_steps_is_refused(folder: Path) -> None:
    (folder / "hands.py").write_text(HANDLERS, encoding="utf-8")
    (folder / "mail.json").write_text(steps("unit-greet"), encoding="utf-8")
    write_project(folder, '[graphs.mail]\nfile = "mail.json"\ndescription = "Mine"\n[handlers]\nmodules = ["hands"]\n')
    assert "mail.json has its own description" in problems_of(folder)[0]


def test_a_file_that_cannot_be_read_is_a_problem(folder: Path) -> None:
    write_project(folder, '[graphs]\na = "none.json"\nb = "none.yaml"\n')
    assert [problem.split(":")[0] for problem in problems_of(folder)] == [
        "In 'graphs.a' (line 2, column 1)",
        "In 'graphs.b' (line 3, column 1)",
    ]


def test_modules_are_imported_from_the_folder_of_the_project(
    folder: Path, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(folder, '[graphs]\na = "flow:graph"\n')
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert served(folder / "below") == {"a": "graph"}


def test_a_module_is_imported_once(folder: Path) -> None:
    text = "import pathlib\nwith open('count', 'a') as file: file.write('x')\n"
    graph = "from statewright import StateGraph\ngraph = StateGraph(dict)\ngraph.add_node('a', lambda state: {})\n"
    (folder / "once.py").write_text(text + graph + "graph.add_edge('__start__', 'a')\n", encoding="utf-8")
    write_project(folder, '[graphs]\na = "once.py:graph"\nb = "once.py:graph"\n')
    assert served(folder) == {"a": "graph", "b": "graph"}
    assert (folder / "count").read_text(encoding="utf-8") == "x"


# -- single files


def test_a_single_python_file_is_served_under_its_name(flow: Path) -> None:
    flow.write_text(flow.read_text(encoding="utf-8").partition("wrong =")[0], encoding="utf-8")
    project = select_project("flow.py")
    assert {graph.name for graph in build_catalog(project).served} == {"flow", "asking", "kept"}
    assert project.handler_modules == ("flow",)


def test_a_single_graph_of_a_file_can_be_served(flow: Path) -> None:
    assert [graph.name for graph in build_catalog(select_project("flow.py:asking")).served] == ["flow"]


def test_a_single_file_is_served_without_the_other_graphs_of_its_project(folder: Path, flow: Path) -> None:
    (folder / "relay.yaml").write_text(STATES, encoding="utf-8")
    write_project(folder, '[graphs]\na = "flow:graph"\n[defaults]\nmax_items = 3\n')
    project = select_project("relay.yaml")
    assert [graph.name for graph in build_catalog(project).served] == ["relay"]
    assert project.defaults.max_items == 3


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (None, "There is no statewright.toml in this folder or above it."),
        ("none.py", "File 'none.py' does not exist."),
        ("notes.txt", "'notes.txt' does not end in .py, .yaml or .json."),
    ],
)
def test_targets_that_cannot_be_served_are_refused(folder: Path, target: str | None, message: str) -> None:
    (folder / "notes.txt").touch()
    (folder / ".git").mkdir()
    with pytest.raises(UsageError, match=r"There is no statewright\.toml|Pass a file") as caught:
        select_project(target)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "is_steps"),
    [
        ("a.json", '{"steps": []}', True),
        ("a.json", '{"states": []}', False),
        ("a.json", "{", True),
        ("a.yaml", "steps: []", False),
    ],
)
def test_steps_are_distinguished_from_states(tmp_path: Path, name: str, text: str, is_steps: bool) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert is_steps_file(tmp_path / name, default=True) is is_steps


def test_a_model_that_cannot_be_connected_is_a_usage_error(folder: Path, flow: Path) -> None:
    write_project(folder, '[graphs]\na = "flow:graph"\n')
    with pytest.raises(UsageError, match="no provider"):
        served(folder, Models(default="nobody"))
