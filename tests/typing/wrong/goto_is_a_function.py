"""A Command to a function, where the name of a node is meant."""

from __future__ import annotations

from typing import Any

from statewright import Command


def work(state: dict[str, Any]) -> None: ...


Command(goto=work)  # pyright=reportArgumentType mypy=arg-type
