"""Exit codes and messages of failures."""

from __future__ import annotations

import pytest

from statewright.cli.console import failure
from statewright.cli.console.failure import UsageError, exit_with
from statewright.errors import InvalidRequest, InvalidTransition, NotFound, ServiceError, TooManyRequests, Unauthorized


def test_exit_codes_are_as_documented() -> None:
    codes = (failure.DONE, failure.FAILED, failure.USAGE_ERROR, failure.WAITING, failure.CANCELLED)
    assert codes == (0, 1, 2, 3, 130)


@pytest.mark.parametrize("code", [failure.FAILED, failure.WAITING, failure.CANCELLED])
def test_exit_with_prints_on_standard_error_and_exits(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        exit_with("That is why.", code)
    assert exited.value.code == code
    assert capsys.readouterr() == ("", "That is why.\n")


def test_a_usage_error_is_not_an_error_of_the_library() -> None:
    from statewright.errors import StatewrightError

    assert not issubclass(UsageError, StatewrightError)
    assert str(UsageError("Give a file.")) == "Give a file."


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("There is no run."), 2),
        (InvalidTransition("Run 1", "completed", "paused", []), 2),
        (Unauthorized("Who?"), 2),
        (InvalidRequest("What?"), 2),
        (TooManyRequests("Later.", retry_after=1.0), 1),
        (ServiceError("Broken."), 1),
    ],
)
def test_exit_codes_of_refused_and_failed_requests(error: ServiceError, code: int) -> None:
    assert error.exit_code == code
