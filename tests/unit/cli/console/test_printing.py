"""Output for a terminal contains no control characters of values; output for programs is unchanged."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.programs import on_a_screen

import statewright
from statewright.cli.console.printing import say
from statewright.cli.console.table import PrintableConsole

EVIL = "\a\x1b[2J\x9b31m\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\\r\u202eover"
_RICH = re.compile(r"\x1b\[[\d;]*m|\x1b\[\d*[AK]|\x1b\[\?25[lh]")
"""The control sequences of Rich: styles, and cursor movements of the progress display."""
COMMANDS = Path(statewright.__file__).parent / "cli"
PROGRAM = f"""
from typing import TypedDict

from statewright import START, StateGraph, interrupt

EVIL = {EVIL!r}

class State(TypedDict, total=False):
    text: str
    answer: str

def say(state):
    return {{"text": EVIL}}

def ask(state):
    return {{"answer": interrupt(EVIL)}}

def fail(state):
    raise ValueError(EVIL)

def built(*nodes):
    graph = StateGraph(State, name="evil")
    for node in nodes:
        graph.add_node(node.__name__, node)
    graph.add_edge(START, nodes[0].__name__)
    for node, next_node in zip(nodes, nodes[1:]):
        graph.add_edge(node.__name__, next_node.__name__)
    return graph

says, asks, fails = built(say), built(say, ask), built(say, fail)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evil.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


def terminal_output(folder: Path, *words: str) -> str:
    """Run a command on a terminal, and return its output."""
    return on_a_screen(*words, cwd=folder, columns=80)[1]


def check_is_harmless(text: str) -> None:
    rest = _RICH.sub("", text).replace("\r\n", "\n").replace("\r", "")  # Rich redraws a line
    assert all(character.isprintable() or character in "\n\t" for character in rest), ascii(text)
    assert "\x1b[2J" not in text
    assert "\x1b[31m\x1b" not in text


def test_values_and_errors_cannot_control_the_terminal(folder: Path) -> None:
    for words, exit_text in (
        (("run", "evil.py:says", "--thread", "a"), "over"),
        (("run", "evil.py:asks", "--thread", "b"), "over"),
        (("run", "evil.py:fails", "--thread", "c"), "over"),
        (("run", "evil.py:fails", "--thread", "d", "--traceback"), "over"),
        (("threads", "ls"), "waiting"),
        (("threads", "show", "a"), "over"),
        (("threads", "show", "b"), "over"),
        (("threads", "diff", "a", "0", "1"), "over"),
        (("run", f"{EVIL}.py"), "does not exist"),
    ):
        text = terminal_output(folder, *words)
        check_is_harmless(text)
        assert exit_text in text, words


def test_output_to_programs_is_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    assert capsys.readouterr().out == f"{EVIL}\n"


def test_a_console_keeps_its_own_styles(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.text import Text

    PrintableConsole(force_terminal=True, color_system="standard").print(Text(EVIL, style="red"))
    assert capsys.readouterr().out == "\x1b[31mlinkover\x1b[0m\n"


def test_all_output_of_commands_goes_through_one_module() -> None:
    for file in COMMANDS.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        if file.name != "printing.py":
            assert not called & {"print", "Console"}, f"{file.name} does not print with cli/console/printing.py"
