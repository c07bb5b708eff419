"""Scopes of API keys."""

from __future__ import annotations

from typing import Any, Final

from statewright.errors import Forbidden, InvalidRequest, suggestion
from statewright.runs import ApiKey
from statewright.service.context.validation import texts

ADMIN: Final = "admin"
"""Full access to the workspace of the key, and to nothing else."""
SCOPES: Final = (
    "runs:read",
    "runs:write",
    "definitions:read",
    "definitions:write",
    "approvals:decide",
    "threads:read",
    "threads:write",
    "webhooks:manage",
    "schedules:manage",
    "keys:manage",
    "events:send",
    "metrics:read",
    ADMIN,
)
METRICS: Final = "metrics:read"
_OF_THE_OPERATOR: Final = (METRICS,)
"""Scopes that reach beyond one workspace; `admin` does not include them."""


def check_scope(key: ApiKey, scope: str) -> None:
    """Refuse what a key does not allow. Raises Forbidden."""
    if scope not in key.scopes and (ADMIN not in key.scopes or scope in _OF_THE_OPERATOR):
        raise Forbidden(
            f"The key {key.name!r} ({key.prefix}...) may not do this: it lacks the scope {scope!r}, and has "
            f"{', '.join(key.scopes)}. Use a key that has it."
        )


def read_scopes(given: Any) -> list[str]:
    """Validate the scopes of a request, without duplicates. Raises InvalidRequest for none or unknown ones."""
    scopes = texts(given, "The scopes of a key")
    for one in scopes:
        if one not in SCOPES:
            raise InvalidRequest(f"There is no scope {one!r}. {suggestion(one, SCOPES, noun='Scopes')}")
    if not scopes:
        raise InvalidRequest(f"A key without scopes allows nothing. Scopes: {', '.join(SCOPES)}.")
    return scopes
