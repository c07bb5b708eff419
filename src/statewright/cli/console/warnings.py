"""Redirection of this library's warnings to standard error, or to the log of a server or worker."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any


def redirect_warnings(write: Callable[[str], object]) -> ExitStack:
    """Pass the texts of this library's warnings to a function, until the returned stack is closed.

    The source line that issued a warning is left out, because it would not help a user. Other warnings are shown as
    before.
    """
    show_as_before = warnings.showwarning

    def show(
        message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if category.__module__.partition(".")[0] == "statewright":
            write(str(message))
        else:
            show_as_before(message, category, filename, lineno, file, line)

    def restore() -> None:
        if warnings.showwarning is show:
            warnings.showwarning = show_as_before

    warnings.showwarning = show
    redirection = ExitStack()
    redirection.callback(restore)
    return redirection
