"""The command line, as a user meets it: exit codes, and one sentence when something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import on_a_screen, statewright

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
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs save is left behind nowhere else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATEWRIGHT_DATABASE", raising=False)


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    file = tmp_path / "flow.py"
    file.write_text(GRAPH, encoding="utf-8")
    return file


def test_a_finished_run_prints_its_state_and_nothing_else(flow: Path) -> None:
    done = statewright("run", flow, "--input", "n=21", "--json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"n": 42}, "")


def test_input_may_be_json_a_file_or_pairs(flow: Path, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"n": 3}', encoding="utf-8")
    for given in ('{"n": 3}', f"@{tmp_path / 'in.json'}", "n=3"):
        assert json.loads(statewright("run", flow, "--input", given).stdout) == {"n": 6}


def test_a_waiting_run_exits_with_3_and_prints_its_questions(flow: Path) -> None:
    done = statewright("run", f"{flow}:asking", "--input", "n=1")
    assert done.returncode == 3
    assert "how many?" in done.stderr


def test_a_failed_node_exits_with_1_and_is_named(flow: Path) -> None:
    done = statewright("run", f"{flow}:failing", "--input", "n=1")
    assert done.returncode == 1
    assert done.stderr == "Error: ValueError: no luck (in node 'fail', step 1, attempt 1)\n  at flow.py:13 in fail\n"


def test_a_traceback_is_shown_only_when_asked_for(flow: Path) -> None:
    done = statewright("run", f"{flow}:failing", "--input", "n=1", "--traceback")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("run", "missing.py"), "There is no file 'missing.py'"),
        (("run", "notes.txt"), "is not a Python file"),
        (("run", "broken.py"), "cannot be imported: SyntaxError"),
        (("run", "empty.py"), "holds no graph"),
        (("run", "flow.py:grap"), "Did you mean 'graph'?"),
        (("run", "flow.py", "--input", "{n"), "--input '{n' is not valid JSON"),
        (("run", "flow.py", "--input", "@none.json"), "cannot be read"),
        (("run", "flow.py", "--input", "5"), "The input is 5 of type int"),
        (("run", "flow.py", "--input", "n=many"), "Field 'n'"),
        (("run", "flow.py", "--input", "n=1", "--recursion-limit", "0"), "recursion_limit is 0"),
        (("run", "flow.py:wrong"), "there is no node 'bb'"),
        (("check", "flow.py:wrong"), "there is no node 'bb'"),
        (("draw", "flow.py", "--output", "no/such/folder.svg"), "cannot be written"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_2(flow: Path, args: tuple[str, ...], said: str) -> None:
    (flow.parent / "notes.txt").write_text("", encoding="utf-8")
    (flow.parent / "empty.py").write_text("", encoding="utf-8")
    (flow.parent / "broken.py").write_text("def (", encoding="utf-8")
    done = statewright(*args, cwd=flow.parent)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_two_graphs_without_a_usual_name_have_to_be_told_apart(tmp_path: Path) -> None:
    text = "from statewright import StateGraph\none = StateGraph({})\ntwo = StateGraph({})\n"
    (tmp_path / "two.py").write_text(text, encoding="utf-8")
    done = statewright("run", "two.py", cwd=tmp_path)
    assert (done.returncode, "one, two" in done.stderr) == (2, True)


def test_ctrl_c_exits_with_130(flow: Path) -> None:
    command = [sys.executable, "-m", "statewright", "run", f"{flow}:sleeping", "--input", "n=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sleeping\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    assert (process.returncode, said) == (130, "Cancelled.\n")


def test_progress_is_shown_on_a_terminal(flow: Path) -> None:
    done, shown = on_a_screen("run", flow, "--input", "n=1", streams=("stderr",))
    assert done.returncode == 0
    assert "double" in shown
    assert "1×" in shown


@pytest.mark.parametrize("form", ["ascii", "mermaid", "dot", "svg", "json"])
def test_draw_knows_every_format(flow: Path, form: str) -> None:
    done = statewright("draw", flow, "--format", form)
    assert done.returncode == 0
    assert "double" in done.stdout


def test_check_counts_what_is_right(flow: Path) -> None:
    assert statewright("check", flow).stdout.startswith("ok: double, 1 node,")


def test_init_writes_a_project_that_runs(tmp_path: Path) -> None:
    assert statewright("init", tmp_path / "new").returncode == 0
    done = statewright("run", "graph.py", "--input", "name=Ada", cwd=tmp_path / "new")
    assert json.loads(done.stdout)["lines"][0] == "Hello, Ada!"


def test_every_command_that_the_readme_of_a_new_project_names_works(tmp_path: Path) -> None:
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
        done = statewright(*words, cwd=tmp_path / "new")
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.parametrize("where", ["new", "."])
def test_the_tests_of_a_new_project_pass_with_plain_pytest(tmp_path: Path, where: str) -> None:
    """From the project as from the folder around it, which, as for the script `pytest`, is not on the path: -P."""
    assert statewright("init", tmp_path / "new").returncode == 0
    command = [sys.executable, "-P", "-m", "pytest", "-q"]
    plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path / where, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_init_replaces_nothing_unless_told_to(tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text("mine", encoding="utf-8")
    assert statewright("init", tmp_path).returncode == 2
    assert (tmp_path / "graph.py").read_text(encoding="utf-8") == "mine"
    assert statewright("init", tmp_path, "--force").returncode == 0


def test_the_package_is_run_as_a_module() -> None:
    command = [sys.executable, "-m", "statewright", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, statewright("--version").stdout, "")


def test_version_and_help() -> None:
    assert statewright("--version").stdout.startswith("statewright ")
    assert all(verb in statewright("--help").stdout for verb in ("run", "draw", "check", "init"))
