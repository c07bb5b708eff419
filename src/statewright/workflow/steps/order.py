"""Where a run goes from a step: a jump moves the position, and from there the order of the definition goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from statewright.errors import InvalidUpdateError, suggestion
from statewright.graph import END
from statewright.workflow.steps.model import Definition, Step
from statewright.workflow.steps.result import NEXT_STEP


class Order:
    """The steps of a definition in their order."""

    def __init__(self, definition: Definition) -> None:
        self._steps = definition.steps
        self._places = {step.name: place for place, step in enumerate(definition.steps)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    def usual(self, step: Step) -> str:
        """What follows a step that names no other: its `next`, the end, or the step that is written after it."""
        if step.end:
            return END
        if step.next is not None:
            return step.next
        after = self._places[step.name] + 1
        return self._steps[after].name if after < len(self._steps) else END

    def following(self, step: Step, named: Any) -> str:
        """What follows a step whose result names the next one, or None. Raises InvalidUpdateError for no step."""
        if named is None:
            return self.usual(step)
        if isinstance(named, str) and named in self._places:
            return named
        hint = suggestion(str(named), self._places, noun="Steps")
        raise InvalidUpdateError(f"Step {step.name!r} goes on with {NEXT_STEP} {named!r}, which is no step. {hint}")

    def skipped(self, step: Step, target: str, visits: Mapping[str, int]) -> Iterator[str]:
        """The steps that a way forward leaves out, and that have neither run nor been left out before."""
        place = self._places[step.name]
        upto = self._places[target] if target != END else len(self._steps)
        for one in self._steps[place + 1 : upto]:
            if one.name not in visits:
                yield one.name
