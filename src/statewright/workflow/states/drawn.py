"""The transitions of a state as they are drawn: those that its author wrote, with what decides between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from statewright.graph import END
from statewright.workflow.states.model import END_STATE, Next

LONGEST = 40
"""Characters of a label."""
Arrow = tuple[str, str, str]
"""Where it leads, of which kind it is, and what stands beside it."""


def arrows(way: Next, node_of: Callable[[str], str]) -> list[Arrow]:
    """The arrows of a state; `node_of` gives the node of a state."""
    return [(END if target == END_STATE else node_of(target), kind, label) for target, kind, label in _arrows(way)]


def _arrows(way: Next) -> Iterator[Arrow]:
    if way.condition is not None:
        yield way.condition.then, "conditional", shortened(way.condition.expression.text)
        yield way.condition.otherwise, "conditional", "otherwise"
    elif way.switch is not None:
        for case in way.switch.cases:
            yield case.state_id, "conditional", shortened(case.condition.text)
        yield way.switch.default, "conditional", "default"
    else:
        label = f"each of {way.iter_key}" if way.iter_key is not None else ""
        for target in way.targets:
            yield target, "plain", shortened(label)


def shortened(text: str) -> str:
    """A label of one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"
