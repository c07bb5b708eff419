"""A service that a tool asked answered with an error."""

from __future__ import annotations

from types import SimpleNamespace

from statewright.errors import ToolError


class HttpError(ToolError):
    """A status of 400 or above."""

    def __init__(self, message: str, *, status: int, retry_after: float | None = None) -> None:
        self.status = status
        self.retry_after = retry_after
        """For how many seconds the service asked to be left alone, if it did."""
        super().__init__(message)
        if status == 429 or status >= 500:
            # Retry policies judge a ToolError by its cause: this one may be gone the next time.
            self.__cause__ = ConnectionError(f"The service is busy or broken (status {status}).")

    @property
    def response(self) -> SimpleNamespace:
        """The status as errors of HTTP libraries have it, which is where other retry policies look for it."""
        return SimpleNamespace(status_code=self.status)
