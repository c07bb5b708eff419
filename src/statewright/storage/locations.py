"""Locations of SQLite files: paths and URLs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from statewright.errors import InvalidConfig
from statewright.redaction import Redactor

_PREFIX: Final = "sqlite:///"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|file:|sqlite:")


def path_of(location: str | os.PathLike[str]) -> Path:
    """Return the path for a path or a URL such as `sqlite:///runs.db`; `~` is the home of the user.

    Raises InvalidConfig for a location that is not a file.
    """
    text = os.fspath(location)
    if text.startswith(_PREFIX):
        text = text.removeprefix(_PREFIX)
    elif isinstance(location, str) and _URL.match(text):
        raise InvalidConfig(_refusal(text))
    if text in ("", ":memory:"):
        raise InvalidConfig("A SQLite database needs a file. For threads in memory use InMemorySaver.")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise InvalidConfig(f"The path {text!r} cannot be expanded: {error}. Write the path in full.") from error


def _refusal(url: str) -> str:
    scheme, masked = url.partition(":")[0], Redactor().text(url)
    if scheme.lower() in ("sqlite", "file"):
        return (
            f"The URL {masked!r} is not valid here. Write a path such as 'runs.db', or 'sqlite:///runs.db', where "
            f"the path begins after three slashes, an absolute one with a fourth."
        )
    return (
        f"The URL {masked!r} does not name a SQLite file. Give a path such as 'runs.db', or 'sqlite:///runs.db'; "
        f"there is no storage for {scheme!r} URLs."
    )
