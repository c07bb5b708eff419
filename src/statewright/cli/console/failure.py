"""Errors of the command line: usage errors, exit codes, messages, and the location of a failure in the user's code."""

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
"""Exit codes. WAITING also covers a paused run. Shells use 130 and 143 for processes ended by SIGINT and SIGTERM."""


class UsageError(Exception):
    """A wrong command line, or a file or environment that cannot be used; the message says what to do."""

    exit_code = USAGE_ERROR


class NoTables(UsageError):
    """A database without tables of Statewright, which another process may yet create: the command line is right."""

    exit_code = FAILED


def exit_with(message: str, code: int) -> NoReturn:
    """Print a message on standard error, unless it is empty, and exit."""
    if message:
        warn(message)
    raise SystemExit(code)


@contextmanager
def report_os_errors(problem: str, advice: str = "") -> Generator[None]:
    """Turn an OSError into a UsageError with the message `PROBLEM: REASON. ADVICE`."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{problem}: {error.strerror}.{f' {advice}' if advice else ''}") from error


def format_error(error: StatewrightError) -> str:
    """Return the message of an error followed by its error code."""
    if isinstance(error, UnansweredInterrupts):  # its own message advises authors of Python code
        return (
            f"Thread {error.thread_id!r} is waiting for answers ({', '.join(error.open_ids)}); new input would discard "
            f"its work. Answer with `statewright resume`, or use another --thread. [{error.code}]"
        )
    hint = " Use the option --key-file PATH." if isinstance(error, WrongEncryptionKey) else ""
    return f"{error}{hint} [{error.code}]"


def format_failure(error: Exception) -> str:
    """Return the type and message of an error, with the node that raised it."""
    note = node_note(error)
    message = format_error(error) if isinstance(error, StatewrightError) else str(error)
    return f"{type(error).__name__}: {message}{f' ({note})' if note else ''}"


def node_note(error: Exception) -> str | None:
    """Return the note `in node NAME ...` that the runtime adds to an error raised by a node; None if there is none."""
    return next((note for note in getattr(error, "__notes__", ()) if note.startswith("in node")), None)


def format_location(error: Exception) -> list[str]:
    """Return the location of a failure in the user's code as lines to print: one line, or none if it is unknown."""
    line = find_user_line(error)
    return [f"  {line}"] if line is not None else []


# -- the location of a failure: a line of the user's own code, not of a library


def find_user_line(error: BaseException) -> str | None:
    """Return `at FILE:LINE in FUNCTION` for the innermost line of the user's code; None if there is none.

    If the error itself did not pass through the user's code, its causes are searched.
    """
    frame = find_user_frame(error)
    return f"at {_relative_path(frame.filename)}:{frame.lineno} in {frame.name}" if frame is not None else None


def find_user_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the frame of `find_user_line`; None if there is none."""
    for link in _chain(error):
        frames = traceback.extract_tb(link.__traceback__)
        frame = next((frame for frame in reversed(frames) if _is_user_code(frame.filename)), None)
        if frame is not None:
            return frame
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error followed by its causes. The first member of an exception group comes before the group."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and all(link is not seen for seen in chain):
        if isinstance(link, BaseExceptionGroup):
            chain += _chain(cast("BaseExceptionGroup[BaseException]", link).exceptions[0])
        chain.append(link)  # pyright: ignore[reportUnknownArgumentType]
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _is_user_code(filename: str) -> bool:
    """Return True for a file that is not generated, not installed, and not part of Python or of this library."""
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
    """Return a path inside the current folder relative to that folder, and any other path as an absolute path."""
    path = Path(filename).resolve()
    try:
        return str(path.relative_to(Path.cwd().resolve()))
    except (OSError, ValueError):  # the current folder was deleted, or does not contain the file
        return str(path)
