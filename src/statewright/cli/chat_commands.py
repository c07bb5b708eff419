"""Commands within a conversation: lines that begin with a slash."""

from __future__ import annotations

from typing import Final, NamedTuple

from statewright.cli.failure import WrongUse
from statewright.errors import nearest, suggestion

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
