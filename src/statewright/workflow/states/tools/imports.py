"""`module:function` as what it means."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from statewright.errors import ToolError, suggestion


def import_function(name: str, text: str, folder: Path | None) -> Callable[..., Any]:
    """The function for a tool; modules are looked for in `folder` too. Raises ToolError that says what is missing."""
    module_name, attribute = check_reference(name, text)
    if folder is not None and str(folder) not in sys.path:
        # For good: a module of the project may import its neighbours later too.
        sys.path.insert(0, str(folder))
    module = _imported(name, module_name, folder)
    found = getattr(module, attribute, None)
    if found is None:
        held = cast("dict[str, Any]", vars(module))
        known = [one for one, value in held.items() if callable(value) and not one.startswith("_")]
        raise ToolError(
            f"Tool {name!r} is {text!r}, and {module_name} holds no {attribute!r}. "
            + suggestion(attribute, known, noun="It holds")
        )
    if not callable(found) and not hasattr(found, "call"):
        raise ToolError(f"Tool {name!r} is {text!r}, which is a {type(found).__name__} and no function.")
    return cast("Callable[..., Any]", found)


def check_reference(name: str, text: str) -> tuple[str, str]:
    """The module and the function that a text names. Raises ToolError if it names none."""
    module_name, _, attribute = (part.strip() for part in text.partition(":"))
    if not (attribute.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise ToolError(f"Tool {name!r} is {text[:200]!r}, which names no function. Write it as 'module:function'.")
    return module_name, attribute


def _imported(name: str, module_name: str, folder: Path | None) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            where = f"neither in {folder} nor installed" if folder is not None else "not installed"
            raise ToolError(f"Tool {name!r} is in module {module_name!r}, which is {where}.") from None
        raise ToolError(f"Module {module_name!r} of tool {name!r} cannot be imported: {error}.") from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise ToolError(f"Module {module_name!r} of tool {name!r} cannot be imported: {told}.") from error
