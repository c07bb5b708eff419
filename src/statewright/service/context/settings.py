"""How a service works: its limits and its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """All have defaults that suit one machine."""

    capacity: int = 100
    """How many runs this process has at work at once; the others wait in the ledger."""
    lease: float = 30.0
    """Seconds after which a worker that has said nothing counts as gone. It speaks three times as often."""
    look_every: float = 1.0
    """Seconds after which a worker looks for work that nobody of this process has told it of."""
    drain: float = 20.0
    """Seconds that steps under way have to end when the service is asked to stop; then they are cancelled, and other
    workers do them again."""
    durability: Literal["sync", "async"] = "sync"
    """When supersteps are saved, where a run does not say."""
    max_input: int = 1_000_000
    """Bytes of JSON that the input of a run may have."""
    max_payload: int = 256_000
    """Bytes of JSON that a signal, an answer or an event may have."""
    max_output: int = 10_000_000
    """Bytes of JSON that the result of a run may have; a run with a larger one has failed."""
    max_steps: int = 1000
    """Supersteps that a run may take, where it does not say."""
