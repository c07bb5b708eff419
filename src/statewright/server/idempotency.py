"""The header `Idempotency-Key`, which says the same as the field for it in the body of a request."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Header

from statewright.errors import InvalidRequest, RequestConflict

LONGEST: Final = 255
"""Characters."""
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="idempotency-key", description="The same as the field of the body. If both are sent, they must agree."
    ),
]


def one_key(header: str | None, field: str | None, name: str) -> str | None:
    """Return the key of a request, from its header or the named field of its body.

    The header may be quoted, as the draft of its standard wants. Raises RequestConflict if the two differ, and
    InvalidRequest for a header that is empty or too long.
    """
    if header is None:
        return field
    key = header[1:-1] if len(header) >= 2 and header[0] == header[-1] == '"' else header
    if not 1 <= len(key) <= LONGEST or not key.isprintable():
        raise InvalidRequest(
            f"The header Idempotency-Key has {len(key)} characters. Give 1 to {LONGEST} printable ones."
        )
    if field is not None and field != key:
        raise RequestConflict(
            f"The header Idempotency-Key is {key!r}, and {name} in the body is {field!r}. Send one, or the same twice."
        )
    return key
