"""The failures of an agent that are retried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statewright import RetryPolicy
from statewright.agents import Agent, HttpError, is_worth_another_attempt, retry_policy, status_of
from statewright.errors import (
    InvalidConfig,
    InvalidUpdateError,
    MissingApiKey,
    ModelAnswerInvalid,
    ModelError,
    ModelUnavailable,
    SerdeError,
    ToolError,
)
from statewright.models import ScriptedModel


class UnknownError(Exception):
    """An exception of an unknown class."""


class Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class ClientError(Exception):
    """An exception in the form of HTTP libraries."""

    def __init__(self, status_code: int) -> None:
        super().__init__("client")
        self.response = Response(status_code)


def with_cause(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("busy"),
        ModelUnavailable("busy", status=429),
        ModelUnavailable("busy", status=503),
        ModelUnavailable("slow", status=408),
        ConnectionError("cut"),
        ConnectionResetError("cut"),
        TimeoutError("slow"),
        HttpError("busy", status=500),
        ClientError(502),
        ClientError(429),
        UnknownError("?"),
        with_cause(ToolError("server"), ConnectionError("cut")),
    ],
    ids=repr,
)
def test_transient_errors_are_retried(error: Exception) -> None:
    assert is_worth_another_attempt(error)


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("no", status=400),
        ModelUnavailable("no", status=401),
        ModelUnavailable("no", status=404),
        MissingApiKey("no key"),
        ModelAnswerInvalid("odd"),
        ModelError("odd"),
        ClientError(403),
        HttpError("no", status=422),
        ToolError("wrong"),
        with_cause(ToolError("wrong"), ValueError("wrong")),
        InvalidConfig("wrong"),
        InvalidUpdateError("wrong"),
        SerdeError("values", "wrong"),
        ValueError("wrong"),
        TypeError("wrong"),
        KeyError("wrong"),
        NameError("wrong"),
        AttributeError("wrong"),
        AssertionError("wrong"),
        ImportError("wrong"),
        ZeroDivisionError("wrong"),
        NotImplementedError("wrong"),
        RecursionError("wrong"),
        FileNotFoundError("wrong"),
        PermissionError("wrong"),
        UnicodeDecodeError("utf-8", b"", 0, 1, "wrong"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_other_errors_are_not_retried(error: BaseException) -> None:
    assert not is_worth_another_attempt(error)


def test_the_number_of_attempts_is_one_more_than_the_retries() -> None:
    policy = retry_policy(4)
    assert policy is not None
    assert (policy.max_attempts, policy.backoff_factor) == (5, 2.0)


def test_a_policy_is_used_unchanged_except_for_its_condition() -> None:
    policy = RetryPolicy(max_attempts=2)
    used = retry_policy(policy)
    assert used is not None
    assert replace(used, retry_on=policy.retry_on) == policy


def test_zero_retries_make_no_policy() -> None:
    assert retry_policy(0) is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelUnavailable("x", status=503), 503),
        (ClientError(404), 404),
        (HttpError("x", status=500), 500),
        (ValueError("x"), None),
    ],
    ids=repr,
)
def test_status_of_finds_the_status_of_an_error(error: Exception, status: int | None) -> None:
    assert status_of(error) == status


def quick_policy(retries: int) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=0.001, max_attempts=retries + 1, jitter=False, retry_on=is_worth_another_attempt
    )


def test_a_busy_model_is_called_again() -> None:
    model = ScriptedModel([ModelUnavailable("busy"), ConnectionError("cut"), "at last"])
    result = Agent("a", model=model, retries=quick_policy(4)).run("go")
    assert result.text == "at last"
    assert len(model.requests) == 3
    assert [item.messages for item in model.requests[1:]] == [model.requests[0].messages] * 2


def test_the_last_error_is_raised_after_all_attempts() -> None:
    model = ScriptedModel([ModelUnavailable("busy")], repeat_last=True)
    with pytest.raises(ModelUnavailable, match="busy"):
        Agent("a", model=model, retries=quick_policy(2)).run("go")
    assert len(model.requests) == 3


@pytest.mark.parametrize("error", [ModelError("no"), MissingApiKey("no"), AttributeError("no"), ValueError("no")])
def test_a_model_that_refuses_is_called_once(error: Exception) -> None:
    model = ScriptedModel([error], repeat_last=True)
    with pytest.raises(type(error), match="no"):
        Agent("a", model=model, retries=quick_policy(2)).run("go")
    assert len(model.requests) == 1


def test_errors_of_the_system_prompt_function_are_retried() -> None:
    calls: list[Any] = []

    def system() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("the prompts' server")
        return "told"

    model = ScriptedModel(["x"])
    Agent("a", model=model, system=system, retries=quick_policy(2)).run("go")
    assert (len(calls), model.requests[0].system) == (3, "told")
