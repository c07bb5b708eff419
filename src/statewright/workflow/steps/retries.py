"""How often a step is tried, and how long it waits in between."""

from __future__ import annotations

from dataclasses import dataclass

from statewright.clock import as_seconds
from statewright.errors import GraphError, InternalError, NodeTimeoutError, RunError, StorageError
from statewright.graph import RetryPolicy
from statewright.workflow.steps.failure import StepFailed
from statewright.workflow.steps.model import Retry


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRetry(RetryPolicy):
    """Waits that grow up to a limit, each shortened at random, by a half at most, so that a crowd spreads out."""

    def delay(self, attempt: int, chance: float) -> float:
        grown = as_seconds(self.initial_interval) * self.backoff_factor ** (attempt - 1)
        interval = min(grown, as_seconds(self.max_interval))
        return interval * (1 + chance) / 2


def retry_policy(retry: Retry) -> RetryPolicy | None:
    """The policy of a step; None if it is tried once."""
    if retry.max_attempts == 1:
        return None
    return StepRetry(
        initial_interval=retry.backoff_ms / 1000,
        backoff_factor=retry.backoff_multiplier,
        max_interval=retry.max_backoff_ms / 1000,
        max_attempts=retry.max_attempts,
        retry_on=is_tried_again,
    )


def is_tried_again(error: BaseException) -> bool:
    """Whether a step is tried again after an error: after everything but wrong answers and what ends the run."""
    if isinstance(error, StepFailed):
        return not error.is_final
    if isinstance(error, NodeTimeoutError):
        return True
    return isinstance(error, Exception) and not isinstance(error, GraphError | RunError | StorageError | InternalError)
