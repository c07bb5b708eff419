"""Slash commands are distinguished from messages."""

from __future__ import annotations

import pytest

from statewright.cli.chat.input import COMMANDS, check_is_not_command, format_commands, read_command
from statewright.cli.console.failure import UsageError


@pytest.mark.parametrize("line", ["/exit", " /exit ", "/help", "/new"])
def test_a_command_is_the_only_word_of_its_line(line: str) -> None:
    command = read_command(line)
    assert command is not None
    assert command.name == line.strip()[1:]


@pytest.mark.parametrize("line", ["exit", "/exit now", "/ex", "/", "//exit", "/usr/bin", ""])
def test_other_lines_are_not_commands(line: str) -> None:
    assert read_command(line) is None


@pytest.mark.parametrize("line", ["/exi", "/retri this"])
def test_a_misspelled_command_is_rejected(line: str) -> None:
    with pytest.raises(UsageError, match=f"Command {line.split()[0]!r} does not exist. Did you mean '/"):
        check_is_not_command(line)


@pytest.mark.parametrize("line", ["hello", "/usr/bin is a folder", "/data is one too", "/ is the root", "1/2"])
def test_paths_are_text(line: str) -> None:
    check_is_not_command(line)


def test_every_command_is_described() -> None:
    assert [line.split()[0] for line in format_commands().splitlines()] == [f"/{name}" for name in COMMANDS]
