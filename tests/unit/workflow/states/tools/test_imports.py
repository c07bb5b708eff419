"""Importing functions by `module:function`."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.tools import ToolRegistry, ToolSettings
from statewright.workflow.states.tools.registry import import_function, split_reference


def module_name(folder: Path, kind: str = "") -> str:
    return min(path.stem for path in folder.glob(f"own_*{kind}.py"))


def test_a_function_is_imported(folder: Path) -> None:
    assert import_function("a", f"{module_name(folder)}:triple", folder)(2) == 6
    assert import_function("a", "json:dumps", None)([1]) == "[1]"
    assert split_reference("a", " pack.mod : f ") == ("pack.mod", "f")


def test_missing_modules_and_functions_are_reported(folder: Path) -> None:
    name = module_name(folder)
    references = {
        "a": "no_such_module_anywhere:f",
        "b": f"{name}:tripple",
        "c": f"{name}:number",
        "d": f"{module_name(folder, '_broken')}:f",
        "e": f"{module_name(folder, '_lost')}:f",
    }
    registry = ToolRegistry(references, ToolSettings(folder=folder))
    messages = {
        "a": f"'a' is in module 'no_such_module_anywhere', which is neither in {folder} nor installed",
        "b": "contains no 'tripple'. Did you mean 'triple'? Functions: triple.",
        "c": "is a int, not a function",
        "d": "cannot be imported: ZeroDivisionError: division by zero",
        "e": "cannot be imported: ModuleNotFoundError: No module named 'there_is_no_such_module'",
    }
    for tool, sentence in messages.items():
        with pytest.raises(ToolError) as caught:
            registry.get(tool)
        assert sentence in str(caught.value)


@pytest.mark.parametrize("text", ["module", "module:", ":f", "a b:f", "module:f()", "../x:f", "m:f:g"])
def test_invalid_references_are_rejected(text: str) -> None:
    with pytest.raises(ToolError, match="Write 'module:function'"):
        ToolRegistry({"a": text}).get("a")
