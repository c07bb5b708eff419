"""The parts of a run that do not change while it runs: its options, and the services that it uses.

Most runs of a compiled graph share these objects: a call without options uses the objects that `compile` has made, and
a subgraph without services of its own uses those of its caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from statewright.cache import Cache
from statewright.clock import Clock
from statewright.graph import Budget, RunStarter
from statewright.runtime.config import Durability, OnBusy, OnUnfinished

if TYPE_CHECKING:
    from statewright.store import Store


class RunConfig(NamedTuple):
    """The options that the caller of a run has chosen.

    A subgraph inherits them, except breakpoints, `on_unfinished` and `on_busy`.
    """

    context: Any = None
    budget: Budget | None = None
    durability: Durability = "async"
    breaks_before: frozenset[str] = frozenset()
    breaks_after: frozenset[str] = frozenset()
    on_unfinished: OnUnfinished | None = None
    on_busy: OnBusy = "reject"
    sibling_grace: float | None = 0.0
    """Seconds to wait for running plain functions after a sibling has failed; None to wait without limit."""
    keeps_calls: bool = False
    """True if the checkpoints of subgraph calls are kept after the calling tasks have ended."""
    refuses_changed_questions: bool = False
    """True if asking an answered question again in other words is an error instead of a warning."""

    @property
    def has_breaks(self) -> bool:
        """True if the run has a breakpoint at any node."""
        return bool(self.breaks_before or self.breaks_after)

    @property
    def is_neutral(self) -> bool:
        """True if a subgraph that was compiled with these options adopts the options of its caller unchanged."""
        return not (
            self.budget or self.breaks_before or self.breaks_after or self.keeps_calls or self.refuses_changed_questions
        )


class RunPorts(NamedTuple):
    """The services that a run uses.

    The saver is not among them, because a subgraph may save nothing although its caller does.
    """

    clock: Clock
    store: Store | None = None
    cache: Cache | None = None
    starter: RunStarter | None = None
    """Starts the child runs that nodes request; None outside a service, where there are no child runs."""
