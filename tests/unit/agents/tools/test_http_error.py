"""Errors of HTTP services."""

from __future__ import annotations

import copy
import pickle

from statewright.agents import HttpError, is_worth_another_attempt
from statewright.graph.policy import default_retry_on


def test_2_11_transient_statuses_are_retried() -> None:
    for status, is_transient in ((400, False), (401, False), (404, False), (429, True), (500, True), (503, True)):
        error = HttpError("failed", status=status)
        assert is_worth_another_attempt(error) is is_transient
        assert default_retry_on(error) is is_transient


def test_a_copy_keeps_message_status_and_retry_after() -> None:
    error = HttpError("failed", status=429, retry_after=2.5)
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(same), same.status, same.retry_after) == ("failed", 429, 2.5)
