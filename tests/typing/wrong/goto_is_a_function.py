"""A Command to a function in place of the name of a node."""

from __future__ import annotations

from typing import Any

from statewright import Command


def work(state: dict[str, Any]) -> None: ...


Command(goto=work)  # pyright=reportArgumentType mypy=arg-type
