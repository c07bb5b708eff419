"""An instance of the state in place of its class."""

from __future__ import annotations

from dataclasses import dataclass

from statewright import StateGraph


@dataclass
class State:
    n: int = 0


StateGraph(State())  # pyright=reportArgumentType mypy=call-overload
