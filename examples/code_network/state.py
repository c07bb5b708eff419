"""The shared state of the agents. Each field is one fact about the work, and the router uses them to decide."""

from __future__ import annotations

from dataclasses import dataclass

from statewright.agents import NetworkRun


@dataclass
class Edit:
    """A planned change of one file."""

    filename: str
    idea: str
    reasoning: str


@dataclass
class Plan:
    """A plan to fix the issue."""

    thoughts: str
    details: str
    edits: list[Edit]


@dataclass
class Code:
    """The state."""

    repo: str = ""
    """The folder with the copy of the project."""
    plan: Plan | None = None
    done: bool = False


Run = NetworkRun[Code]
"""The run that tools, prompts and routers receive: `run.state.data` is a `Code`."""
