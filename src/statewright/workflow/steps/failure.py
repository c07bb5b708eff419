"""The failure of a step, as the run that ends by it will tell it."""

from __future__ import annotations

from typing import Any, Final

from statewright.errors import RunError

USUAL_CODE: Final = "STEP_FAILED"


class StepFailed(RunError):
    """A step did not do what it is there for. It is tried again as its `retry` says, unless the failure is final.

    Handlers may raise it; a result with the status `failed` becomes one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Any = None,
        is_final: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.code = code or USUAL_CODE
        self.details = details
        """More that programs may want to know, as JSON."""
        self.is_final = is_final
        """Whether another attempt would end in the same way."""
        self.retry_after = retry_after
        """Seconds for which a service asked to be left alone; the next attempt waits at least so long."""
        super().__init__(message)
