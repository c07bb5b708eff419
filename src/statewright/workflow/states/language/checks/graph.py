"""Checks of the graph of a workflow, which warn about states that were probably connected by mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.key_types import END_STATE
from statewright.workflow.states.language.model import Definition
from statewright.workflow.states.language.yaml.nodes import Path, shorten

_SHOWN = 10


def check_graph(definition: Definition, diagnostics: Diagnostics, path: Path = ("states",)) -> None:
    """Warn about unreachable states, and about states that cannot reach `end`. Loops are fine.

    `path` is the path of the states in the file.
    """
    edges = {state.id: state.next.targets for state in definition.states}
    reached = find_reachable(edges, [definition.states[0].id])
    for index, state in enumerate(definition.states):
        if state.id not in reached:
            message = f"State {shorten(state.id)!r} cannot be reached: no state that runs leads to it."
            advice = "Name it in the next of another state, or remove it."
            diagnostics.warn(Phase.GRAPH, (*path, index), state.at, message, advice)
    _check_endless(definition, edges, reached, diagnostics, path)


def _check_endless(
    definition: Definition,
    edges: Mapping[str, tuple[str, ...]],
    reached: set[str],
    diagnostics: Diagnostics,
    path: Path,
) -> None:
    """Warn once about all reachable states that cannot reach `end`."""
    ending = find_reachable(_reverse_edges(edges), [END_STATE])
    stuck = reached - ending
    endless = [(index, state) for index, state in enumerate(definition.states) if state.id in stuck]
    if not endless:
        return
    index, first = endless[0]
    names = ", ".join(shorten(state.id) for _, state in endless[:_SHOWN])
    more = f" and {len(endless) - _SHOWN} more" if len(endless) > _SHOWN else ""
    message = f"{END_STATE!r} cannot be reached from {names}{more}: the run only stops at its recursion_limit."
    advice = f"Let one of them lead to {END_STATE!r}, in a condition for example."
    diagnostics.warn(Phase.GRAPH, (*path, index), first.at, message, advice)


def find_reachable(edges: Mapping[str, Iterable[str]], starts: Iterable[str]) -> set[str]:
    """Return the starts and everything reachable from them."""
    seen = set(starts)
    pending = list(seen)
    while pending:
        for target in edges.get(pending.pop(), ()):
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def _reverse_edges(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the graph with all edges reversed."""
    reversed_edges: dict[str, list[str]] = {}
    for source, targets in edges.items():
        for target in targets:
            reversed_edges.setdefault(target, []).append(source)
    return reversed_edges
