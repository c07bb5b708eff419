"""Limits that attempts at tasks share: concurrency, rate limits, circuit breakers, and the budget of a call.

The limits of a node are shared by all runs of a compiled graph, on any thread or event loop. Limits never block: they
return the time to wait, or call back later. `runtime/tasks/retries.py` consults them, and the drivers wait.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from statewright.checkpoint import Task
from statewright.clock import Clock, as_seconds
from statewright.errors import CircuitOpen, RateLimited
from statewright.graph import Budget, CircuitBreaker, RateLimit

Waiter = Callable[[], bool]
"""Called to offer a slot to the code that waits for it. Returns False if it no longer waits: then the next waiter gets
the offer."""


class Slots:
    """A limit on concurrency: a semaphore with a first-in, first-out queue, which calls back instead of blocking."""

    __slots__ = ("_free", "_lock", "_waiters")

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lock = threading.Lock()
        self._waiters: deque[Waiter] = deque()

    def acquire(self, waiter: Waiter) -> bool:
        """Take a slot and return True if one is free. Otherwise return False, and call `waiter` once it has a slot."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            self._waiters.append(waiter)
            return False

    def overdraw(self) -> None:
        """Take a slot even if none is free, for callers that must not wait. A later release pays the debt first."""
        with self._lock:
            self._free -= 1

    def release(self) -> None:
        """Pass a slot on to the first caller that still waits for one, or make it free."""
        while True:
            with self._lock:
                if self._free < 0 or not self._waiters:
                    self._free += 1
                    return
                waiter = self._waiters.popleft()
            if waiter():
                return


class Rate:
    """A token bucket: `limit` tokens are added every `per` seconds, up to `burst`."""

    __slots__ = ("_lock", "_owner", "_policy", "_tokens", "_updated_at")

    def __init__(self, policy: RateLimit, owner: str) -> None:
        self._policy = policy
        self._owner = owner
        """The node or tag whose attempts are limited, as error messages name it."""
        self._tokens = float(policy.burst or policy.limit)
        self._updated_at: float | None = None
        self._lock = threading.Lock()

    def reserve(self, now: float) -> float:
        """Take a token, and return the seconds until it may be used.

        `now` is an instant of the monotonic clock, in seconds. Raises RateLimited if the caller would have to wait, and
        the policy has `on_limit="refuse"`.
        """
        policy = self._policy
        per = as_seconds(policy.per)
        with self._lock:
            tokens_per_second = policy.limit / per
            elapsed = now - self._updated_at if self._updated_at is not None else 0.0
            self._tokens = min(float(policy.burst or policy.limit), self._tokens + elapsed * tokens_per_second)
            self._updated_at = now
            wait = max(0.0, (1.0 - self._tokens) / tokens_per_second)
            if wait > 0 and policy.on_limit == "refuse":
                raise RateLimited(self._owner, policy.limit, per, wait)
            self._tokens -= 1.0  # may become negative, so that each caller has to wait longer than the previous one
        return wait

    def refund(self) -> None:
        """Give back a token that was not used. Callers that are already waiting do not become earlier."""
        with self._lock:
            self._tokens += 1.0


class Circuit:
    """A circuit breaker: opens after too many consecutive failures, and after a while admits one attempt as a probe."""

    __slots__ = ("_failures", "_lock", "_opened_at", "_owner", "_policy", "_probing")

    def __init__(self, policy: CircuitBreaker, owner: str) -> None:
        self._policy = policy
        self._owner = owner
        """The node or tag that is protected, as error messages name it."""
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False
        self._lock = threading.Lock()

    def enter(self, now: float) -> None:
        """Begin an attempt. Raises CircuitOpen while the circuit is open, or while another attempt is probing it.

        `now` is an instant of the monotonic clock, in seconds, here and in `record`.
        """
        with self._lock:
            if self._opened_at is None:
                return
            remaining = self._opened_at + as_seconds(self._policy.reset_after) - now
            if remaining > 0 or self._probing:
                raise CircuitOpen(self._owner, self._failures, max(remaining, 0.0))
            self._probing = True

    def record(self, error: BaseException | None, now: float) -> None:
        """Record the end of an attempt. `error` is None if it succeeded; the policy decides which errors count."""
        with self._lock:
            self._probing = False
            if error is None or not self._policy.counts_as_failure(error):
                self._failures, self._opened_at = 0, None
                return
            self._failures += 1
            if self._failures >= self._policy.failure_threshold:
                self._opened_at = now

    def release(self) -> None:
        """Forget an attempt whose outcome is unknown, so that the next attempt may probe the circuit."""
        with self._lock:
            self._probing = False


# -- the budget of a call


class Spending:
    """The amounts that a call of a graph and all subgraphs below it have spent. Any thread may add to them."""

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
        """The number of supersteps."""
        self.visits: Counter[str] = Counter()
        """By node: the number of tasks that were started."""
        self.tokens = 0
        self.cost = 0.0
        self.unpriced_tokens = 0
        """Tokens of models whose price is unknown, which are not in `cost`."""
        self.has_warned = False
        """True once a warning about such tokens was logged."""
        self.is_over = False
        """True once the budget was exhausted, and the run has gone to the `on_budget` node."""

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return self._clock.monotonic() - self._began

    def add(self, tokens: int, cost: float) -> None:
        """Count a model call; `cost` is 0 if the price of the model is unknown."""
        with self._lock:
            self.tokens += tokens
            self.cost += cost
            self.unpriced_tokens += 0 if cost else tokens

    def begin_step(self, tasks: Iterable[Task]) -> None:
        """Count a superstep that begins, and its tasks."""
        with self._lock:
            self.steps += 1
            self.visits.update(task.node for task in tasks)


def warn_unpriced(limit: str, tokens: int) -> None:
    """Log that a limit on cost does not count some tokens, because their price is unknown.

    `limit` names the limit, as the subject of the sentence.
    """
    logging.getLogger("statewright").warning(
        "%s does not count %d tokens of a model whose price is unknown. Limit tokens or requests too.", limit, tokens
    )


ExceededLimit = tuple[str, Any, Any]
"""The name of an amount, the limit on it, and how much of it was spent."""


def find_exceeded_limit(budget: Budget, spending: Spending, due: Iterable[Task]) -> ExceededLimit | None:
    """Return the first limit of a budget that is used up; None if there is none.

    `due` are the tasks of the next superstep: limits on visits are checked only for their nodes.
    """
    if budget.max_cost is not None and spending.unpriced_tokens and not spending.has_warned:
        spending.has_warned = True
        warn_unpriced(f"The budget's max_cost of {budget.max_cost:g}", spending.unpriced_tokens)
    checks: list[ExceededLimit] = [
        ("supersteps", budget.max_steps, spending.steps),
        ("seconds", None if budget.max_seconds is None else as_seconds(budget.max_seconds), spending.seconds),
        ("tokens", budget.max_tokens, spending.tokens),
        ("cost", budget.max_cost, spending.cost),
    ]
    visits = budget.max_visits
    for node in dict.fromkeys(task.node for task in due):
        limit = visits.get(node) if isinstance(visits, Mapping) else visits
        checks.append((f"visits of {node!r}", limit, spending.visits[node]))
    return next((check for check in checks if check[1] is not None and check[2] >= check[1]), None)
