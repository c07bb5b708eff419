"""Errors of the command line: usage errors, exit codes, and where in the user's code a failure was raised."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn, cast

import statewright
from statewright.cli.console.printing import warn
from statewright.errors import StatewrightError, UnansweredInterrupts, WrongEncryptionKey

DONE, FAILED, USAGE_ERROR, WAITING, CANCELLED, TERMINATED = 0, 1, 2, 3, 130, 143
"""The exit codes."""


class UsageError(Exception):
    """The command line is wrong; the message says what is wrong and what to do."""


def exit_with(message: str, code: int) -> NoReturn:
    """Print a message on standard error and exit."""
    warn(message)
    raise SystemExit(code)


@contextmanager
def report_os_errors(problem: str, advice: str = "") -> Generator[None]:
    """Raise UsageError for an error of the operating system, whose reason follows the problem in the message."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{problem}: {error.strerror}.{advice}") from error


def format_error(error: StatewrightError) -> str:
    """Return the message of an error followed by its error code."""
    if isinstance(error, UnansweredInterrupts):  # its own message is advice for Python code
        return (
            f"Thread {error.thread_id!r} waits for answers ({', '.join(error.open_ids)}), so new input would throw its "
            f"work away. Answer with `statewright resume`, or give another --thread. [{error.code}]"
        )
    hint = " The option for it is --key-file PATH." if isinstance(error, WrongEncryptionKey) else ""
    return f"{error}{hint} [{error.code}]"


def format_failure(error: Exception) -> str:
    """Return the type and message of an error, with the node that raised it."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("in node")]
    sentence = format_error(error) if isinstance(error, StatewrightError) else str(error)
    return f"{type(error).__name__}: {sentence}{f' ({notes[0]})' if notes else ''}"


def format_location(error: Exception) -> list[str]:
    """Return a line with the location of the failure in the user's code; no line if it did not fail there."""
    line = find_user_line(error)
    return [f"  {line}"] if line is not None else []


# -- the location of a failure: a line of the user's own code, not of a library


def find_user_line(error: BaseException) -> str | None:
    """Return `at FILE:LINE in FUNCTION` for the innermost line of the user's code; None if there is none.

    The cause of an error is searched if the error itself has not passed through the user's code.
    """
    for link in _chain(error):
        frames = traceback.extract_tb(link.__traceback__)
        frame = next((frame for frame in reversed(frames) if _is_user_code(frame.filename)), None)
        if frame is not None:
            return f"at {_relative_path(frame.filename)}:{frame.lineno} in {frame.name}"
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error followed by its causes; the first member of a group comes before the group."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and all(link is not seen for seen in chain):
        if isinstance(link, BaseExceptionGroup):
            chain += _chain(cast("BaseExceptionGroup[BaseException]", link).exceptions[0])
        chain.append(link)  # pyright: ignore[reportUnknownArgumentType]
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _is_user_code(filename: str) -> bool:
    """Return True for the user's code: not generated, not installed, not part of Python or of this library."""
    path = Path(filename)
    if not path.is_file() or {"site-packages", "dist-packages"} & set(path.parts):
        return False
    resolved = path.resolve()
    return not any(resolved.is_relative_to(folder) for folder in _library_folders())


@cache
def _library_folders() -> tuple[Path, ...]:
    paths = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(statewright.__file__))
    return tuple(Path(path).resolve() for path in paths)


def _relative_path(filename: str) -> str:
    """Return a path relative to the current folder if it is below that, else the absolute path."""
    path = Path(filename).resolve()
    try:
        return str(path.relative_to(Path.cwd().resolve()))
    except (OSError, ValueError):  # the current folder was deleted, or does not contain the file
        return str(path)
