"""`[handlers]`: where the functions behind task steps are."""

from __future__ import annotations

from typing import Any, Final

from statewright.project.form import TEXTS
from statewright.project.reader import Reader

_HANDLERS: Final = {"modules": TEXTS}


def read_handlers(given: Any, reader: Reader) -> tuple[str, ...]:
    """The modules that may be named in steps."""
    modules: list[str] = reader.table(given, ("handlers",), _HANDLERS, strict=True).get("modules", [])
    for one in modules:
        if one.endswith(".py") or not all(part.isidentifier() for part in one.split(".")):
            advice = "Write it as Python imports it, such as 'outreach.handlers'."
            reader.problem(("handlers", "modules"), f"{one!r} is no name of a module.", advice)
    return tuple(dict.fromkeys(modules))
