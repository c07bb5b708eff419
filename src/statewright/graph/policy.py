"""Policies of nodes and runs, as data: what to do about failure, slowness, crowds, repetition and cost.

A policy checks itself when it is made, and raises InvalidGraph with everything that is wrong about it. What carries
policies out is in `runtime/`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from statewright.backoff import backoff
from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidGraph, ModelAnswerInvalid, NodeTimeoutError, RateLimited, RunError

ErrorChoice = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
"""Exception types, or a function of the exception."""


def default_retry_on(error: BaseException) -> bool:
    """Return whether a retry may help after an error: timeouts, broken connections, and unexpected errors.

    Errors that say that the program or its data is wrong are not tried again; of HTTP errors those of the server
    (status 500 and above) and 429 are.
    """
    if isinstance(error, NodeTimeoutError | RateLimited | ConnectionError | TimeoutError):
        return True
    if isinstance(error, RunError):
        return False
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status >= 500 or status == 429
    return not isinstance(error, _WRONG)


_WRONG = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    ReferenceError,
    RuntimeError,
    StopAsyncIteration,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)


def _chosen(choice: ErrorChoice, error: BaseException) -> bool:
    return isinstance(error, choice) if isinstance(choice, type | tuple) else bool(choice(error))


def _choice_problems(name: str, choice: Any) -> Iterable[str]:
    kinds = cast("tuple[Any, ...]", choice) if isinstance(choice, tuple) else (choice,)
    if any(not callable(kind) or (isinstance(kind, type) and not issubclass(kind, BaseException)) for kind in kinds):
        yield f"{name} is {choice!r}. Give exception types, or a function of the exception."


class _Policy:
    """Base of all policies, which validate themselves."""

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise InvalidGraph(problems, graph=type(self).__name__)

    def _problems(self) -> Iterable[str]:
        return ()

    def _not_below(self, least: float, *names: str) -> Iterable[str]:
        """Return the problems of numbers and durations that must be at least `least`."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not (_is_duration(value) and as_seconds(value) >= least):
                yield f"{name} is {value!r}. Give a number of at least {least:g}."

    def _above_zero(self, *names: str) -> Iterable[str]:
        for name in names:
            value = getattr(self, name)
            if value is not None and not (_is_duration(value) and as_seconds(value) > 0):
                yield f"{name} is {value!r}. Give a number above 0."


def _is_duration(value: object) -> bool:
    return hasattr(value, "total_seconds") or (isinstance(value, int | float) and not isinstance(value, bool))


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy(_Policy):
    """Try a failed node again, after a while that grows."""

    initial_interval: Duration = 0.5
    """Before the second attempt."""
    backoff_factor: float = 2.0
    """By what the interval grows from attempt to attempt."""
    max_interval: Duration = 128.0
    max_attempts: int = 3
    """The total number of attempts."""
    jitter: bool = True
    """True to add a random delay of up to a second, at most the interval itself, so that retries spread out."""
    retry_on: ErrorChoice = default_retry_on
    """Exception types, or a function of the exception that says whether to try again."""

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds to wait after the given attempt, counted from 1; `chance` is between 0 and 1."""
        initial, longest = as_seconds(self.initial_interval), as_seconds(self.max_interval)
        interval = backoff(attempt, initial=initial, longest=longest, factor=self.backoff_factor)
        return interval + (min(interval, 1.0) * chance if self.jitter else 0.0)

    def matches(self, error: BaseException) -> bool:
        """Return whether the policy applies to an error.

        It never is for a model that was asked for an answer as often as it may be: the tries would multiply.
        """
        if isinstance(error, ModelAnswerInvalid) and error.is_final:
            return False
        return _chosen(self.retry_on, error)

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(0, "initial_interval", "max_interval")
        yield from self._not_below(1, "backoff_factor", "max_attempts")
        yield from _choice_problems("retry_on", self.retry_on)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeoutPolicy(_Policy):
    """Time limits for attempts."""

    run_timeout: Duration | None = None
    """The longest duration of one attempt."""
    idle_timeout: Duration | None = None
    """The longest time without a heartbeat: see `refresh_on`."""
    refresh_on: Literal["auto", "heartbeat"] = "auto"
    """The events that count as heartbeats: `runtime.heartbeat()` only, or also streaming, steps and subgraph calls."""

    def _problems(self) -> Iterable[str]:
        yield from self._above_zero("run_timeout", "idle_timeout")
        if self.run_timeout is None and self.idle_timeout is None:
            yield "neither run_timeout nor idle_timeout is given. Give one of them."
        if self.refresh_on not in ("auto", "heartbeat"):
            yield f"refresh_on is {self.refresh_on!r}. Choices: auto, heartbeat."


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePolicy(_Policy):
    """Cache the results of a node by its input."""

    key_func: Callable[[Any], Any] | None = None
    """Makes the key of an input; without it all of the input is the key."""
    ttl: Duration | None = None
    """The time to live of a cached result; unlimited by default."""

    def _problems(self) -> Iterable[str]:
        yield from self._above_zero("ttl")
        if self.key_func is not None and not callable(self.key_func):
            yield f"key_func is {self.key_func!r}. Give a function of the node's input."


@dataclass(frozen=True, kw_only=True, slots=True)
class CircuitBreaker(_Policy):
    """Refuse to call what fails again and again, for a while."""

    failure_threshold: int = 5
    """After so many failures in a row the circuit opens: attempts fail at once with CircuitOpen."""
    reset_after: Duration = 30.0
    """The time that it stays open. Then one attempt is let through, and closes it if it succeeds."""
    counts: ErrorChoice = Exception
    """The errors that count as failures."""

    def counted(self, error: BaseException) -> bool:
        """Return whether an error counts as a failure."""
        return _chosen(self.counts, error)

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(1, "failure_threshold")
        yield from _choice_problems("counts", self.counts)
        yield from self._above_zero("reset_after")


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit(_Policy):
    """Start no more than `limit` attempts in any stretch of `per` seconds, counted by a token bucket."""

    limit: int
    per: Duration = 1.0
    burst: int | None = None
    """The number of attempts that may start at once after a quiet period; `limit` by default."""
    on_limit: Literal["wait", "refuse"] = "wait"
    """The behaviour of an attempt above the limit: wait for its turn, or fail with RateLimited."""

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(1, "limit", "burst")
        yield from self._above_zero("per")
        if self.on_limit not in ("wait", "refuse"):
            yield f"on_limit is {self.on_limit!r}. Choices: wait, refuse."


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget(_Policy):
    """Limits for one call, subgraphs included. Checked between supersteps."""

    max_steps: int | None = None
    """Supersteps, like recursion_limit, but with a way out."""
    max_visits: int | Mapping[str, int] | None = None
    """The number of times that each node may run, or a mapping with limits for some nodes."""
    max_seconds: Duration | None = None
    max_tokens: int | None = None
    """As counted by `runtime.spend(tokens=...)` and the model port."""
    max_cost: float | None = None
    """In the unit that is given to `runtime.spend(cost=...)`."""
    on_budget: str | None = None
    """The node that runs once instead of the due tasks when a limit is reached; by default BudgetExceeded is raised."""

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(1, "max_steps")
        yield from self._above_zero("max_seconds", "max_tokens", "max_cost")
        visits = self.max_visits
        listed: Mapping[str, Any] = visits if isinstance(visits, Mapping) else {"": visits}
        for node, count in listed.items():
            if count is not None and (not isinstance(count, int) or count < 1):
                yield f"max_visits{f' of {node!r}' if node else ''} is {count!r}. Give a whole number of at least 1."
        if all(getattr(self, one.name) is None for one in fields(self) if one.name.startswith("max_")):
            yield "it limits nothing. Give at least one of max_steps, max_visits, max_seconds, max_tokens, max_cost."


Retries = RetryPolicy | tuple[RetryPolicy, ...]
Timeout = TimeoutPolicy | Duration


def as_timeout(given: Timeout | None) -> TimeoutPolicy | None:
    """Return the policy for a timeout: a number or timedelta limits the duration of one attempt."""
    if given is None or isinstance(given, TimeoutPolicy):
        return given
    return TimeoutPolicy(run_timeout=given)


def as_retries(given: Any) -> tuple[RetryPolicy, ...]:
    """Return one policy or several as a tuple; the first that matches an error decides."""
    if given is None:
        return ()
    return tuple(cast("list[RetryPolicy]", given)) if isinstance(given, list | tuple) else (given,)


def is_policy_of(kind: type, given: object) -> bool:
    """Return whether `given` is a policy of that kind, not the class itself."""
    return isinstance(given, kind) and not inspect.isclass(given)
