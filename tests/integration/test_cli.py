"""The command line as a user meets it: its output, its exit codes, and one sentence when something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import on_a_screen, statewright

import statewright as package

GRAPH = """
import time
from typing import TypedDict
from statewright import START, InMemorySaver, StateGraph, interrupt

class State(TypedDict, total=False):
    n: int

def double(state):
    return {"n": state["n"] * 2}

def fail(state):
    raise ValueError("no luck")

def ask(state):
    return {"n": interrupt("how many?")}

def sleep(state):
    print("sleeping", flush=True)
    time.sleep(30)

def built(fn):
    graph = StateGraph(State, name=fn.__name__)
    graph.add_node(fn.__name__, fn)
    graph.add_edge(START, fn.__name__)
    return graph

graph = built(double)
failing = built(fail)
asking = built(ask).compile(checkpointer=InMemorySaver())
sleeping = built(sleep)
wrong = StateGraph(State)
wrong.add_node("a", double)
wrong.add_edge("a", "bb")
"""


@pytest.fixture(autouse=True)
def _work_in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a temporary folder, so that saved runs are left nowhere else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATEWRIGHT_DATABASE", raising=False)


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    file = tmp_path / "flow.py"
    file.write_text(GRAPH, encoding="utf-8")
    return file


def test_a_finished_run_prints_only_its_state(flow: Path) -> None:
    result = statewright("run", flow, "--input", "n=21", "--json")
    assert (result.returncode, json.loads(result.stdout), result.stderr) == (0, {"n": 42}, "")


def test_input_can_be_json_a_file_or_pairs(flow: Path, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"n": 3}', encoding="utf-8")
    for text in ('{"n": 3}', f"@{tmp_path / 'in.json'}", "n=3"):
        assert json.loads(statewright("run", flow, "--input", text).stdout) == {"n": 6}


def test_a_waiting_run_exits_with_3_and_prints_its_questions(flow: Path) -> None:
    result = statewright("run", f"{flow}:asking", "--input", "n=1")
    assert result.returncode == 3
    assert "how many?" in result.stderr


def test_a_failed_node_exits_with_1_and_is_named(flow: Path) -> None:
    result = statewright("run", f"{flow}:failing", "--input", "n=1")
    assert result.returncode == 1
    assert result.stderr == "Error: ValueError: no luck (in node 'fail', step 1, attempt 1)\n  at flow.py:13 in fail\n"


def test_a_traceback_is_shown_on_request(flow: Path) -> None:
    result = statewright("run", f"{flow}:failing", "--input", "n=1", "--traceback")
    assert result.returncode == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("run", "missing.py"), "File 'missing.py' does not exist"),
        (("run", "notes.txt"), "is not a Python file"),
        (("run", "broken.py"), "cannot be imported: SyntaxError"),
        (("run", "empty.py"), "defines no graph"),
        (("run", "flow.py:grap"), "Did you mean 'graph'?"),
        (("run", "flow.py", "--input", "{n"), "--input '{n' is not valid JSON"),
        (("run", "flow.py", "--input", "@none.json"), "cannot be read"),
        (("run", "flow.py", "--input", "5"), "The input is 5 of type int"),
        (("run", "flow.py", "--input", "n=many"), "Field 'n'"),
        (("run", "flow.py", "--input", "n=1", "--recursion-limit", "0"), "recursion_limit is 0"),
        (("run", "flow.py:wrong"), "node 'bb' does not exist"),
        (("check", "flow.py:wrong"), "node 'bb' does not exist"),
        (("draw", "flow.py", "--output", "no/such/folder.svg"), "cannot be written"),
    ],
)
def test_a_usage_error_exits_with_2_and_prints_one_sentence(flow: Path, args: tuple[str, ...], message: str) -> None:
    (flow.parent / "notes.txt").write_text("", encoding="utf-8")
    (flow.parent / "empty.py").write_text("", encoding="utf-8")
    (flow.parent / "broken.py").write_text("def (", encoding="utf-8")
    result = statewright(*args, cwd=flow.parent)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_with_several_graphs_requires_a_name(tmp_path: Path) -> None:
    text = "from statewright import StateGraph\none = StateGraph({})\ntwo = StateGraph({})\n"
    (tmp_path / "two.py").write_text(text, encoding="utf-8")
    result = statewright("run", "two.py", cwd=tmp_path)
    assert (result.returncode, "one, two" in result.stderr) == (2, True)


def test_ctrl_c_exits_with_130(flow: Path) -> None:
    command = [sys.executable, "-m", "statewright", "run", f"{flow}:sleeping", "--input", "n=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sleeping\n"
        process.send_signal(signal.SIGINT)
        _, error_output = process.communicate(timeout=600)
    assert (process.returncode, error_output) == (130, "Cancelled.\n")


def test_progress_is_shown_on_a_terminal(flow: Path) -> None:
    result, shown = on_a_screen("run", flow, "--input", "n=1", streams=("stderr",))
    assert result.returncode == 0
    assert "double" in shown
    assert "1×" in shown


@pytest.mark.parametrize("format_name", ["ascii", "mermaid", "dot", "svg", "json"])
def test_draw_supports_every_format(flow: Path, format_name: str) -> None:
    result = statewright("draw", flow, "--format", format_name)
    assert result.returncode == 0
    assert "double" in result.stdout


def test_check_counts_the_nodes_of_a_valid_graph(flow: Path) -> None:
    assert statewright("check", flow).stdout.startswith(f"ok: {flow}:graph, 1 node,")


def test_init_writes_a_project_that_runs(tmp_path: Path) -> None:
    assert statewright("init", tmp_path / "new").returncode == 0
    result = statewright("run", "graph.py", "--input", "name=Ada", cwd=tmp_path / "new")
    assert json.loads(result.stdout)["lines"][0] == "Hello, Ada!"


def test_every_command_in_the_readme_of_a_new_project_works(tmp_path: Path) -> None:
    assert statewright("init", tmp_path / "new").returncode == 0
    readme = (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    lines = [line.split() for line in readme.splitlines() if line.startswith("    ")]
    assert [words[:2] for words in lines] == [
        ["statewright", "run"],
        ["statewright", "draw"],
        ["statewright", "check"],
        ["python", "-m"],
    ]
    for program, *words in lines:
        if program == "python":  # -m pytest: see the next test
            assert words[:2] == ["-m", "pytest"]
            continue
        result = statewright(*words, cwd=tmp_path / "new")
        assert (result.returncode, result.stderr) == (0, ""), words


@pytest.mark.parametrize("where", ["new", "."])
def test_the_tests_of_a_new_project_pass_with_plain_pytest(tmp_path: Path, where: str) -> None:
    """From the project and from the folder around it; -P keeps that folder off the path, as `pytest` itself does."""
    assert statewright("init", tmp_path / "new").returncode == 0
    command = [sys.executable, "-P", "-m", "pytest", "-q"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(command, cwd=tmp_path / where, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, "1 passed" in result.stdout) == (0, True), result.stdout


def test_init_replaces_files_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text("mine", encoding="utf-8")
    assert statewright("init", tmp_path).returncode == 2
    assert (tmp_path / "graph.py").read_text(encoding="utf-8") == "mine"
    assert statewright("init", tmp_path, "--force").returncode == 0


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "statewright", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, statewright("--version").stdout, "")


def test_programs_that_tests_start_in_other_folders_import_the_package_under_test() -> None:
    program = "import statewright; print(statewright.__file__)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert Path(output.strip()) == Path(package.__file__)


def test_version_and_help() -> None:
    assert statewright("--version").stdout.startswith("statewright ")
    assert all(verb in statewright("--help").stdout for verb in ("run", "draw", "check", "init"))
