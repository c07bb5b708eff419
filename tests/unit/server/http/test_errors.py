"""Every error class has a status and a code, and responses for other errors reveal nothing."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from statewright import errors
from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    DamagedDatabase,
    Forbidden,
    InvalidGraph,
    InvalidRequest,
    InvalidTransition,
    InvalidUpdateError,
    NewerFormat,
    NotFound,
    PayloadTooLarge,
    Problem,
    RecordConflict,
    RequestConflict,
    SignalMismatch,
    SpendingLimitReached,
    StatewrightError,
    StorageFull,
    StorageLocked,
    StorageUnavailable,
    ThreadBusy,
    TooManyRequests,
    Unauthorized,
    WorkflowError,
)
from statewright.server.http.errors import response_for, validation_error_response

ENDS_AT = datetime(2026, 2, 1, tzinfo=UTC)
USED_UP = SpendingLimitReached("w", "cost_per_day", used=5.1, most=5, ends_at=ENDS_AT, now=ENDS_AT - timedelta(hours=1))
TABLE: list[tuple[StatewrightError, int, str]] = [
    (InvalidRequest("x"), 400, "VALIDATION_ERROR"),
    (Unauthorized("x"), 401, "AUTH_ERROR"),
    (Forbidden("x"), 403, "FORBIDDEN"),
    (NotFound("x"), 404, "NOT_FOUND"),
    (RequestConflict("x"), 409, "CONFLICT"),
    (InvalidTransition("Run 1", "completed", "running", []), 409, "INVALID_TRANSITION"),
    (SignalMismatch("x"), 409, "SIGNAL_MISMATCH"),
    (PayloadTooLarge("x"), 413, "PAYLOAD_TOO_LARGE"),
    (TooManyRequests("x", retry_after=3.2), 429, "RATE_LIMIT_ERROR"),
    (USED_UP, 429, "SPENDING_LIMIT_REACHED"),
    (CheckpointNotFound("x"), 404, "NOT_FOUND"),
    (CheckpointConflict("t", None, "c"), 409, "CONFLICT"),
    (ThreadBusy("t", "r", "soon"), 409, "CONFLICT"),
    (RecordConflict("runs", "r"), 409, "CONFLICT"),
    (InvalidGraph(["a"]), 400, "VALIDATION_ERROR"),
    (WorkflowError([Problem("steps[0]", 0, 0, "wrong")]), 400, "VALIDATION_ERROR"),
    (InvalidUpdateError("x"), 400, "VALIDATION_ERROR"),
]


PATH = "/var/lib/statewright/runs.db"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StorageFull(f"no room for {PATH}"), "is full"),
        (StorageLocked(f"{PATH} is locked"), "is locked"),
        (StorageUnavailable(f"{PATH} was removed"), "is not available"),
        (NewerFormat(PATH, 9, 1), "internal error"),
        (DamagedDatabase("torn", where=PATH), "internal error"),
        (RuntimeError(PATH), "internal error"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_responses_for_server_faults_do_not_name_files(error: Exception, message: str):
    response = response_for(error, "req_1")
    assert response.status_code >= 500
    assert message in str(json.loads(response.body)["error"]["message"])
    assert PATH.encode() not in response.body
    assert b"req_1" in response.body


@pytest.mark.parametrize(("error", "status", "code"), TABLE, ids=lambda value: type(value).__name__)
def test_known_errors_have_status_code_and_message(error: StatewrightError, status: int, code: str):
    response = response_for(error)
    body = json.loads(response.body)["error"]
    assert (response.status_code, body["code"], body["message"]) == (status, code, str(error))


def test_errors_have_details():
    body = json.loads(response_for(InvalidTransition("Run 1", "failed", "paused", ["running"])).body)["error"]
    assert body["details"] == {"status": "failed", "wanted": "paused", "allowed": ["running"]}
    problem = Problem("steps[0].type", 0, 0, "Type 'tsak' does not exist.", "Did you mean 'task'?")
    body = json.loads(response_for(WorkflowError([problem])).body)["error"]
    assert body["details"]["problems"][0]["path"] == "steps[0].type"


def test_temporary_errors_have_retry_after():
    assert response_for(TooManyRequests("x", retry_after=3.2)).headers["retry-after"] == "4"
    assert response_for(TooManyRequests("x", retry_after=0.01)).headers["retry-after"] == "1"
    assert response_for(USED_UP).headers["retry-after"] == "3600"
    assert response_for(StorageLocked("x")).headers["retry-after"] == "1"


@pytest.mark.parametrize("error", [RuntimeError("the password is 1234"), DamagedDatabase("page 4 is /secret/path")])
def test_an_internal_error_only_has_the_id_of_the_request(error: Exception, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR):
        response = response_for(error, "req_7")
    assert response.status_code == 500
    assert json.loads(response.body)["error"]["details"] == {"requestId": "req_7"}
    assert str(error) not in response.body.decode()
    assert "req_7" in caplog.text
    assert str(error) in caplog.text


def test_every_client_error_of_the_service_has_a_status_below_500():
    def all_under(kind: type[Any]) -> list[type[Any]]:
        return [kind, *(subclass for child in kind.__subclasses__() for subclass in all_under(child))]

    kinds = set(all_under(errors.ServiceError)) - {errors.ServiceError, errors.ServiceUnreachable}
    assert all(400 <= kind.status < 500 and kind.api_code.isupper() for kind in kinds)


def test_every_problem_has_its_path():
    problems = [
        {"loc": ("body", "steps", 0, "name"), "msg": "Field required", "input": {}},
        {"loc": ("query", "page"), "msg": "Input should be a valid integer", "input": "x"},
        {"loc": ("body",), "msg": "Value error, give either", "input": {}},
        {"loc": ("body", "x"), "msg": "Extra inputs are not permitted", "input": 1},
    ]
    body = json.loads(validation_error_response(problems).body)["error"]
    assert [problem["path"] for problem in body["details"]["problems"]] == [
        "body.steps[0].name",
        "query.page",
        "body",
        "body.x",
    ]
    assert body["details"]["problems"][1]["message"] == "should be a valid integer"
    assert body["message"].endswith("and 1 more.")
