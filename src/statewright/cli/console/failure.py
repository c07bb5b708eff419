"""How a command ends when it can't do what it was asked for."""

from __future__ import annotations

import os
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import NoReturn, cast

import statewright
from statewright.cli.console.printing import warn
from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    EmptyInputError,
    Forbidden,
    GraphError,
    InvalidConfig,
    InvalidRequest,
    InvalidResume,
    InvalidUpdateError,
    NotFound,
    PayloadTooLarge,
    RequestConflict,
    StatewrightError,
    UnansweredInterrupts,
    Unauthorized,
    WrongKey,
)

DONE, FAILED, WRONG_USE, WAITING, CANCELLED, TERMINATED = 0, 1, 2, 3, 130, 143
"""The exit codes."""
_ASKED_WRONGLY = (
    CheckpointConflict,
    CheckpointNotFound,
    EmptyInputError,
    Forbidden,
    GraphError,
    InvalidConfig,
    InvalidRequest,
    InvalidResume,
    InvalidUpdateError,
    NotFound,
    PayloadTooLarge,
    RequestConflict,
    UnansweredInterrupts,
    Unauthorized,
    WrongKey,
)
"""What another command line would have avoided; the rest are failures."""


class WrongUse(Exception):
    """The command was asked for something that cannot be; one sentence says what, and what to do."""


def end(message: str, code: int) -> NoReturn:
    """Say why on standard error, and leave."""
    warn(message)
    raise SystemExit(code)


def told(error: StatewrightError) -> str:
    """What an error says, and its code for those who look it up."""
    if isinstance(error, UnansweredInterrupts):  # whose own advice is for callers in Python
        return (
            f"Thread {error.thread_id!r} waits for answers ({', '.join(error.open_ids)}), so new input would throw its "
            f"work away. Answer with `statewright resume`, or give another --thread. [{error.code}]"
        )
    hint = " The option for it is --key-file PATH." if isinstance(error, WrongKey) else ""
    return f"{error}{hint} [{error.code}]"


def said(error: Exception) -> str:
    """What failed in a run, and in which node."""
    places = [note for note in getattr(error, "__notes__", ()) if note.startswith("in node")]
    sentence = told(error) if isinstance(error, StatewrightError) else str(error)
    return f"{type(error).__name__}: {sentence}{f' ({places[0]})' if places else ''}"


def place_lines(error: Exception) -> list[str]:
    """The line that says where in the user's code it failed; no line if it was nowhere in it."""
    line = user_line(error)
    return [f"  {line}"] if line is not None else []


def exit_code_of(error: StatewrightError) -> int:
    """How a command ends that meets the error."""
    return WRONG_USE if isinstance(error, _ASKED_WRONGLY) else FAILED


# -- Where an error was raised, as its user sees it: a line of their own code, not one of a library.


def user_line(error: BaseException) -> str | None:
    """Return `at FILE:LINE in FUNCTION` for the innermost line of the user's code; None if there is none.

    What an error was raised from counts if the error itself has not passed through code of the user.
    """
    for link in _chain(error):
        frames = traceback.extract_tb(link.__traceback__)
        own = next((frame for frame in reversed(frames) if _is_users(frame.filename)), None)
        if own is not None:
            return f"at {_relative_path(own.filename)}:{own.lineno} in {own.name}"
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """The error, then what it was raised from; of a group its first member goes before the group."""
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and all(link is not one for one in found):
        if isinstance(link, BaseExceptionGroup):
            found += _chain(cast("BaseExceptionGroup[BaseException]", link).exceptions[0])
        found.append(link)  # pyright: ignore[reportUnknownArgumentType]
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return found


def _is_users(filename: str) -> bool:
    """Whether a file is neither generated, nor installed, nor a part of Python or of this library."""
    path = Path(filename)
    if not path.is_file() or {"site-packages", "dist-packages"} & set(path.parts):
        return False
    resolved = path.resolve()
    return not any(resolved.is_relative_to(folder) for folder in _library_folders())


@cache
def _library_folders() -> tuple[Path, ...]:
    paths = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(statewright.__file__))
    return tuple(Path(one).resolve() for one in paths)


def _relative_path(filename: str) -> str:
    """A path as people here would write it: relative if it is below the current folder."""
    path = Path(filename).resolve()
    try:
        return str(path.relative_to(Path.cwd().resolve()))
    except (OSError, ValueError):  # the folder is gone, or is another one
        return str(path)
