"""Values checked against a JSON Schema that was given as a dict.

The library that reads such schemas comes with an extra. A schema is one document: a `$ref` that leaves it would read
a file or call a host, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from statewright.errors import InvalidUpdateError


def check_json_value(what: str, schema: Mapping[str, Any], value: Any) -> Any:
    """Return the value. Raises InvalidUpdateError, which calls it `what`, if it does not conform to the schema."""
    validator = json_schema_validator(what, schema)
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except ValueError as unreadable:
        raise InvalidUpdateError(
            f"Field {what!r} must be JSON, and is of type {type(value).__name__}: {unreadable}"
        ) from unreadable
    if error is None:
        return value
    path = "".join(f"[{part!r}]" for part in error.instance_path)
    raise InvalidUpdateError(f"Field {what!r}{path}: {error.message}.")


def json_schema_validator(what: str, schema: Mapping[str, Any]) -> Any:
    """Return a validator of jsonschema-rs. Raises InvalidUpdateError if `schema` is not a JSON Schema."""
    try:
        import jsonschema_rs
    except ImportError:
        raise InvalidUpdateError(
            f"The schema of {what} is a JSON Schema, and checking it takes jsonschema-rs. Install it with "
            f"pip install 'statewright[states]', or give a type."
        ) from None
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except ValueError as error:  # ValidationError is one
        reason = str(error).partition("\n")[0]
        raise InvalidUpdateError(f"The schema of {what} is not a JSON Schema that can be used: {reason}") from error


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"a $ref must stay in its document; {uri} would be read from outside. Put it under $defs.")
