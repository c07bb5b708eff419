"""Access: workspaces, API keys and their scopes, rate limits, and spending limits."""

from statewright.service.access.keys import (
    ADMIN,
    METRICS,
    OPERATOR_SCOPES,
    SCOPES,
    WORKERS_MANAGE,
    WORKERS_READ,
    KeyRing,
    check_scope,
    count_keys,
    create_key,
    find_key,
    is_valid_key,
    list_keys,
    revoke_key,
)

__all__ = [
    "ADMIN",
    "METRICS",
    "OPERATOR_SCOPES",
    "SCOPES",
    "WORKERS_MANAGE",
    "WORKERS_READ",
    "KeyRing",
    "check_scope",
    "count_keys",
    "create_key",
    "find_key",
    "is_valid_key",
    "list_keys",
    "revoke_key",
]
