"""Warnings about a run as a whole: joins that it left half reached, questions that nobody can answer.

They are raised when the run has come to rest and everything is saved, so a program that makes errors of warnings
loses nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from statewright.errors import HiddenMessagesWarning, NoCheckpointerWarning, UnfinishedJoinWarning, UnknownKeyWarning
from statewright.graph import JoinEdge
from statewright.runtime.core.program import Program

_unresumable: Final[WeakSet[Program]] = WeakSet()
"""The graphs of which a warning has said that their questions cannot be answered."""
_unknown_fields: Final[WeakKeyDictionary[Program, set[str]]] = WeakKeyDictionary()
"""Fields of saved states of which a warning has said that a graph does not have them."""


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


def warn_unknown_field(program: Program, name: str, problem: str) -> None:
    """Warn, once for each graph and field, that what a thread has saved is not read any more."""
    warned = _unknown_fields.setdefault(program, set())
    if name in warned:
        return
    warned.add(name)
    warnings.warn(
        f"A saved thread does not fit graph {program.graph.name!r}: {problem} Its value stays saved, and no node "
        f"sees it. If the field was renamed, give the graph a version and a migration; if it was removed, pass "
        f"unknown_keys='drop' to compile().",
        UnknownKeyWarning,
        stacklevel=2,
    )


def warn_hidden_messages(program: Program, node: str) -> None:
    """Warn a reader of the stream mode `messages` that a model in a subgraph spoke, and that nothing was shown."""
    warnings.warn(
        f"The stream of graph {program.graph.name!r} showed no message, though a model in the subgraph {node!r} spoke. "
        f"Stream with subgraphs=True to see messages of subgraphs, or give the node "
        f"metadata={{'transparent': True}}, which shows them as its own.",
        HiddenMessagesWarning,
        stacklevel=4,
    )


def _named(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))
