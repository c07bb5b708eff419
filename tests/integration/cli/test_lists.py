"""Lists on a terminal with 80 columns, and the same lists when a program reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import programs
from tests.integration.cli.conftest import Statewright
from tests.integration.cli_server import serving

WIDTH = 80
LONG = "a-node-with-a-name-that-is-longer-than-most-others"
GRAPHS = """
from typing import TypedDict
from statewright import START, StateGraph, interrupt
from statewright.workflow.steps import task_handler

class State(TypedDict, total=False):
    n: int

def double(state):
    return {"n": state["n"] * 2}

def ask(state):
    return {"n": interrupt("how many " * 20)}

flow = StateGraph(State, name="flow")
flow.add_node("LONG", double)
flow.add_node("LONG-too", ask)
flow.add_edge(START, "LONG")
flow.add_edge("LONG", "LONG-too")
graph = flow.compile()

@task_handler("write")
def write(ctx):
    return {"status": "completed", "stateUpdates": {"text": "Hello, " * 30}}
""".replace("LONG", LONG)
MAIL = {
    "name": "mail-that-is-sent-when-somebody-has-agreed",
    "version": "1",
    "description": "Sends a mail " * 12,
    "steps": [
        {"name": "write", "type": "task", "handler": "write"},
        {"name": LONG, "type": "approval", "contentKey": "text", "prompt": "Send it? " * 10},
    ],
}
LISTS = [
    ("runs", "ls"),
    ("runs", "show", "RUN"),
    ("runs", "approve"),
    ("definitions", "ls"),
    ("threads", "ls", "--database", "runs.db"),
    ("threads", "show", "RUN", "--database", "runs.db"),
    ("threads", "history", "RUN", "--database", "runs.db"),
    ("keys", "ls", "--database", "runs.db"),
    ("workspaces", "ls", "--database", "runs.db"),
    ("workers", "ls", "--database", "runs.db"),
    ("queues", "ls", "--database", "runs.db"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, str]]:
    """The folder of a server that has something for each list to show, its URL, and the id of a run."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "flow.py").write_text(GRAPHS, encoding="utf-8")
    (folder / "mail.json").write_text(json.dumps(MAIL), encoding="utf-8")
    with serving(folder, "dev", "flow.py", "--port", "0", "--no-reload", "--database", "runs.db") as process:

        def call(*words: str, code: int = 0) -> str:
            result = programs.statewright(*words, cwd=folder, env={"STATEWRIGHT_URL": process.url})
            assert result.returncode == code, result.stderr
            return result.stdout.strip()

        call("definitions", "add", "mail.json")
        call("keys", "create", "the key of somebody with a long name", "--database", "runs.db")
        call("workspaces", "create", "north", "--name", "All that is north " * 5, "--database", "runs.db")
        mail = call("runs", "start", str(MAIL["name"]), "--tag", "first", "--tag", "second")
        run = call("runs", "start", "flow", "--input", "n=1")
        for run_id in (mail, run):
            call("runs", "watch", run_id, code=3)
        yield folder, process.url, run


@pytest.fixture
def run(served: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a run, in the folder of its server."""
    folder, url, run = served
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STATEWRIGHT_URL", url)
    return run


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_lists_fit_the_width_of_a_terminal_without_losing_text(
    statewright: Statewright, run: str, words: tuple[str, ...]
) -> None:
    command = [run if word == "RUN" else word for word in words]
    piped = statewright(*command)
    assert (piped.returncode, piped.stderr) == (0, "")
    on_terminal, shown = programs.on_a_screen(*command, columns=WIDTH)
    assert on_terminal.returncode == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(len(line) for line in text.splitlines()) <= WIDTH, text
    assert sorted("".join(text.split())) == sorted("".join(piped.stdout.split()))


@pytest.mark.parametrize("words", [words for words in LISTS if words[1] != "show"], ids=" ".join)
def test_each_record_is_one_line_for_programs(statewright: Statewright, run: str, words: tuple[str, ...]) -> None:
    command = [run if word == "RUN" else word for word in words]
    lines = statewright(*command).stdout.splitlines()
    records = json.loads(statewright(*command, "--json").stdout)
    assert len(lines) == 1 + len(records) > 1
