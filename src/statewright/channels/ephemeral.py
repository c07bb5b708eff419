"""A channel for signals: what was written in one superstep is there in the next, and then gone.

The rule in full, for a value written in superstep N: the writer's own conditional edges see it in N; every node of
N+1 sees it; at the barrier of N+1 it is removed unless written again; it never shows in results or snapshots; a
checkpoint between N and N+1 keeps it, so that a crash there does not lose it; siblings in N do not see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from statewright.channels.channel import Channel, Conflict
from statewright.channels.overwrite import Overwrite


class Ephemeral(Channel):
    """Keeps a value for one superstep after the one that wrote it; of several writers the last in task order wins."""

    transient: bool = True
    hidden: ClassVar[bool] = True

    def __init__(self, *, guard: bool = False, lifetime: Literal["next", "step"] = "next") -> None:
        self.guard = guard
        """Whether two writers in one superstep are a conflict, rather than the last one winning."""
        self.lifetime = lifetime
        """`"step"` clears the value before the next superstep: only conditional edges see it."""

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        if self.guard and len(updates) > 1:
            raise Conflict("is guarded")
        value = updates[-1]
        return value.value if type(value) is Overwrite else value
