"""How a test starts a run: the options of `StartRun` by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict


class StartOptions(TypedDict, total=False):
    """What can be said beside the graph and the input; see `statewright.service.StartRun`."""

    definition_id: str | None
    thread_id: str | None
    idempotency_key: str | None
    on_busy: str
    after: datetime | None
    timeout: float | None
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    concurrency_key: str | None
    concurrency_limit: int | None
    settings: Mapping[str, Any]
