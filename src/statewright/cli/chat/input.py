"""Input of a conversation: lines from a terminal, a file or a pipe, and the commands among them."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import Any, Final, NamedTuple

from statewright.cli.console.failure import UsageError
from statewright.cli.console.printing import warn
from statewright.errors import nearest, suggestion


class Lines:
    """Standard input, line by line. On a terminal, lines can be edited and recalled with the arrow keys."""

    def __init__(self) -> None:
        stdin: Any = sys.stdin
        self.is_terminal: bool = stdin.isatty()
        if self.is_terminal:
            with suppress(ImportError):  # not available on every system
                import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]  # input() uses it then
        elif isinstance(stdin, io.TextIOWrapper):
            stdin.reconfigure(errors="replace")

    def read(self, prompt: str) -> str | None:
        """Return the next line, or None at the end of the input. The prompt is shown on a terminal only."""
        if not self.is_terminal:
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None
        try:
            return input(prompt)
        except EOFError:
            warn("")
            return None


# -- commands: lines that begin with a slash

COMMANDS: Final = {
    "exit": "leaves; the thread is kept",
    "new": "begins another thread",
    "thread": "shows the thread, and how to come back to it",
    "history": "shows what has been said",
    "retry": "continues a turn that failed or was stopped",
    "skip": "leaves an open question unanswered, and ends the turn",
    "help": "shows this list",
}


class Command(NamedTuple):
    """A command that was typed."""

    name: str


def read_command(text: str) -> Command | None:
    """Return the command of a line, or None if the line is not a command."""
    name = text.strip().removeprefix("/")
    return Command(name) if name in COMMANDS and text.strip().startswith("/") else None


def check_is_not_command(text: str) -> None:
    """Raise UsageError for an unknown command: a single word after a slash, or a near miss of a command."""
    word, *more = text.split()
    commands = [f"/{name}" for name in COMMANDS]
    if word.startswith("/") and word[1:].isalpha() and (not more or nearest(word, commands)):
        raise UsageError(f"There is no command {word!r}. {suggestion(word, commands, noun='Commands')}")


def format_commands() -> str:
    """Return the list of commands with their descriptions."""
    return "\n".join(f"/{name:8} {meaning}" for name, meaning in COMMANDS.items())
