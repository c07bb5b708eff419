"""Where an error was raised, as its user sees it: a line of their own code, not one of a library."""

from __future__ import annotations

import os
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import cast

import statewright


def place_of(error: BaseException) -> str | None:
    """Return `at FILE:LINE in FUNCTION` for the innermost line of the user's code; None if there is none.

    What an error was raised from counts if the error itself has not passed through code of the user.
    """
    for link in _chain(error):
        frames = traceback.extract_tb(link.__traceback__)
        own = next((frame for frame in reversed(frames) if _is_users(frame.filename)), None)
        if own is not None:
            return f"at {_shown(own.filename)}:{own.lineno} in {own.name}"
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


def _shown(filename: str) -> str:
    """A path as people here would write it: relative if it is below the current folder."""
    path = Path(filename).resolve()
    try:
        return str(path.relative_to(Path.cwd().resolve()))
    except (OSError, ValueError):  # the folder is gone, or is another one
        return str(path)
