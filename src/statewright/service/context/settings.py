"""Settings of the service: limits and timeouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Settings of the service. The defaults suit one machine."""

    capacity: int = 100
    """Limit of concurrent runs in this process; others wait in the ledger."""
    lease: float = 30.0
    """Seconds after which a worker without heartbeats counts as lost. It sends three heartbeats in that time."""
    look_every: float = 1.0
    """Seconds between polls for work that this process was not notified of."""
    drain: float = 20.0
    """Seconds that running steps have to end when the service stops. Then they are cancelled, and other workers
    execute them again."""
    durability: Literal["sync", "async"] = "sync"
    """The default durability of runs."""
    max_input: int = 1_000_000
    """Limit of the input of a run, in bytes of JSON."""
    max_payload: int = 256_000
    """Limit of a signal, an answer or an event, in bytes of JSON."""
    max_output: int = 10_000_000
    """Limit of the result of a run, in bytes of JSON. A run with a larger result fails."""
    max_steps: int = 1000
    """The default limit of supersteps of a run."""
