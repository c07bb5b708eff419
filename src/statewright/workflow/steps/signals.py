"""What a signal may carry: a map that becomes part of the state, without the names that the engine keeps for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

RESERVED: Final = "__"
"""What keys of the engine begin with."""


def unfit_payload(payload: Any) -> str | None:
    """Why something is no payload of a signal; None if it is one."""
    if not isinstance(payload, Mapping):
        return f"The payload is a {type(payload).__name__}. Send a map."
    keys = cast("Mapping[Any, Any]", payload)
    reserved = next((key for key in keys if not isinstance(key, str) or key.startswith(RESERVED)), None)
    if reserved is None:
        return None
    return f"The payload has the key {reserved!r}. Keys are text that does not begin with {RESERVED!r}."
