"""`module:function` as what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.tools import ToolRegistry, ToolSettings
from statewright.workflow.states.tools.registry import import_function, split_reference


def module(folder: Path, kind: str = "") -> str:
    return min(path.stem for path in folder.glob(f"own_*{kind}.py"))


def test_the_function_is_found(folder: Path) -> None:
    assert import_function("a", f"{module(folder)}:triple", folder)(2) == 6
    assert import_function("a", "json:dumps", None)([1]) == "[1]"
    assert split_reference("a", " pack.mod : f ") == ("pack.mod", "f")


def test_a_module_or_function_that_is_not_there_is_told(folder: Path) -> None:
    name = module(folder)
    texts = {
        "a": "no_such_module_anywhere:f",
        "b": f"{name}:tripple",
        "c": f"{name}:number",
        "d": f"{module(folder, '_broken')}:f",
        "e": f"{module(folder, '_lost')}:f",
    }
    registry = ToolRegistry(texts, ToolSettings(folder=folder))
    told = {
        "a": f"'a' is in module 'no_such_module_anywhere', which is neither in {folder} nor installed",
        "b": "contains no 'tripple'. Did you mean 'triple'? Functions: triple.",
        "c": "is a int, not a function",
        "d": "cannot be imported: ZeroDivisionError: division by zero",
        "e": "cannot be imported: ModuleNotFoundError: No module named 'there_is_no_such_module'",
    }
    for tool, sentence in told.items():
        with pytest.raises(ToolError) as caught:
            registry.get(tool)
        assert sentence in str(caught.value)


@pytest.mark.parametrize("text", ["module", "module:", ":f", "a b:f", "module:f()", "../x:f", "m:f:g"])
def test_a_text_that_names_no_function_is_told(text: str) -> None:
    with pytest.raises(ToolError, match="Write 'module:function'"):
        ToolRegistry({"a": text}).get("a")
