"""More of what a model is asked: the settings that agents pass on with each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from statewright.errors import suggestion
from statewright.models import ModelRequest

_SET_ELSEWHERE: Final = frozenset({"messages", "system", "tools", "tool_choice", "metadata", "model", "continue_last"})
SETTINGS: Final = tuple(one.name for one in fields(ModelRequest) if one.name not in _SET_ELSEWHERE)


def wrong_setting(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the names of settings; None if nothing is."""
    strange = next((name for name in settings if name not in SETTINGS), None)
    if strange is None:
        return None
    return f"settings have {strange!r}. {suggestion(strange, SETTINGS, noun='Settings')}"
