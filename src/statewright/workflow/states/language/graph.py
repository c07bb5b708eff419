"""How the states of a workflow hang together: nothing here is wrong, but some of it cannot have been meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.model import END_STATE, Definition
from statewright.workflow.states.language.yaml.nodes import Path, shortened

_SHOWN = 10


def check_graph(definition: Definition, findings: Diagnostics, path: Path = ("states",)) -> None:
    """Warn of states that cannot be reached, and of those that `end` cannot be reached from. Loops are fine.

    `path` is where the states are in the file.
    """
    ways = {state.id: state.next.targets for state in definition.states}
    reached = reachable(ways, [definition.states[0].id])
    for place, state in enumerate(definition.states):
        if state.id not in reached:
            message = f"State {shortened(state.id)!r} cannot be reached: no state that runs leads to it."
            advice = "Name it in the next of another state, or remove it."
            findings.warn(Phase.GRAPH, (*path, place), state.at, message, advice)
    _check_endless(definition, ways, reached, findings, path)


def _check_endless(
    definition: Definition, ways: Mapping[str, tuple[str, ...]], reached: set[str], findings: Diagnostics, path: Path
) -> None:
    """Warn once of all states that run and never come to an end."""
    ending = reachable(_turned(ways), [END_STATE])
    stuck = reached - ending
    endless = [(place, state) for place, state in enumerate(definition.states) if state.id in stuck]
    if not endless:
        return
    place, first = endless[0]
    names = ", ".join(shortened(state.id) for _, state in endless[:_SHOWN])
    more = f" and {len(endless) - _SHOWN} more" if len(endless) > _SHOWN else ""
    message = f"From {names}{more}, no way leads to {END_STATE!r}: the run only stops at its recursion_limit."
    advice = f"Let one of them lead to {END_STATE!r}, in a condition for example."
    findings.warn(Phase.GRAPH, (*path, place), first.at, message, advice)


def reachable(ways: Mapping[str, Iterable[str]], starts: Iterable[str]) -> set[str]:
    """The starts and everything that ways lead to from there."""
    seen = set(starts)
    pending = list(seen)
    while pending:
        for target in ways.get(pending.pop(), ()):
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def _turned(ways: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The same ways, walked backwards."""
    turned: dict[str, list[str]] = {}
    for source, targets in ways.items():
        for target in targets:
            turned.setdefault(target, []).append(source)
    return turned
