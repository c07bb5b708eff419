"""What a call has spent, and whether its budget allows more."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from statewright.checkpoint import Task
from statewright.clock import Clock, as_seconds
from statewright.graph import Budget


class Spending:
    """Counts of one call and all the subgraphs that it calls. Added to from any thread."""

    __slots__ = (
        "_began",
        "_clock",
        "_lock",
        "cost",
        "has_warned",
        "is_over",
        "steps",
        "tokens",
        "unpriced_tokens",
        "visits",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._lock = threading.Lock()
        self.steps = 0
        self.visits: Counter[str] = Counter()
        self.tokens = 0
        self.cost = 0.0
        self.unpriced_tokens = 0
        """Tokens of models whose price is unknown."""
        self.has_warned = False
        self.is_over = False
        """Whether the budget was used up, and the run is on its way out."""

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def add(self, tokens: int, cost: float) -> None:
        with self._lock:
            self.tokens += tokens
            self.cost += cost
            self.unpriced_tokens += 0 if cost else tokens

    def begin_step(self, tasks: Iterable[Task]) -> None:
        """Count a superstep and the tasks that it runs."""
        with self._lock:
            self.steps += 1
            self.visits.update(task.node for task in tasks)


def warn_unpriced(limit: str, tokens: int) -> None:
    """Log that a limit on cost cannot hold, since the price of some tokens is unknown."""
    logging.getLogger("statewright").warning(
        "%s does not count %d tokens of a model whose price is unknown. Limit tokens or requests too.", limit, tokens
    )


Overrun = tuple[str, Any, Any]
"""What is used up, its limit, and what was spent."""


def overrun(budget: Budget, spending: Spending, due: Iterable[Task]) -> Overrun | None:
    """What does not allow another superstep with these tasks; None if everything does."""
    if budget.max_cost is not None and spending.unpriced_tokens and not spending.has_warned:
        spending.has_warned = True
        warn_unpriced(f"The budget's max_cost of {budget.max_cost:g}", spending.unpriced_tokens)
    checks: list[Overrun] = [
        ("supersteps", budget.max_steps, spending.steps),
        ("seconds", None if budget.max_seconds is None else as_seconds(budget.max_seconds), spending.seconds),
        ("tokens", budget.max_tokens, spending.tokens),
        ("cost", budget.max_cost, spending.cost),
    ]
    visits = budget.max_visits
    for node in dict.fromkeys(task.node for task in due):
        limit = visits.get(node) if isinstance(visits, Mapping) else visits
        checks.append((f"visits of {node!r}", limit, spending.visits[node]))
    return next(((what, limit, spent) for what, limit, spent in checks if limit is not None and spent >= limit), None)
