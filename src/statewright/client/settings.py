"""Settings of a client."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from statewright.clock import Clock, SystemClock, backoff, half_jitter
from statewright.errors import InvalidConfig

DEFAULT_URL: Final = "http://127.0.0.1:8123"
"""The default address of a service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings of a client: address, credentials, timeouts and retries."""

    base_url: str = DEFAULT_URL
    api_key: str | None = None
    admin_token: str | None = None
    timeout: float = 30.0
    """Seconds without data from the service after which a request fails."""
    retries: int = 3
    """The maximum number of retries of a repeatable request."""
    first_pause: float = 0.2
    """Seconds before the first retry. Each further pause is twice as long as the one before, up to `longest_pause`."""
    longest_pause: float = 30.0
    """The longest pause in seconds. If the service requests a longer pause, the error is raised at once."""
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise InvalidConfig(
                f"base_url={self.base_url!r} is not a valid address. Write scheme and host, e.g. {DEFAULT_URL!r}."
            )
        if self.timeout <= 0 or self.retries < 0:
            raise InvalidConfig("timeout must be above zero, and retries must not be negative.")

    def pause(self, failures: int) -> float:
        """Return the seconds before the next attempt: exponential backoff with a cap and up to 50 % jitter."""
        return half_jitter(backoff(failures, initial=self.first_pause, longest=self.longest_pause), random.random())
