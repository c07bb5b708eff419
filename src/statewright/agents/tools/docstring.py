"""What a docstring says about a function and its parameters: Google's `Args:` and Sphinx's `:param name:`."""

from __future__ import annotations

import inspect
import re
from typing import Final, NamedTuple

_HEADING: Final = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENTS: Final = ("Args", "Arguments", "Parameters")
_NAMED: Final = re.compile(r"(\s*)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_FIELD: Final = re.compile(r":param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


class Docstring(NamedTuple):
    """What was said."""

    description: str
    """What it does, without the sections after."""
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """The parts of a docstring."""
    description: list[str] = []
    parameters: dict[str, str] = {}
    section: str | None = None
    for line in inspect.cleandoc(text or "").splitlines():
        heading = _HEADING.match(line)
        field = _FIELD.match(line)
        if heading or line.startswith(":"):
            section = heading[1] if heading else ":"
        if field:
            parameters[field[1]] = field[2].strip()
        elif section in _ARGUMENTS and not heading:
            _add(parameters, line)
        elif section is None:
            description.append(line)
    return Docstring("\n".join(description).strip(), parameters)


def _add(parameters: dict[str, str], line: str) -> None:
    """A line of a section of arguments: the next one, or more about the last."""
    named = _NAMED.match(line)
    deep = len(line) - len(line.lstrip()) > 4
    if named and not (deep and parameters):
        parameters[named[2]] = named[3].strip()
    elif parameters and line.strip():
        last = next(reversed(parameters))
        parameters[last] = f"{parameters[last]} {line.strip()}".strip()
