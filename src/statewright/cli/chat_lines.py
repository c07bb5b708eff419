"""Lines that somebody types, or that stand in a file or come through a pipe."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import Any

from statewright.cli.printing import warn


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
