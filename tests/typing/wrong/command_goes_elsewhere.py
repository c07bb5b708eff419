"""A Command to a node that is not in the annotation."""

from __future__ import annotations

from typing import Any, Literal

from statewright import Command


def decide(state: dict[str, Any]) -> Command[Literal["left", "right"]]:
    return Command(goto="rigth")  # pyright=reportReturnType mypy=arg-type
