"""`[integrations.NAME]`, and what may be secret anywhere in the file."""

from __future__ import annotations

import re
from typing import Any, Final

from statewright.project.form import kind_of
from statewright.project.lines import Keys
from statewright.project.reader import Reader
from statewright.redaction import looks_secret

_VARIABLE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def read_integration(name: str, given: Any, keys: Keys, reader: Reader) -> dict[str, Any]:
    """The values of an integration, as they are written."""
    values = reader.entries(given, keys)
    for key, value in values.items():
        if isinstance(value, dict):
            read_integration(name, value, (*keys, key), reader)
        elif isinstance(value, str):
            check_secret(key, value, (*keys, key), reader)
        elif not isinstance(value, int | float):
            reader.problem((*keys, key), f"It must be a text, a number or a table, and is {kind_of(value)}.")
    return values


def check_secret(name: str, value: str, keys: Keys, reader: Reader) -> None:
    """Note a variable of the environment that is none, and warn of a secret that stands in the file itself."""
    if value.startswith("env:"):
        if not _VARIABLE.fullmatch(value):
            reader.problem(keys, "What follows env: is no name of a variable.", "Write env:NAME.")
    elif value and looks_secret(name, value):
        reader.warn(
            keys,
            f"The value of {name!r} looks like a secret that stands in the file itself.",
            "Put it into a variable of the environment and write env:NAME.",
        )
