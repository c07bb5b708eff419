"""Lines that somebody types, or that stand in a file or come through a pipe."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import Any, Final, NamedTuple

from statewright.cli.console.failure import WrongUse
from statewright.cli.console.printing import warn
from statewright.errors import nearest, suggestion


class Lines:
    """Standard input, line by line. On a terminal lines can be edited, and called back with the arrow keys."""

    def __init__(self) -> None:
        stdin: Any = sys.stdin
        self.is_terminal: bool = stdin.isatty()
        if self.is_terminal:
            with suppress(ImportError):  # not every system has it
                import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]  # input() uses it then
        elif isinstance(stdin, io.TextIOWrapper):
            stdin.reconfigure(errors="replace")

    def read(self, prompt: str) -> str | None:
        """The next line; None at the end of the input. The prompt is shown on a terminal only."""
        if not self.is_terminal:
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None
        try:
            return input(prompt)
        except EOFError:
            warn("")
            return None


# -- Commands within a conversation: lines that begin with a slash.

COMMANDS: Final = {
    "exit": "leaves; the thread is kept",
    "new": "begins another thread",
    "thread": "shows the thread, and how to come back to it",
    "history": "shows what has been said",
    "retry": "goes on with a turn that failed or was stopped",
    "skip": "leaves an open question unanswered, and ends the turn",
    "help": "shows this list",
}


class Command(NamedTuple):
    """One of them."""

    name: str


def read_command(text: str) -> Command | None:
    """The command that a line is; None for what is none."""
    name = text.strip().removeprefix("/")
    return Command(name) if name in COMMANDS and text.strip().startswith("/") else None


def check_is_text(text: str) -> None:
    """Raise WrongUse for what looks like a command and is none: a word alone, or one that is nearly a command."""
    word, *more = text.split()
    known = [f"/{name}" for name in COMMANDS]
    if word.startswith("/") and word[1:].isalpha() and (not more or nearest(word, known)):
        raise WrongUse(f"There is no command {word!r}. {suggestion(word, known, noun='Commands')}")


def told_commands() -> str:
    """The list of them."""
    return "\n".join(f"/{name:8} {meaning}" for name, meaning in COMMANDS.items())
