"""The command line as a whole: its commands, its help and its errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statewright import __version__
from statewright.cli.commands import LazyCommand, build_members
from statewright.cli.main import build_command
from statewright.errors import InvalidGraph

COMMANDS = tuple(build_members())


def test_every_command_is_listed_in_the_help(statewright: Any) -> None:
    result = statewright("--help")
    assert result.code == 0
    assert [name for name in COMMANDS if name not in result.out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(statewright: Any, command: str) -> None:
    result = statewright(command, "--help")
    assert result.code == 0
    assert "Usage" in result.out


def iter_commands(commands: dict[str, Any]) -> Iterator[LazyCommand]:
    for command in commands.values():
        yield from [command] if isinstance(command, LazyCommand) else iter_commands(command.commands)


@pytest.mark.parametrize("command", list(iter_commands(build_members())), ids=lambda command: command._target)
def test_the_help_shows_no_type_for_flags(command: LazyCommand) -> None:
    loaded = command.load()
    flags = [param for param in loaded.get_params(loaded.context_class(loaded)) if getattr(param, "is_flag", False)]
    assert "help" in {flag.name for flag in flags}
    assert {flag.metavar for flag in flags} == {""}


@pytest.mark.parametrize("command", list(iter_commands(build_members())), ids=lambda command: command._target)
def test_every_command_can_be_loaded_and_has_a_short_description(command: LazyCommand) -> None:
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
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "AssertionError" not in result.stderr


def test_the_version_is_the_version_of_the_package(statewright: Any) -> None:
    result = statewright("--version")
    assert (result.code, result.out, result.err) == (0, f"statewright {__version__}\n", "")


def test_without_a_command_the_help_is_printed(statewright: Any) -> None:
    result = statewright()
    assert "Usage" in result.out + result.err


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
def test_invalid_command_lines_are_usage_errors(statewright: Any, flow: Path, args: tuple[str, ...]) -> None:
    result = statewright(*args)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith("Error: ")
    assert result.err.endswith(" --help\n")


def test_the_usage_of_a_command_has_its_arguments_without_braces(statewright: Any) -> None:
    usage = statewright("queues", "set", "--help").out
    assert " queues set [OPTIONS] NAME" in usage


@pytest.mark.parametrize("command", ["run", "draw", "check"])
def test_an_invalid_graph_is_reported_with_all_problems_and_no_traceback(
    statewright: Any, flow: Path, command: str
) -> None:
    result = statewright(command, "flow.py:wrong")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert "'bb'" in result.err
    assert "'cc'" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("command", ["run", "draw", "check"])
def test_a_missing_file_is_one_line_on_standard_error(statewright: Any, folder: Path, command: str) -> None:
    result = statewright(command, "none.py")
    assert (result.code, result.out) == (2, "")
    assert result.err == "Error: File 'none.py' does not exist. Pass the path of a Python file that defines a graph.\n"


def test_commands_raise_errors_of_the_graph(flow: Path) -> None:
    with pytest.raises(InvalidGraph):
        build_command()(["draw", "flow.py:wrong"], standalone_mode=False)
