"""How a command ends when it can't do what it was asked for."""

from __future__ import annotations

import sys
from typing import NoReturn

DONE, FAILED, WRONG_USE, WAITING, CANCELLED = 0, 1, 2, 3, 130
"""The exit codes."""


class WrongUse(Exception):
    """The command was asked for something that cannot be; one sentence says what, and what to do."""


def end(message: str, code: int) -> NoReturn:
    """Say why on standard error, and leave."""
    print(message, file=sys.stderr)
    raise SystemExit(code)
