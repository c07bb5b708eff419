"""Retry policies of states. `agents` decides which errors are retried."""

from __future__ import annotations

from typing import Final

from statewright.agents import is_worth_another_attempt
from statewright.graph import RetryPolicy
from statewright.workflow.states.language.model import RetryRule

DEFAULT_RULE: Final = RetryRule(**{key.field: key.default for key in RetryRule.schema.keys if key.field})
"""The defaults of the language."""


def retry_policy(own: RetryRule, of_workflow: RetryRule) -> RetryPolicy | None:
    """Return the policy of a state: each field from the state, the workflow or the defaults. None for a single
    attempt."""
    rules = (own, of_workflow, DEFAULT_RULE)

    def setting(name: str) -> float:
        return next(value for rule in rules if (value := getattr(rule, name)) is not None)

    attempts = int(setting("max_attempts"))
    if attempts == 1:
        return None
    return RetryPolicy(
        initial_interval=setting("initial_interval"),
        backoff_factor=setting("backoff_factor"),
        max_interval=setting("max_interval"),
        max_attempts=attempts,
        jitter=True,
        retry_on=is_worth_another_attempt,
    )
