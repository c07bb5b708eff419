"""Warnings about a run as a whole: joins that it left half reached, questions that nobody can answer.

They are raised when the run has come to rest and everything is saved, so a program that makes errors of warnings
loses nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Final
from weakref import WeakSet

from statewright.errors import NoCheckpointerWarning, UnfinishedJoinWarning
from statewright.graph import JoinEdge
from statewright.runtime.program import Program

_unresumable: Final[WeakSet[Program]] = WeakSet()
"""The graphs of which a warning has said that their questions cannot be answered."""


def describe_unfinished(join: JoinEdge, arrived: Iterable[str]) -> str:
    """Say which join edge was not completed, who arrived and who did not."""
    came = [start for start in join.starts if start in set(arrived)]
    missing = [start for start in join.starts if start not in came]
    return f"{list(join.starts)} -> {join.end!r}: {_named(came)} arrived, {_named(missing)} did not"


def warn_unfinished(program: Program, joins: Iterable[str]) -> None:
    """Warn of joins that a run left half reached, in the log too."""
    import logging  # few runs need it

    graph = program.graph.name
    for join in joins:
        logging.getLogger("statewright").warning("Graph %r ended with an unfinished join edge %s.", graph, join)
        warnings.warn(
            f"Graph {graph!r} ended before a join edge was complete, so that edge led nowhere: {join}. Lead every path "
            f"to the join, or use plain edges and join='reachable', which waits only for what can still come.",
            UnfinishedJoinWarning,
            stacklevel=2,
        )


def warn_unresumable(program: Program) -> None:
    """Warn, once for each graph, that a run which waits cannot be resumed as nothing is saved."""
    if program in _unresumable:
        return
    _unresumable.add(program)
    warnings.warn(
        f"Graph {program.graph.name!r} waits for an answer, and has no checkpointer: the run cannot be resumed. "
        f"Compile it with one, e.g. compile(checkpointer=InMemorySaver()), and call it with a thread_id.",
        NoCheckpointerWarning,
        stacklevel=2,
    )


def _named(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))
