"""The names that Statewright and LangGraph share, so that one graph serves both.

Engines are imported on demand: one that is not installed fails in its own figures only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The names that a case needs to build a graph; `Any`, because the two engines share names, not types."""

    StateGraph: Any
    START: str
    END: str
    Send: Any
    Command: Any
    add_messages: Any


EngineLoader = Callable[[], Engine]


def statewright() -> Engine:
    from statewright import END, START, Command, Send, StateGraph, add_messages

    return Engine(StateGraph=StateGraph, START=START, END=END, Send=Send, Command=Command, add_messages=add_messages)


def langgraph() -> Engine:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages
    from langgraph.types import Command, Send

    return Engine(StateGraph=StateGraph, START=START, END=END, Send=Send, Command=Command, add_messages=add_messages)
