"""The command line as a whole: which commands there are, and how it ends when something is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statewright import __version__
from statewright.cli import main as cli
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


@pytest.mark.parametrize("name", [*cli.COMMANDS, *cli.GROUPS])
def test_a_command_alone_is_what_it_is_among_all(name: str) -> None:
    def options(command: Any) -> Any:
        return [one.opts for one in command.params], {
            name: options(one) for name, one in getattr(command, "commands", {}).items()
        }

    alone, among_all = cli.build(name).commands, cli.build().commands
    assert list(alone) == [name]
    assert options(alone[name]) == options(among_all[name])


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
        cli.build("draw")(["draw", "flow.py:wrong"], standalone_mode=False)
