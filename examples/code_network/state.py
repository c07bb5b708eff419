"""What the agents share. A field is one fact about the work, and the router decides by them."""

from __future__ import annotations

from dataclasses import dataclass

from statewright.agents import NetworkRun


@dataclass
class Edit:
    """What is to be done to one file."""

    filename: str
    idea: str
    reasoning: str


@dataclass
class Plan:
    """How the issue will be fixed."""

    thoughts: str
    details: str
    edits: list[Edit]


@dataclass
class Code:
    """The state."""

    repo: str = ""
    """Where the copy of the project lies."""
    plan: Plan | None = None
    done: bool = False


Run = NetworkRun[Code]
"""The run as tools, prompts and routers are given it: `run.state.data` is a `Code`."""
