"""Fixtures that call the command line in this process, with a file of graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from statewright.cli.main import main

GRAPHS = """
from typing import TypedDict

from statewright import START, InMemorySaver, StateGraph, interrupt

class State(TypedDict, total=False):
    n: int
    seen: list[str]

def double(state):
    return {"n": state["n"] * 2}

def fail(state):
    raise ValueError("no luck")

def ask(state):
    return {"n": interrupt("how many?")}

def again(state):
    return {"n": state["n"] + 1}

def built(fn):
    graph = StateGraph(State, name=fn.__name__)
    graph.add_node(fn.__name__, fn)
    graph.add_edge(START, fn.__name__)
    return graph

graph = built(double)
failing = built(fail)
asking = built(ask).compile(checkpointer=InMemorySaver())
kept = built(double).compile(checkpointer=InMemorySaver())
endless = built(again)
endless.add_edge("again", "again")
outer = StateGraph(State, name="outer")
outer.add_node("inner", graph.compile())
outer.add_edge(START, "inner")
wrong = StateGraph(State)
wrong.add_node("a", double)
wrong.add_edge(START, "a")
wrong.add_edge("a", "bb")
wrong.add_edge("a", "cc")
"""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., CommandResult]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder. Modules imported from it are removed afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATEWRIGHT_DATABASE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            if name in before:
                sys.modules[name] = before[name]
            else:
                del sys.modules[name]


@pytest.fixture
def flow(folder: Path) -> Path:
    """A file with one graph for each outcome of a run."""
    file = folder / "flow.py"
    file.write_text(GRAPHS, encoding="utf-8")
    return file


@pytest.fixture
def statewright(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that calls the command line like the installed script."""

    def call(*args: object) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["statewright", *map(str, args)])
        capsys.readouterr()
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
        else:
            code = 0
        assert isinstance(code, int)
        output = capsys.readouterr()
        return CommandResult(code, output.out, output.err)

    return call
