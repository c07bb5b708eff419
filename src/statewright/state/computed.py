"""Values that are computed when they are read, and never stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any


class Managed:
    """A field that is computed from the current step and the step at which the recursion limit is reached."""

    __slots__ = ("compute", "name")

    def __init__(self, name: str, compute: Callable[[int, int], Any]) -> None:
        self.name = name
        self.compute = compute

    def __repr__(self) -> str:
        return self.name


IsLastStep = Annotated[bool, Managed("IsLastStep", lambda step, stop: step >= stop - 1)]
"""True in the last superstep that the recursion limit allows."""
RemainingSteps = Annotated[int, Managed("RemainingSteps", lambda step, stop: stop - step)]
"""The number of supersteps that the recursion limit allows, this one included."""


class Derived:
    """A field of an output schema that is computed from the channels when a result is read.

    `total: Annotated[int, Derived(lambda values: sum(values["counts"]))]`. `compute` is called with all channels that
    have a value, including those outside of the output, and must not modify them.
    """

    __slots__ = ("compute", "hint")

    def __init__(self, compute: Callable[[Mapping[str, Any]], Any], hint: Any = Any) -> None:
        self.compute = compute
        self.hint = hint
        """The annotated type."""
