"""The command line as a whole: which commands there are, and how it ends when something is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statewright import __version__
from statewright.cli.commands import LazyCommand, list_commands
from statewright.cli.main import build
from statewright.errors import InvalidGraph

COMMANDS = ("run", "resume", "threads", "db", "draw", "check", "test", "schema", "init")


def test_every_command_is_listed_in_the_help(statewright: Any) -> None:
    ended = statewright("--help")
    assert ended.code == 0
    assert [name for name in COMMANDS if name not in ended.out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(statewright: Any, command: str) -> None:
    ended = statewright(command, "--help")
    assert ended.code == 0
    assert "Usage" in ended.out


def iter_commands(commands: dict[str, Any]) -> Iterator[LazyCommand]:
    for command in commands.values():
        yield from [command] if isinstance(command, LazyCommand) else iter_commands(command.commands)


@pytest.mark.parametrize("command", list(iter_commands(list_commands())), ids=lambda command: command._target)
def test_every_command_can_be_loaded_and_fits_on_a_line_of_the_list(command: LazyCommand) -> None:
    loaded = command.load()
    assert loaded.name == command.name
    assert loaded.help
    assert len(command.help or "") <= 64


IMPORTS = """
import sys
from statewright.cli.main import main
sys.argv[1:] = sys.argv[2:]
try:
    main()
finally:
    unwanted = sys.modules.keys() & set({unwanted!r})
    assert not unwanted, unwanted
"""


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        ("--version", ["rich.console", "statewright.runtime", "sqlite3", "asyncio", "pydantic"]),
        ("--help", ["statewright.cli.workflow.run", "statewright.runtime", "sqlite3", "asyncio", "pydantic"]),
        ("threads --help", ["statewright.cli.threads.show", "statewright.runtime", "sqlite3", "asyncio"]),
        ("check flow.py:graph", ["rich.console", "statewright.storage.sqlite", "yaml", "jinja2"]),
        ("threads ls", ["statewright.cli.workflow.load", "statewright.project", "statewright.models"]),
    ],
)
def test_a_command_imports_only_what_it_needs(flow: Path, words: str, unwanted: list[str]) -> None:
    program = [sys.executable, "-c", IMPORTS.format(unwanted=unwanted), "statewright", *words.split()]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "AssertionError" not in ended.stderr


def test_the_version_is_the_version_of_the_package(statewright: Any) -> None:
    ended = statewright("--version")
    assert (ended.code, ended.out, ended.err) == (0, f"statewright {__version__}\n", "")


def test_without_a_command_the_help_is_shown(statewright: Any) -> None:
    ended = statewright()
    assert "Usage" in ended.out + ended.err


@pytest.mark.parametrize(
    "args",
    [
        ("rnu", "flow.py"),
        ("run",),
        ("run", "flow.py", "--no-such-option"),
        ("run", "flow.py", "--recursion-limit", "many"),
        ("draw", "flow.py", "--format", "png"),
        ("draw",),
        ("draw", "flow.py", "one", "too many"),
    ],
)
def test_what_cannot_be_parsed_is_wrong_use(statewright: Any, flow: Path, args: tuple[str, ...]) -> None:
    ended = statewright(*args)
    assert (ended.code, ended.out) == (2, "")
    assert "Usage" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("command", ["run", "draw", "check"])
def test_a_wrong_graph_is_an_error_with_all_its_problems_and_no_traceback(
    statewright: Any, flow: Path, command: str
) -> None:
    ended = statewright(command, "flow.py:wrong")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: ")
    assert "'bb'" in ended.err
    assert "'cc'" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("command", ["run", "draw", "check"])
def test_a_missing_file_is_one_line_on_standard_error(statewright: Any, folder: Path, command: str) -> None:
    ended = statewright(command, "none.py")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "Error: There is no file 'none.py'. Give the path of a Python file that holds a graph.\n"


def test_the_commands_leave_errors_of_the_graph_to_main(flow: Path) -> None:
    with pytest.raises(InvalidGraph):
        build()(["draw", "flow.py:wrong"], standalone_mode=False)
