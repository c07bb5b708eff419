"""All output of commands: what goes to a terminal has no characters that command it.

Names, errors and values come from models, tools, states and files of others. Other programs get them as they are.
"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Any

from statewright.terminal_text import printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: object = "", *, file: IO[str] | None = None, flush: bool = False) -> None:
    """Print a line, on standard output unless another stream is given."""
    stream = file if file is not None else sys.stdout
    print(fit(str(text), stream), file=stream, flush=flush)


def warn(text: object) -> None:
    """Print a line on standard error."""
    say(text, file=sys.stderr)


def fit(text: str, file: IO[str]) -> str:
    """Return the text as the stream may have it."""
    return printable(text) if file.isatty() else text


def console(**options: Any) -> Console:
    """Make a Rich console whose styles reach the terminal, and whose texts cannot command it."""
    from statewright.cli.console.rich_console import PrintableConsole

    return PrintableConsole(**options)
