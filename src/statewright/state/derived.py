"""Fields of results that are worked out of the channels when somebody looks, and never stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Derived:
    """As an annotation in an output schema: `total: Annotated[int, Derived(lambda values: sum(values["counts"]))]`.

    `compute` gets all channels that have a value, also those that results do not show, and must not change them.
    """

    __slots__ = ("compute", "hint")

    def __init__(self, compute: Callable[[Mapping[str, Any]], Any], hint: Any = Any) -> None:
        self.compute = compute
        self.hint = hint
        """The type that it was annotated with."""
