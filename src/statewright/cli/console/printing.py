"""Printing, with control characters removed from text for a terminal.

Names, errors and values come from models, tools, states and files of unknown origin, so they may contain escape
sequences. Output to a pipe or a file is not altered.
"""

from __future__ import annotations

import sys
from typing import IO

from statewright.terminal_text import printable


def say(text: object = "", *, file: IO[str] | None = None, flush: bool = False) -> None:
    """Print a line on standard output, or on another stream."""
    stream = file if file is not None else sys.stdout
    print(printable_for(str(text), stream), file=stream, flush=flush)


def warn(text: object) -> None:
    """Print a line on standard error."""
    say(text, file=sys.stderr)


def printable_for(text: str, file: IO[str]) -> str:
    """Return the text without control characters if the stream is a terminal, else unchanged."""
    return printable(text) if file.isatty() else text


def pluralize(count: int, noun: str) -> str:
    """Return a count with a noun, which gets a plural `s` unless the count is 1."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
