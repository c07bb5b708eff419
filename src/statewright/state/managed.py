"""Values that are computed when a node asks, never stored: how far the run may still go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any


class Managed:
    """A field that is computed from the step and the step at which the limit is reached."""

    __slots__ = ("compute", "name")

    def __init__(self, name: str, compute: Callable[[int, int], Any]) -> None:
        self.name = name
        self.compute = compute

    def __repr__(self) -> str:
        return self.name


IsLastStep = Annotated[bool, Managed("IsLastStep", lambda step, stop: step >= stop - 1)]
"""True in the last superstep that the recursion limit allows."""
RemainingSteps = Annotated[int, Managed("RemainingSteps", lambda step, stop: stop - step)]
"""How many supersteps the recursion limit allows, this one included."""
